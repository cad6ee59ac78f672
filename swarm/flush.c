#include "flush.h"

#include "admin/rules.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/client.h"
#include "lock/notify.h"
#include "net/op.h"
#include "options/options.h"
#include "swarm.h"

#include <stdio.h>

enum {
    CURSOR_SIZE = 24,
    REMOVED_AT_ONCE = 50,
    PAGES_MAX = 1 << 20, /* of one walk over the hosts: a server that never ends it is broken */
};

/* A look at the hosts, page by page, which also is what the flusher's election is renewed with. */
struct look {
    struct rqli_op op; /* first */
    struct rqli_flush *flush;
    char cursor[CURSOR_SIZE];
    bool walks;
    int n_pages;
    rql_error fault;
};

static void write_look(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct look *self = (struct look *)op;
    const struct rqli_flush *flush = self->flush;

    (void)i;
    rqli_call_init(call, RQLI_SCRIPT_SWARM_LOOK, NULL);
    rqli_call_text(call, flush->me);
    rqli_call_int(call, flush->lease_ms);
    rqli_call_int(call, flush->zombie_ttl_ms * 1000);
    rqli_call_int(call, flush->wait_ms * 1000);
    rqli_call_text(call, self->cursor);
}

static bool all_are_texts(const struct rqli_reply *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return true;
}

/* Notes the dead of a page. False: not what the script answers. */
static bool take_page(struct rqli_flush *self, struct look *look, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count < 1 ||
        reply->items[0].type != RQLI_REPLY_INTEGER) {
        return false;
    }
    self->is_elected = reply->items[0].integer == 1;
    if (!self->is_elected) {
        return true;
    }
    if (reply->count % 2 != 0 || !all_are_texts(reply->items + 1, reply->count - 1) ||
        reply->items[1].text.length >= CURSOR_SIZE) {
        return false;
    }
    (void)snprintf(look->cursor, sizeof look->cursor, "%s", reply->items[1].text.data);
    for (size_t i = 2; i < reply->count; i += 2) {
        if (rqli_is_plain(reply->items[i].text)) {
            rqli_list_add(&self->dead, reply->items[i].text, 0);
        }
    }
    return true;
}

static void read_look(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                      const struct rqli_reply *reply, const rql_error *fault)
{
    struct look *self = (struct look *)op;

    (void)i;
    if (fault) {
        self->fault = *fault;
        op->status = fault->status;
    } else if (!take_page(self->flush, self, reply)) {
        op->status = rqli_exchange_fault(answer, reply, "swarm_look", RQLI_KEY_HOSTS, &self->fault);
    } else {
        self->flush->renewed_us = rqli_now_us();
    }
}

static bool is_wanted(const struct rqli_flush *self)
{
    return !self->goes_on || self->goes_on(self->context);
}

/* A walk begins with the cursor "0" and ends there; any other is a single call. */
static enum rqli_op_next next_look(struct rqli_op *op)
{
    struct look *self = (struct look *)op;
    bool has_begun = self->n_pages++ > 0;

    if (op->status ||
        (has_begun && (!self->flush->is_elected || !self->walks || strcmp(self->cursor, "0") == 0 ||
                       self->n_pages > PAGES_MAX))) {
        return RQLI_OP_OVER;
    }
    if (has_begun && !is_wanted(self->flush)) {
        op->status = RQL_STOPPED;
        return RQLI_OP_OVER;
    }
    op->until_us = rqli_client_budget_us(self->flush->via, rqli_now_us());
    return RQLI_OP_AGAIN;
}

static rql_status look(struct rqli_flush *self, const char *cursor, rql_error *error)
{
    static const struct rqli_op_ops ops = {write_look, read_look, next_look, NULL};
    struct look look = {.op = {.ops = &ops, .n_calls = 1}, .flush = self};
    rql_status status;

    (void)snprintf(look.cursor, sizeof look.cursor, "%s", cursor);
    look.walks = strcmp(cursor, "0") == 0;
    status = rqli_op_run(&look.op, self->via->conn, NULL);
    if (status < 0 && error) {
        *error = look.fault;
    }
    return status;
}

static rql_status look_at_all(struct rqli_flush *self, rql_error *error)
{
    rql_status status = look(self, "0", error);

    if (!status && self->dead.failed) {
        status = rqli_fail_nomem(error);
    }
    rqli_list_sort(&self->dead);
    return status;
}

/* Long rounds stay elected; a fault here shows at the next look. */
static bool on_progress(int64_t done, int64_t found, void *context)
{
    struct rqli_flush *self = context;

    (void)done;
    (void)found;
    if (self->me[0] != '\0' && rqli_now_us() - self->renewed_us > self->lease_ms * 1000 / 4) {
        (void)look(self, "", NULL);
    }
    return is_wanted(self);
}

static rql_status sweep_all(struct rqli_flush *self, rql_error *error)
{
    RQLI_AUTO(rqli_sweep_fini)
    struct rqli_sweep sweep = {
        .client = self->via,
        .options = {.on_progress = on_progress, .user_data = self},
        .error = error,
        .dead_hosts = &self->dead,
        .locks = &self->locks,
        .acquirers = &self->acquirers,
    };
    rql_status status;

    rqli_sweep_add(&sweep, &rqli_rule_zombie_locks, self->lock_scan_size);
    rqli_sweep_add(&sweep, &rqli_rule_zombie_requests, self->queue_scan_size);
    status = rqli_op_run(rqli_sweep_begin(&sweep), self->via->conn, NULL);
    self->removed = sweep.result.rem_request_cnt;
    self->handed_over = sweep.result.handed_over_cnt;
    return status;
}

