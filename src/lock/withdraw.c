#include "lock/withdraw.h"

#include "base/clock.h"
#include "base/pause.h"
#include "base/random.h"
#include "lock/background.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/server_clock.h"
#include "wire/answer.h"

#include <rql/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Requests and grants that no caller waits for any more and whose end the server has not confirmed.
 * The thread in the background repeats the withdrawal every 100 ms until the server confirms it, or
 * until a lock that may have been granted is over by its ttl.
 *
 * The first answer confirms nothing: a try or a poll without an answer is on another connection,
 * and the server may read it after the withdrawal. The next withdrawal finds what it has left.
 *
 * If the next one finds nothing either, the withdrawal is settled. Nearly always that is all: its
 * acquirer and the end of the client do not wait for it any more. But the bytes of a connection
 * that was given up may come later than all that. So there is a last withdrawal, from the time on
 * at which the server refuses the request.
 */

enum {
    NOTHING_THERE = 0, /* leave.lua */
    REENTRY_UNDONE = 3
};

struct withdrawal {
    struct rqli_duty duty; /* first */
    struct rqli_hash_entry open;
    rql_client *client;
    int64_t refused_us; /* from then on the server refuses the request */
    int64_t until_us;
    struct rqli_keys keys;
    const char *name; /* points to the end part of keys.lock */
    char acquirer[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
    bool may_share;
    bool is_open; /* not settled */
    bool was_answered;
    bool is_last;  /* nothing of the request can come after the call that is under way */
    char memory[]; /* of the keys */
};

/* ---- in the background ---- */

/* Settles a withdrawal, or opens it again. */
static void set_open(struct withdrawal *self, bool is_open)
{
    struct rqli_background *background = self->client->background;

    if (self->is_open == is_open) {
        return;
    }
    self->is_open = is_open;
    if (is_open) {
        rqli_hash_map_add(&background->shared.withdrawals, &self->open,
                          rqli_lock_hash(self->name, self->acquirer));
        (void)atomic_fetch_add_explicit(&background->n_withdrawals, 1, memory_order_relaxed);
    } else {
        rqli_hash_map_remove(&background->shared.withdrawals, &self->open);
        (void)atomic_fetch_sub_explicit(&background->n_withdrawals, 1, memory_order_relaxed);
    }
}

static void drop_withdrawal(struct withdrawal *self)
{
    rqli_background_drop(self->client->background, &self->duty);
    set_open(self, false);
    free(self);
}

void rqli_withdraw_from_reentries(rql_client *client, const char *nonce)
{
    struct rqli_leases *leases = client->leases;

    (void)atomic_fetch_add(&leases->n_changes, 1); /* for re-entries that are not listed yet */
    if (atomic_load(&leases->n_reentries) > 0) {
        rqli_background_unlock(client->background);
        rqli_leases_on_taken(leases, rqli_slice_of(nonce));
        rqli_background_lock(client->background);
    }
}

/* Drops a withdrawal whose time is over: the server has forgotten its request by itself. Its
 * acquirer may have entered a grant again that came late. */
static bool begin_withdrawal(struct rqli_duty *duty, int64_t now_us)
{
    struct withdrawal *self = (struct withdrawal *)duty;

    if (now_us >= self->until_us) {
        drop_withdrawal(self);
        return false;
    }
    self->is_last = now_us >= self->refused_us;
    rqli_withdraw_from_reentries(self->client, self->nonce);
    return true;
}

static void write_withdrawal(struct rqli_duty *duty, struct rqli_call *call)
{
    const struct withdrawal *self = (const struct withdrawal *)duty;

    rqli_held_write_withdrawal(
        &(struct rqli_withdrawn){&self->keys, self->acquirer, self->nonce, self->may_share}, call);
}

/* Plans the next call, if there has to be one. A queue that was not served to its end is served by
 * the next call, which comes at once. */
static void read_outcome(struct withdrawal *self, const struct rqli_outcome *outcome)
{
    bool is_served = outcome->second != RQLI_SERVED_PARTLY;
    bool is_settled = is_served && outcome->what == NOTHING_THERE && self->was_answered;
    int64_t next_us = rqli_now_us() + (is_served ? RQLI_PAUSE_WITHDRAWAL.first_us : 0);

    if (is_settled && self->is_last) {
        drop_withdrawal(self);
        return;
    }
    set_open(self, !is_settled);
    self->was_answered = true;
    rqli_background_set(self->client->background, &self->duty,
                        is_settled ? self->refused_us : next_us);
}

/* The call may have given a grant back, answered or not: re-entries that the server has granted
 * since it was begun end with the grant. If a re-entry was undone, the lock ends earlier than its
 * other holders know. */
static void read_withdrawal(struct rqli_duty *duty, const struct rqli_batch *answer,
                            const struct rqli_reply *reply, rql_status fault)
{
    struct withdrawal *self = (struct withdrawal *)duty;
    rql_client *client = self->client;
    struct rqli_background *background = client->background;
    struct rqli_outcome outcome = {0};

    (void)answer;
    (void)fault;
    rqli_withdraw_from_reentries(client, self->nonce);
    if (!reply || reply->type == RQLI_REPLY_ERROR) {
        rqli_background_set(background, duty, rqli_now_us() + RQLI_PAUSE_WITHDRAWAL.first_us);
        return;
    }
    (void)rqli_outcome_read(reply, &outcome);
    read_outcome(self, &outcome);
    if (outcome.what == REENTRY_UNDONE) {
        rqli_background_unlock(background);
        rqli_leases_doubt(client->leases, NULL, NULL);
        rqli_background_lock(background);
    }
}

void rqli_withdraw_later(rql_client *client, const struct rqli_withdrawn *request, int64_t ttl_ms)
{
    static const struct rqli_duty_ops ops = {
        .begin = begin_withdrawal, .write = write_withdrawal, .read = read_withdrawal};

    struct rqli_background *background = client->background;
    const struct rqli_keys *keys = request->keys;
    struct rqli_slice name = rqli_name_in(keys->lock, RQLI_KEY_LOCK);
    struct withdrawal *self = calloc(1, sizeof *self + rqli_keys_room(name));
    int64_t now_us = rqli_now_us();

    if (!self) {
        return;
    }
    self->duty.ops = &ops;
    self->duty.set = keys->set;
    self->client = client;
    self->refused_us = rqli_server_clock_refused_us(client, rqli_client_node(client, keys), now_us);
    /* A try that is still on its way may be granted yet, and lasts for ttl_ms from then on. */
    self->until_us =
        rqli_after_ms(rqli_later(rqli_client_until_us(client, now_us), self->refused_us), ttl_ms);
    rqli_keys_init(&self->keys, self->memory, keys->set, name);
    self->name = self->keys.lock.data + self->keys.lock.length - name.length;
    (void)snprintf(self->acquirer, sizeof self->acquirer, "%s", request->acquirer);
    (void)snprintf(self->nonce, sizeof self->nonce, "%s", request->nonce);
    self->may_share = request->may_share;
    rqli_background_lock(background);
    if (rqli_background_reserve(background, &self->duty)) {
        set_open(self, true);
        rqli_background_set(background, &self->duty, now_us);
        self = NULL;
    }
    rqli_background_unlock(background);
    free(self);
}

void rqli_withdraw_lock_later(const rql_lock *lock, int64_t ttl_ms)
{
    const struct rqli_withdrawn request = rqli_withdrawn_of(lock);

    rqli_withdraw_later(lock->client, &request, ttl_ms);
}

static bool is_for(struct rqli_hash_entry *entry, const char *name, const char *acquirer)
{
    const struct withdrawal *self = RQLI_OWNER(entry, struct withdrawal, open);

    return strcmp(self->name, name) == 0 && strcmp(self->acquirer, acquirer) == 0;
}

/* A request that this acquirer has left behind was added before its caller could ask again. Each
 * try asks, and a loop may have given up thousands of requests: they are in a map. */
bool rqli_withdraw_is_open(rql_client *client, const char *name, const char *acquirer)
{
    struct rqli_background *background = client->background;
    struct rqli_hash_entry *at;

    if (atomic_load_explicit(&background->n_withdrawals, memory_order_relaxed) == 0) {
        return false;
    }
    rqli_background_lock(background);
    at = rqli_hash_map_find(&background->shared.withdrawals, rqli_lock_hash(name, acquirer));
    while (at && !is_for(at, name, acquirer)) {
        at = rqli_hash_map_next(at);
    }
    rqli_background_unlock(background);
    return at != NULL;
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
