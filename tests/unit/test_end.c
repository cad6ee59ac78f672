#include "check.h"

#include "base/clock.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/leases.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "net/conn/push_threads.h"
#include "own_client.h"
#include "reply_tree.h"

#include <rql/admin.h>

/* The release of a lock that was handed on inside the client, when the server may not know of that
 * yet. The test is the driver of the operation, and the server. */

enum { LONG_MS = 60000, ROUNDS_MAX = 4 };

/* What the server answers to each call for the release, one letter a call: 1, it has released the
 * lock; 0, there is none. Before it is read: d, the server has heard of the hand-over; f, it has
 * refused it. w: the operation waits, until the next letter. */
static const struct row {
    const char *name;
    const char *turns;
    rql_status status;
} rows[] = {
    {"the hand-over was in front", "d1", RQL_OK},
    {"and its answer comes later", "1", RQL_OK},
    {"the release was in front, and the lock is there by now", "d01", RQL_OK},
    {"the release was in front, and the lock comes later", "0wd1", RQL_OK},
    {"the server has refused the hand-over", "f00", RQL_NOT_HELD},
    {"and says so later", "0wf0", RQL_NOT_HELD},
};

static rql_lock *handed_on(void)
{
    rql_lock *lock = rqli_lock_new(client, "x", 0);
    rql_lock_options options;

    rql_lock_options_init(client, &options);
    lock->transfer = rqli_transfer_new(client, lock->acquirer, lock->host, lock->nonce, &options);
    lock->origin.carrier = client->fleet.first.conns.each[0];
    lock->transfer->origin.carrier = lock->origin.carrier;
    lock->transfer->origin.generation = 1;
    rqli_leases_on_handed_on(client->leases, NULL, lock->transfer);
    lock->kept.lease.state = RQL_HELD;
    lock->kept.lease.deadline_us = rqli_after_ms(rqli_now_us(), LONG_MS);
    lock->kept.lease.host_end_us = RQLI_NEVER_US;
    lock->kept.lease.doubt_us = RQLI_NEVER_US;
    return lock;
}

/* Returns whether all turns were taken when it was over. */
static bool drive(struct rqli_op *op, rql_lock *lock, enum rqli_script_id script, const char *turns)
{
    struct rqli_batch batch = {.sent_us = rqli_now_us()};
    enum rqli_op_next next = op->ops->next(op);

    for (; next != RQLI_OP_OVER && *turns; turns++) {
        const char answer[] = {*turns, ' ', '0', ' ', '9', '\0'};
        struct rqli_reply reply = tree_text(answer);
        struct rqli_call call;

        if (*turns == 'd' || *turns == 'f') {
            rqli_leases_on_transferred(client->leases, lock->transfer, rqli_now_us(),
                                       *turns == 'd' ? LONG_MS : -1);
            next = next == RQLI_OP_WAIT ? op->ops->next(op) : next;
            continue;
        }
        assert_int_equal(next, *turns == 'w' ? RQLI_OP_WAIT : RQLI_OP_AGAIN);
        if (*turns == 'w') {
            continue;
        }
        rqli_call_begin(&call, NULL);
        op->ops->write(op, 0, &call);
        op->ops->placed(op);
        assert_int_equal(call.script, script);
        op->ops->read(op, 0, &batch, &reply, NULL);
        next = op->ops->next(op);
    }
    return next == RQLI_OP_OVER && !*turns;
}

TEST(a_release_that_finds_nothing_is_repeated_if_it_may_have_come_too_early)
{
    EACH_ROW (row, rows) {
        rql_lock *lock = handed_on();
        struct rqli_end_part part;
        struct rqli_end end;

        rqli_end_init(&end, &part, &lock, 1, NULL);
        assert_true(drive(&end.op, lock, RQLI_SCRIPT_RELEASE, row->turns));
        assert_int_equal(end.op.status, row->status);
        rqli_lock_free(lock);
    }
}

