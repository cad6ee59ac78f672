#include "swarm.h"

#include "admin/rules.h"
#include "admin/sweep.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/client.h"
#include "lock/notify.h"
#include "net/op/op_threads.h"
#include "options/options.h"

#include <stdio.h>
#include <string.h>

/*
 * One flush. It begins with a walk over the hosts, page by page. In the same calls the server
 * elects one flusher of all clients; a client that is not elected is done at once. A host that was
 * silent for zombie_ttl_ms has its verdict after it was seen silent twice. Then a sweep of all
 * locks and queues ends what the dead hosts held and asked for, and the hosts are removed.
 *
 * Each partition has hosts of its own, and judges them by itself. The client that is elected in the
 * first partition looks at the other partitions, too, at the same time. If that fails for a
 * partition, its hosts are left to the next look. While the first partition cannot be reached no
 * client flushes, and leases end by their ttl.
 */

enum {
    REMOVED_AT_ONCE = 50, /* hosts in one call of swarm_remove.lua */
    PAGES_MAX = 1 << 20,  /* of one walk over the hosts: a server with more is broken */
};

static const struct rqli_key_set *set_of(const struct rqli_flush *self, size_t number)
{
    return rqli_client_nth_set(self->via, number);
}

/* Writes a call of this phase. The sweep is an operation of its own; its calls pass through here,
 * so that one driver drives both. Looking and renewing are the same call, which with an empty
 * cursor only renews. */
static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct rqli_flush *self = (struct rqli_flush *)op;

    if (self->phase == RQLI_FLUSH_SWEEP) {
        self->sweep.op.ops->write(&self->sweep.op, i, call);
    } else if (self->phase == RQLI_FLUSH_REMOVE) {
        rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_REMOVE,
                              set_of(self, (size_t)self->verdicts.item[self->at].number));
        for (size_t k = 0; k < self->n; k++) {
            rqli_call_slice(call, self->verdicts.item[self->at + k].text);
        }
    } else {
        rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_LOOK, set_of(self, self->round[i]));
        rqli_call_text(call, self->me);
        rqli_call_int(call, self->lease_ms);
        rqli_call_int(call, self->zombie_ttl_ms * 1000);
        rqli_call_int(call, self->wait_ms * 1000);
        rqli_call_text(call,
                       self->phase == RQLI_FLUSH_RENEW ? "" : self->looks[self->round[i]].cursor);
    }
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

/* Notes the dead hosts of a page. The reply is {0}, or {1, cursor, host, value, ...}. The values
 * are not kept, because the scripts that delete compare them again. False: the reply is
 * malformed. */
static bool take_page(struct rqli_flush *self, size_t number, const struct rqli_reply *reply)
{
    struct rqli_flush_look *look = &self->looks[number];
    bool is_elected;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count < 1 ||
        reply->items[0].type != RQLI_REPLY_INTEGER) {
        return false;
    }
    is_elected = reply->items[0].integer == 1;
    if (number == 0) {
        self->is_elected = is_elected;
    }
    if (!is_elected) {
        look->is_over = true;
        return true;
    }
    if (reply->count % 2 != 0 || !all_are_texts(reply->items + 1, reply->count - 1) ||
        reply->items[1].text.length >= sizeof look->cursor) {
        return false;
    }
    (void)snprintf(look->cursor, sizeof look->cursor, "%s", reply->items[1].text.data);
    look->is_over = strcmp(look->cursor, "0") == 0;
    for (size_t i = 2; i < reply->count; i += 2) {
        if (rqli_is_plain(reply->items[i].text)) {
            rqli_list_add(&self->verdicts, reply->items[i].text, (int64_t)number);
        }
    }
    self->renewed_us = rqli_now_us();
    return true;
}

/* Takes the reply of a removal: 1 for each host that was removed, 0 for a host that has come back
 * meanwhile and stays. Only the removed hosts are reported as flushed. The last number has no
 * meaning. */
static bool take_removed(struct rqli_flush *self, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != self->n + 1) {
        return false;
    }
    for (size_t k = 0; k < self->n; k++) {
        if (reply->items[k].type != RQLI_REPLY_INTEGER) {
            return false;
        }
        if (reply->items[k].integer == 1) {
            rqli_list_add(&self->flushed.hosts, self->verdicts.item[self->at + k].text, 0);
        }
    }
    return true;
}

/* Notes a fault. In the first set of keys, or when hosts are removed, it ends the flush. In another
 * set it ends the walk: the hosts on the remaining pages are not known to be dead. */
