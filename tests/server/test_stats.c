#include "clients.h"
#include "threads.h"

/* What a client has counted. */

enum { THREADS = 8, ROUNDS = 40, LONG_MS = 1500 };

static rql_stats read_stats(rql_client *of)
{
    rql_stats stats;

    CHECK_OK(rql_client_stats(of, &stats));
    assert_int_equal(stats.size, sizeof stats);
    return stats;
}

static void a_new_client_has_done_nothing(void **state)
{
    rql_stats none = {.size = sizeof none};
    rql_stats stats = read_stats(client);

    (void)state;
    assert_memory_equal(&stats, &none, sizeof stats);
}

static void one_life_is_counted(void **state)
{
    rql_lock *lock = hold(client, "x");
    rql_stats stats;

    (void)state;
    CHECK_OK(rql_lock_extend(lock, 70000, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    stats = read_stats(client);
    assert_int_equal(stats.acquisitions, 1);
    assert_int_equal(stats.tries, 1);
    assert_int_equal(stats.polls, 0);
    assert_int_equal(stats.hand_overs, 0);
    assert_int_equal(stats.extensions, 1);
    assert_int_equal(stats.releases, 1);
    assert_int_equal(stats.wait.count, 1);
    assert_int_equal(stats.hold.count, 1);
    assert_int_equal(stats.hand_off.count, 0);
    assert_int_equal(stats.connections, 1);
    assert_true(stats.commands >= 3); /* and scripts that the server did not know */
    assert_true(stats.hold.sum_us > 0);
}

static void refusals_are_counted_by_reason(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    rql_lock *lock = NULL;
    rql_stats stats;

    (void)state;
    options.retry_count = 1;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_RETRY_LIMIT);
    assert_int_equal(rql_lock_try(client, "x", NULL, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(rql_lock_try(client, "x", NULL, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(held, NULL));
    ask("SET rql:lock:x text");
    assert_int_equal(rql_lock_try(client, "x", NULL, &lock, NULL), RQL_E_WRONG_TYPE);
    ask("DEL rql:lock:x"); /* so that the request can be withdrawn */
    assert_int_equal(rql_lock_try(client, "", NULL, &lock, NULL), RQL_E_INVALID);
    stats = read_stats(client);
    assert_int_equal(stats.retry_limit, 1);
    assert_int_equal(stats.fail_fast_no_try, 2);
    assert_int_equal(stats.faults[-RQL_E_WRONG_TYPE], 1);
    assert_int_equal(stats.faults[-RQL_E_INVALID], 0); /* it never began */
    assert_int_equal(stats.acquisitions, 0);
    assert_int_equal(stats.wait.count, 0);
}

static void be_handed_over(void)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};

    waiter.releases = true;
    waiter.options.retry_delay_ms = 60000; /* the push, not a poll */
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
}

/* Twice: the first wait of a client may be answered while it begins to listen. */
static void a_hand_over_is_counted_with_its_time(void **state)
{
    rql_stats stats;

    (void)state;
    be_handed_over();
    be_handed_over();
    stats = read_stats(client);
    assert_int_equal(stats.hand_overs, 2);
    assert_int_equal(stats.acquisitions, 2);
    assert_in_range(stats.hand_off.count, 1, 2); /* a grant that was found by a poll has none */
    assert_true(stats.connections >= 2);
    assert_true(stats.pushes >= 1);
}

static void a_request_that_was_removed_is_counted_when_it_is_back(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};

    (void)state;
    waiter.options.retry_delay_ms = 10;
    waiter.releases = true;
    waiter_start_as(&waiter, 1);
    ask("DEL rql:lock_queue:x");
    await_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(read_stats(client).restored, 1);
    assert_int_equal(read_stats(client).requeued, 0);
    assert_true(read_stats(client).polls >= 1);
}

struct loss {
    rql_client *client;
    int64_t lost;
    int64_t renewals;
};

static bool has_counted(void *data)
{
    const struct loss *wanted = data;
    rql_stats stats = read_stats(wanted->client);

    return stats.lost >= wanted->lost && stats.renewals >= wanted->renewals;
}

static void renewals_and_losses_are_counted(void **state)
{
    rql_lock_options options = patient(client);
    struct loss wanted = {.client = client, .renewals = 2};
    rql_lock *lock;

    (void)state;
    options.ttl_ms = LONG_MS;
    options.auto_extend = true;
    lock = hold_with(client, "x", &options);
    assert_true(wait_until(has_counted, &wanted, AWAIT_MS));
    assert_int_equal(read_stats(client).lost, 0);
    ask("DEL rql:lock:x");
    wanted.lost = 1;
    assert_true(wait_until(has_counted, &wanted, AWAIT_MS));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    assert_int_equal(read_stats(client).releases_not_held, 1);
    assert_int_equal(read_stats(client).releases, 0);
}

static void re_entries_and_sweeps_are_counted(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *outer = hold(client, "x");
    rql_lock *inner;
    rql_stats stats;

    (void)state;
    options.conflict_strategy = RQL_WORK_THROUGH;
    inner = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_release(inner, NULL));
    CHECK_OK(rql_lock_release(outer, NULL));
    ask("HSET rql:lock:y acq_id a hst_id h ts 1.5 ini_ttl 1");
    ask("HSET rql:lock:z acq_id a hst_id h ts 1.5 ini_ttl 1");
    CHECK_OK(rql_force_unlock(client, "y", NULL, NULL));
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    stats = read_stats(client);
    assert_int_equal(stats.acquisitions, 1);
    assert_int_equal(stats.reentries, 1);
    assert_int_equal(stats.releases, 2);
    assert_int_equal(stats.swept_keys, 2);
}

