#include "clients.h"
#include "series_fixture.h"

/* One lock after the other, as the gem's lock_series, but without its leaks. */

/* With the gem's defaults for everything but the ttl. */
static void wish_as_the_gem(struct wish *wish, const char *const *names, size_t count,
                            int64_t ttl_ms)
{
    wish_for(wish, client, names, count);
    rql_lock_options_init(client, &wish->lock);
    wish->lock.ttl_ms = ttl_ms;
    wish->options.mode = RQL_SERIES_GEM;
}

static void ttl_grows_with_the_locks_that_follow(void **state)
{
    static const struct {
        size_t count;
        int64_t ttl_ms;
        int64_t delay_ms;
        int64_t jitter_ms;
        int64_t expected_ms[3];
    } cases[] = {
        {3, 2000, 200, 25, {6675, 4450, 2225}},
        {2, 2000, 100, 7, {4214, 2107}},
        {1, 500, 200, 25, {725}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wish wish;
        rql_series *series;

        wish_as_the_gem(&wish, abc, cases[i].count, cases[i].ttl_ms);
        wish.lock.retry_delay_ms = cases[i].delay_ms;
        wish.lock.retry_jitter_ms = cases[i].jitter_ms;
        series = take_series_with(client, &wish);
        for (size_t k = 0; k < cases[i].count; k++) {
            assert_int_equal(ask_int("HGET rql:lock:%s ini_ttl", abc[k]), cases[i].expected_ms[k]);
        }
        CHECK_OK(rql_series_release(series, NULL, NULL));
        CHECK_NOTHING_OF_ABC();
    }
}

static void locks_are_taken_in_the_given_order(void **state)
{
    struct wish wish;
    rql_series *series;

    (void)state;
    wish_as_the_gem(&wish, cba, 3, 20000);
    series = take_series_with(client, &wish);
    for (size_t i = 1; i < 3; i++) {
        assert_true(rql_lock_token(rql_series_lock(series, i - 1)) <
                    rql_lock_token(rql_series_lock(series, i)));
    }
    assert_int_equal(wish.result.n_acquired, 3);
    assert_int_equal(wish.result.failed_on, 3);
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_TTL);
    CHECK_OK(rql_series_release(series, &wish.result, NULL));
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_RELEASE);
    CHECK_NOTHING_OF_ABC();
}

/* In each of the gem's ways to fail; the gem itself would leave the first ones locked. */
static void a_series_that_fails_keeps_nothing(void **state)
{
    static const struct {
        bool fail_fast;
        int64_t timeout_ms;
        int64_t retry_count;
        rql_status expected;
    } cases[] = {
        {false, 10000, 2, RQL_RETRY_LIMIT},
        {true, 10000, 3, RQL_FAIL_FAST_NO_TRY},
        {false, 100, RQL_FOREVER, RQL_TIMED_OUT},
    };

    (void)state;
    for (size_t i = 0; i < 9; i++) {
        size_t held_at = i % 3;
        rql_lock *held = hold(other, abc[held_at]);
        struct wish wish;
        rql_series *series = NULL;
        rql_status status;
        int rounds = 0;

        wish_as_the_gem(&wish, abc, 3, 20000);
        wish.lock.fail_fast = cases[i / 3].fail_fast;
        wish.lock.timeout_ms = cases[i / 3].timeout_ms;
        wish.lock.retry_count = cases[i / 3].retry_count;
        do {
            status = rql_series_acquire(client, &wish.options, &series, NULL);
        } while (is_cut_short(status, abc[held_at], &rounds));
        assert_int_equal(status, cases[i / 3].expected);
        assert_null(series);
        assert_int_equal(wish.result.reason, cases[i / 3].expected);
        assert_int_equal(wish.result.n_acquired, held_at);
        assert_int_equal(wish.result.failed_on, held_at);
        for (size_t k = 0; k < 3; k++) {
            rql_series_fate fate = k < held_at    ? RQL_SERIES_ACQUIRED
                                   : k == held_at ? RQL_SERIES_REFUSED
                                                  : RQL_SERIES_UNTRIED;

            assert_int_equal(wish.result.fate[k], fate);
        }
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_NOTHING_OF_ABC();
    }
}