static void on_fault(struct rqli_flush *self, size_t number, const rql_error *fault)
{
    self->fault = *fault;
    if (self->phase == RQLI_FLUSH_REMOVE || number == 0) {
        self->op.status = fault->status;
    }
    self->looks[number].is_over = true;
}

/* Takes a reply. A fault while the flush renews its election is ignored: it shows at the next
 * look. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_flush *self = (struct rqli_flush *)op;
    bool removes = self->phase == RQLI_FLUSH_REMOVE;
    rql_error malformed = {0};
    size_t number;

    if (self->phase == RQLI_FLUSH_SWEEP) { /* it has more calls than there are sets of keys */
        self->sweep.op.ops->read(&self->sweep.op, i, answer, reply, fault);
        return;
    }
    number = removes ? 0 : self->round[i];
    self->is_read = true;
    if (!fault && !(removes ? take_removed(self, reply) : take_page(self, number, reply))) {
        (void)rqli_batch_fault(answer, reply, removes ? "swarm_remove" : "swarm_look",
                               RQLI_KEY_HOSTS, &malformed);
        fault = &malformed;
    }
    if (fault && self->phase != RQLI_FLUSH_RENEW) {
        on_fault(self, number, fault);
    }
}

/* Reports a flush with what was done by then, also if it ended with a fault or was cancelled. */
static void notify_flushed(const struct rqli_flush *self)
{
    const struct rqli_subject subject = rqli_subject_of_client(self->client);
    const struct rqli_figures figures = {
        .status = self->op.status,
        .host_cnt = (int64_t)self->flushed.hosts.count,
        .rel_key_cnt = (int64_t)self->flushed.locks.count,
        .rem_request_cnt = self->flushed.removed,
        .handed_over_cnt = self->flushed.handed_over,
        .rel_time_us = rqli_now_us() - self->begun_us,
        .at_us = rqli_swarm_clock_us(self->client, self->via),
    };

    rqli_observe(RQLI_ON_ZOMBIES_FLUSHED, &subject, &figures);
}

/* Returns when the replies have to be there. If one of several servers is silent, the other servers
 * have to be looked at again before suspicions end there. */
static int64_t until_us(const struct rqli_flush *self)
{
    int64_t now_us = rqli_now_us();
    int64_t budget_us = rqli_client_until_us(self->via, now_us);
    int64_t due_us = rqli_after_ms(now_us, self->zombie_ttl_ms / 4);

    return self->via->is_partitioned && self->swarm && due_us < budget_us ? due_us : budget_us;
}

static enum rqli_op_next call(struct rqli_flush *self, enum rqli_flush_phase phase, size_t n_calls)
{
    self->phase = phase;
    self->is_read = false;
    self->op.again_us = 0;
    self->op.n_calls = n_calls;
    self->op.until_us = until_us(self);
    return RQLI_OP_AGAIN;
}

/* Removes the next hosts: up to fifty in one call, all of one set of keys, so that the call is over
 * before other clients notice it. */
static enum rqli_op_next remove_on(struct rqli_flush *self)
{
    const struct rqli_list *verdicts = &self->verdicts;

    self->at += self->n;
    self->n = 0;
    while (self->at + self->n < verdicts->count && self->n < REMOVED_AT_ONCE &&
           verdicts->item[self->at + self->n].number == verdicts->item[self->at].number) {
        self->n++;
    }
    return self->n > 0 ? call(self, RQLI_FLUSH_REMOVE, 1) : RQLI_OP_OVER;
}

/* Takes the next step of the sweep. Hosts are removed after the sweep, and only if it came to its
 * end: for a host that is not in the table any more the scripts delete nothing. */
static enum rqli_op_next sweep_on(struct rqli_flush *self)
{
    struct rqli_op *sweep = &self->sweep.op;

    self->phase = RQLI_FLUSH_SWEEP;
    if (sweep->ops->next(sweep) == RQLI_OP_AGAIN) {
        self->op.route = sweep->route;
        self->op.again_us = sweep->again_us;
        self->op.n_calls = sweep->n_calls;
        self->op.until_us = sweep->until_us;
        return RQLI_OP_AGAIN;
    }
    self->op.status = sweep->status;
    return sweep->status ? RQLI_OP_OVER : remove_on(self);
}

static void note_election(struct rql_swarm *swarm, bool is_elected)
{
    if (atomic_exchange(&swarm->is_flusher, is_elected) != is_elected) {
        rqli_swarm_notify(swarm, swarm->flusher_client,
                          is_elected ? RQLI_ON_FLUSHER_ELECTED : RQLI_ON_FLUSHER_RETIRED,
                          (struct rqli_figures){0});
    }
}