/* The dead hosts are removed, some in each call. */
struct removal {
    struct rqli_op op; /* first */
    struct rqli_flush *flush;
    size_t at;
    size_t n;
    rql_error fault;
};

static void write_removal(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct removal *self = (struct removal *)op;

    (void)i;
    rqli_call_init(call, RQLI_SCRIPT_SWARM_REMOVE, NULL);
    for (size_t k = 0; k < self->n; k++) {
        rqli_call_slice(call, self->flush->dead.item[self->at + k].text);
    }
}

static bool take_removed(const struct removal *self, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != self->n + 1) {
        return false;
    }
    for (size_t k = 0; k < self->n; k++) {
        if (reply->items[k].type != RQLI_REPLY_INTEGER) {
            return false;
        }
        if (reply->items[k].integer == 1) {
            rqli_list_add(&self->flush->hosts, self->flush->dead.item[self->at + k].text, 0);
        }
    }
    return true;
}

static void read_removal(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                         const struct rqli_reply *reply, const rql_error *fault)
{
    struct removal *self = (struct removal *)op;

    (void)i;
    if (fault) {
        self->fault = *fault;
        op->status = fault->status;
    } else if (!take_removed(self, reply)) {
        op->status =
            rqli_exchange_fault(answer, reply, "swarm_remove", RQLI_KEY_HOSTS, &self->fault);
    }
}

static enum rqli_op_next next_removal(struct rqli_op *op)
{
    struct removal *self = (struct removal *)op;
    size_t left;

    self->at += self->n;
    left = self->flush->dead.count - self->at;
    if (op->status || left == 0) {
        return RQLI_OP_OVER;
    }
    self->n = left < REMOVED_AT_ONCE ? left : REMOVED_AT_ONCE;
    op->until_us = rqli_client_budget_us(self->flush->via, rqli_now_us());
    return RQLI_OP_AGAIN;
}

static rql_status remove_dead(struct rqli_flush *self, rql_error *error)
{
    static const struct rqli_op_ops ops = {write_removal, read_removal, next_removal, NULL};
    struct removal removal = {.op = {.ops = &ops, .n_calls = 1}, .flush = self};
    rql_status status = rqli_op_run(&removal.op, self->via->conn, NULL);

    if (status < 0 && error) {
        *error = removal.fault;
    }
    return status;
}

static void notify_flushed(const struct rqli_flush *self, int64_t begun_us, rql_status status)
{
    const struct rqli_subject subject = rqli_subject_of_swarm(self->client);
    const struct rqli_figures figures = {
        .status = status,
        .host_cnt = (int64_t)self->hosts.count,
        .rel_key_cnt = (int64_t)self->locks.count,
        .rem_request_cnt = self->removed,
        .handed_over_cnt = self->handed_over,
        .rel_time_us = rqli_now_us() - begun_us,
        .at_us = rqli_server_clock_now_us(self->client),
    };

    rqli_observe(RQLI_ON_ZOMBIES_FLUSHED, &subject, &figures);
}

rql_status rqli_flush_run(struct rqli_flush *self, rql_error *error)
{
    int64_t begun_us = rqli_now_us();
    rql_status status = look_at_all(self, error);

    if (status || !self->is_elected || self->dead.count == 0) {
        return status;
    }
    status = sweep_all(self, error);
    status = status ? status : remove_dead(self, error);
    rqli_list_sort(&self->acquirers);
    notify_flushed(self, begun_us, status);
    return status;
}

void rqli_flush_resign(struct rqli_flush *self)
{
    if (self->is_elected) {
        (void)look(self, "-", NULL);
        self->is_elected = false;
    }
}

void rqli_flush_fini_p(struct rqli_flush *self)
{
    rqli_list_fini_p(&self->dead);
    rqli_list_fini_p(&self->hosts);
    rqli_list_fini_p(&self->acquirers);
    rqli_list_fini_p(&self->locks);
}

int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms)
{
    int64_t by_ttl_ms = zombie_ttl_ms / 4;
    int64_t by_period_ms = flush_period_ms / 2;
    int64_t look_ms = by_ttl_ms < by_period_ms ? by_ttl_ms : by_period_ms;

    return look_ms > 1 ? look_ms : 1;
}

void rqli_flush_init(struct rqli_flush *self, rql_client *via, const rql_swarm_options *options)
{
    *self = (struct rqli_flush){
        .client = via,
        .via = via,
        .me = "",
        .zombie_ttl_ms = options->zombie_ttl_ms,
        .lock_scan_size = options->zombie_lock_scan_size,
        .queue_scan_size = options->zombie_queue_scan_size,
    };
}

rql_status rql_flush_zombies(rql_client *client, const rql_swarm_options *options,
                             rql_zombies **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    __attribute__((cleanup(rqli_flush_fini_p))) struct rqli_flush flush = {.me = ""};
    rql_swarm_options read;
    rql_status status = rqli_client_check(client, error);

    status =
        status ? status : rqli_options_read(RQLI_OF_SWARM, &read, &client->options, options, error);
    if (status) {
        return status;
    }
    rqli_flush_init(&flush, client, &read);
    status = rqli_flush_run(&flush, error);
    return status || !out ? status : rqli_zombies_give(&flush, out, error);
}
