#include "check.h"

#include "base/clock.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "lock/leases.h"
#include "lock/series.h"
#include "lock/sharing.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "lock/withdraw.h"
#include "no_server.h"
#include "reply_tree.h"
#include "wait.h"

#include <rql/admin.h>
#include <unistd.h>

/* What the leases of a client believe, and who is told of what. There is no server. */

enum { LONG_MS = 60000, AWAIT_MS = 10000, OTHERS = 200, NONCE_LENGTH = RQLI_HEX_SIZE - 1 };

static rql_client *client;
static struct rqli_leases *leases;
static struct rqli_background *background;

BEFORE_EACH(set_up)
{
    client = client_without_server();
    leases = client->leases;
    background = client->background;
}

AFTER_EACH(tear_down)
{
    client = rqli_client_free(client);
}

static rql_lock *granted(const char *name)
{
    return granted_by(client, name);
}

static rql_lock *held(const char *name)
{
    rql_lock *lock = granted(name);

    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    return lock;
}

static void end(rql_lock *lock)
{
    rqli_leases_remove(leases, &lock, 1);
    rqli_lock_free(lock);
}

static rql_lock_state state_of(const rql_lock *lock)
{
    const struct rqli_lease lease = rqli_leases_lease(leases, lock);

    return rqli_lease_state(&lease, rqli_now_us());
}

/* The nonce is from a reply, and may be anything. */
static const struct taken {
    const char *name;
    size_t length;
    bool is_ours;
    rql_lock_state state;
} taken[] = {
    {"another's", NONCE_LENGTH, false, RQL_HELD},
    {"the begin of it", NONCE_LENGTH - 1, true, RQL_HELD},
    {"more than it", NONCE_LENGTH + 1, true, RQL_HELD},
    {"none", 0, true, RQL_HELD},
    {"it", NONCE_LENGTH, true, RQL_GONE},
};

TEST(whoever_shares_a_grant_that_was_taken_away_has_lost_its_lock)
{
    rql_lock *outer = held("x");
    rql_lock *inner = held("x");
    rql_lock *other = held("y");

    memcpy(inner->grant_nonce, outer->nonce, sizeof inner->grant_nonce);
    EACH_ROW (row, taken) {
        const struct rqli_slice nonce = {row->is_ours ? outer->nonce : client->identity,
                                         row->length};

        rqli_leases_on_taken(leases, nonce);
        CHECK_ALL(EQ(state_of(outer), row->state), EQ(state_of(inner), row->state),
                  EQ(state_of(other), RQL_HELD));
    }
    end(inner);
    end(outer);
    end(other);
}

/* Others count from when the server has heard of it, and by their clocks. */
static const struct silence {
    const char *name;
    int64_t ms;
    int64_t at_us;
    bool is_overdue;
} silences[] = {
    {"its margin has not begun", 10000, 9899999, false},
    {"its margin begins", 10000, 9900000, true},
    {"others believe that it is dead", 10000, 10000000, true},
};

TEST(a_host_counts_as_dead_here_before_it_does_elsewhere)
{
    int64_t now_us = rqli_now_us();
    rql_lock *lock = held("x");
    const struct rqli_key_set *set = lock->keys.set;
    rql_lock *later;

    EACH_ROW (row, silences) {
        rqli_leases_on_probed(leases, set, now_us, row->ms);
        rqli_leases_rebind(leases);
        assert_int_equal(rqli_leases_is_overdue(leases, set, now_us + row->at_us), row->is_overdue);
        assert_int_equal(rqli_leases_lease(leases, lock).host_end_us <= now_us + row->at_us,
                         row->is_overdue);
    }
    later = held("y");
    assert_int_equal(rqli_leases_lease(leases, later).host_end_us,
                     rqli_leases_lease(leases, lock).host_end_us);
    end(later);
    end(lock);
}

/* A host that the server still knows of can be found dead. */
TEST(a_partition_is_left_by_the_last_host)
{
    rql_client *clustered = client_without_cluster();
    struct rqli_leases *own = clustered->leases;
    const struct rqli_key_set *set = rqli_client_key_set(clustered, "x");
    int64_t now_us = rqli_now_us();

    rqli_leases_on_probed(own, set, now_us - LONG_MS * 1000, LONG_MS);
    assert_true(rqli_leases_is_overdue(own, set, now_us));
    rqli_leases_on_left(own, set);
    assert_false(rqli_leases_is_overdue(own, set, now_us)); /* no host there can be found dead */
    rqli_hosts_open(clustered->hosts, 1, NULL, NULL);
    rqli_hosts_meet(clustered->hosts, set, 5);
    assert_true(rqli_hosts_must_tell(clustered->hosts, set, 5, LONG_MS));
    rqli_leases_on_probed(own, set, now_us - LONG_MS * 1000, LONG_MS);
    rqli_leases_on_left(own, set);
    assert_true(rqli_leases_is_overdue(own, set, now_us));
    rqli_client_free(clustered);
}