/* The answer to the re-entry was read after the outer hold had left the list. */
TEST(a_re_entry_that_is_listed_while_its_grant_is_released_has_ended)
{
    const struct rqli_batch batch = {.sent_us = rqli_now_us()};
    struct rqli_reply answer = tree_text("1 0");
    rql_lock *outer = granted_by(client, "x");
    rql_lock *inner = granted_by(client, "x");
    struct rqli_end_part part;
    struct rqli_end end;

    rqli_end_leases(&outer, 1);
    rqli_end_init(&end, &part, &outer, 1, NULL);
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
    inner->process = RQL_CONFLICT_WORK_THROUGH;
    memcpy(inner->grant_nonce, outer->nonce, sizeof inner->grant_nonce);
    CHECK_OK(rqli_leases_add(client->leases, inner, NULL));
    assert_int_equal(rql_lock_get_state(inner), RQL_HELD);
    end.op.ops->read(&end.op, 0, &batch, &answer, NULL);
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_OVER);
    assert_int_equal(rql_lock_get_state(inner), RQL_GONE);
    rqli_leases_remove(client->leases, &inner, 1);
    rqli_lock_free(inner);
    rqli_lock_free(outer);
}

/* The calls about a series go over any connection, so that none is in order behind the hand-over of
 * one of the locks. */
TEST(a_series_waits_for_the_hand_over_of_each_lock)
{
    static const struct {
        const char *name;
        bool is_settled; /* else there is no time left */
        rql_status status;
    } ends[] = {{"the server answers", true, RQL_OK}, {"no time is left", false, RQL_E_UNKNOWN}};

    EACH_ROW (row, ends) {
        const struct rqli_batch batch = {.sent_us = rqli_now_us()};
        rql_lock *locks[] = {rqli_lock_new(client, row->name, 0), handed_on()};
        struct rqli_reply answers[] = {tree_text(row->is_settled ? "1 0" : "0 0"),
                                       tree_text("1 0")};
        struct rqli_end_part parts[N_ROWS(locks)];
        struct rqli_end end;

        rqli_end_init(&end, parts, locks, N_ROWS(locks), NULL);
        end.op.until_us = rqli_after_ms(rqli_now_us(), LONG_MS);
        assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_WAIT);
        assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_WAIT);
        if (row->is_settled) {
            rqli_leases_on_transferred(client->leases, locks[1]->transfer, rqli_now_us(), LONG_MS);
        } else {
            end.op.until_us = 0;
        }
        assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
        for (size_t i = 0; i < N_ROWS(locks); i++) {
            end.op.ops->read(&end.op, i, &batch, &answers[i], NULL);
        }
        CHECK_ALL(EQ(end.op.ops->next(&end.op), RQLI_OP_OVER), EQ(end.op.status, row->status),
                  EQ(rqli_withdraw_is_open(client, locks[1]->name, locks[1]->acquirer),
                     !row->is_settled));
        rqli_lock_free(locks[0]);
        rqli_lock_free(locks[1]);
    }
}

struct next {
    rql_lock *lock;
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    rql_lock_options options;
};

/* One sleeps behind the holder of this lock. */
static void let_sleep(struct next *self, const rql_lock *behind)
{
    bool is_listening;

    rql_lock_options_init(client, &self->options);
    self->lock = rqli_lock_new(client, "x", 2);
    self->acquire = (struct rqli_acquire){
        .locks = &self->lock, .count = 1, .result = &self->result, .options = &self->options};
    rqli_acquire_init(&self->acquire);
    assert_true(rqli_wait_init(&self->acquire, &rqli_wait_on_thread));
    rqli_wait_behind(&self->acquire, rqli_slice_of(behind->acquirer));
    CHECK_OK(rqli_pushes_join(self->acquire.pushes, &self->acquire.waiter, &is_listening));
    self->acquire.waiter.stay = RQLI_WAITER_SLEEPS;
}

static void wake(struct next *self)
{
    rqli_pushes_leave(self->acquire.pushes, &self->acquire.waiter);
    rqli_transfer_give(client, self->acquire.waiter.handed);
    rqli_lock_free(self->lock);
}

