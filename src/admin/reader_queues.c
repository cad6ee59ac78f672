#include "admin/reader.h"

#include "admin/batch.h"
#include "admin/queue_view.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"

/* Queues that are read together. */
struct views {
    size_t n;
    struct rqli_queue_view view[];
};

static void free_views(struct views *views)
{
    for (size_t i = 0; i < views->n; i++) {
        rqli_queue_view_fini(&views->view[i]);
    }
    free(views);
}

static struct views *new_views(size_t n)
{
    struct views *views = calloc(1, sizeof *views + n * sizeof views->view[0]);

    if (views) {
        views->n = n;
    }
    return views;
}

/* One page of each. */
static rql_status read_pages(const struct rqli_reader *self, struct rqli_queue_view *view, size_t n)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    for (size_t i = 0; i < n; i++) {
        rqli_queue_view_ask(&view[i], &exchange->command);
    }
    status = rqli_reader_run(self, exchange);
    for (size_t i = 0; !status && i < n; i++) {
        status = rqli_queue_view_take(&view[i], &exchange->reply[i], self->where, self->error);
    }
    return status;
}

static rql_status take_hosts(const struct rqli_reader *self, struct views *views,
                             const struct rqli_reply *reply)
{
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && i < views->n; i++) {
        if (views->view[i].n_asked > 0) {
            status = rqli_queue_view_take_hosts(&views->view[i], reply, self->where, self->error);
            reply++;
        }
    }
    return status;
}

/* The next few records of all queues together. */
static rql_status read_some_hosts(const struct rqli_reader *self, struct views *views,
                                  bool *has_more)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    size_t room = RQLI_QUEUE_HOSTS;
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(self->error);
    }
    for (size_t i = 0; i < views->n; i++) {
        room -= rqli_queue_view_ask_hosts(&views->view[i], &exchange->command, room);
    }
    *has_more = room == 0;
    if (exchange->command.n_commands == 0) {
        return RQL_OK;
    }
    status = rqli_reader_run(self, exchange);
    return status ? status : take_hosts(self, views, exchange->reply);
}

static rql_status read_views(const struct rqli_reader *self, struct views *views)
{
    rql_status status = read_pages(self, views->view, views->n);
    bool has_more = true;

    for (size_t i = 0; i < views->n; i++) {
        while (!status && views->view[i].has_more) {
            status = read_pages(self, &views->view[i], 1);
        }
    }
    while (!status && has_more) {
        status = read_some_hosts(self, views, &has_more);
    }
    return status;
}

static rql_status read_and_finish(const struct rqli_reader *self, struct views *views,
                                  rql_queue_info **out)
{
    rql_status status = read_views(self, views);

    for (size_t i = 0; !status && i < views->n; i++) {
        status = rqli_queue_view_finish(&views->view[i], &out[i], self->error);
    }
    return status;
}

static rql_status read_some_queues(const struct rqli_reader *self, const struct rqli_batch *batch,
                                   size_t first, size_t n)
{
    struct views *views = new_views(n);
    rql_queue_info **out = (rql_queue_info **)batch->out + batch->place + first;
    rql_status status;

    if (!views) {
        return rqli_fail_nomem(self->error);
    }
    for (size_t i = 0; i < n; i++) {
        int64_t limit =
            rqli_smaller(batch->costs[first + i].items + RQLI_SPARE_ITEMS, RQLI_QUEUE_PAGE);

        rqli_queue_view_init(&views->view[i], batch->keys[first + i], limit);
    }
    status = read_and_finish(self, views, out);
    free_views(views);
    return status;
}

static rql_status report_unread(const struct rqli_reader *self, const struct rqli_batch *batch,
                                size_t at)
{
    rql_queue_info **out = (rql_queue_info **)batch->out + batch->place + at;
    struct rqli_queue_view view;

    rqli_queue_view_init(&view, batch->keys[at], 1);
    view.status = RQL_KEY_MALFORMED;
    return rqli_queue_view_finish(&view, out, self->error);
}

rql_status rqli_read_queues(const struct rqli_reader *self, const struct rqli_slice *keys, size_t n,
                            rql_queue_info **out)
{
    static const struct rqli_batch_kind queues = {"ZCARD", RQLI_QUEUE_PAGE, read_some_queues,
                                                  report_unread};

    return rqli_batch_read(self, &queues, keys, n, out);
}
