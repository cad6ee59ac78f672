#include "unit.h"

#include "base/clock.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/transfer.h"
#include "net/subscription.h"
#include "no_server.h"
#include "reply_tree.h"

#include <rql/rql.h>

/* What a reply or a hand-over means for a request. There is no server. */

enum { TTL_MS = 60000, COUNT = 2 };

static rql_client *client;
static rql_lock_options options;

BEFORE_EACH(set_up)
{
    client = client_without_server();
    rql_lock_options_init(client, &options);
    options.ttl_ms = TTL_MS;
}

AFTER_EACH(tear_down)
{
    client = rqli_client_free(client);
}

/* Asked for so long ago; 1 % of what is left is margin. */
static const struct age {
    const char *name;
    int64_t ago_ms;
    int64_t left_ms;
    bool is_taken;
} ages[] = {
    {"a fresh one", 0, TTL_MS, true},
    {"an old one", 58000, TTL_MS, true},
    {"its margin has begun", 59700, TTL_MS, false},
    {"it is over", 60001, TTL_MS, false},
    {"little is left", 4000, 5000, true},
    {"of little the margin has begun", 4970, 5000, false},
    {"nothing is left", 0, 0, false},
    {"it has no ttl", 0, -1, false},
};

TEST(a_grant_is_taken_while_it_is_in_force)
{
    EACH_ROW (row, ages) {
        int64_t sent_us = rqli_now_us() - row->ago_ms * 1000;
        rql_lock *lock = rqli_lock_new(client, "x", 0);
        const struct rqli_answer answer = {.kind = RQLI_ANSWER_GRANTED,
                                           .token = 7,
                                           .left_ms = row->left_ms,
                                           .nonce = rqli_slice_of(lock->nonce)};

        assert_int_equal(rqli_grant_by_answer(lock, &options, &answer, sent_us), row->is_taken);
        assert_true(!row->is_taken || lock->token == 7);
        rqli_lock_free(lock);
    }
}

/* By whom the lock was handed on here is sure of it for so long, and the server has said this. */
static const struct handed {
    const char *name;
    int64_t sure_ms;
    enum rqli_transfer_state state;
    bool is_taken;
} handed[] = {
    {"it is sure for a second", 1000, RQLI_TRANSFER_SENT, true},
    {"it is sure no more", 0, RQLI_TRANSFER_SENT, false},
    {"the server has heard of it", 1000, RQLI_TRANSFER_DONE, true},
    {"the server has refused it", 1000, RQLI_TRANSFER_FAILED, false},
};

TEST(what_is_handed_on_is_relied_on_as_long_as_by_the_one_before)
{
    EACH_ROW (row, handed) {
        rql_lock *lock = rqli_lock_new(client, "x", 0);
        struct rqli_transfer *transfer =
            rqli_transfer_new(client, lock->acquirer, lock->host, lock->nonce, &options);
        struct rqli_transfer *by = transfer;

        transfer->state = row->state;
        transfer->token = 7;
        transfer->begun_us = rqli_now_us();
        transfer->until_us = rqli_after_ms(transfer->begun_us, row->sure_ms);
        assert_int_equal(rqli_grant_by_transfer(lock, &options, &by), row->is_taken);
        assert_ptr_equal(lock->transfer, row->is_taken ? transfer : NULL);
        assert_ptr_equal(by, row->is_taken ? NULL : transfer);
        if (row->is_taken) {
            CHECK_ALL(EQ(lock->token, 7), EQ(lock->kept.lease.is_unconfirmed, true),
                      EQ(rqli_lease_end_us(&lock->kept.lease), transfer->until_us));
        }
        rqli_transfer_give(client, by);
        rqli_lock_free(lock);
    }
}

/* Two of a client that wait for a lock; the first asks, and it is granted. It may have been in the
 * queue, and the other too. */
/* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
static const struct grant {
    const char *name;
    const char *way; /* of the answer: 2, it was not in the queue */
    int64_t rank;
    bool is_cancelled;
    enum rqli_request_want want;
    bool other_asks;
} grants[] = {
    {"at once", "0", -1, false, RQLI_WANT_FINISH, false},
    {"in its turn", "0", 0, false, RQLI_WANT_FINISH, false},
    {"somebody has emptied the queue", "2", 0, false, RQLI_WANT_FINISH, true},
    {"it was never in the queue", "2", -1, false, RQLI_WANT_FINISH, false},
    {"nobody wants it any more", "0", 0, true, RQLI_WANT_TRY, false},
};

struct waiting {
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    rql_lock *lock;
};

static void join(struct waiting *self, uint64_t task)
{
    bool is_listening;

    self->lock = rqli_lock_new(client, "x", task);
    self->acquire = (struct rqli_acquire){.options = &options,
                                          .locks = &self->lock,
                                          .count = 1,
                                          .begun_us = rqli_now_us(),
                                          .result = &self->result};
    rqli_acquire_init(&self->acquire);
    CHECK_OK(
        rqli_push_threads_join(client->fleet.first.pushes, &self->acquire.waiter, &is_listening));
}

TEST(a_grant_ends_a_request_unless_nobody_wants_it)
{
    EACH_ROW (row, grants) {
        struct waiting ones[COUNT];
        struct rqli_exchange exchange = {.sent_us = rqli_now_us(), .received_us = rqli_now_us()};
        struct rqli_reply reply;
        char line[128];

        for (int i = 0; i < COUNT; i++) {
            join(&ones[i], (uint64_t)i + 1);
        }
        (void)snprintf(line, sizeof line, "1 1795254268468100 60000 99 0 %s %s", row->way,
                       ones[0].lock->nonce);
        reply = tree_text(line);
        ones[0].result.rank = row->rank;
        ones[0].acquire.op.is_cancelled = row->is_cancelled;
        ones[0].acquire.op.answered = ones[0].acquire.node;
        rqli_acquire_read(&ones[0].acquire, &exchange, &reply);
        assert_int_equal(rqli_request_next(&ones[0].acquire.request).want, row->want);
        assert_int_equal(ones[1].acquire.waiter.hinted, row->other_asks);
        for (int i = 0; i < COUNT; i++) {
            rqli_push_threads_leave(client->fleet.first.pushes, &ones[i].acquire.waiter);
            rqli_lock_free(ones[i].lock);
        }
    }
}
