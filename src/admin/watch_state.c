#include "admin/watch_state.h"

#include "admin/info.h"

#include <string.h>

/*
 * A grant is the same in two readings if it has the same token, or, of the gem, the same acquirer
 * and time. A grant that has gone has expired if its TTL, as it was read, is over by now; renewals
 * keep the TTL of a living holder far from its end. The queue is read before the lock, so a request
 * that has left it is the lock's holder by the time of that reading, or was not served, or its turn
 * is over already.
 */

/* A renewal adds more than what PTTL and two clocks lose. */
enum { EXTENDED_US = 100000 };

/* A holder, of a lock of one or of several. */
struct holder {
    const char *acquirer_id;
    const char *host_id;
    int64_t token;
    int64_t since_us;
    int64_t remaining_ms;
    int64_t units;
    int64_t limit;
    size_t n_meta;
    const rql_meta *meta;
};

static size_t count_holders(const struct rqli_watched *self)
{
    if (self->holders) {
        return self->holders->count;
    }
    return self->lock && self->lock->acquirer_id && !self->lock->is_kept &&
                   !rqli_lock_info_is_of_several(self->lock)
               ? 1
               : 0;
}

static struct holder holder_at(const struct rqli_watched *self, size_t index)
{
    const rql_lock_info *lock = self->lock;
    const rql_holder_info *info = self->holders ? self->holders->item[index] : NULL;

    if (info) {
        return (struct holder){info->acquirer_id,    info->host_id,      info->token,
                               info->acquired_at_us, info->remaining_ms, info->share_units,
                               info->share_limit,    info->n_meta,       info->meta};
    }
    return (struct holder){lock->acquirer_id,
                           lock->host_id,
                           lock->token,
                           lock->acquired_at_us,
                           lock->remaining_ms,
                           lock->used_units,
                           lock->used_units > 0 ? lock->share_limit : 0,
                           lock->n_meta,
                           lock->meta};
}

static bool is_same_grant(const struct holder *a, const struct holder *b)
{
    return strcmp(a->acquirer_id, b->acquirer_id) == 0 && a->token == b->token &&
           (a->token > 0 || a->since_us == b->since_us);
}

static bool find_holder(const struct rqli_watched *self, const struct holder *wanted,
                        struct holder *out)
{
    for (size_t i = 0; i < count_holders(self); i++) {
        *out = holder_at(self, i);
        if (is_same_grant(out, wanted)) {
            return true;
        }
    }
    return false;
}

static size_t count_requests(const struct rqli_watched *self)
{
    return self->queue ? self->queue->n_requests : 0;
}

/* Requests keep their order, so the search begins behind the one that was found last. */
static const rql_request_info *find_request(const struct rqli_watched *self,
                                            const char *acquirer_id, size_t *hint)
{
    const size_t count = count_requests(self);

    for (size_t i = 0; i < count; i++) {
        const size_t place = (*hint + i) % count;

        if (strcmp(self->queue->requests[place]->acquirer_id, acquirer_id) == 0) {
            *hint = place + 1;
            return self->queue->requests[place];
        }
    }
    return NULL;
}

