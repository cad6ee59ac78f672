#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"
#include "proxy.h"

/* A re-entry whose answer was lost is asked for again: it is one all the same. */

enum { OUTER_MS = 50000, ADDED_MS = 200000, TASK = 7, GIVEN_UP_MS = 100 };

static struct proxy *proxy;
static int64_t n_connections;

static int set_up_proxy(void **state)
{
    rql_options options = client_options();

    (void)set_up(state);
    client = rql_client_free(client);
    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    client = new_client_with(&options);
    return open_loop_of(client);
}

static int tear_down_proxy(void **state)
{
    int failed = tear_down_loop(state);

    proxy = proxy_stop(proxy);
    return failed;
}

static rql_lock_options with(rql_conflict_strategy strategy, int64_t ttl_ms)
{
    rql_lock_options options = patient(client);

    options.conflict_strategy = strategy;
    options.ttl_ms = ttl_ms;
    return options;
}

static rql_lock *hold_outer(void)
{
    rql_lock_options options = with(RQL_WAIT_FOR_LOCK, OUTER_MS);

    return hold_with(client, "x", &options);
}

/* Of the next call the server does all, and nobody hears of it. */
static void lose_an_answer(void)
{
    n_connections = proxy_counts(proxy).connections;
    proxy_cut_reply(proxy, 1);
}

static void check_entered_once(const char *name)
{
    assert_true(proxy_counts(proxy).connections > n_connections);
    assert_int_equal(ask_int("HGET rql:lock:%s spc_cnt", name), 1);
}

/* A server that is stalled within a script adds to the ttl. */
static void check_added_once(void)
{
    check_entered_once("x");
    assert_int_equal(ask_int("HGET rql:lock:x spc_ext_ttl"), ADDED_MS);
    assert_true(ask_int("PTTL rql:lock:x") < OUTER_MS + 3 * ADDED_MS / 2);
}

/* The second call finds nothing: the first one has released it. */
static void a_release_by_secret_whose_answer_was_lost_has_released(void **state)
{
    rql_lock *lock = hold_outer();

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "warm"), NULL)); /* the server knows the script */
    lose_an_answer();
    CHECK_OK(rql_release_by_secret(client, "x", rql_lock_secret(lock), NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static void a_re_entry_counts_once(void **state)
{
    rql_lock *outer = hold_outer();
    rql_lock_options again = with(RQL_WORK_THROUGH, ADDED_MS);
    rql_lock *inner;

    (void)state;
    lose_an_answer();
    inner = hold_with(client, "x", &again);
    check_entered_once("x");
    CHECK_OK(rql_lock_release(inner, NULL));
    CHECK_OK(rql_lock_release(outer, NULL));
}

static void a_re_entry_that_extends_adds_its_ttl_once(void **state)
{
    rql_lock *outer = hold_outer();
    rql_lock_options again = with(RQL_EXTENDABLE_WORK_THROUGH, ADDED_MS);
    rql_lock *inner;

    (void)state;
    lose_an_answer();
    inner = hold_with(client, "x", &again);
    check_added_once();
    CHECK_OK(rql_lock_release(inner, NULL));
    assert_true(ask_int("PTTL rql:lock:x") < OUTER_MS + ADDED_MS / 2);
    CHECK_OK(rql_lock_release(outer, NULL));
}

/* Nobody heard of it in time, so it is withdrawn. */
static void a_re_entry_that_was_given_up_takes_back_what_it_added(void **state)
{
    rql_lock *outer = hold_outer();
    rql_lock_options again = with(RQL_EXTENDABLE_WORK_THROUGH, ADDED_MS);
    rql_lock *inner = NULL;

    (void)state;
    again.timeout_ms = GIVEN_UP_MS;
    proxy_freeze(proxy, PROXY_DOWN, true);
    assert_int_equal(rql_lock_acquire(client, "x", &again, &inner, NULL), RQL_E_UNKNOWN);
    proxy_heal(proxy);
    await_int(1, "EVAL return(redis.call('pttl','rql:lock:x')<%d) 0", OUTER_MS + ADDED_MS / 2);
    assert_int_equal(ask_int("HGET rql:lock:x spc_ext_ttl"), ADDED_MS);
    CHECK_OK(rql_lock_release(outer, NULL));
}

/* What another re-entry has added stays. */
static void the_end_of_a_re_entry_takes_back_its_own_once(void **state)
{
    rql_lock *outer = hold_outer();
    rql_lock_options again = with(RQL_EXTENDABLE_WORK_THROUGH, ADDED_MS);
    rql_lock *first = hold_with(client, "x", &again);
    rql_lock *second = hold_with(client, "x", &again);

    (void)state;
    lose_an_answer();
    CHECK_OK(rql_lock_release(second, NULL));
    assert_true(proxy_counts(proxy).connections > n_connections);
    assert_true(ask_int("PTTL rql:lock:x") > OUTER_MS + ADDED_MS / 2);
    CHECK_OK(rql_lock_release(first, NULL));
    CHECK_OK(rql_lock_release(outer, NULL));
}

static rql_lock *take_on_loop(rql_conflict_strategy strategy, int64_t ttl_ms)
{
    struct asked asked = {.options = with(strategy, ttl_ms)};

    asked.options.task = TASK;
    start_asking(&asked, "x");
    await_asked(&asked);
    CHECK_OK(asked.status);
    return asked.lock;
}

static void a_re_entry_on_a_loop_is_one_too(void **state)
{
    rql_lock *outer = take_on_loop(RQL_WAIT_FOR_LOCK, OUTER_MS);
    rql_lock *inner;

    (void)state;
    lose_an_answer();
    inner = take_on_loop(RQL_EXTENDABLE_WORK_THROUGH, ADDED_MS);
    check_added_once();
    CHECK_OK(release_and_wait(inner));
    CHECK_OK(release_and_wait(outer));
}

static void a_re_entry_into_a_series_counts_once(void **state)
{
    rql_series *outer = take_series(client, abc, 3);
    struct wish wish;
    rql_series *inner;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.conflict_strategy = RQL_WORK_THROUGH;
    lose_an_answer();
    inner = take_series_with(client, &wish);
    for (size_t i = 0; i < 3; i++) {
        check_entered_once(abc[i]);
    }
    CHECK_OK(rql_series_release(inner, NULL, NULL));
    CHECK_OK(rql_series_release(outer, NULL, NULL));
}

/* An own lock, and two that are new: repeated, it is all there already. */
static void a_re_entry_into_a_part_of_a_series_counts_once(void **state)
{
    rql_lock *own = hold(client, "b");
    struct wish wish;
    rql_series *series;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.conflict_strategy = RQL_WORK_THROUGH;
    lose_an_answer();
    series = take_series_with(client, &wish);
    check_entered_once("b");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rql_lock_token(rql_series_lock(series, i)),
                         ask_int("HGET rql:lock:%s rql_token", abc[i]));
    }
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_OK(rql_lock_release(own, NULL));
    CHECK_NOTHING_OF_ABC();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_proxy, tear_down_proxy)
        TEST(a_release_by_secret_whose_answer_was_lost_has_released),
        TEST(a_re_entry_counts_once),
        TEST(a_re_entry_that_extends_adds_its_ttl_once),
        TEST(a_re_entry_that_was_given_up_takes_back_what_it_added),
        TEST(the_end_of_a_re_entry_takes_back_its_own_once),
        TEST(a_re_entry_on_a_loop_is_one_too),
        TEST(a_re_entry_into_a_series_counts_once),
        TEST(a_re_entry_into_a_part_of_a_series_counts_once),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
