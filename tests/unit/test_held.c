#include "check.h"

#include "base/clock.h"
#include "base/threads.h"
#include "lock/acquire.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/leases.h"
#include "lock/lost_writes.h"
#include "no_server.h"
#include "peer.h"

#include <rql/admin.h>

/* Where the held locks of a client are counted: by node, and by acquirer. There is no server. */

static rql_client *client;

BEFORE_EACH(set_up)
{
    client = client_without_cluster();
}

AFTER_EACH(tear_down)
{
    client = rqli_client_free(client);
}

/* One more, which has the keys of this lock. */
static struct rqli_node *add_node(const rql_lock *lock)
{
    const struct rqli_address address = {.host = "127.0.0.1", .port = 2};
    struct rqli_node *node = rqli_fleet_at(&client->fleet, &address);

    assert_non_null(node);
    rqli_fleet_give(&client->fleet, rqli_key_set_index(lock->keys.set), node);
    return node;
}

/* Each node once: the first, and one that has the keys of one lock. */
TEST(what_is_held_is_counted_where_its_keys_are)
{
    struct rqli_fleet *fleet = &client->fleet;
    rql_lock *locks[] = {granted_by(client, "x"), granted_by(client, "x"), granted_by(client, "y")};
    const struct rqli_node *other = add_node(locks[2]);

    for (size_t n = 0; n <= N_ROWS(locks); n++) {
        CHECK_ALL(EQ(rqli_fleet_holds_at(fleet, &fleet->first), n > 0),
                  EQ(rqli_fleet_holds_at(fleet, other), n > 2),
                  EQ(rqli_fleet_holds_apart(fleet), n > 2));
        if (n < N_ROWS(locks)) {
            CHECK_OK(rqli_leases_add(client->leases, locks[n], NULL));
        }
    }
    for (size_t n = 0; n < N_ROWS(locks); n++) {
        rqli_leases_remove(client->leases, &locks[n], 1);
        CHECK_ALL(EQ(rqli_fleet_holds_at(fleet, &fleet->first), n < 1),
                  EQ(rqli_fleet_holds_at(fleet, other), n < 2));
        rqli_lock_free(locks[n]);
    }
}

/* Who holds another lock is waited for by those in front of it. Each grant counts, and a request on
 * a loop holds whatever its client does. */
TEST(who_holds_a_lock_is_counted_until_the_last_one_ends)
{
    const uint32_t one = rqli_holder_of(1, 0);
    const uint32_t other =
        one == rqli_holder_of(2, 0) ? rqli_holder_of(3, 0) : rqli_holder_of(2, 0);
    int64_t now_us = rqli_now_us();
    rql_lock *locks[] = {granted_by(client, "x"), granted_by(client, "y")};

    for (size_t n = 0; n < 2 * N_ROWS(locks); n++) {
        rql_lock *lock = locks[n % N_ROWS(locks)];
        bool is_held = n < N_ROWS(locks);

        CHECK_ALL(EQ(rqli_holders_has(&client->holders, one, now_us), n > 0),
                  EQ(rqli_holders_has(&client->holders, RQLI_HOLDER_ANY, now_us), n > 0),
                  EQ(rqli_holders_has(&client->holders, other, now_us), false));
        lock->holder = one;
        if (is_held) {
            CHECK_OK(rqli_leases_add(client->leases, lock, NULL));
        } else {
            rqli_leases_remove(client->leases, &lock, 1);
        }
    }
    CHECK_ALL(EQ(rqli_holders_has(&client->holders, one, now_us), false),
              EQ(rqli_holders_has(&client->holders, RQLI_HOLDER_ANY, now_us), false));
    for (size_t i = 0; i < N_ROWS(locks); i++) {
        rqli_lock_free(locks[i]);
    }
}

TEST(what_a_task_holds_does_not_count_for_the_thread_of_its_number)
{
    rql_lock *of_thread = rqli_lock_new(client, "x", 0);
    rql_lock *of_task = rqli_lock_new(client, "y", rqli_thread_number());

    assert_int_not_equal(of_thread->holder, of_task->holder);
    rqli_lock_free(of_thread);
    rqli_lock_free(of_task);
}