static void what_is_given_back_goes_to_the_next_waiter(void **state)
{
    rql_lock *held = hold(other, "b");
    struct waiter waiter = {.client = other, .name = "a", .options = patient(other)};
    struct series_waiter series;

    (void)state;
    series_waiter_init(&series, client, abc, 3);
    series.wish.options.mode = RQL_SERIES_GEM;
    series.wish.lock.timeout_ms = 3000;
    series_waiter_start(&series);
    await_int(1, "ZCARD rql:lock_queue:b");
    waiter.options.retry_delay_ms = 60000;
    waiter_start(&waiter);
    assert_true(has_timed_out(series_waiter_join(&series)));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void the_same_name_twice_is_as_the_gem_has_it(void **state)
{
    static const char *const aa[] = {"a", "a"};

    static const struct {
        rql_conflict_strategy strategy;
        rql_status expected;
    } cases[] = {
        {RQL_WAIT_FOR_LOCK, RQL_RETRY_LIMIT},
        {RQL_DEAD_LOCKING, RQL_CONFLICT},
        {RQL_WORK_THROUGH, RQL_OK},
        {RQL_EXTENDABLE_WORK_THROUGH, RQL_OK},
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct wish wish;
        rql_series *series = NULL;

        wish_as_the_gem(&wish, aa, 2, 20000);
        wish.lock.retry_count = 2;
        wish.lock.conflict_strategy = cases[i].strategy;
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL),
                         cases[i].expected);
        if (cases[i].expected == RQL_OK) {
            assert_int_equal(rql_lock_token(rql_series_lock(series, 0)),
                             rql_lock_token(rql_series_lock(series, 1)));
            CHECK_OK(rql_series_release(series, NULL, NULL));
        } else {
            assert_int_equal(wish.result.failed_on, 1);
        }
        CHECK_NOTHING_OF("a");
    }
}

static void a_ttl_that_grows_too_long_is_refused(void **state)
{
    struct wish wish;
    rql_series *series = NULL;

    (void)state;
    wish_as_the_gem(&wish, abc, 3, RQL_TTL_MAX_MS / 3);
    assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_E_INVALID);
    wish.options.mode = (rql_series_mode)7;
    assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_E_INVALID);
    CHECK_NOTHING_OF_ABC();
}

static int outlast_the_bare_ttl(rql_series *series, void *user_data)
{
    const int64_t *ttl_ms = user_data;
    int64_t until_us = wait_clock_us() + *ttl_ms * 1500;

    (void)series;
    while (wait_clock_us() < until_us) {
        (void)ask_int("EXISTS rql:lock:a");
    }
    return 0;
}

/* All locks live longer than that: a block is told by the ttl that was asked for. */
static void timed_counts_the_bare_ttl(void **state)
{
    int64_t ttl_ms = 60;
    rql_series_block block = {.run = outlast_the_bare_ttl, .user_data = &ttl_ms};
    struct wish wish;

    (void)state;
    wish_as_the_gem(&wish, abc, 2, ttl_ms);
    wish.lock.retry_delay_ms = 60000;
    wish.lock.timed = true;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_BLOCK_OVERRAN);
    wish.lock.timed = false;
    CHECK_OK(rql_with_series(client, &wish.options, &block, NULL));
    CHECK_NOTHING_OF_ABC();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(ttl_grows_with_the_locks_that_follow),
        TEST(locks_are_taken_in_the_given_order),
        TEST(a_series_that_fails_keeps_nothing),
        TEST(what_is_given_back_goes_to_the_next_waiter),
        TEST(the_same_name_twice_is_as_the_gem_has_it),
        TEST(a_ttl_that_grows_too_long_is_refused),
        TEST(timed_counts_the_bare_ttl),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
