#include "lock/withdraw.h"

#include "base/clock.h"
#include "base/random.h"
#include "net/op.h"
#include "wire/answer.h"

#include <rql/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Requests and grants that nobody waits for any more and whose end the server has not confirmed.
 * The leases' thread repeats the withdrawal every 100 ms, up to 64 in one round trip, until the
 * server confirms or until what may have been granted is over by its ttl.
 */

enum {
    PAUSE_US = 100000,
    REENTRY_UNDONE = 3 /* leave.lua */
};

struct rqli_withdrawal {
    struct rqli_due due; /* first */
    struct rqli_withdrawal *next, **before;
    int64_t until_us;
    int64_t again_us; /* of the next attempt, if the last one has not settled it */
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
    one->next = self->all;
    one->before = &self->all;
    if (one->next) {
        one->next->before = &one->next;
    }
    self->all = one;
    (void)atomic_fetch_add_explicit(&self->count, 1, memory_order_relaxed);
    return true;
}

bool rqli_withdrawals_have(const struct rqli_withdrawals *self, const char *name,
                           const char *acquirer)
{
    const struct rqli_withdrawal *one = self->all;

    while (one && (strcmp(one->name, name) != 0 || strcmp(one->acquirer, acquirer) != 0)) {
        one = one->next;
    }
    return one != NULL;
}

static void drop(struct rqli_withdrawals *self, struct rqli_withdrawal *one)
{
    rqli_timers_unreserve(&self->timers, &one->due);
    *one->before = one->next;
    if (one->next) {
        one->next->before = one->before;
    }
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

/* Those whose time is over are dropped: the server has forgotten them by itself. */
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

/* One round of a batch. */
struct withdraw {
    struct rqli_op op; /* first */
    struct rqli_withdrawal_batch *batch;
    bool has_asked;
    struct rqli_keys keys; /* of the one that is being written */
    char memory[RQLI_KEYS_ROOM];
};

/* The keys live only while they are written: a batch has room for one. */
static void write_withdraw(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct withdraw *self = (struct withdraw *)op;
    const struct rqli_withdrawal *one = self->batch->item[i];
    const struct rqli_withdrawal_of what = {one->set, one->name, one->acquirer, one->nonce};

    rqli_keys_init(&self->keys, self->memory, one->set, rqli_slice_of(one->name));
    rqli_withdraw_write(&what, &self->keys, call);
}

/* Once more at once is harmless: it serves a long queue to its end. */
static void read_withdraw(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                          const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_withdrawal_batch *batch = ((struct withdraw *)op)->batch;
    struct rqli_withdrawal *one = batch->item[i];
    bool is_due = reply && rqli_serve_is_due(reply);
    struct rqli_outcome outcome;

    (void)answer;
    (void)fault;
    one->again_us = rqli_now_us() + (is_due ? 0 : PAUSE_US);
    one->is_confirmed = reply && !is_due;
    if (reply && rqli_outcome_read(reply, &outcome) && outcome.what == REENTRY_UNDONE) {
        batch->took_back = true;
    }
}

static enum rqli_op_next next(struct rqli_op *op)
{
    struct withdraw *self = (struct withdraw *)op;
    bool had_asked = self->has_asked;

    self->has_asked = true;
    return had_asked ? RQLI_OP_OVER : RQLI_OP_AGAIN;
}

void rqli_withdrawal_batch_run(struct rqli_withdrawal_batch *self,
                               const struct rqli_op_route *route, int64_t until_us)
{
    static const struct rqli_op_ops ops = {
        .write = write_withdraw, .read = read_withdraw, .next = next};
    struct withdraw withdraw;

    withdraw.op = (struct rqli_op){
        .ops = &ops, .route = *route, .n_calls = self->count, .until_us = until_us};
    withdraw.batch = self;
    withdraw.has_asked = false;
    (void)rqli_op_run(&withdraw.op);
}