/* The gem takes 2 ms less back than were not used, and so do we. */
enum { USED_MS = 500, SLACK_MS = 2 };

/* Nobody answers, and there is no time to repeat anything. leave.lua, which withdraws, would take
 * back all that a re-entry has added, and with it the rest of the grant that it shares. */
static const struct silent_end {
    const char *name; /* of the lock, too */
    rql_lock_process process;
    bool is_withdrawn;
} silent_ends[] = {
    {"extension", RQL_EXTENDABLE_CONFLICT_WORK_THROUGH, false},
    {"grant", RQL_LOCK_OBTAINING, true},
};

TEST(an_end_without_an_answer_is_withdrawn_unless_it_is_that_of_an_extension)
{
    EACH_ROW (row, silent_ends) {
        const rql_error fault = {.status = RQL_E_UNKNOWN};
        const struct rqli_batch batch = {.sent_us = rqli_now_us()};
        rql_lock *lock = rqli_lock_new(client, row->name, 0);
        struct rqli_end_part part;
        struct rqli_end end;
        int64_t late_ms;

        lock->process = row->process;
        lock->ttl_ms = LONG_MS;
        lock->begun_us = rqli_now_us() - USED_MS * 1000;
        rqli_end_init(&end, &part, &lock, 1, NULL);
        late_ms = (end.begun_us - lock->begun_us) / 1000 - USED_MS; /* on a busy machine */
        assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
        end.op.until_us = 0;
        end.op.ops->read(&end.op, 0, &batch, NULL, &fault);
        assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_OVER);
        CHECK_ALL(
            EQ(end.op.status, RQL_E_UNKNOWN),
            EQ(rqli_withdraw_is_open(client, lock->name, lock->acquirer), row->is_withdrawn),
            EQ(part.unused_ms, row->is_withdrawn ? 0 : LONG_MS - USED_MS - late_ms - SLACK_MS));
        rqli_lock_free(lock);
    }
}

/* In capitals: a re-entry, which ends before all grants. */
TEST(a_series_ends_in_the_reverse_order)
{
    static const struct {
        const char *name;
        const char *ends;
    } series[] = {{"abcd", "dcba"}, {"aBcD", "DBca"}, {"AB", "BA"}};

    EACH_ROW (row, series) {
        size_t count = strlen(row->name);
        rql_lock *locks[ROUNDS_MAX];
        struct rqli_end_part parts[ROUNDS_MAX];
        struct rqli_end end;

        for (size_t i = 0; i < count; i++) {
            const char name[] = {row->name[i], '\0'};

            locks[i] = rqli_lock_new(client, name, 0);
            locks[i]->ttl_ms = LONG_MS;
            locks[i]->begun_us = rqli_now_us();
            locks[i]->process =
                name[0] < 'a' ? RQL_EXTENDABLE_CONFLICT_WORK_THROUGH : RQL_LOCK_OBTAINING;
        }
        rqli_end_init(&end, parts, locks, count, NULL);
        assert_int_equal(end.op.n_calls + end.n_later, count);
        assert_ptr_equal(end.later, parts + end.op.n_calls);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(parts[i].lock->name[0], row->ends[i]);
        }
        for (size_t i = 0; i < count; i++) {
            rqli_lock_free(locks[i]);
        }
    }
}

/* What comes of each call for the release of a lock, one letter a call: 1 and 0 as above; p, it has
 * released it, and a part of the queue is still to be served; u, no answer; i, it was not sent; r,
 * refused. */
static const struct course {
    const char *name;
    const char *calls;
    rql_status status;
    rql_status believed; /* by the holder, up to then */
} courses[] = {
    {"at once", "1", RQL_OK, RQL_OK},
    {"it had ended", "0", RQL_NOT_HELD, RQL_OK},
    {"it is refused", "r", RQL_E_AUTH, RQL_OK},
    {"it is not sent at first", "i1", RQL_OK, RQL_OK},
    {"nor had it been there", "i0", RQL_NOT_HELD, RQL_OK},
    {"nor may it be done later", "ir", RQL_E_AUTH, RQL_OK},
    {"the call without an answer has done it", "u0", RQL_OK, RQL_OK},
    {"or its holder knew that it had ended", "u0", RQL_NOT_HELD, RQL_NOT_HELD},
    {"the call without an answer has not done it", "ui1", RQL_OK, RQL_OK},
    {"nobody knows what the call without an answer has done", "uir", RQL_E_UNKNOWN, RQL_OK},
    {"others are served by further calls", "pp1", RQL_OK, RQL_OK},
    {"a fault ends that", "pu", RQL_OK, RQL_OK},
};

