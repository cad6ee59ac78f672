#include "check.h"

#include "base/clock.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "no_server.h"
#include "reply_tree.h"

#include <rql/admin.h>

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
        transfer->origin.n_chained = 3;
        transfer->origin.chain_us = 5;
        transfer->begun_us = rqli_now_us();
        transfer->until_us = rqli_after_ms(transfer->begun_us, row->sure_ms);
        assert_int_equal(rqli_grant_by_transfer(lock, &options, &by), row->is_taken);
        assert_ptr_equal(lock->transfer, row->is_taken ? transfer : NULL);
        assert_ptr_equal(by, row->is_taken ? NULL : transfer);
        if (row->is_taken) {
            CHECK_ALL(EQ(lock->token, 7), EQ(lock->origin.n_chained, 3),
                      EQ(lock->origin.chain_us, 5),
                      EQ(lock->kept.lease.claim, RQLI_LEASE_UNCONFIRMED),
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
    enum rqli_request_state state;
    bool other_asks;
} grants[] = {
    {"at once", "0", -1, false, RQLI_REQUEST_DONE, false},
    {"in its turn", "0", 0, false, RQLI_REQUEST_DONE, false},
    {"somebody has emptied the queue", "2", 0, false, RQLI_REQUEST_DONE, true},
    {"it was never in the queue", "2", -1, false, RQLI_REQUEST_DONE, false},
    {"nobody wants it any more", "0", 0, true, RQLI_REQUEST_TRYING, false},
};

struct waiting {
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    rql_lock *lock;
};

static void begin(struct waiting *self, uint64_t task)
{
    self->lock = rqli_lock_new(client, "x", task);
    self->acquire = (struct rqli_acquire){.options = &options,
                                          .locks = &self->lock,
                                          .count = 1,
                                          .begun_us = rqli_now_us(),
                                          .result = &self->result};
    rqli_acquire_init(&self->acquire);
    assert_true(rqli_wait_init(&self->acquire, &rqli_wait_on_thread));
    self->acquire.op.answered = self->acquire.node;
}

static void join(struct waiting *self, uint64_t task)
{
    bool is_listening;

    begin(self, task);
    CHECK_OK(rqli_pushes_join(self->acquire.pushes, &self->acquire.waiter, &is_listening));
}

TEST(a_grant_ends_a_request_unless_nobody_wants_it)
{
    EACH_ROW (row, grants) {
        struct waiting ones[COUNT];
        struct rqli_batch batch = {.sent_us = rqli_now_us(), .received_us = rqli_now_us()};
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
        rqli_acquire_read(&ones[0].acquire, &batch, &reply);
        assert_int_equal(ones[0].acquire.request.state, row->state);
        assert_int_equal(ones[1].acquire.waiter.hinted, row->other_asks);
        for (int i = 0; i < COUNT; i++) {
            rqli_pushes_leave(ones[i].acquire.pushes, &ones[i].acquire.waiter);
            rqli_lock_free(ones[i].lock);
        }
    }
}

/* The first three letters of what is asked: q or Q, what an own lock means, f for fail_fast. */
static void check_asked(struct waiting *self, const char *expected)
{
    struct rqli_call call;

    rqli_call_begin(&call, NULL);
    self->acquire.op.n_calls = 1;
    self->acquire.op.ops->write(&self->acquire.op, 0, &call);
    assert_memory_equal(call.args[5].data, expected, 3);
}

/* No client has been subscribed. */
static const struct first_try {
    const char *name;
    const char *asked;
    int64_t retry_count;
    int64_t timeout_ms;
    bool fail_fast;
    bool nested;
    bool holds_back;
} first_tries[] = {
    {"it waits", "qwf", RQL_FOREVER, 60000, false, false, true},
    {"it has several tries", "qwf", 2, 60000, false, false, true},
    {"it holds other locks", "Qwf", RQL_FOREVER, 60000, false, true, true},
    {"it has one try, and never waits", "qw-", 1, 60000, false, false, false},
    {"it has no time to wait", "qw-", RQL_FOREVER, 0, false, false, false},
    {"its caller does not wait", "qwf", RQL_FOREVER, 60000, true, false, false},
    {"nor does one that holds other locks", "qwf", RQL_FOREVER, 60000, true, true, false},
};

static void begin_first(struct waiting *self, const struct first_try *row)
{
    options.retry_count = row->retry_count;
    options.timeout_ms = row->timeout_ms;
    options.fail_fast = row->fail_fast;
    options.nested = row->nested;
    begin(self, 1);
    assert_true(rqli_acquire_begin(&self->acquire));
}

static void end_first(struct waiting *self)
{
    if (rqli_waiter_has_joined(&self->acquire.waiter)) {
        rqli_pushes_leave(self->acquire.pushes, &self->acquire.waiter);
    }
    rqli_lock_free(self->lock);
}

static void answer(struct waiting *self, const char *line, int64_t took_ms)
{
    int64_t now_us = rqli_now_us();
    struct rqli_batch batch = {.sent_us = now_us - took_ms * 1000, .received_us = now_us};
    struct rqli_reply reply = tree_text(line);

    rqli_acquire_read(&self->acquire, &batch, &reply);
}

TEST(a_first_try_stays_out_of_the_queue_if_its_request_waits_and_cannot_be_told)
{
    EACH_ROW (row, first_tries) {
        struct waiting self = {0};

        begin_first(&self, row);
        assert_int_equal(self.acquire.holds_back, row->holds_back);
        check_asked(&self, row->asked);
        end_first(&self);
    }
}

/* Whatever the reason: it waits for its client, with nothing on the server, and enters the queue
 * with its next try. A thread connects meanwhile, for as long, or for four round trips if they take
 * longer. */
TEST(who_is_held_back_listens_for_200_ms_and_then_enters_the_queue)
{
    static const struct {
        const char *name;
        const char *line;
        int64_t took_ms;
    } rows[] = {
        {"another holds it", "2 1795254268468100 5000", 1},
        {"it is free, and others are in front", "3 1795254268468100 -2", 1},
        {"the server pauses", "7 1795254268468100 1795254269468100", 1},
        {"the server is far", "2 1795254268468100 5000", 100},
    };

    EACH_ROW (row, rows) {
        struct waiting self = {0};
        struct rqli_request *request = &self.acquire.request;
        int64_t begun_us;

        begin_first(&self, first_tries);
        begun_us = rqli_now_us();
        answer(&self, row->line, row->took_ms);
        assert_int_equal(request->state, RQLI_REQUEST_QUEUED);
        assert_in_range(request->wake_us, begun_us + 200000, rqli_now_us() + 200000);
        assert_in_range(self.acquire.waiter.connect_us, begun_us + 4 * row->took_ms * 1000,
                        rqli_now_us() + 4 * row->took_ms * 1000);
        CHECK_ALL(EQ(request->in_queue, false),
                  EQ(rqli_waiter_has_joined(&self.acquire.waiter), true));
        check_asked(&self, "qw-");
        begun_us = rqli_now_us();
        answer(&self, "0 1795254268468100 5000 1 1 0 0 1795254268468000 other", 0);
        assert_in_range(request->place.lock_ends_us, begun_us + 5000000, rqli_now_us() + 5000000);
        end_first(&self);
    }
}
