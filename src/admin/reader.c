#include "admin/reader.h"

#include "admin/batch.h"
#include "admin/lock_view.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"

enum { SCAN_COUNT_MAX = 10000 };

rql_status rqli_read_exists(const struct rqli_reader *self, struct rqli_slice key, bool *out)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    rqli_command_begin(&exchange->command, 2);
    rqli_command_text(&exchange->command, "EXISTS");
    rqli_command_slice(&exchange->command, key);
    status = rqli_reader_run(self, exchange);
    if (status) {
        return status;
    }
    if (exchange->reply->type != RQLI_REPLY_INTEGER) {
        return rqli_exchange_fault(exchange, exchange->reply, "EXISTS", self->where, self->error);
    }
    *out = exchange->reply->integer != 0;
    return RQL_OK;
}

rql_status rqli_read_page(const struct rqli_reader *self, struct rqli_scan *scan, int64_t count)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    rqli_scan_ask(scan, &exchange->command, count);
    status = rqli_reader_run(self, exchange);
    return status ? status : rqli_scan_take(scan, exchange->reply, self->error);
}

rql_status rqli_read_scan(const struct rqli_reader *self, struct rqli_scan *scan)
{
    int64_t wanted = self->client->options.key_extraction_batch_size;
    rql_status status = RQL_OK;

    while (!status && !scan->is_done) {
        status = rqli_read_page(self, scan, rqli_smaller(wanted, SCAN_COUNT_MAX));
    }
    return status;
}

static rql_status read_some_locks(const struct rqli_reader *self, const struct rqli_batch *batch,
                                  size_t first, size_t n)
{
    const struct rqli_slice *keys = batch->keys + first;
    rql_lock_info **out = (rql_lock_info **)batch->out + batch->place + first;
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    for (size_t i = 0; i < n; i++) {
        rqli_lock_view_ask(&exchange->command, keys[i]);
    }
    status = rqli_reader_run(self, exchange);
    for (size_t i = 0; !status && i < n; i++) {
        status = rqli_lock_view_read(&exchange->reply[RQLI_LOCK_VIEW_REPLIES * i], keys[i],
                                     self->where, &out[i], self->error);
    }
    return status;
}

static rql_status report_unread(const struct rqli_reader *self, const struct rqli_batch *batch,
                                size_t at)
{
    rql_lock_info **out = (rql_lock_info **)batch->out + batch->place + at;

    return rqli_lock_view_bare(batch->keys[at], RQL_KEY_MALFORMED, out, self->error);
}

rql_status rqli_read_locks(const struct rqli_reader *self, const struct rqli_slice *keys, size_t n,
                           rql_lock_info **out)
{
    static const struct rqli_batch_kind locks = {"HLEN", RQLI_BATCH_ELEMENTS, read_some_locks,
                                                 report_unread};

    return rqli_batch_read(self, &locks, keys, n, out);
}
