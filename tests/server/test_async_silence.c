#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"
#include "proxy.h"

/* A server that falls silent: every call on a loop ends, and what it left behind is taken back when
 * the server is heard again. */

enum { CROWD = 16, IMPATIENT_MS = 200, SILENCE_MS = 700, CONNECT_MS = 700 };

static struct proxy *proxy;

/* A loop behind the proxy that has both its connections. */
static int set_up_silence(void **state)
{
    rql_options options = client_options();
    struct asked asked;
    rql_lock *held;

    (void)set_up(state);
    client = rql_client_free(client);
    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    options.connect_timeout_ms = wait_stretched(CONNECT_MS);
    options.io_timeout_ms = wait_stretched(SILENCE_MS);
    client = new_client_with(&options);
    (void)open_loop_of(client);
    asked = asked_for();
    asked.releases = true;
    held = hold(other, "warm");
    start_asking(&asked, "warm");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(is_released, &asked);
    return 0;
}

static int tear_down_silence(void **state)
{
    int failed;

    proxy_heal(proxy);
    failed = tear_down_loop(state);
    proxy = proxy_stop(proxy);
    return failed;
}

static void a_release_without_an_answer_goes_on(void **state)
{
    struct asked asked = asked_for();
    rql_status status;

    (void)state;
    start_asking(&asked, "x");
    await_asked(&asked);
    proxy_freeze(proxy, PROXY_BOTH, true);
    status = release_and_wait(asked.lock);
    assert_true(status == RQL_E_UNKNOWN || status == RQL_E_IO);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    proxy_heal(proxy);
    expect_nothing_left("x");
}

static void an_extension_without_an_answer_is_unknown(void **state)
{
    struct asked asked = asked_for();
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    (void)state;
    start_asking(&asked, "x");
    await_asked(&asked);
    proxy_freeze(proxy, PROXY_DOWN, true);
    CHECK_OK(rql_extend_async(loop, asked.lock, 90000, &done, NULL));
    run_until(is_told, &status);
    assert_int_equal(status, RQL_E_UNKNOWN);
    assert_int_equal(rql_lock_get_state(asked.lock), RQL_HELD);
    proxy_heal(proxy);
    CHECK_OK(release_and_wait(asked.lock));
    expect_nothing_left("x");
}

static void a_cancellation_without_an_answer_goes_on(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    (void)state;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    proxy_freeze(proxy, PROXY_BOTH, true);
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_E_UNKNOWN);
    assert_int_equal(asked.error.status, RQL_E_UNKNOWN);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    proxy_heal(proxy);
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
}

static bool all_done(const void *data)
{
    const struct asked *crowd = data;

    for (size_t i = 0; i < CROWD; i++) {
        if (crowd[i].n_done == 0) {
            return false;
        }
    }
    return true;
}

static void start_impatient(struct asked crowd[CROWD])
{
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].options.timeout_ms = IMPATIENT_MS;
        start_asking(&crowd[i], "x");
    }
}

/* Waiting, asking and leaving: whatever they are at, their deadline ends it. */
static void deadlines_end_what_a_silent_server_does_not(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked waiting[CROWD];
    struct asked asking[CROWD];
    int64_t begun_us;

    (void)state;
    start_impatient(waiting);
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    proxy_freeze(proxy, PROXY_BOTH, true);
    begun_us = wait_clock_us();
    start_impatient(asking);
    run_until(all_done, waiting);
    run_until(all_done, asking);
    assert_true(wait_clock_us() - begun_us <=
                (wait_stretched(SILENCE_MS) + IMPATIENT_MS + 400 * wait_slowness()) * 1000);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(waiting[i].status == RQL_E_UNKNOWN || waiting[i].status == RQL_TIMED_OUT);
        assert_true(asking[i].status < 0 || asking[i].status == RQL_TIMED_OUT);
    }
    proxy_heal(proxy);
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
}

/* With a server that answers all of them are told that their time is over, and not less. */
static void a_crowd_whose_time_is_over_is_told_so(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];

    (void)state;
    start_impatient(crowd);
    run_until(all_done, crowd);
    await_int(0, "ZCARD rql:lock_queue:x");
    for (size_t i = 0; i < CROWD; i++) {
        if (!has_timed_out(crowd[i].status)) {
            fail_msg("%s %s", rql_status_text(crowd[i].status), crowd[i].error.message);
        }
    }
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
}