/* Begins the sweep. Its scripts check each host themselves. A server without a partition in which a
 * host is dead is not asked, because it may be silent. The election is reported before the flush
 * that follows from it. */
static enum rqli_op_next begin_sweep(struct rqli_flush *self)
{
    if (self->swarm) {
        note_election(self->swarm, true);
    }
    for (size_t i = 0; i < self->verdicts.count; i++) {
        self->has_dead[self->verdicts.item[i].number] = true;
    }
    if (self->verdicts.failed) {
        self->op.status = rqli_fail_nomem(&self->fault);
        return RQLI_OP_OVER;
    }
    self->sweep = (struct rqli_sweep){
        .client = self->via,
        .error = &self->fault,
        .partitions = self->has_dead,
        .locks = &self->flushed.locks,
        .acquirers = &self->flushed.acquirers,
    };
    rqli_sweep_add(&self->sweep, &rqli_rule_zombie_locks, self->lock_scan_size);
    rqli_sweep_add(&self->sweep, &rqli_rule_zombie_shares, self->lock_scan_size);
    rqli_sweep_add(&self->sweep, &rqli_rule_zombie_requests, self->queue_scan_size);
    (void)rqli_sweep_begin(&self->sweep);
    return sweep_on(self);
}

/* Asks for the next page of each set of keys whose walk is not over. */
static enum rqli_op_next look_at_all(struct rqli_flush *self)
{
    size_t n = 0;

    for (size_t number = 0; number < rqli_client_n_sets(self->via); number++) {
        if (!self->looks[number].is_over) {
            self->round[n++] = (unsigned char)number;
        }
    }
    return n > 0 ? call(self, RQLI_FLUSH_LOOK, n) : RQLI_OP_OVER;
}

/* Goes on with the walks. A walk over the hosts begins with the cursor "0" and ends with it. A
 * client that loses the election on the way sweeps nothing, because the newly elected client
 * does. */
static enum rqli_op_next look_on(struct rqli_flush *self)
{
    if (!self->is_elected) {
        return RQLI_OP_OVER;
    }
    if (++self->n_pages < PAGES_MAX && look_at_all(self) == RQLI_OP_AGAIN) {
        return RQLI_OP_AGAIN;
    }
    return self->verdicts.count > 0 || self->verdicts.failed ? begin_sweep(self) : RQLI_OP_OVER;
}

/* Asks in the first set of keys alone, where the client is elected or not. To step down, the client
 * asks in all sets. */
static enum rqli_op_next begin_looking(struct rqli_flush *self)
{
    self->round[0] = 0;
    return self->looks[0].cursor[0] == '-' ? look_at_all(self) : call(self, RQLI_FLUSH_LOOK, 1);
}

/* Returns whether to renew the election. A long sweep must not lose it, because another flusher
 * would begin the same work. If it is lost all the same, the sweep goes on: each script checks for
 * itself what it deletes. */
static bool is_renewal_due(const struct rqli_flush *self)
{
    return self->me[0] != '\0' && rqli_now_us() - self->renewed_us > self->lease_ms * 1000 / 4;
}

/* Returns the next step. A cancellation after the last reply comes too late: all is done, and is
 * reported as done. */
static enum rqli_op_next go_on(struct rqli_flush *self)
{
    bool is_done = self->phase == RQLI_FLUSH_REMOVE && self->is_read &&
                   self->at + self->n == self->verdicts.count;

    if (self->op.is_cancelled && !is_done) {
        self->op.status = RQL_STOPPED;
    }
    if (self->op.status) {
        return RQLI_OP_OVER;
    }
    switch (self->phase) {
    case RQLI_FLUSH_BEGIN:
        return begin_looking(self);
    case RQLI_FLUSH_LOOK:
        return look_on(self);
    case RQLI_FLUSH_SWEEP:
        if (is_renewal_due(self)) {
            self->round[0] = 0;
            return call(self, RQLI_FLUSH_RENEW, 1);
        }
        return sweep_on(self);
    case RQLI_FLUSH_RENEW:
        return sweep_on(self);
    case RQLI_FLUSH_REMOVE:
        break;
    }
    return remove_on(self);
}

/* Returns the next step. Each round is a sign that the step does not hang. A flush that has come as
 * far as its sweep is reported, a flush that found no dead host is not. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_flush *self = (struct rqli_flush *)op;
    enum rqli_op_next wanted;

    if (self->swarm) {
        rqli_element_sign(&self->swarm->flusher);
    }
    wanted = go_on(self);
    if (wanted == RQLI_OP_OVER && self->sweep.n_parts > 0) {
        rqli_list_sort(&self->flushed.hosts);
        rqli_list_sort(&self->flushed.acquirers);
        self->flushed.removed = self->sweep.result.requests;
        self->flushed.handed_over = self->sweep.result.handed_over;
        notify_flushed(self);
    }
    return wanted;
}

/* Prepares the operation. It ends with RQL_OK, also when another client is elected; with
 * RQL_STOPPED if it is cancelled; or with a fault, which undoes nothing. The cursor "-" steps
 * down. */
