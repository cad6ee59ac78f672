#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"
#include "proxy.h"
#include "threads.h"

/* A server that is far away: what times out is withdrawn and known to be, within two round trips
 * after the deadline. */

enum { WAY_MS = 100, ROUND_TRIP_MS = 2 * WAY_MS, TIMEOUT_MS = 1200, SLACK_MS = 150, ROUNDS = 5 };

static struct proxy *proxy;
static rql_lock *held;

/* Asks once and again when it listens; nothing is under way at the deadline. */
static rql_lock_options in_vain(const rql_client *of)
{
    rql_lock_options options = patient(of);

    options.timeout_ms = TIMEOUT_MS;
    options.retry_delay_ms = 60000;
    return options;
}

/* Again where this process is kept from running: within the grace for once. */
static void expect_timed_out(rql_status (*attempt)(void))
{
    rql_status status = RQL_E_UNKNOWN;

    for (int i = 0; i == 0 || (i < ROUNDS && status != RQL_TIMED_OUT && wait_slowness() > 1); i++) {
        int64_t begun_us = wait_clock_us();
        int64_t took_us;
        int64_t limit_ms;

        status = attempt();
        took_us = wait_clock_us() - begun_us;
        limit_ms = TIMEOUT_MS + 2 * ROUND_TRIP_MS + SLACK_MS * wait_slowness();
        assert_true(took_us <= limit_ms * 1000);
        await_int(0, "ZCARD rql:lock_queue:x");
        await_int(0, "ZCARD rql:lock_queue:w");
    }
    assert_int_equal(status, RQL_TIMED_OUT);
    assert_int_equal(ask_int("EXISTS rql:lock:w"), 0);
}

static rql_status of_thread(void)
{
    rql_lock_options options = in_vain(client);
    rql_lock *lock = NULL;

    return rql_lock_acquire(client, "x", &options, &lock, NULL);
}

static const char *const names[] = {"w", "x"};

static rql_status of_series(void)
{
    rql_series *series = NULL;
    struct wish wish;

    wish_for(&wish, client, names, 2);
    wish.lock = in_vain(client);
    return rql_series_acquire(client, &wish.options, &series, NULL);
}

static rql_status of_look(void)
{
    rql_lock_options options = in_vain(client);

    return rql_check_until_free(client, "x", &options, NULL);
}

static rql_status of_loop(void)
{
    struct asked asked = {.options = in_vain(client)};

    start_asking(&asked, "x");
    await_asked(&asked);
    return asked.status;
}

struct taken {
    rql_series_acquiring what;
    int n_done;
    rql_status status;
};

static void on_taken(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    struct taken *taken = data;

    (void)error;
    assert_null(series);
    taken->n_done++;
    taken->status = status;
}

static bool is_taken(const void *data)
{
    return ((const struct taken *)data)->n_done > 0;
}

static rql_status of_series_on_loop(void)
{
    struct taken taken = {.what = {.done = on_taken, .user_data = &taken}};
    struct wish wish;

    wish_for(&wish, client, names, 2);
    wish.lock = in_vain(client);
    CHECK_OK(rql_series_acquire_async(loop, &wish.options, &taken.what, NULL));
    run_until(is_taken, &taken);
    return taken.status;
}

/* The deadline passes while it is tried for the first time. */
static rql_status of_first_try(void)
{
    rql_lock_options options = in_vain(client);
    rql_lock *lock = NULL;

    options.timeout_ms = WAY_MS;
    return rql_lock_acquire(client, "x", &options, &lock, NULL);
}

static void it_is_known_of_a_lock(void **state)
{
    (void)state;
    expect_timed_out(of_thread);
}

static void it_is_known_of_a_series(void **state)
{
    (void)state;
    expect_timed_out(of_series);
}

static void it_is_known_of_a_look(void **state)
{
    (void)state;
    expect_timed_out(of_look);
}

static void it_is_known_of_a_lock_on_a_loop(void **state)
{
    (void)state;
    expect_timed_out(of_loop);
}

static void it_is_known_of_a_series_on_a_loop(void **state)
{
    (void)state;
    expect_timed_out(of_series_on_loop);
}

static void it_is_known_of_a_try_that_the_deadline_found_under_way(void **state)
{
    (void)state;
    (void)of_look(); /* which tells how far the server is */
    expect_timed_out(of_first_try);
}

/* The deadline finds a later poll under way: the withdrawal follows at once, and does not wait for
 * the answer. */