/* Which of the two nodes are there. At the other one a loss would not be seen. The test is the
 * thread. */
static const struct arrival {
    const char *name;
    bool has_first;
    bool has_last;
} arrivals[] = {
    {"the first", true, false},
    {"the last", false, true},
    {"both", true, true},
};

TEST(an_arrival_is_over_when_all_nodes_were_reached_at_which_locks_are)
{
    EACH_ROW (row, arrivals) {
        rql_lock *locks[2];
        struct rqli_node *nodes[2];
        struct rqli_background *background;
        int peers[2];
        int fd;

        tear_down(); /* each has nodes of its own */
        set_up();
        background = client->background;
        background->worker.is_started = true; /* the test is the thread */
        locks[0] = granted_by(client, "x");
        locks[1] = granted_by(client, "y");
        nodes[0] = &client->fleet.first;
        nodes[1] = add_node(locks[1]);
        for (size_t i = 0; i < 2; i++) {
            bool is_there = i == 0 ? row->has_first : row->has_last;

            peers[i] = is_there ? peer_of(nodes[i]->background) : -1;
            CHECK_OK(rqli_leases_add(client->leases, locks[i], NULL));
            CHECK_OK(rql_lock_lost_fd(locks[i], &fd, NULL)); /* has the lock watched */
        }
        atomic_store(&client->lost_writes->shall_arrive, true);
        rqli_timers_set(&background->shared.looks, background->server_look, 0);
        (void)rqli_background_step(&background->worker);
        assert_int_equal(atomic_load(&client->lost_writes->shall_arrive),
                         !row->has_first || !row->has_last);
        rqli_leases_remove(client->leases, locks, 2);
        for (size_t i = 0; i < 2; i++) {
            rqli_lock_free(locks[i]);
            (void)!(peers[i] >= 0 && close(peers[i]));
        }
        background->worker.is_started = false;
    }
}

/* The first lock starts the thread, which the system may let wait. The test is the thread. */
TEST(a_connection_that_ends_before_the_thread_runs_is_replaced)
{
    struct rqli_background *background = client->background;
    rql_lock *lock = granted_by(client, "x");
    int fd;

    background->worker.is_started = true;
    rqli_lost_writes_on_cut(client);
    assert_false(atomic_load(&client->lost_writes->shall_arrive)); /* nothing can be lost */
    CHECK_OK(rqli_leases_add(client->leases, lock, NULL));
    CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL)); /* has the lock watched */
    rqli_lost_writes_on_cut(client);
    CHECK_ALL(EQ(atomic_load(&client->lost_writes->shall_arrive), true),
              EQ(background->server_look->at_us, 0));
    rqli_leases_remove(client->leases, &lock, 1);
    rqli_lock_free(lock);
    background->worker.is_started = false;
}

/* The test is the thread. */
TEST(an_end_is_remembered_until_the_loss_of_a_lock_is_asked_for)
{
    struct rqli_background *background = client->background;
    rql_lock *lock = granted_by(client, "x");
    int fd;

    background->worker.is_started = true;
    CHECK_OK(rqli_leases_add(client->leases, lock, NULL)); /* nothing has it watched */
    rqli_lost_writes_on_cut(client);
    for (int i = 0; i < 2; i++) { /* there is no server: without a watch none is looked for */
        rqli_timers_set(&background->shared.looks, background->server_look, 0);
        (void)rqli_background_step(&background->worker);
        CHECK_ALL(EQ(atomic_load(&client->lost_writes->shall_arrive), true),
                  EQ(rqli_conn_is_failing(client->fleet.first.background), i == 1));
        CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
    }
    rqli_leases_remove(client->leases, &lock, 1);
    rqli_lock_free(lock);
    background->worker.is_started = false;
}

