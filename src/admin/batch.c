#include "admin/batch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"

enum {
    BATCH_BYTES = 4 << 20,
    MEMORY_SAMPLES = 128,   /* items that the server measures */
    GUESSED_ITEM_SIZE = 128 /* where the server does not say */
};

rql_status rqli_reader_run(const struct rqli_reader *self, struct rqli_exchange *exchange)
{
    rql_status status;

    if (exchange->command.failed) {
        return rqli_fail_nomem(self->error);
    }
    status = rqli_exchange_run(exchange, rqli_client_budget_us(self->client, rqli_now_us()),
                               self->error);
    if (status != RQL_E_UNKNOWN) {
        return status;
    }
    /* Reading changes nothing, so there is no doubt to report. */
    return rqli_fail(self->error, RQL_E_IO,
                     "%s: no answer; the connection broke or the server was silent", self->where);
}

/* `most` is how many items are read at once. Sums of a batch of costs cannot overflow. */
static struct rqli_cost price(int64_t count, int64_t bytes, int64_t most)
{
    struct rqli_cost cost = {0};

    if (count > 0) {
        int64_t each = bytes > 0 ? bytes / count + 1 : 1;

        cost.items = rqli_smaller(count, most);
        cost.bytes = cost.items * rqli_smaller(each, BATCH_BYTES + 1);
    }
    return cost;
}

static rql_status read_cost(const struct rqli_reader *self, const struct rqli_batch *batch,
                            const struct rqli_reply *replies, struct rqli_cost *out)
{
    const struct rqli_reply *count = &replies[0];
    const struct rqli_reply *memory = &replies[1];
    int64_t bytes;

    /* Reading it will say so again, at no cost. */
    if (count->type == RQLI_REPLY_ERROR && rqli_reply_class(count) == RQL_E_WRONG_TYPE) {
        *out = (struct rqli_cost){0};
        return RQL_OK;
    }
    if (count->type != RQLI_REPLY_INTEGER) {
        return rqli_reply_fault(count, batch->kind->counter, self->where, self->error);
    }
    bytes = rqli_smaller(count->integer, RQLI_BATCH_ELEMENTS) * GUESSED_ITEM_SIZE;
    if (memory->type == RQLI_REPLY_INTEGER) {
        bytes = memory->integer;
    }
    *out = price(count->integer, bytes, batch->kind->most);
    return RQL_OK;
}

static void ask_cost(struct rqli_command *command, const char *counter, struct rqli_slice key)
{
    rqli_command_begin(command, 2);
    rqli_command_text(command, counter);
    rqli_command_slice(command, key);
    rqli_command_begin(command, 5);
    rqli_command_text(command, "MEMORY");
    rqli_command_text(command, "USAGE");
    rqli_command_slice(command, key);
    rqli_command_text(command, "SAMPLES");
    rqli_command_int(command, MEMORY_SAMPLES);
}

/* Fills the costs. */
static rql_status look(const struct rqli_reader *self, struct rqli_batch *batch)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    for (size_t i = 0; i < batch->n; i++) {
        ask_cost(&exchange->command, batch->kind->counter, batch->keys[i]);
    }
    status = rqli_reader_run(self, exchange);
    for (size_t i = 0; !status && i < batch->n; i++) {
        status = read_cost(self, batch, &exchange->reply[2 * i], &batch->costs[i]);
    }
    return status;
}

/* How many keys from `first` on go into one exchange; 0: the first alone is too large. */
static size_t fit(const struct rqli_batch *batch, size_t first)
{
    int64_t elements = 0;
    int64_t bytes = 0;
    size_t at = first;

    for (; at < batch->n; at++) {
        elements += 2 * (batch->costs[at].items + RQLI_SPARE_ITEMS);
        bytes += batch->costs[at].bytes;
        if (elements > RQLI_BATCH_ELEMENTS || bytes > BATCH_BYTES) {
            break;
        }
    }
    return at - first;
}

static rql_status read_batch(const struct rqli_reader *self, struct rqli_batch *batch)
{
    rql_status status = look(self, batch);

    for (size_t at = 0; !status && at < batch->n;) {
        size_t n = fit(batch, at);

        if (n > 0) {
            status = batch->kind->read(self, batch, at, n);
            at += n;
        } else {
            status = batch->kind->report_unread(self, batch, at);
            at++;
        }
    }
    return status;
}

rql_status rqli_batch_read(const struct rqli_reader *self, const struct rqli_batch_kind *kind,
                           const struct rqli_slice *keys, size_t n, void *out)
{
    struct rqli_batch batch = {.kind = kind, .out = out};
    rql_status status = RQL_OK;

    for (size_t at = 0; !status && at < n; at += batch.n) {
        batch.keys = keys + at;
        batch.n = n - at < RQLI_BATCH_KEYS ? n - at : RQLI_BATCH_KEYS;
        batch.place = at;
        status = read_batch(self, &batch);
    }
    return status;
}