static void a_poll_under_way_keeps_nobody(void **state)
{
    enum { DELAY_MS = 300, LATE_MS = 20, LIMIT_MS = ROUND_TRIP_MS + WAY_MS };

    rql_lock_options options = in_vain(client);
    struct waiter listener = {
        .client = client, .name = "w", .options = patient(client), .releases = true};
    rql_lock *of_others = hold(other, "w");
    rql_lock *lock = NULL;
    int64_t took_us = 0;

    (void)state;
    waiter_start_as(&listener, 1);
    (void)of_thread(); /* the subscriber listens by then */
    options.retry_delay_ms = DELAY_MS;
    options.retry_jitter_ms = 0;
    options.timeout_ms = ROUND_TRIP_MS + DELAY_MS + LATE_MS;
    for (int i = 0; i == 0 || (i < ROUNDS && wait_slowness() > 1 && took_us > 0); i++) {
        int64_t begun_us = wait_clock_us();

        assert_true(has_timed_out(rql_lock_acquire(client, "x", &options, &lock, NULL)));
        took_us = wait_clock_us() - begun_us - (options.timeout_ms + LIMIT_MS) * 1000;
    }
    CHECK_OK(rql_lock_release(of_others, NULL));
    CHECK_OK(waiter_join(&listener));
    assert_true(took_us <= 0);
}

enum { CROWD = 24, TURNS = 3, SPREAD_MS = 400 };

struct crowd {
    char names[CROWD][4];
    rql_lock *held[CROWD];
    rql_status worst[CROWD]; /* of what each was told */
};

static void time_out_often(size_t index, void *data)
{
    struct crowd *crowd = data;
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    for (size_t i = 0; i < TURNS; i++) {
        rql_status status;

        options.timeout_ms = SPREAD_MS + (int64_t)((index * 53 + i * 131) % SPREAD_MS);
        status = rql_lock_acquire(client, crowd->names[index], &options, &lock, NULL);
        crowd->worst[index] = i == 0 || status < crowd->worst[index] ? status : crowd->worst[index];
    }
}

/* Many threads send and withdraw beside each other, and none waits for the answers of others. */
static void many_threads_know_it_as_well(void **state)
{
    struct crowd crowd;
    int unknown = 0;

    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        (void)snprintf(crowd.names[i], sizeof crowd.names[i], "c%zu", i);
        crowd.held[i] = hold(other, crowd.names[i]);
    }
    (void)of_first_try();
    threads_run(CROWD, time_out_often, &crowd);
    for (size_t i = 0; i < CROWD; i++) {
        unknown += crowd.worst[i] == RQL_E_UNKNOWN;
        assert_true(crowd.worst[i] == RQL_TIMED_OUT || crowd.worst[i] == RQL_E_UNKNOWN);
        CHECK_OK(rql_lock_release(crowd.held[i], NULL));
    }
    if (wait_slowness() == 1) {
        assert_int_equal(unknown, 0);
    }
}

/* The server knows the scripts, or each would take two round trips the first time. */
static int set_up_far(void **state)
{
    rql_options options = client_options();
    rql_lock_options at_once;
    rql_lock *lock = NULL;

    (void)set_up(state);
    held = hold(other, "x");
    at_once = patient(other);
    at_once.timeout_ms = 1;
    at_once.task = 1;
    assert_true(has_timed_out(rql_lock_acquire(other, "x", &at_once, &lock, NULL)));
    rql_series_forget(take_series(other, (const char *const[]){"v"}, 1));
    await_int(0, "ZCARD rql:lock_queue:x");
    proxy = proxy_start(server.socket_path);
    proxy_delay(proxy, PROXY_BOTH, WAY_MS);
    client = rql_client_free(client);
    options.url = proxy_url(proxy);
    client = new_client_with(&options);
    CHECK_OK(open_loop_of(client));
    return 0;
}

static int tear_down_far(void **state)
{
    proxy_heal(proxy);
    CHECK_OK(rql_lock_release(held, NULL));
    (void)tear_down_loop(state);
    proxy = proxy_stop(proxy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_far, tear_down_far)
        TEST(it_is_known_of_a_lock),
        TEST(it_is_known_of_a_series),
        TEST(it_is_known_of_a_look),
        TEST(it_is_known_of_a_lock_on_a_loop),
        TEST(it_is_known_of_a_series_on_a_loop),
        TEST(it_is_known_of_a_try_that_the_deadline_found_under_way),
        TEST(a_poll_under_way_keeps_nobody),
        TEST(many_threads_know_it_as_well),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("a time-out far from the server", tests, start_server,
                                       stop_server);
}