static void take_turn(struct rqli_end *end, size_t at, char turn)
{
    static const struct {
        char letter;
        rql_status status;
    } faults[] = {{'u', RQL_E_UNKNOWN}, {'i', RQL_E_IO}, {'r', RQL_E_AUTH}};
    const struct rqli_batch batch = {.sent_us = rqli_now_us()};
    const char answer[] = {turn == '0' ? '0' : '1', ' ', turn == 'p' ? '2' : '0', '\0'};
    struct rqli_reply reply = tree_text(answer);
    struct rqli_call call;

    rqli_call_begin(&call, NULL);
    end->op.ops->write(&end->op, at, &call);
    assert_int_equal(call.script, RQLI_SCRIPT_RELEASE);
    for (size_t i = 0; i < N_ROWS(faults); i++) {
        if (faults[i].letter == turn) {
            const rql_error fault = {.status = faults[i].status};

            end->op.ops->read(&end->op, at, &batch, NULL, &fault);
            return;
        }
    }
    end->op.ops->read(&end->op, at, &batch, &reply, NULL);
}

TEST(a_release_is_repeated_while_its_fault_may_pass)
{
    EACH_ROW (row, courses) {
        rql_lock *lock = rqli_lock_new(client, "x", 0);
        struct rqli_end_part part;
        struct rqli_end end;
        enum rqli_op_next next;

        lock->kept.lease.state = row->believed ? RQL_GONE : RQL_HELD;
        lock->kept.lease.deadline_us = rqli_after_ms(rqli_now_us(), LONG_MS);
        lock->kept.lease.host_end_us = lock->kept.lease.doubt_us = RQLI_NEVER_US;
        rqli_end_init(&end, &part, &lock, 1, NULL);
        end.op.until_us = rqli_after_ms(rqli_now_us(), LONG_MS);
        next = end.op.ops->next(&end.op);
        for (const char *turn = row->calls; *turn; turn++) {
            int64_t now_us = rqli_now_us();

            assert_int_equal(next, RQLI_OP_AGAIN);
            take_turn(&end, 0, *turn);
            next = end.op.ops->next(&end.op);
            if ((*turn == 'u' || *turn == 'i') && turn[1]) { /* not in a circle */
                assert_in_range(end.op.again_us, now_us + 20000, rqli_now_us() + 20000);
            }
        }
        CHECK_ALL(EQ(next, RQLI_OP_OVER), EQ(end.op.status, row->status));
        rqli_lock_free(lock);
    }
}

/* Status and message are about the same lock, also where another had a fault that passed. */
TEST(a_series_fails_with_the_fault_of_one_lock)
{
    rql_lock *locks[] = {rqli_lock_new(client, "x", 0), rqli_lock_new(client, "y", 0)};
    struct rqli_end_part parts[N_ROWS(locks)];
    struct rqli_end end;

    rqli_end_init(&end, parts, locks, N_ROWS(locks), NULL);
    end.op.until_us = rqli_after_ms(rqli_now_us(), LONG_MS);
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
    take_turn(&end, 0, 'r');
    take_turn(&end, 1, 'u');
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
    take_turn(&end, 0, '1');
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_OVER);
    CHECK_ALL(EQ(end.op.status, RQL_E_AUTH), EQ(end.error.status, RQL_E_AUTH));
    rqli_lock_free(locks[0]);
    rqli_lock_free(locks[1]);
}

/* ---- what is handed on ---- */