/* Only the thread verifies, and only what it is to look at again. */
TEST(a_doubtful_lock_is_verified_though_it_is_not_to_be_renewed)
{
    rql_lock *locks[] = {held("x"), granted("y")};

    background->worker.is_started = true; /* the test is the thread */
    locks[1]->kept.lease.renews = true;
    CHECK_OK(rqli_leases_add(leases, locks[1], NULL));
    for (int doubts = 0; doubts < 2; doubts++) {
        if (doubts) {
            rqli_lease_on_doubt(&locks[1]->kept.lease, rqli_now_us());
        }
        rqli_leases_stop_renewal(leases, locks, 2);
        assert_false(locks[1]->kept.lease.renews);
        assert_int_equal(rqli_lease_renewal_us(&locks[0]->kept.lease), RQLI_NEVER_US);
        assert_int_equal(rqli_lease_renewal_us(&locks[1]->kept.lease) == RQLI_NEVER_US, !doubts);
    }
    end(locks[1]);
    end(locks[0]);
    background->worker.is_started = false;
}

TEST(what_is_renewed_by_one_is_nobody_elses)
{
    rql_lock *lock = granted("x");
    char acquirer[RQL_ID_SIZE];

    assert_false(rqli_leases_extends(leases, "x", lock->acquirer));
    lock->kept.lease.renews = true;
    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    assert_true(rqli_leases_extends(leases, "x", lock->acquirer));
    for (uint64_t task = 1; task < OTHERS; task++) { /* more than there are buckets */
        rqli_acquirer_id(acquirer, task, client->identity);
        assert_false(rqli_leases_extends(leases, "x", acquirer));
        assert_false(rqli_leases_extends(leases, acquirer, lock->acquirer));
    }
    rqli_leases_remove(leases, &lock, 1);
    assert_false(rqli_leases_extends(leases, "x", lock->acquirer));
    rqli_lock_free(lock);
}

/* A lock that the thread looks after. */
static rql_lock *watched(const char *name)
{
    rql_lock *lock = held(name);
    int fd;

    background->worker.is_started = true; /* the test is the thread */
    CHECK_OK(rqli_leases_lost_fd(leases, lock, &fd, NULL));
    background->worker.is_started = false;
    return lock;
}

/* One whose renewal is under way in this batch. */
static rql_lock *asked_for(const char *name, struct rqli_duty_batch *batch)
{
    rql_lock *lock = watched(name);

    lock->kept.duty.batch = batch;
    batch->item[batch->count++].duty = &lock->kept.duty;
    return lock;
}

TEST(the_reply_to_a_renewal_finds_nothing_of_what_was_released_meanwhile)
{
    struct rqli_duty_batch *batch = &background->shared.batch;
    rql_lock *released = asked_for("x", batch);
    rql_lock *kept = asked_for("y", batch);

    end(released);
    assert_null(batch->item[0].duty);
    assert_ptr_equal(batch->item[1].duty, &kept->kept.duty);
    end(kept);
    batch->count = 0;
}

/* A renewal of a lock that was held alone may be refused because the lock was shared meanwhile, and
 * others have joined. */
TEST(a_refused_renewal_from_before_the_lock_was_shared_is_no_loss)
{
    static const struct {
        const char *name;
        bool is_lowering, is_lowered, was_shared;
        rql_lock_state state;
    } cases[] = {
        {"held alone", false, false, false, RQL_GONE},
        {"it is being shared", true, false, false, RQL_HELD},
        {"it was shared meanwhile", true, true, false, RQL_HELD},
        {"it was shared before", true, true, true, RQL_GONE},
    };
    static const struct rqli_share reader = {1, 2, false};

    EACH_ROW (row, cases) {
        struct rqli_duty_batch *batch = &background->shared.batch;
        rql_lock *lock = asked_for("x", batch);
        struct rqli_duty *duty = &lock->kept.duty;
        const struct rqli_reply refused = tree_text("0 5");
        const struct rqli_batch answer = {.sent_us = rqli_now_us()};
        struct rqli_call call;

        if (row->was_shared) {
            rqli_leases_on_lowered(leases, lock, &reader, NULL);
        }
        rqli_call_begin(&call, NULL);
        duty->ops->write(duty, &call);
        assert_int_equal(call.script,
                         row->was_shared ? RQLI_SCRIPT_EXTEND_SHARED : RQLI_SCRIPT_EXTEND);
        if (row->is_lowering) {
            assert_true(rqli_leases_on_lowering(leases, lock));
        }
        if (row->is_lowered) {
            rqli_leases_on_lowered(leases, lock, &reader, NULL);
        }
        rqli_background_lock(background);
        duty->ops->read(duty, &answer, &refused, RQL_OK);
        rqli_background_unlock(background);
        assert_int_equal(state_of(lock) == RQL_GONE, row->state == RQL_GONE);
        end(lock);
        batch->count = 0;
    }
}

