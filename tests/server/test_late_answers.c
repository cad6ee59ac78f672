#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"
#include "proxy.h"

/* Words that are long under way. A lease counts from the question: nobody may rely on a lock for
 * longer than the server keeps it. And a question that nobody waits for any more does nothing. */

enum { TTL_MS = 6000, LATE_MS = 300, RENEWED_MS = 2400, TIMEOUT_MS = 100 };

static struct proxy *proxy;

static int set_up_proxy(void **state)
{
    rql_options options = client_options();

    (void)set_up(state);
    client = rql_client_free(client);
    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    client = new_client_with(&options);
    CHECK_OK(rql_client_connect(client, NULL));
    return open_loop_of(client);
}

static int tear_down_proxy(void **state)
{
    int failed;

    proxy_heal(proxy);
    failed = tear_down_loop(state);
    proxy = proxy_stop(proxy);
    return failed;
}

/* What comes from now on is late by more than the margin of the leases here. */
static void be_late(void)
{
    proxy_delay(proxy, PROXY_DOWN, LATE_MS);
}

static void check_of(const rql_lock *lock, const char *name)
{
    int64_t left_ms = ask_int("PTTL rql:lock:%s", name);

    assert_true(rql_lock_remaining_ms(lock) <= left_ms);
}

/* Nothing is renewed while we look. */
static void check(const rql_lock *lock)
{
    proxy_freeze(proxy, PROXY_BOTH, true);
    check_of(lock, "x");
    proxy_heal(proxy);
}

static rql_lock_options short_lived(void)
{
    rql_lock_options options = patient(client);

    options.ttl_ms = TTL_MS;
    return options;
}

static rql_lock *take(void)
{
    rql_lock_options options = short_lived();

    return hold_with(client, "x", &options);
}

static void a_grant_counts_from_the_question(void **state)
{
    rql_lock *lock;

    (void)state;
    be_late();
    lock = take();
    check(lock);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static rql_lock *enter_again(rql_conflict_strategy strategy)
{
    rql_lock_options options = short_lived();

    options.conflict_strategy = strategy;
    return hold_with(client, "x", &options);
}

static void a_re_entry_counts_from_the_question(void **state)
{
    rql_lock *outer = take();
    rql_lock *inner;
    rql_lock *sharing;

    (void)state;
    be_late();
    inner = enter_again(RQL_EXTENDABLE_WORK_THROUGH);
    check(inner);
    be_late();
    sharing = enter_again(RQL_WORK_THROUGH);
    check(sharing);
    be_late();
    CHECK_OK(rql_lock_release(inner, NULL)); /* takes back what it did not use, of all */
    check(sharing);
    check(outer);
    CHECK_OK(rql_lock_release(sharing, NULL));
    CHECK_OK(rql_lock_release(outer, NULL));
}

static void an_extension_counts_from_the_question(void **state)
{
    rql_lock *lock = take();

    (void)state;
    be_late();
    CHECK_OK(rql_lock_extend(lock, 2 * TTL_MS, NULL));
    check(lock);
    CHECK_OK(rql_lock_release(lock, NULL));
}

struct watched {
    const rql_lock *lock;
    int64_t lowest_ms;
};

static bool has_more_time(void *data)
{
    struct watched *self = data;
    int64_t left_ms = rql_lock_remaining_ms(self->lock);

    if (left_ms > self->lowest_ms) {
        return true;
    }
    self->lowest_ms = left_ms;
    return false;
}

static void a_renewal_counts_from_the_question(void **state)
{
    rql_lock_options options = short_lived();
    struct watched watched = {.lowest_ms = INT64_MAX};
    rql_lock *lock;

    (void)state;
    options.ttl_ms = wait_stretched(RENEWED_MS);
    options.auto_extend = true;
    lock = hold_with(client, "x", &options);
    be_late();
    watched.lock = lock;
    assert_true(wait_until(has_more_time, &watched, AWAIT_MS));
    check(lock);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* What was pushed late is asked for: its lease is too short to bear it. */
static void a_lock_handed_over_counts_from_its_grant(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = short_lived()};

    (void)state;
    waiter.options.retry_delay_ms = 60000;
    make_listen(client, other);
    waiter_start_as(&waiter, 1);
    be_late();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    check(waiter.lock);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static rql_lock *take_on_loop(void)
{
    struct asked asked = {.options = short_lived()};

    start_asking(&asked, "x");
    await_asked(&asked);
    CHECK_OK(asked.status);
    return asked.lock;
}

static void a_loop_counts_from_the_question_too(void **state)
{
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};
    rql_lock *lock;

    (void)state;
    CHECK_OK(release_and_wait(take_on_loop()));
    be_late();
    lock = take_on_loop();
    check(lock);
    be_late();
    CHECK_OK(rql_extend_async(loop, lock, 2 * TTL_MS, &done, NULL));
    run_until(is_told, &status);
    CHECK_OK((rql_status)status);
    check(lock);
    CHECK_OK(release_and_wait(lock));
}

static void a_series_counts_from_the_question_too(void **state)
{
    rql_series *series;
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.ttl_ms = TTL_MS;
    be_late();
    series = take_series_with(client, &wish);
    for (size_t i = 0; i < 3; i++) {
        check_of(rql_series_lock(series, i), abc[i]);
    }
    CHECK_OK(rql_series_extend(series, 2 * TTL_MS, NULL));
    for (size_t i = 0; i < 3; i++) {
        check_of(rql_series_lock(series, i), abc[i]);
    }
    proxy_heal(proxy);
    CHECK_OK(rql_series_release(series, NULL, NULL));
}

static bool has_passed(void *until_us)
{
    return wait_clock_us() >= *(int64_t *)until_us;
}

static bool has_been_called(void *before)
{
    return calls_of("evalsha") > *(int64_t *)before;
}

static rql_client *client_in_a_hurry(int64_t budget_ms)
{
    rql_options options = client_options();

    options.url = proxy_url(proxy);
    options.io_timeout_ms = budget_ms;
    return new_client_with(&options);
}

/* The first try is held up, another is granted, and released; then the first one comes. Nobody may
 * end its connection. */
static void a_question_that_comes_too_late_is_not_answered(void **state)
{
    int64_t budget_ms = wait_stretched(TIMEOUT_MS);
    rql_client *own = client_in_a_hurry(budget_ms);
    int64_t until_us;
    int64_t calls;

    (void)state;
    ask("ACL SETUSER default -client|kill");
    CHECK_OK(rql_lock_release(hold(own, "x"), NULL)); /* the server knows the script */
    proxy_mute_last(proxy);
    CHECK_OK(rql_lock_release(hold(own, "x"), NULL));
    until_us = wait_clock_us() + 3 * budget_ms * 1000;
    assert_true(wait_until(has_passed, &until_us, AWAIT_MS));
    calls = calls_of("evalsha");
    proxy_heal(proxy);
    assert_true(wait_until(has_been_called, &calls, AWAIT_MS));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    ask("ACL SETUSER default +client|kill");
    rql_client_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_proxy, tear_down_proxy)
        TEST(a_grant_counts_from_the_question),
        TEST(a_re_entry_counts_from_the_question),
        TEST(an_extension_counts_from_the_question),
        TEST(a_renewal_counts_from_the_question),
        TEST(a_lock_handed_over_counts_from_its_grant),
        TEST(a_loop_counts_from_the_question_too),
        TEST(a_series_counts_from_the_question_too),
        TEST(a_question_that_comes_too_late_is_not_answered),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