/* What happens after a lock was asked for, and before it is listed. The test is the thread. */
static const struct grant {
    const char *name;
    rql_lock_process process;
    bool has_news;    /* a login finds that the server may have lost writes */
    bool is_released; /* the outer hold */
    bool is_shorter;  /* what another re-entry had added is taken back */
    rql_lock_state state;
} grants[] = {
    {"nothing", RQL_LOCK_OBTAINING, false, true, false, RQL_HELD},
    {"writes may be lost", RQL_LOCK_OBTAINING, true, true, false, RQL_DOUBTFUL},
    {"nothing, to a re-entry", RQL_CONFLICT_WORK_THROUGH, false, false, false, RQL_HELD},
    {"its outer hold is released", RQL_CONFLICT_WORK_THROUGH, false, true, false, RQL_DOUBTFUL},
    {"its outer hold is shortened", RQL_CONFLICT_WORK_THROUGH, false, false, true, RQL_DOUBTFUL},
};

TEST(a_grant_that_may_have_ended_before_it_was_listed_is_verified)
{
    EACH_ROW (row, grants) {
        rql_lock *lock = granted_by(client, "x");
        rql_lock *outer = granted_by(client, "x");
        struct rqli_leases *leases = client->leases;
        struct rqli_era *era = rqli_client_era(client, lock->keys.set);
        rql_lock_options options;
        struct rqli_acquire_result result = {.tries = 1};
        struct rqli_acquire acquire = {.locks = &lock,
                                       .count = 1,
                                       .client = client,
                                       .options = &options,
                                       .result = &result,
                                       .n_changes = atomic_load(&leases->n_changes)};

        client->background->worker.is_started = true;
        rql_lock_options_init(client, &options);
        rqli_era_on_silence(era);
        rqli_lost_writes_look(client, era); /* verifies what is listed by now */
        lock->begun_us = atomic_load(&leases->doubted_us) + (row->has_news ? 0 : 1);
        lock->process = row->process;
        memcpy(outer->grant_nonce, outer->nonce, sizeof outer->grant_nonce);
        memcpy(lock->grant_nonce, outer->nonce, sizeof lock->grant_nonce);
        CHECK_OK(rqli_leases_add(leases, outer, NULL));
        if (row->is_released) {
            rqli_end_leases(&outer, 1);
        }
        if (row->is_shorter) {
            (void)atomic_fetch_add(&leases->n_changes, 1);
            rqli_leases_on_shortened(leases, outer, lock->begun_us, 1000);
        }
        assert_true(rqli_acquire_keep(&acquire));
        assert_int_equal(rql_lock_get_state(lock), row->state);
        rqli_leases_remove(leases, (rql_lock *[]){lock, outer}, 2);
        rqli_lock_free(lock);
        rqli_lock_free(outer);
        client->background->worker.is_started = false;
    }
}

/* Where locks are at several nodes none of them keeps the others waiting; but a login that was cut
 * short has four times the time, each time, up to that of any command. */
TEST(a_node_that_is_far_away_has_more_time_each_time)
{
    enum { GRACES = 3, LEAST_US = 200000, TRIES = 4 };

    rql_lock *locks[] = {granted_by(client, "x"), granted_by(client, "y")};

    (void)add_node(locks[1]);
    for (size_t i = 0; i < 2; i++) {
        CHECK_OK(rqli_leases_add(client->leases, locks[i], NULL));
    }
    for (unsigned n = 0; n < TRIES; n++) {
        int64_t wanted_us = GRACES * (rqli_client_grace_us(client) << 2 * n);
        int64_t now_us = rqli_now_us();
        int64_t most_us = rqli_client_until_us(client, now_us) - now_us;
        int64_t until_us;

        wanted_us = wanted_us < LEAST_US ? LEAST_US : wanted_us;
        wanted_us = wanted_us < most_us ? wanted_us : most_us;
        client->background->shared.n_cut_short = n;
        until_us = rqli_background_wait_until_us(client->background);
        assert_in_range(until_us, now_us + wanted_us, rqli_now_us() + wanted_us);
    }
    rqli_leases_remove(client->leases, locks, 2);
    for (size_t i = 0; i < 2; i++) {
        rqli_lock_free(locks[i]);
    }
}