static rql_lock *held(void)
{
    rql_lock *lock = handed_on();

    rqli_leases_on_transferred(client->leases, lock->transfer, rqli_now_us(), LONG_MS);
    rqli_transfer_give(client, lock->transfer);
    lock->transfer = NULL;
    return lock;
}

/* It is put into the stream. */
static struct rqli_call hand_on(struct rqli_end *end)
{
    struct rqli_call call;

    assert_int_equal(end->op.ops->next(&end->op), RQLI_OP_AGAIN);
    rqli_call_begin(&call, NULL);
    end->op.ops->write(&end->op, 0, &call);
    end->op.ops->placed(&end->op);
    assert_int_equal(call.script, RQLI_SCRIPT_TRANSFER);
    return call;
}

/* Neither the new owner nor the one that it has handed the lock on to may rely on it. What the
 * server may have heard of that is withdrawn, and the lock is released as any other. */
TEST(a_hand_over_that_the_server_cannot_take_leaves_the_lock_to_nobody)
{
    const rql_error fault = {.status = RQL_E_UNAVAILABLE};
    const struct rqli_batch batch = {.sent_us = rqli_now_us()};
    struct rqli_reply reply = tree_text("1 0");
    rql_lock *lock = held();
    rql_lock *last = rqli_lock_new(client, "x", 3);
    struct rqli_transfer *onward;
    struct rqli_end_part part;
    struct rqli_end end;
    struct rqli_call call;
    struct next next;

    let_sleep(&next, lock);
    onward = rqli_transfer_new(client, last->acquirer, last->host, last->nonce, &next.options);
    rqli_end_init(&end, &part, &lock, 1, NULL);
    (void)hand_on(&end);
    rqli_leases_on_handed_on(client->leases, next.acquire.waiter.handed, onward);
    end.op.ops->read(&end.op, 0, &batch, NULL, &fault);
    CHECK_ALL(EQ(next.acquire.waiter.handed->state, RQLI_TRANSFER_FAILED),
              EQ(onward->state, RQLI_TRANSFER_FAILED), EQ(onward->is_refused, true),
              EQ(rqli_withdraw_is_open(client, next.lock->name, next.lock->acquirer), true));
    assert_int_equal(end.op.ops->next(&end.op), RQLI_OP_AGAIN);
    rqli_call_begin(&call, NULL);
    end.op.ops->write(&end.op, 0, &call);
    assert_int_equal(call.script, RQLI_SCRIPT_RELEASE);
    assert_string_equal(call.args[0].data, lock->nonce);
    end.op.ops->read(&end.op, 0, &batch, &reply, NULL);
    CHECK_ALL(EQ(end.op.ops->next(&end.op), RQLI_OP_OVER), EQ(end.op.status, RQL_OK));
    rqli_transfer_give(client, onward);
    wake(&next);
    rqli_lock_free(last);
    rqli_lock_free(lock);
}

/* 1: it was withdrawn, and the lock is nobody's. */
TEST(a_hand_over_ends_as_the_server_says)
{
    static const struct {
        const char *name;
        const char *answer;
        rql_status status;
    } scripts[] = {
        {"refused", "1 0", RQL_NOT_HELD},
        {"done", "4 0 9000", RQL_OK},
    };

    EACH_ROW (row, scripts) {
        const struct rqli_batch batch = {.sent_us = rqli_now_us()};
        struct rqli_reply reply = tree_text(row->answer);
        rql_lock *lock = held();
        struct rqli_end_part part;
        struct rqli_end end;
        struct next next;

        lock->origin.generation = 1;
        let_sleep(&next, lock);
        rqli_end_init(&end, &part, &lock, 1, NULL);
        (void)hand_on(&end);
        end.op.ops->read(&end.op, 0, &batch, &reply, NULL);
        CHECK_ALL(EQ(end.op.ops->next(&end.op), RQLI_OP_OVER), EQ(end.op.status, row->status),
                  EQ(next.acquire.waiter.handed->state,
                     row->status ? RQLI_TRANSFER_FAILED : RQLI_TRANSFER_DONE));
        wake(&next);
        rqli_lock_free(lock);
    }
}