/* A renewal is repeated where the server has asked for that. Its caller may have extended the lock
 * since it was sent. */
TEST(a_renewal_that_is_repeated_too_early_is_planned_again)
{
    rql_lock *lock = watched("x");
    struct rqli_duty *duty = &lock->kept.duty;
    struct rqli_lease *lease = &lock->kept.lease;
    const int64_t now_us = rqli_now_us();

    lease->renews = true;
    rqli_background_lock(background);
    rqli_lease_on_extended(lease, now_us, LONG_MS);
    assert_false(duty->ops->begin(duty, now_us));
    assert_true(lease->renews);
    assert_int_equal(duty->due.at_us, rqli_lease_renewal_us(lease));
    assert_true(duty->ops->begin(duty, rqli_lease_renewal_us(lease)));
    rqli_background_unlock(background);
    end(lock);
}

/* A lock that was handed over lives for a second until then, and was granted for longer. */
TEST(what_a_thread_that_has_ended_was_handed_over_is_claimed_and_not_renewed)
{
    rql_lock *lock = watched("x");
    struct rqli_duty *duty = &lock->kept.duty;
    struct rqli_lease *lease = &lock->kept.lease;
    const int64_t now_us = rqli_now_us();
    const uint64_t thread = lock->owner_thread;

    lease->renews = true;
    lease->claim = RQLI_LEASE_UNCLAIMED;
    lease->renew_us = now_us;
    lock->owner_thread = UINT64_MAX; /* none has this number */
    rqli_background_lock(background);
    assert_true(duty->ops->begin(duty, now_us));
    assert_in_range(lock->kept.asks_ms, LONG_MS - AWAIT_MS, LONG_MS);
    rqli_lease_on_extended(lease, now_us, LONG_MS);
    assert_int_equal(rqli_lease_renewal_us(lease), RQLI_NEVER_US);
    rqli_background_unlock(background);
    lock->owner_thread = thread;
    end(lock);
}

/* The server may have lost it. */
TEST(a_lock_in_doubt_of_a_thread_that_has_ended_is_verified)
{
    rql_lock *lock = watched("x");
    struct rqli_lease *lease = &lock->kept.lease;
    const uint64_t thread = lock->owner_thread;
    int64_t now_us;
    bool is_sent;

    lease->renews = true;
    lock->owner_thread = UINT64_MAX; /* none has this number */
    rqli_leases_doubt(leases, NULL, NULL);
    rqli_background_lock(background);
    now_us = rqli_now_us();
    is_sent = lock->kept.duty.ops->begin(&lock->kept.duty, now_us);
    rqli_background_unlock(background);
    assert_true(is_sent);
    assert_in_range(lock->kept.asks_ms, 1, (uint64_t)(lease->deadline_us - now_us) / 1000);
    rqli_leases_on_extended(leases, lock, now_us, lock->kept.asks_ms);
    assert_int_equal(rqli_lease_renewal_us(lease), RQLI_NEVER_US);
    lock->owner_thread = thread;
    end(lock);
}

static void count_asked(rql_lock *lock, const rql_wanted *wanted, void *n_asked)
{
    (void)lock;
    assert_int_equal(wanted->waiters, -1);
    ++*(int *)n_asked;
}

static int64_t cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

enum { MANY = 16000 };

/* Returns how long this thread works when a client that holds so many locks is drained. */
static int64_t time_to_ask(size_t count)
{
    static rql_lock *locks[MANY];
    int n_asked = 0;
    int64_t took_us;

    for (size_t i = 0; i < count; i++) {
        locks[i] = held("x");
        locks[i]->on_wanted = count_asked;
        locks[i]->on_wanted_data = &n_asked;
    }
    background->worker.is_started = true; /* the test is the thread */
    client->is_draining = true;
    assert_true(rqli_leases_drain(leases, RQLI_NEVER_US));
    took_us = cpu_us();
    (void)rqli_background_step(&background->worker);
    took_us = cpu_us() - took_us;
    assert_int_equal(n_asked, count);
    assert_true(rqli_leases_drain(leases, RQLI_NEVER_US));
    (void)rqli_background_step(&background->worker);
    assert_int_equal(n_asked, count); /* once */
    background->worker.is_started = false;
    client->is_draining = false;
    for (size_t i = 0; i < count; i++) {
        end(locks[i]);
    }
    return took_us;
}

