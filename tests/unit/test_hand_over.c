#include "check.h"

#include "base/clock.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/hand_over.h"
#include "lock/server_clock.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "net/login/login.h"
#include "own_client.h"

#include <rql/admin.h>

/* Whom a release hands the lock to inside its client, and with what. There is no server. */

enum {
    TTL_MS = 60000,
    ROUND_TRIP_US = 3000,
    HELD_US = 40000,
    GENERATION = 3,
    META_MOST = 9,
    FIXED_ARGS = 7,
    NOT_YET_MS = -5000,
    AHEAD_US = 10000, /* lua/README.md 41 */
    NEAR_US = 9000,   /* within that */
    FAR_US = 60000000
};

#define NOW_US INT64_C(1795254268468100)
#define TOKEN (NOW_US - HELD_US)

/* Of a holder, and of one that sleeps behind it. */
/* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
static const struct row {
    const char *name;
    int n_chained; /* without the server, up to now */
    int64_t chained_ms;
    int64_t left_ms;   /* of the holder's lease; 0: all */
    bool is_elsewhere; /* it was granted over another connection */
    bool is_doubtful;  /* the server may have lost it */
    rql_lock_process process;
    rql_access_strategy access;
    size_t n_meta;
    bool is_behind_another;
    bool is_awake;
    bool is_chosen;
    int64_t seen;   /* the highest token that the client has seen, of any lock */
    bool is_silent; /* nothing is known of the server's clock; else it has just shown NOW_US */
} rows[] = {
    {"the first of a chain", .n_meta = 1, .is_chosen = true},
    {"with as much metadata as there is room for", .n_meta = META_MOST - 1, .is_chosen = true},
    {"with more", .n_meta = META_MOST},
    {"another lock has a larger token", .is_chosen = true, .seen = NOW_US + NEAR_US},
    {"the server's clock is behind its tokens", .seen = NOW_US + FAR_US},
    {"nothing is known of the server's clock", .is_silent = true},
    {"the last of a chain", .n_chained = 31, .chained_ms = NOT_YET_MS, .is_chosen = true},
    {"one more than that", .n_chained = 32, .chained_ms = NOT_YET_MS},
    {"a chain that is under way", .n_chained = 1, .chained_ms = 50, .is_chosen = true},
    {"a chain that has taken long", .n_chained = 1, .chained_ms = 101},
    {"that was long ago, and another one begins", .chained_ms = 101, .is_chosen = true},
    {"the lease is nearly over", .left_ms = 15},
    {"the lease is over", .left_ms = 1},
    {"the connection is another", .is_elsewhere = true},
    {"the lease is in doubt", .is_doubtful = true},
    {"a re-entry", .process = RQL_CONFLICT_WORK_THROUGH},
    {"a random request", .access = RQL_RANDOM},
    {"somebody is in front of it", .is_behind_another = true},
    {"it asks just now", .is_awake = true},
};

static rql_lock *hold(const struct row *row)
{
    rql_lock *lock = rqli_lock_new(client, "x", 1);
    int64_t now_us = rqli_now_us();
    const struct rqli_lease_terms terms = {
        .ttl_ms = TTL_MS,
        .left_ms = TTL_MS,
        .begun_us = row->left_ms
                        ? now_us - (TTL_MS - row->left_ms) * 1000 + rqli_lease_margin_us(TTL_MS)
                        : now_us,
        .max_hold_ms = RQL_FOREVER,
        .is_claimed = true,
    };

    rqli_lease_init(&lock->kept.lease, &terms);
    if (row->is_doubtful) {
        rqli_lease_on_doubt(&lock->kept.lease, now_us);
    }
    lock->process = row->process;
    lock->token = TOKEN;
    lock->ts_us = NOW_US;
    lock->begun_us = now_us - HELD_US;
    lock->origin.n_chained = row->n_chained;
    lock->origin.chain_us = now_us - row->chained_ms * 1000;
    lock->origin.carrier = row->is_elsewhere ? client : (void *)client->fleet.first.conns.each[0];
    lock->origin.generation = GENERATION;
    return lock;
}