static bool holds(const struct rqli_watched *self, const char *acquirer_id)
{
    for (size_t i = 0; i < count_holders(self); i++) {
        if (strcmp(holder_at(self, i).acquirer_id, acquirer_id) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- reports ---- */

/* Two readings, and where their differences go. */
struct comparison {
    const struct rqli_watched *before; /* NULL: there is none */
    const struct rqli_watched *now;
    rql_change_fn on_change;
    void *user_data;
};

static int64_t passed_ms(int64_t from_us, int64_t to_us)
{
    return from_us < 0 || to_us < from_us ? -1 : (to_us - from_us) / 1000;
}

static rql_change new_change(const struct comparison *self, rql_change_kind kind)
{
    return (rql_change){.size = sizeof(rql_change),
                        .kind = kind,
                        .name = self->now->name,
                        .at_us = self->now->server_us,
                        .token = -1,
                        .waited_ms = -1,
                        .held_ms = -1,
                        .remaining_ms = -1,
                        .share_units = -1,
                        .share_limit = -1,
                        .n_holders = (int64_t)count_holders(self->now),
                        .waiting = (int64_t)count_requests(self->now)};
}

static void set_holder(rql_change *change, const struct holder *holder)
{
    change->acquirer_id = holder->acquirer_id;
    change->host_id = holder->host_id;
    change->token = holder->token;
    change->held_ms = passed_ms(holder->since_us, change->at_us);
    change->remaining_ms = holder->remaining_ms;
    change->share_units = holder->units;
    change->share_limit = holder->limit;
    change->n_meta = holder->n_meta;
    change->meta = holder->meta;
}

static void report(const struct comparison *self, const rql_change *change)
{
    self->on_change(change, self->user_data);
}

/* ---- holders ---- */

static int64_t end_us(const struct rqli_watched *self, const struct holder *holder)
{
    return holder->remaining_ms < 0 ? INT64_MAX : self->held_us + holder->remaining_ms * 1000;
}

static void report_end(const struct comparison *self, const struct holder *holder)
{
    const bool is_over = end_us(self->before, holder) <= self->now->server_us;
    rql_change change = new_change(self, is_over             ? RQL_CHANGE_EXPIRED
                                         : holder->units > 0 ? RQL_CHANGE_LEFT
                                                             : RQL_CHANGE_RELEASED);

    set_holder(&change, holder);
    change.remaining_ms = -1;
    report(self, &change);
}

/* Returns whether a request in front of this one, or any if it was not seen, has gone without being
 * a holder: it may have had its turn between the readings. */
static bool has_jumped(const struct comparison *self, const char *acquirer_id)
{
    size_t hint = 0;

    for (size_t i = 0; i < count_requests(self->before); i++) {
        const char *other = self->before->queue->requests[i]->acquirer_id;

        if (strcmp(other, acquirer_id) == 0) {
            return false;
        }
        if (!find_request(self->now, other, &hint) && !holds(self->now, other)) {
            return true;
        }
    }
    return false;
}

static void report_begin(const struct comparison *self, const struct holder *holder)
{
    size_t hint = 0;
    const rql_request_info *request = find_request(self->before, holder->acquirer_id, &hint);
    rql_change change =
        new_change(self, holder->units > 0 ? RQL_CHANGE_SHARED : RQL_CHANGE_GRANTED);

    set_holder(&change, holder);
    change.waited_ms = request ? passed_ms(request->score_us, holder->since_us) : -1;
    change.has_missed = has_jumped(self, holder->acquirer_id);
    report(self, &change);
}

static void report_same(const struct comparison *self, const struct holder *old,
                        const struct holder *holder)
{
    const int64_t old_us = end_us(self->before, old);
    const bool is_endless = old->remaining_ms >= 0 && holder->remaining_ms < 0;
    const bool has_more = old_us < INT64_MAX - EXTENDED_US &&
                          (is_endless || end_us(self->now, holder) > old_us + EXTENDED_US);
    rql_change change = new_change(self, RQL_CHANGE_CONVERTED);

    set_holder(&change, holder);
    if (old->units != holder->units || old->limit != holder->limit) {
        report(self, &change);
    }
    if (has_more) {
        change.kind = RQL_CHANGE_EXTENDED;
        report(self, &change);
    }
}

static void compare_holders(const struct comparison *self)
{
    struct holder other;

    for (size_t i = 0; i < count_holders(self->before); i++) {
        const struct holder holder = holder_at(self->before, i);

        if (!find_holder(self->now, &holder, &other)) {
            report_end(self, &holder);
        }
    }
    for (size_t i = 0; i < count_holders(self->now); i++) {
        const struct holder holder = holder_at(self->now, i);

        if (find_holder(self->before, &holder, &other)) {
            report_same(self, &other, &holder);
        } else {
            report_begin(self, &holder);
        }
    }
}

/* ---- requests ---- */

/* Returns whether a grant of this reading is not in the other one. */
static bool has_other_grant(const struct rqli_watched *self, const struct rqli_watched *than)
{
    struct holder same;

    for (size_t i = 0; i < count_holders(self); i++) {
        const struct holder holder = holder_at(self, i);

        if (!find_holder(than, &holder, &same)) {
            return true;
        }
    }
    return false;
}

/* Returns whether the lock has another owner than before, so that a turn may have passed. */
static bool may_have_had_its_turn(const struct comparison *self)
{
    return has_other_grant(self->now, self->before) || has_other_grant(self->before, self->now) ||
           (count_holders(self->now) == 0 && count_holders(self->before) == 0);
}

static void report_request(const struct comparison *self, rql_change_kind kind,
                           const rql_request_info *request)
{
    rql_change change = new_change(self, kind);

    change.acquirer_id = request->acquirer_id;
    change.host_id = request->host_id;
    change.waited_ms = passed_ms(request->score_us, change.at_us);
    change.share_units = request->share_units;
    change.share_limit = request->share_limit;
    change.n_meta = request->n_meta;
    change.meta = request->meta;
    change.has_missed = kind == RQL_CHANGE_WITHDREW && may_have_had_its_turn(self);
    report(self, &change);
}

static void compare_requests(const struct comparison *self)
{
    size_t hint = 0;

    for (size_t i = 0; i < count_requests(self->before); i++) {
        const rql_request_info *request = self->before->queue->requests[i];

        if (!find_request(self->now, request->acquirer_id, &hint) &&
            !holds(self->now, request->acquirer_id)) {
            report_request(self, RQL_CHANGE_WITHDREW, request);
        }
    }
    hint = 0;
    for (size_t i = 0; i < count_requests(self->now); i++) {
        const rql_request_info *request = self->now->queue->requests[i];
        const rql_request_info *old = find_request(self->before, request->acquirer_id, &hint);

        if (!old && !holds(self->now, request->acquirer_id)) {
            report_request(self, RQL_CHANGE_QUEUED, request);
        } else if (old && old->score_us != request->score_us) {
            report_request(self, RQL_CHANGE_REQUEUED, request);
        }
    }
}

void rqli_watched_compare(const struct rqli_watched *before, const struct rqli_watched *now,
                          rql_change_fn on_change, void *user_data)
{
    const struct comparison self = {before, now, on_change, user_data};

    compare_holders(&self);
    compare_requests(&self);
}

void rqli_watched_report(const struct rqli_watched *now, rql_change_fn on_change, void *user_data)
{
    const struct comparison self = {NULL, now, on_change, user_data};
    rql_change change = new_change(&self, RQL_CHANGE_NOW);

    if (count_holders(now) == 1) {
        const struct holder holder = holder_at(now, 0);

        set_holder(&change, &holder);
    }
    report(&self, &change);
}