/* Of 16 times as many locks, each takes longer only because they do not fit into a cache. */
TEST(many_holders_are_asked_in_a_time_that_grows_with_their_number)
{
    int64_t few_us = time_to_ask(MANY / 16);
    int64_t many_us = time_to_ask(MANY);

    print_message("# %lld us, %lld us\n", (long long)few_us, (long long)many_us);
    assert_true(many_us < (few_us + 1) * 100);
}

/* What its thread finds, which does not run here. */
/* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
static const struct step {
    const char *name;
    bool shall_stop;
    size_t n_unclaimed;
    int64_t left_ms;
    bool is_over;
} steps[] = {
    {"it is to go on", false, 0, 0, false},
    {"nothing is left to do", true, 0, LONG_MS, true},
    {"a forgotten lock is not claimed yet", true, 1, LONG_MS, false},
    {"and there is no more time for it", true, 1, 0, true},
};

TEST(a_client_ends_when_all_is_claimed_or_its_time_is_over)
{
    EACH_ROW (row, steps) {
        background->shared.n_adopted = row->n_unclaimed;
        background->shared.stop_us =
            row->shall_stop ? rqli_after_ms(rqli_now_us(), row->left_ms) : RQLI_NEVER_US;
        assert_int_equal(rqli_background_step(&background->worker) == RQLI_WORKER_OVER,
                         row->is_over);
    }
    background->shared.n_adopted = 0;
}

/* Its claim was tried for longer than the second that the hand-over lasts. */
TEST(a_lock_whose_loss_was_reported_is_not_kept_when_it_is_forgotten)
{
    rql_lock *lock = held("x");

    lock->kept.lease.claim = RQLI_LEASE_UNCLAIMED;
    lock->kept.lease.is_reported = true;
    rqli_leases_adopt(leases, lock);
    assert_int_equal(background->shared.n_adopted, 0);
}

/* A short hold wakes nobody: while leases come and go there is a look before a hand-over has to be
 * claimed. */
TEST(the_thread_looks_again_soon_while_leases_come_and_go)
{
    for (int n_added = 1; n_added >= 0; n_added--) {
        int64_t now_us = rqli_now_us();
        int64_t again_us;

        background->shared.n_added = (unsigned)n_added;
        again_us = rqli_background_step(&background->worker);
        if (n_added > 0) {
            assert_in_range(again_us, now_us, rqli_now_us() + 150000);
        } else {
            assert_int_equal(again_us, RQLI_NEVER_US);
        }
    }
}

/* Again and again, also at the end of its client, until its time is over: then it is dropped. */
TEST(what_is_to_be_withdrawn_is_tried_again_when_it_is_due)
{
    static const struct {
        const char *name;
        bool shall_stop;
        int64_t left_ms;
        bool is_over;
    } rows[] = {
        {"its client lives", false, 0, false},
        {"its client is about to end", true, LONG_MS, false},
        {"and there is no more time for it", true, 0, true},
    };

    rql_lock *lock = granted("x");

    background->worker.is_started = true; /* the test is the thread */
    rqli_withdraw_lock_later(lock, LONG_MS);
    EACH_ROW (row, rows) {
        int64_t again_us;

        background->shared.stop_us =
            row->shall_stop ? rqli_after_ms(rqli_now_us(), row->left_ms) : RQLI_NEVER_US;
        again_us = rqli_background_step(&background->worker);
        if (row->is_over) {
            assert_int_equal(again_us, RQLI_WORKER_OVER);
        } else {
            assert_int_equal(again_us, rqli_timers_first_us(&background->shared.others));
            assert_true(again_us < rqli_after_ms(rqli_now_us(), LONG_MS));
        }
        assert_int_equal(rqli_withdraw_is_open(client, lock->name, lock->acquirer), !row->is_over);
    }
    background->worker.is_started = false;
    rqli_lock_free(lock);
}

/* The duty that is due first. Caller holds the mutex. */
static struct rqli_duty *first_duty(void)
{
    assert_true(background->shared.others.count > 0);
    return RQLI_OWNER(background->shared.others.items[1], struct rqli_duty, due);
}

