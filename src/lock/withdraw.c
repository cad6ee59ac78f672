#include "lock/withdraw.h"

#include "base/clock.h"
#include "base/pause.h"
#include "base/random.h"
#include "net/op.h"
#include "wire/answer.h"

#include <rql/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Requests and grants that no caller waits for any more and whose end the server has not confirmed.
 * The leases' thread repeats the withdrawal every 100 ms, up to 64 in one round trip, until the
 * server confirms it or until a lock that may have been granted is over by its ttl.
 */

enum {
    REENTRY_UNDONE = 3 /* leave.lua */
};

struct rqli_withdrawal {
    struct rqli_due due; /* first */
    struct rqli_dlink link;
    int64_t until_us;
    int64_t again_us; /* when the next attempt is made, if the last one has not settled it */
    bool is_confirmed;
    const struct rqli_key_set *set;
    char acquirer[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
    char name[];
};

struct rqli_withdrawal *rqli_withdrawal_new(const struct rqli_withdrawal_of *what, int64_t until_us)
{
    size_t name_size = strlen(what->name) + 1;
    struct rqli_withdrawal *self = malloc(sizeof *self + name_size);

    if (self) {
        *self = (struct rqli_withdrawal){.until_us = until_us, .set = what->set};
        (void)snprintf(self->acquirer, sizeof self->acquirer, "%s", what->acquirer);
        (void)snprintf(self->nonce, sizeof self->nonce, "%s", what->nonce);
        memcpy(self->name, what->name, name_size);
    }
    return self;
}

struct rqli_withdrawal *rqli_withdrawal_free(struct rqli_withdrawal *self)
{
    free(self);
    return NULL;
}

bool rqli_withdrawals_add(struct rqli_withdrawals *self, struct rqli_withdrawal *one)
{
    if (!rqli_timers_reserve(&self->timers)) {
        return false;
    }
    rqli_timers_set(&self->timers, &one->due, 0);
    rqli_dlist_add_first(&self->all, &one->link);
    (void)atomic_fetch_add_explicit(&self->count, 1, memory_order_relaxed);
    return true;
}

bool rqli_withdrawals_have(const struct rqli_withdrawals *self, const char *name,
                           const char *acquirer)
{
    for (struct rqli_dlink *at = self->all.first; at; at = at->next) {
        const struct rqli_withdrawal *one = RQLI_OWNER(at, struct rqli_withdrawal, link);

        if (strcmp(one->name, name) == 0 && strcmp(one->acquirer, acquirer) == 0) {
            return true;
        }
    }
    return false;
}

static void drop(struct rqli_withdrawals *self, struct rqli_withdrawal *one)
{
    rqli_timers_unreserve(&self->timers, &one->due);
    rqli_dlist_remove(&self->all, &one->link);
    (void)atomic_fetch_sub_explicit(&self->count, 1, memory_order_relaxed);
    free(one);
}

void rqli_withdrawals_fini(struct rqli_withdrawals *self)
{
    struct rqli_due *due = rqli_timers_take_due(&self->timers, RQLI_NEVER_US);

    while (due) {
        free(due);
        due = rqli_timers_take_due(&self->timers, RQLI_NEVER_US);
    }
    rqli_timers_fini(&self->timers);
}

int64_t rqli_withdrawals_due_us(const struct rqli_withdrawals *self)
{
    return rqli_timers_first_us(&self->timers);
}

/* Takes the withdrawals that are due. Those whose time is over are dropped: the server has
 * forgotten their requests by itself. */
void rqli_withdrawals_take(struct rqli_withdrawals *self, struct rqli_withdrawal_batch *batch,
                           int64_t now_us)
{
    struct rqli_withdrawal *one;

    batch->count = 0;
    batch->took_back = false;
    while (batch->count < RQLI_WITHDRAWALS_MAX) {
        one = (struct rqli_withdrawal *)rqli_timers_take_due(&self->timers, now_us);
        if (!one) {
            break;
        }
        if (now_us < one->until_us) {
            batch->item[batch->count++] = one;
        } else {
            drop(self, one);
        }
    }
}

void rqli_withdrawals_put_back(struct rqli_withdrawals *self,
                               const struct rqli_withdrawal_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct rqli_withdrawal *one = batch->item[i];

        if (one->is_confirmed) {
            drop(self, one);
        } else {
            rqli_timers_set(&self->timers, &one->due, one->again_us);
        }
    }
}

void rqli_withdraw_write(const struct rqli_withdrawal_of *what, const struct rqli_keys *keys,
                         struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_LEAVE, keys);
    rqli_call_text(call, what->acquirer);
    rqli_call_text(call, what->nonce);
    rqli_call_random(call);
}