/* What it has seen of the server: a token of another lock, and its clock. */
static void see(const struct row *row)
{
    struct rqli_era *era = rqli_client_era(client, &rqli_key_sets[RQLI_WHOLE]);
    int64_t now_us = rqli_now_us();
    const struct rqli_clock_reading reading = {now_us - ROUND_TRIP_US, now_us, NOW_US};

    *era = (struct rqli_era){0};
    rqli_era_on_token(era, row->seen);
    client->fleet.first.shared.clock_offset = (struct rqli_clock_offset){0};
    if (!row->is_silent) {
        rqli_server_clock_learn(client, &client->fleet.first, &reading);
    }
}

static void check_transfer(const struct rqli_hand_over *self, const struct row *row,
                           const rql_lock *next)
{
    const struct rqli_transfer *transfer = self->transfer;
    struct rqli_call call;

    assert_in_range(transfer->token, row->seen > 0 ? row->seen + 1 : NOW_US,
                    transfer->ts_us - ROUND_TRIP_US + AHEAD_US);
    CHECK_ALL(EQ(transfer->ttl_ms, TTL_MS), EQ(transfer->origin.n_chained, row->n_chained + 1),
              EQ(transfer->origin.generation, GENERATION),
              EQ(transfer->until_us, rqli_lease_end_us(&self->lock->kept.lease)),
              EQ(transfer->origin.chain_us,
                 row->n_chained > 0 ? self->lock->origin.chain_us : transfer->begun_us));
    rqli_call_begin(&call, NULL);
    rqli_hand_over_write(self, &call);
    assert_int_equal(call.n_args, FIXED_ARGS + 2 * row->n_meta);
    assert_string_equal(call.args[2].data, next->acquirer);
    assert_string_equal(call.args[3].data, next->nonce);
    if (row->n_meta > 0) {
        assert_string_equal(call.args[call.n_args - 2].data, "name");
        assert_string_equal(call.args[call.n_args - 1].data, "value");
    }
}

/* The server is known to have its token when it has confirmed the hand-over, and not before. */
static void check_token_counts_when_confirmed(const struct rqli_hand_over *self)
{
    const struct rqli_era *era = rqli_client_era(client, &rqli_key_sets[RQLI_WHOLE]);

    assert_true(era->floor < self->transfer->token);
    rqli_hand_over_on_done(self, rqli_now_us(), TTL_MS);
    assert_int_equal(era->floor, self->transfer->token);
}

TEST(a_release_hands_the_lock_to_who_sleeps_behind_it)
{
    static const rql_meta pair = {"name", "value"};
    rql_meta meta[META_MOST];

    for (size_t i = 0; i < META_MOST; i++) {
        meta[i] = pair;
    }
    EACH_ROW (row, rows) {
        rql_lock *lock = hold(row);
        rql_lock *next = rqli_lock_new(client, "x", 2);
        struct rqli_hand_over self = {.lock = lock};
        struct rqli_acquire_result result;
        struct rqli_acquire acquire = {.locks = &next, .count = 1, .result = &result};
        rql_lock_options options;
        bool is_listening;

        rql_lock_options_init(client, &options);
        options.ttl_ms = TTL_MS;
        options.access_strategy = row->access;
        options.meta = meta;
        options.n_meta = row->n_meta;
        see(row);
        acquire.options = &options;
        rqli_acquire_init(&acquire);
        assert_true(rqli_wait_init(&acquire, &rqli_wait_on_thread));
        rqli_wait_behind(&acquire,
                         rqli_slice_of(row->is_behind_another ? next->acquirer : lock->acquirer));
        CHECK_OK(rqli_pushes_join(acquire.pushes, &acquire.waiter, &is_listening));
        acquire.waiter.stay = row->is_awake ? RQLI_WAITER_ASKS : RQLI_WAITER_SLEEPS;
        assert_int_equal(rqli_hand_over_choose(&self), row->is_chosen);
        if (row->is_chosen) {
            check_transfer(&self, row, next);
            check_token_counts_when_confirmed(&self);
            rqli_hand_over_abandon(&self); /* then it is to ask */
        }
        assert_int_equal(acquire.waiter.hinted,
                         row->is_chosen || row->is_silent || row->seen == NOW_US + FAR_US);
        rqli_pushes_leave(acquire.pushes, &acquire.waiter);
        rqli_lock_free(next);
        rqli_lock_free(lock);
    }
}