/* Its call is begun at this time, and answered. The test is the thread. */
static void withdraw_at(int64_t now_us, const char *answer)
{
    const struct rqli_reply reply = tree_text(answer);
    struct rqli_duty *duty;

    rqli_background_lock(background);
    duty = first_duty();
    assert_true(duty->ops->begin(duty, now_us));
    duty->ops->read(duty, NULL, &reply, RQL_OK);
    rqli_background_unlock(background);
}

/* Has a withdrawal that the server has answered twice, and returns its lock. */
static rql_lock *settled(const char *name)
{
    rql_lock *lock = granted(name);

    background->worker.is_started = true; /* the test is the thread */
    rqli_withdraw_lock_later(lock, LONG_MS);
    withdraw_at(rqli_now_us(), "0 0");
    withdraw_at(rqli_now_us(), "0 0");
    assert_false(rqli_withdraw_is_open(client, lock->name, lock->acquirer));
    return lock;
}

/* The server may read what was sent before over another connection after a withdrawal. It reads
 * nothing more when it refuses that; this limit is the last call's. */
TEST(what_is_withdrawn_is_asked_for_until_nothing_is_there_again)
{
    static const struct {
        const char *name;
        const char *answer;
        bool is_refused; /* what was sent, when the call is begun */
        bool is_open;
        bool is_over;
    } rows[] = {
        {"the request may still be on its way", "0 0", false, true, false},
        {"and a poll of it", "1 0", false, true, false},
        {"the queue is not served yet", "0 2", false, true, false},
        {"nothing is there again", "0 1", false, false, false},
        {"nor later, but something may come yet", "0 1", false, false, false},
        {"what has come is given back", "2 1", true, true, false},
        {"nothing is there, nor can it come any more", "0 1", true, false, true},
    };

    const int64_t begun_us = rqli_now_us();
    const int64_t way_us = 2 * client->options.io_timeout_ms * 1000;
    rql_lock *lock = granted("x");

    background->worker.is_started = true; /* the test is the thread */
    rqli_withdraw_lock_later(lock, LONG_MS);
    EACH_ROW (row, rows) {
        int64_t now_us = rqli_now_us();

        withdraw_at(now_us + (row->is_refused ? way_us : 0), row->answer);
        CHECK_ALL(EQ(rqli_withdraw_is_open(client, lock->name, lock->acquirer), row->is_open),
                  EQ(background->shared.others.count, row->is_over ? 0 : 1));
        if (!row->is_open && !row->is_over) {
            assert_in_range(rqli_timers_first_us(&background->shared.others), begun_us + way_us,
                            now_us + way_us);
        }
    }
    background->worker.is_started = false;
    rqli_lock_free(lock);
}

TEST(the_end_of_a_client_does_not_wait_for_the_last_withdrawal)
{
    rql_lock *lock = settled("x");

    background->shared.stop_us = rqli_after_ms(rqli_now_us(), LONG_MS);
    assert_int_equal(rqli_background_step(&background->worker), RQLI_WORKER_OVER);
    assert_int_equal(background->shared.others.count, 0);
    background->worker.is_started = false;
    rqli_lock_free(lock);
}

/* The request was granted when the server had answered twice that nothing of it is there. */
TEST(a_re_entry_of_a_grant_that_came_late_is_lost_before_the_grant_is_given_back)
{
    rql_lock *late = settled("x");
    rql_lock *inner = granted("x");
    rql_lock *other = held("x");

    inner->process = RQL_CONFLICT_WORK_THROUGH;
    memcpy(inner->grant_nonce, late->nonce, sizeof inner->grant_nonce);
    CHECK_OK(rqli_leases_add(leases, inner, NULL));
    rqli_background_lock(background);
    assert_true(first_duty()->ops->begin(first_duty(), first_duty()->due.at_us));
    rqli_background_unlock(background);
    CHECK_ALL(EQ(state_of(inner), RQL_GONE), EQ(state_of(other), RQL_HELD));
    withdraw_at(rqli_timers_first_us(&background->shared.others), "0 1");
    end(other);
    end(inner);
    background->worker.is_started = false;
    rqli_lock_free(late);
}