static struct rqli_op *begin(struct rqli_flush *self, const char *cursor)
{
    static const struct rqli_op_ops ops = {.write = write_call, .read = read_reply, .next = next};

    self->op.ops = &ops;
    self->op.route = rqli_client_route_of_all(self->via);
    self->begun_us = rqli_now_us();
    for (size_t number = 0; number < rqli_client_n_sets(self->via); number++) {
        (void)snprintf(self->looks[number].cursor, RQLI_CURSOR_SIZE, "%s", cursor);
    }
    return &self->op;
}

void rqli_flush_fini_p(struct rqli_flush *self)
{
    rqli_sweep_fini_p(&self->sweep);
    rqli_list_fini_p(&self->verdicts);
    rqli_zombies_fini_p(&self->flushed);
}

/* Returns the time between two looks. A host is suspected up to one look late, and its verdict
 * comes up to one look late: both fit into the flush period. Looks farther apart than half of the
 * ttl would end all suspicions (swarm_look.lua); a quarter is well within that. */
int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms)
{
    int64_t by_ttl_ms = zombie_ttl_ms / 4;
    int64_t by_period_ms = flush_period_ms / 2;
    int64_t look_ms = by_ttl_ms < by_period_ms ? by_ttl_ms : by_period_ms;

    return look_ms > 1 ? look_ms : 1;
}

/* Prepares a flush by hand, with these settings. Because wait_ms is 0, the first sight of a silent
 * host is the verdict. */
static void init(struct rqli_flush *self, rql_client *via, const rql_swarm_options *options)
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

/* Prepares a flush of a swarm. The election lasts two periods: a late look does not lose it, a
 * missed look may. */
static void set_up(struct rql_swarm *swarm)
{
    struct rqli_flush *self = &swarm->flush;

    init(self, swarm->flusher_client, &swarm->options);
    self->client = swarm->client;
    self->me = swarm->flusher_client->identity;
    self->wait_ms = swarm->options.zombie_ttl_ms / 2;
    self->lease_ms = 2 * swarm->flusher.period_us / 1000 + 1;
    self->swarm = swarm;
}

/* Begins a flush. Nothing of the step before is left: set_up() overwrites it, and end_step() has
 * freed its lists. */
static struct rqli_op *begin_step(struct rql_swarm *swarm, bool is_timed)
{
    (void)is_timed;
    set_up(swarm);
    return begin(&swarm->flush, "0");
}

/* Ends a flush. A client that could not ask counts as not elected. RQL_STOPPED, a cancelled step,
 * is no failure. */
static void end_step(struct rql_swarm *swarm, rql_status status)
{
    rqli_flush_fini_p(&swarm->flush);
    note_election(swarm, swarm->flush.is_elected);
    if (status < 0 || swarm->flush.fault.status) {
        rqli_swarm_notify(swarm, swarm->flusher_client, RQLI_ON_STEP_FAILED,
                          (struct rqli_figures){0});
    }
}

/* Tells the server that an elected flusher stops, so that another is elected without waiting. */
static struct rqli_op *begin_resigning(struct rql_swarm *swarm)
{
    set_up(swarm);
    return atomic_load(&swarm->is_flusher) ? begin(&swarm->flush, "-") : NULL;
}

/* Ends the resignation. Without a reply the election times out on the server. */
static void end_resigning(struct rql_swarm *swarm, rql_status status)
{
    (void)status;
    rqli_flush_fini_p(&swarm->flush);
    note_election(swarm, false);
}

const struct rqli_element_ops rqli_flusher_ops = {"flush_zombies", begin_step, end_step,
                                                  begin_resigning, end_resigning};

/* Flushes by hand. After a fault *out stays as it was, though some hosts may have been flushed; the
 * listeners are notified of them. */
rql_status rql_swarm_flush(rql_client *client, const rql_swarm_options *options, rql_zombies **out,
                           rql_error *error)
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
    init(&flush, client, &read);
    status = rqli_op_run(begin(&flush, "0"));
    status = status ? status : flush.fault.status;
    if (status < 0 && error) {
        *error = flush.fault;
    }
    return status || !out ? status : rqli_zombies_give(&flush.flushed, out, error);
}
