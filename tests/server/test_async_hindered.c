#include "async_fixture.h"

/* What keeps a request from its lock is told while it waits: rql_request_fault(). */

/* One wait, of a lock or a series. */
struct wait {
    rql_request *request;
    int n_done;
    rql_status status;
    rql_status wanted; /* rql_request_fault() is to say this */
    rql_error error;
    rql_lock *lock;
    rql_series *series;
};

static void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct wait *wait = data;

    (void)error;
    check_callback();
    wait->n_done++;
    wait->status = status;
    wait->lock = lock;
}

static void on_series(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    struct wait *wait = data;

    (void)error;
    check_callback();
    wait->n_done++;
    wait->status = status;
    wait->series = series;
}

static void begin_lock(struct wait *wait)
{
    const rql_lock_options options = patient(client);
    rql_acquiring what = {.done = on_lock, .user_data = wait};

    CHECK_OK(rql_acquire_async(loop, "x", &options, &what, NULL));
    wait->request = what.request;
}

static void begin_series(struct wait *wait, rql_series_mode mode)
{
    static const char *const names[] = {"w", "x"};
    const rql_lock_options lock = patient(client);
    rql_series_acquiring what = {.done = on_series, .user_data = wait};
    rql_series_options options;

    rql_series_options_init(&options);
    options.mode = mode;
    options.names = names;
    options.n_names = 2;
    options.lock = &lock;
    CHECK_OK(rql_series_acquire_async(loop, &options, &what, NULL));
    wait->request = what.request;
}

static bool is_as_wanted(const void *data)
{
    struct wait *wait = (struct wait *)(uintptr_t)data;

    return rql_request_fault(wait->request, &wait->error) == wait->wanted;
}

static void await_fault(struct wait *wait, rql_status wanted)
{
    wait->wanted = wanted;
    run_until(is_as_wanted, wait);
}

static bool is_over(const void *data)
{
    return ((const struct wait *)data)->n_done > 0;
}

/* Of somebody who begins while the server is full, and waits for x, which is held. */
static void check_told(struct wait *wait, rql_lock *held)
{
    await_fault(wait, RQL_E_UNAVAILABLE);
    assert_non_null(strstr(wait->error.message, "OOM"));
    assert_int_equal(rql_request_fault(wait->request, NULL), RQL_E_UNAVAILABLE);
    ask("CONFIG SET maxmemory 0");
    await_fault(wait, RQL_OK);
    run_until_int(1, "ZCARD rql:lock_queue:x");
    assert_int_equal(rql_request_fault(wait->request, NULL), RQL_OK);
    ask("REPLICAOF 127.0.0.1 1");
    await_fault(wait, RQL_E_READ_ONLY);
    assert_non_null(strstr(wait->error.message, "READONLY"));
    ask("REPLICAOF NO ONE");
    await_fault(wait, RQL_OK);
    assert_int_equal(wait->n_done, 0);
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(is_over, wait);
    CHECK_OK(wait->status);
}

/* Nothing new fits into the server. */
static rql_lock *hold_x_and_fill(void)
{
    rql_lock *held = hold(other, "x");

    ask("CONFIG SET maxmemory 1");
    return held;
}

static void a_lock_tells_what_keeps_it(void **state)
{
    struct wait wait = {.n_done = 0};
    rql_lock *held = hold_x_and_fill();

    (void)state;
    begin_lock(&wait);
    check_told(&wait, held);
    CHECK_OK(rql_lock_release(wait.lock, NULL));
}

static void a_series_tells_what_keeps_it(void **state)
{
    static const rql_series_mode modes[] = {RQL_SERIES_ATOMIC, RQL_SERIES_GEM};

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct wait wait = {.n_done = 0};
        rql_lock *held = hold_x_and_fill();

        begin_series(&wait, modes[i]);
        check_told(&wait, held);
        CHECK_OK(rql_series_release(wait.series, NULL, NULL));
    }
}

/* The word comes while the connection still counts as good. */
static void a_silent_server_is_told(void **state)
{
    struct wait wait = {.n_done = 0};
    rql_lock *held = hold(other, "x");
    rql_options options = client_options();

    (void)state;
    close_loop();
    client = rql_client_free(client);
    options.io_timeout_ms = wait_stretched(1000);
    client = new_client_with(&options);
    CHECK_OK(rql_loop_open(&loop, client, &uv, NULL));
    begin_lock(&wait);
    run_until_int(1, "ZCARD rql:lock_queue:x");
    redis_server_pause(&server);
    await_fault(&wait, RQL_E_UNKNOWN);
    redis_server_resume(&server);
    assert_non_null(strstr(wait.error.message, ": no answer so far"));
    await_fault(&wait, RQL_OK);
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(is_over, &wait);
    CHECK_OK(wait.status);
    CHECK_OK(rql_lock_release(wait.lock, NULL));
}

static void no_request_has_no_fault_to_tell(void **state)
{
    rql_error error = {0};

    (void)state;
    assert_int_equal(rql_request_fault(NULL, &error), RQL_E_INVALID);
    assert_string_equal(error.message, "fault: no request");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_lock_tells_what_keeps_it),
        LOOP_TEST(a_series_tells_what_keeps_it),
        LOOP_TEST(a_silent_server_is_told),
        LOOP_TEST(no_request_has_no_fault_to_tell),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