/* It is listed after the last call was begun. */
TEST(a_re_entry_of_a_grant_that_came_late_is_lost_when_the_grant_was_given_back)
{
    rql_lock *late = settled("x");
    rql_lock *inner = granted("x");

    inner->process = RQL_CONFLICT_WORK_THROUGH;
    memcpy(inner->grant_nonce, late->nonce, sizeof inner->grant_nonce);
    rqli_background_lock(background);
    assert_true(first_duty()->ops->begin(first_duty(), first_duty()->due.at_us));
    rqli_background_unlock(background);
    CHECK_OK(rqli_leases_add(leases, inner, NULL));
    assert_int_equal(state_of(inner), RQL_HELD);
    {
        const struct rqli_reply reply = tree_text("2 1");

        rqli_background_lock(background);
        first_duty()->ops->read(first_duty(), NULL, &reply, RQL_OK);
        rqli_background_unlock(background);
    }
    assert_int_equal(state_of(inner), RQL_GONE);
    withdraw_at(rqli_now_us() + 2 * client->options.io_timeout_ms * 1000, "0 1");
    end(inner);
    background->worker.is_started = false;
    rqli_lock_free(late);
}

/* A thread that takes the lock back while its callback runs. */
static struct {
    rql_lock *lock;
    pthread_t thread;
    atomic_int id;
    atomic_bool is_done;
    atomic_bool was_early;
} taker;

static void *take_back(void *data)
{
    taker.id = gettid();
    rqli_leases_remove(leases, &taker.lock, 1);
    taker.is_done = true;
    return data;
}

/* It has begun, and sleeps. */
static bool sleeps(void *data)
{
    char path[64];
    char text[64] = "";
    FILE *file;

    (void)data;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)taker.id);
    file = fopen(path, "r");
    if (file) {
        (void)!fgets(text, sizeof text, file);
        (void)fclose(file);
    }
    return strstr(text, ") S ") != NULL;
}

static void on_lost(rql_lock *lock, void *data)
{
    taker.lock = lock;
    (void)pthread_create(&taker.thread, NULL, take_back, data);
    (void)wait_until(sleeps, NULL, AWAIT_MS);
    taker.was_early = taker.is_done;
}

static bool is_done(void *data)
{
    (void)data;
    return taker.is_done;
}

TEST(who_takes_a_lock_back_waits_for_the_end_of_its_callback)
{
    rql_lock *lock = granted("x");

    lock->on_lost = on_lost;
    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    rqli_leases_on_gone(leases, lock);
    assert_true(wait_until(is_done, NULL, AWAIT_MS));
    assert_int_equal(pthread_join(taker.thread, NULL), 0);
    assert_false(taker.was_early);
    rqli_lock_free(lock);
}

/* A callback that ends its lock, and then waits for a thread of the program. */
static struct {
    atomic_bool has_ended;
    atomic_bool has_released; /* the thread */
    atomic_bool was_alone;    /* the thread did not come while the callback waited */
} ender;

static bool is_true(void *data)
{
    return *(atomic_bool *)data;
}

static void end_and_wait(rql_lock *lock, void *data)
{
    (void)data;
    end(lock);
    ender.has_ended = true;
    ender.was_alone = !wait_until(is_true, &ender.has_released, AWAIT_MS);
}

TEST(the_next_lock_at_an_address_does_not_wait_for_the_callback_of_the_one_before)
{
    rql_lock *lock = granted("x");
    const void *address = lock;

    lock->on_lost = end_and_wait;
    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    rqli_leases_on_gone(leases, lock);
    assert_true(wait_until(is_true, &ender.has_ended, AWAIT_MS));
    lock = held("y");
    assert_ptr_equal(lock, address);
    end(lock);
    ender.has_released = true;
    client = rqli_client_free(client); /* after the callback */
    assert_false(ender.was_alone);
}

static atomic_int mutex_at_event = -1; /* what the callback found; -1: it was not called */

static void on_event(const rql_event *event, void *data)
{
    int found = pthread_mutex_trylock(&background->shared.mutex);

    (void)event;
    (void)data;
    if (found == 0) {
        (void)pthread_mutex_unlock(&background->shared.mutex);
    }
    mutex_at_event = found;
}

static bool has_event(void *data)
{
    (void)data;
    return mutex_at_event >= 0;
}

/* Also of a lock that has no other callback. A light build has no events. */
TEST(the_event_of_a_loss_may_call_the_library)
{
    rql_lock *lock = granted("x");

    lock->subject.instrumenter = on_event;
    lock->kept.lease.renews = true; /* else a loss is noticed by the next call */
    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    rqli_leases_on_gone(leases, lock);
    if (!RQLI_LIGHT) {
        assert_true(wait_until(has_event, NULL, AWAIT_MS));
        assert_int_equal(mutex_at_event, 0);
    }
    rqli_leases_remove(leases, &lock, 1);
    rqli_lock_free(lock);
}