static void a_series_counts_its_locks(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    rql_series_options options;
    rql_series *series = NULL;
    rql_lock *held;
    rql_stats stats;

    (void)state;
    rql_series_options_init(&options);
    options.names = names;
    options.n_names = 3;
    CHECK_OK(rql_series_acquire(client, &options, &series, NULL));
    CHECK_OK(rql_series_release(series, NULL, NULL));
    options.mode = RQL_SERIES_GEM;
    held = hold(other, "c");
    assert_int_equal(rql_series_try(client, &options, &series, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(held, NULL));
    options.mode = RQL_SERIES_ATOMIC;
    held = hold(other, "c");
    assert_int_equal(rql_series_try(client, &options, &series, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(held, NULL));
    stats = read_stats(client);
    assert_int_equal(stats.acquisitions, 5);
    assert_int_equal(stats.releases, 5);
    assert_int_equal(stats.fail_fast_no_try, 2);
    assert_int_equal(stats.hold.count, 5);
}

struct crowd {
    rql_client *client;
    _Atomic int64_t failures;
};

/* Every other round at a lock of its own. */
static void work(size_t index, void *data)
{
    struct crowd *crowd = data;
    char own[] = {'o', (char)('a' + index), '\0'};

    for (int i = 0; i < ROUNDS; i++) {
        rql_lock_options options = patient(crowd->client);
        rql_lock *lock = NULL;

        if (rql_lock_acquire(crowd->client, i % 2 ? own : "shared", &options, &lock, NULL) ||
            rql_lock_release(lock, NULL)) {
            crowd->failures++;
        }
    }
}

static int64_t count_of(const rql_histogram *histogram)
{
    int64_t count = 0;

    for (size_t i = 0; i < RQL_HISTOGRAM_BUCKETS; i++) {
        count += histogram->bucket[i];
    }
    assert_int_equal(count, histogram->count);
    return count;
}

static void counts_of_many_threads_add_up(void **state)
{
    struct crowd crowd = {.client = client};
    char text[64];
    rql_stats stats;

    (void)state;
    threads_run(THREADS, work, &crowd);
    assert_int_equal(crowd.failures, 0);
    stats = read_stats(client);
    assert_int_equal(stats.acquisitions, THREADS * ROUNDS);
    assert_int_equal(stats.releases, THREADS * ROUNDS);
    assert_int_equal(count_of(&stats.wait), THREADS * ROUNDS);
    assert_int_equal(count_of(&stats.hold), THREADS * ROUNDS);
    assert_true(count_of(&stats.hand_off) <= stats.hand_overs);
    assert_true(stats.tries >= THREADS * ROUNDS);
    assert_true(stats.commands >= 2 * (THREADS * ROUNDS) - stats.hand_overs);
    assert_true(rql_stats_openmetrics(&stats, text, sizeof text) > sizeof text);
}

static void a_program_of_another_age_gets_what_it_knows(void **state)
{
    struct {
        rql_stats stats;
        char more[64];
    } longer;

    char shorter[offsetof(rql_stats, hand_overs)];
    rql_stats *older = (rql_stats *)&longer;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    memset(&longer, 0xA5, sizeof longer);
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof shorter));
    assert_int_equal(older->size, sizeof shorter);
    assert_int_equal(older->acquisitions, 1);
    assert_int_not_equal(older->hand_overs, 0); /* not touched */
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof longer));
    assert_int_equal(longer.stats.size, sizeof longer.stats);
    assert_int_equal(longer.more[63], 0);
    assert_int_equal(rql_client_stats(NULL, older), RQL_E_INVALID);
    assert_int_equal(rql_client_stats_sized(client, NULL, sizeof *older), RQL_E_INVALID);
    assert_int_equal(rql_client_stats_sized(client, older, 1), RQL_E_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_client_has_done_nothing),
        TEST(one_life_is_counted),
        TEST(refusals_are_counted_by_reason),
        TEST(a_hand_over_is_counted_with_its_time),
        TEST(a_request_that_was_removed_is_counted_when_it_is_back),
        TEST(renewals_and_losses_are_counted),
        TEST(re_entries_and_sweeps_are_counted),
        TEST(a_series_counts_its_locks),
        TEST(counts_of_many_threads_add_up),
        TEST(a_program_of_another_age_gets_what_it_knows),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("stats", tests, start_server, stop_server);
}