static void closing_ends_without_an_answer(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];
    struct asked holder = asked_for();
    int released = INT_MAX;
    const rql_done done = {on_released_status, &released};

    (void)state;
    start_asking(&holder, "y");
    await_asked(&holder);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        start_asking(&crowd[i], "x");
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    proxy_freeze(proxy, PROXY_BOTH, true);
    CHECK_OK(rql_release_async(loop, holder.lock, &done, NULL));
    close_loop();
    assert_true(released < 0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i].n_done, 1);
        assert_true(crowd[i].status == RQL_CANCELLED || crowd[i].status == RQL_E_UNKNOWN);
    }
    proxy_heal(proxy);
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
    expect_nothing_left("y");
}

static int64_t n_ticks;

static void count_tick(uv_timer_t *timer)
{
    (void)timer;
    n_ticks++;
}

/* Nor does a login that gets no answer. */
static void connecting_does_not_block_the_loop(void **state)
{
    static uv_timer_t ticker; /* the loop closes it after this test */
    struct asked asked = asked_for();

    (void)state;
    proxy_freeze(proxy, PROXY_DOWN, true);
    proxy_cut(proxy);
    CHECK_OK(uv_timer_init(&uv, &ticker));
    CHECK_OK(uv_timer_start(&ticker, count_tick, 1, 1));
    n_ticks = 0;
    asked.options.timeout_ms = IMPATIENT_MS;
    start_asking(&asked, "x");
    await_asked(&asked);
    assert_true(asked.status < 0);
    assert_true(n_ticks > 10);
    uv_close((uv_handle_t *)&ticker, NULL);
    proxy_heal(proxy);
    expect_nothing_left("x");
}

/* ---- series ---- */

struct taken {
    rql_series_acquiring what;
    struct wish wish;
    rql_series *series;
    int n_done;
    rql_status status;
};

static void on_taken(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    struct taken *taken = data;

    (void)error;
    check_callback();
    taken->n_done++;
    taken->status = status;
    taken->series = series;
}

static bool is_taken(const void *data)
{
    return ((const struct taken *)data)->n_done > 0;
}

static void start_taking(struct taken *taken)
{
    wish_for(&taken->wish, client, abc, 3);
    taken->what = (rql_series_acquiring){.done = on_taken, .user_data = taken};
}

static void a_series_without_an_answer_is_taken_back(void **state)
{
    rql_lock *held = hold(other, "b");
    struct taken taken = {.n_done = 0};

    (void)state;
    start_taking(&taken);
    taken.wish.lock.timeout_ms = IMPATIENT_MS;
    CHECK_OK(rql_series_acquire_async(loop, &taken.wish.options, &taken.what, NULL));
    run_until_int(1, "ZCARD rql:lock_queue:c");
    proxy_freeze(proxy, PROXY_BOTH, true);
    run_until(is_taken, &taken);
    assert_true(taken.status == RQL_E_UNKNOWN || taken.status == RQL_TIMED_OUT);
    proxy_heal(proxy);
    await_int(0, "ZCARD rql:lock_queue:b");
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("a");
    expect_nothing_left("b");
    expect_nothing_left("c");
}

static void a_series_is_released_later_without_an_answer(void **state)
{
    struct taken taken = {.n_done = 0};
    int released = INT_MAX;
    const rql_done done = {on_released_status, &released};

    (void)state;
    start_taking(&taken);
    CHECK_OK(rql_series_acquire_async(loop, &taken.wish.options, &taken.what, NULL));
    run_until(is_taken, &taken);
    CHECK_OK(taken.status);
    proxy_freeze(proxy, PROXY_BOTH, true);
    CHECK_OK(rql_series_release_async(loop, taken.series, &taken.wish.result, &done, NULL));
    run_until(is_told, &released);
    assert_true(released == RQL_E_UNKNOWN || released == RQL_E_IO);
    assert_int_equal(taken.wish.result.ending, RQL_SERIES_NOT_ENDED);
    proxy_heal(proxy);
    expect_nothing_left("a");
    expect_nothing_left("b");
    expect_nothing_left("c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_silence, tear_down_silence)
        TEST(a_release_without_an_answer_goes_on),
        TEST(an_extension_without_an_answer_is_unknown),
        TEST(a_cancellation_without_an_answer_goes_on),
        TEST(deadlines_end_what_a_silent_server_does_not),
        TEST(a_crowd_whose_time_is_over_is_told_so),
        TEST(closing_ends_without_an_answer),
        TEST(connecting_does_not_block_the_loop),
        TEST(a_series_without_an_answer_is_taken_back),
        TEST(a_series_is_released_later_without_an_answer),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