static void end_at_event(const rql_event *event, void *lock)
{
    (void)event;
    end(lock);
    ender.has_ended = true;
}

static void note_call(rql_lock *lock, void *is_called)
{
    (void)lock;
    *(atomic_bool *)is_called = true;
}

TEST(a_lock_that_ended_at_the_event_of_its_loss_has_no_callback_any_more)
{
    atomic_bool is_called = false;
    rql_lock *lock = granted("x");

    ender.has_ended = RQLI_LIGHT; /* without events */
    lock->subject.instrumenter = end_at_event;
    lock->subject.instrumenter_data = lock;
    lock->on_lost = note_call;
    lock->user_data = &is_called;
    CHECK_OK(rqli_leases_add(leases, lock, NULL));
    rqli_leases_on_gone(leases, lock);
    assert_true(wait_until(is_true, RQLI_LIGHT ? &is_called : &ender.has_ended, AWAIT_MS));
    if (RQLI_LIGHT) {
        end(lock);
    }
    client = rqli_client_free(client); /* after the event */
    assert_int_equal(is_called, RQLI_LIGHT);
}

TEST(a_withdrawal_has_another_round_where_something_is_left)
{
    static const struct {
        const char *name;
        const char *reply; /* to the second of three; NULL: none came, because of this: */
        rql_status fault;
        int64_t left_us;
        uint64_t confirmed;
        size_t n_calls; /* of the next round */
    } rows[] = {
        {"it was withdrawn", "1 0", RQL_OK, 1000000, 7, 0},
        {"its queue is long", "1 2", RQL_OK, 1000000, 7, 1},
        {"its queue is long, and the time over", "1 2", RQL_OK, 0, 7, 0},
        {"there was no memory", NULL, RQL_E_NOMEM, 1000000, 5, 1},
        {"there was no memory, and little time", NULL, RQL_E_NOMEM, 5000, 5, 0},
        {"no answer came", NULL, RQL_E_UNKNOWN, 1000000, 5, 0},
    };

    EACH_ROW (row, rows) {
        const struct rqli_reply served = tree_text("1 1");
        const struct rqli_reply reply = tree_text(row->reply ? row->reply : "");
        struct rqli_withdrawing self;
        int64_t again_us = 0;

        rqli_withdrawing_begin(&self, 3);
        rqli_withdrawing_read(&self, 0, &served, RQL_OK);
        rqli_withdrawing_read(&self, 1, row->reply ? &reply : NULL, row->fault);
        rqli_withdrawing_read(&self, 2, &served, RQL_OK);
        CHECK_ALL(EQ(rqli_withdrawing_next(&self, 0, row->left_us, &again_us), row->n_calls > 0),
                  EQ(self.confirmed, row->confirmed), EQ(again_us > 0, !row->reply && row->n_calls),
                  EQ(row->n_calls == 0 || (rqli_withdrawing_calls(&self) == row->n_calls &&
                                           rqli_withdrawing_request(&self, 0) == 1),
                     true));
    }
}

/* Each by name and acquirer, until the server has confirmed: here it never does. */
TEST(what_is_being_withdrawn_is_known)
{
    rql_lock *locks[] = {rqli_lock_new(client, "x", 1), rqli_lock_new(client, "y", 1)};
    rql_lock *other = rqli_lock_new(client, "y", 2);

    for (size_t i = 0; i < 2; i++) {
        assert_false(rqli_withdraw_is_open(client, locks[i]->name, locks[i]->acquirer));
        rqli_withdraw_lock_later(locks[i], LONG_MS);
        CHECK_ALL(EQ(rqli_withdraw_is_open(client, "x", locks[0]->acquirer), true),
                  EQ(rqli_withdraw_is_open(client, "y", locks[1]->acquirer), i > 0),
                  EQ(rqli_withdraw_is_open(client, "y", other->acquirer), false));
    }
    rqli_lock_free(other);
    rqli_lock_free(locks[1]);
    rqli_lock_free(locks[0]);
}