/* ---- rounds ---- */

void rqli_withdrawing_begin(struct rqli_withdrawing *self, size_t count)
{
    *self = (struct rqli_withdrawing){.open = UINT64_MAX >> (RQLI_WITHDRAWALS_MAX - count)};
}

size_t rqli_withdrawing_calls(const struct rqli_withdrawing *self)
{
    return (size_t)__builtin_popcountll(self->open);
}

size_t rqli_withdrawing_request(const struct rqli_withdrawing *self, size_t i)
{
    size_t at = 0;

    while ((self->open >> at & 1) == 0 || i-- > 0) {
        at++;
    }
    return at;
}

void rqli_withdrawing_read(struct rqli_withdrawing *self, size_t i, const struct rqli_reply *reply,
                           rql_status fault)
{
    uint64_t bit = UINT64_C(1) << rqli_withdrawing_request(self, i);
    struct rqli_outcome outcome;

    if (!reply) {
        self->unsent |= fault == RQL_E_NOMEM ? bit & ~self->confirmed : 0;
        return;
    }
    self->confirmed |= bit;
    if (rqli_outcome_read(reply, &outcome)) {
        self->due |= outcome.second == RQLI_SERVED_PARTLY ? bit : 0;
        self->undone |= outcome.what == REENTRY_UNDONE ? bit : 0;
    }
}

/* Plans the next round. A call that found no memory is tried again, as a release is, because the
 * background thread would need memory as well. */
bool rqli_withdrawing_next(struct rqli_withdrawing *self, int64_t now_us, int64_t until_us,
                           int64_t *again_us)
{
    bool resends = self->unsent != 0 && now_us + RQLI_PAUSE_MEMORY.first_us < until_us;

    if (!resends && (self->due == 0 || now_us >= until_us)) {
        return false;
    }
    *again_us = resends ? now_us + RQLI_PAUSE_MEMORY.first_us : 0;
    self->open = self->due | (resends ? self->unsent : 0);
    self->unsent = 0;
    self->due = 0;
    return true;
}

/* ---- a batch ---- */

struct withdraw {
    struct rqli_op op; /* first */
    struct rqli_withdrawal_batch *batch;
    struct rqli_withdrawing state;
    struct rqli_keys keys; /* of the call that is being written */
    char memory[RQLI_KEYS_ROOM];
};

/* Writes a call. The keys live only while they are written: a batch has room for those of one
 * call. */
static void write_withdraw(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct withdraw *self = (struct withdraw *)op;
    const struct rqli_withdrawal *one =
        self->batch->item[rqli_withdrawing_request(&self->state, i)];
    const struct rqli_withdrawal_of what = {one->set, one->name, one->acquirer, one->nonce};

    rqli_keys_init(&self->keys, self->memory, one->set, rqli_slice_of(one->name));
    rqli_withdraw_write(&what, &self->keys, call);
}

static void read_withdraw(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                          const struct rqli_reply *reply, const rql_error *fault)
{
    (void)answer;
    rqli_withdrawing_read(&((struct withdraw *)op)->state, i, reply,
                          reply ? RQL_OK : fault->status);
}

static enum rqli_op_next next(struct rqli_op *op)
{
    struct withdraw *self = (struct withdraw *)op;

    if (self->state.open == 0) {
        rqli_withdrawing_begin(&self->state, self->batch->count);
    } else if (!rqli_withdrawing_next(&self->state, rqli_now_us(), op->until_us, &op->again_us)) {
        return RQLI_OP_OVER;
    }
    op->n_calls = rqli_withdrawing_calls(&self->state);
    return RQLI_OP_AGAIN;
}

void rqli_withdrawal_batch_run(struct rqli_withdrawal_batch *self,
                               const struct rqli_op_route *route, int64_t until_us)
{
    static const struct rqli_op_ops ops = {
        .write = write_withdraw, .read = read_withdraw, .next = next};
    struct withdraw withdraw;

    withdraw.op = (struct rqli_op){.ops = &ops, .route = *route, .until_us = until_us};
    withdraw.batch = self;
    withdraw.state = (struct rqli_withdrawing){0};
    (void)rqli_op_run(&withdraw.op);
    self->took_back = withdraw.state.undone != 0;
    for (size_t i = 0; i < self->count; i++) {
        bool is_due = withdraw.state.due >> i & 1;

        self->item[i]->is_confirmed = !is_due && withdraw.state.confirmed >> i & 1;
        self->item[i]->again_us = rqli_now_us() + (is_due ? 0 : RQLI_PAUSE_WITHDRAWAL.first_us);
    }
}