/* More than the map has heads at first, and of one name as well as of one acquirer. */
TEST(each_of_many_withdrawals_is_known_until_it_ends)
{
    enum { COUNT = 200 };

    rql_lock *locks[COUNT];
    const int64_t late_us = rqli_after_ms(rqli_now_us(), 2 * LONG_MS);

    background->worker.is_started = true; /* the test is the thread */
    for (size_t i = 0; i < COUNT; i++) {
        char name[RQL_ID_SIZE];

        (void)snprintf(name, sizeof name, "x%zu", i / 2);
        locks[i] = rqli_lock_new(client, name, 1 + i % 2);
        rqli_withdraw_lock_later(locks[i], 0);
    }
    for (size_t n_left = COUNT; n_left > 0; n_left--) {
        struct rqli_duty *duty = first_duty();
        size_t n_open = 0;

        for (size_t i = 0; i < COUNT; i++) {
            n_open += rqli_withdraw_is_open(client, locks[i]->name, locks[i]->acquirer);
        }
        CHECK_ALL(EQ(n_open, n_left), EQ(background->shared.withdrawals.count, n_left),
                  EQ(background->n_withdrawals, n_left));
        rqli_background_lock(background);
        assert_false(duty->ops->begin(duty, late_us)); /* its time is over */
        rqli_background_unlock(background);
    }
    background->worker.is_started = false;
    for (size_t i = 0; i < COUNT; i++) {
        rqli_lock_free(locks[i]);
    }
}

/* What its acquirer has of the lock whose older request is being withdrawn. */
enum has { HAS_NOTHING, HAS_GRANT, HAS_ANOTHER_LOCK, HAS_REENTRY, HAS_LOST, HAS_FORGOTTEN };

static const struct beside {
    const char *name;
    enum has has;
    bool waits; /* behind the request that is withdrawn */
} besides[] = {
    {"nothing", HAS_NOTHING, true},
    {"a grant, so that the older request has ended", HAS_GRANT, false},
    {"another lock", HAS_ANOTHER_LOCK, true},
    {"a re-entry whose grant another thread has released", HAS_REENTRY, true},
    {"a grant that is lost", HAS_LOST, true},
    {"a grant that it has forgotten", HAS_FORGOTTEN, true},
};

/* Returns whether a try that may enter the lock again takes the server's lock for one that is being
 * given back, and therefore waits for it. */
static bool waits_for_its_own(void)
{
    struct rqli_acquire_result result;
    rql_lock *lock = rqli_lock_new(client, "x", 0);
    rql_lock_options options;
    struct rqli_acquire acquire = {
        .locks = &lock, .count = 1, .result = &result, .options = &options};
    bool waits;

    rql_lock_options_init(client, &options);
    options.conflict_strategy = RQL_WORK_THROUGH;
    acquire.begun_us = rqli_now_us();
    rqli_acquire_init(&acquire);
    assert_true(rqli_wait_init(&acquire, &rqli_wait_on_thread));
    (void)acquire.op.ops->next(&acquire.op); /* there is no server to try at */
    waits = acquire.withdraws;
    free(acquire.error);
    rqli_lock_free(lock);
    return waits;
}

TEST(an_acquirer_enters_its_grant_again_while_an_older_request_is_withdrawn)
{
    rql_lock *older = granted("x");

    assert_false(waits_for_its_own());
    rqli_withdraw_lock_later(older, LONG_MS);
    EACH_ROW (row, besides) {
        rql_lock *lock = granted(row->has == HAS_ANOTHER_LOCK ? "y" : "x");

        if (row->has == HAS_REENTRY) {
            lock->process = RQL_CONFLICT_WORK_THROUGH;
        }
        if (row->has != HAS_NOTHING) {
            CHECK_OK(rqli_leases_add(leases, lock, NULL));
        }
        if (row->has == HAS_LOST) {
            rqli_leases_on_taken(leases, rqli_slice_of(lock->grant_nonce));
        } else if (row->has == HAS_FORGOTTEN) {
            lock->kept.listing = RQLI_LOCK_ADOPTED;
        }
        assert_int_equal(waits_for_its_own(), row->waits);
        end(lock);
    }
    rqli_lock_free(older);
}

TEST(a_handle_that_is_used_again_knows_nothing_of_before)
{
    rql_lock *before = asked_for("before", &background->shared.durable);
    rql_lock_options options;
    rql_lock *lock;

    rql_lock_options_init(client, &options);
    before->token = 7;
    before->handed_over = true;
    before->origin.n_chained = 5;
    before->origin.carrier = client;
    before->transfer =
        rqli_transfer_new(client, before->acquirer, before->host, before->nonce, &options);
    end(before);
    assert_null(background->shared.durable.item[0].duty);
    background->shared.durable.count = 0;
    lock = rqli_lock_new(client, "x", 0);
    assert_ptr_equal(lock, before);
    assert_null(lock->transfer);
    assert_null(lock->origin.carrier);
    CHECK_ALL(EQ(lock->token, 0), EQ(lock->handed_over, false), EQ(lock->origin.n_chained, 0),
              EQ(lock->kept.lease.ttl_ms, 0), EQ(lock->grant_nonce[0], 0));
    rqli_lock_free(lock);
}
