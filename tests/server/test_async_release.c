#include "async_fixture.h"

/* What a callback may do with a lock that the loop has handed over, before the server knows of it.
 */

enum { CROWD = 20, ROUNDS = 10, MANY = 200, AT_ONCE_US = 1000000 };

static rql_lock_options patient_options;

/* ---- calls that block, on the loop's thread ---- */

static struct {
    int n_granted;
    int n_released;
    int n_unavailable;
    int64_t longest_us;
} seen;

static void release_here(rql_lock *lock)
{
    int64_t begun_us = wait_clock_us();
    int64_t took_us;
    rql_error error = {0};

    if (rql_lock_verify(lock, &error) == RQL_E_UNAVAILABLE) {
        assert_non_null(strstr(error.message, "the loop of this thread"));
        assert_int_equal(rql_lock_extend(lock, AWAIT_MS, NULL), RQL_E_UNAVAILABLE);
        seen.n_unavailable++;
    }
    seen.n_released += rql_lock_release(lock, NULL) == RQL_OK;
    took_us = wait_clock_us() - begun_us;
    seen.longest_us = took_us > seen.longest_us ? took_us : seen.longest_us;
}

/* In turn, for only what was released on the loop is handed over by it. */
static void on_turn(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    (void)error;
    (void)data;
    check_callback();
    CHECK_OK(status);
    if (seen.n_granted++ % 2 == 0) {
        CHECK_OK(rql_lock_release_async(loop, lock, NULL, NULL));
        seen.n_released++;
    } else {
        release_here(lock);
    }
}

static bool all_had_their_turn(const void *data)
{
    (void)data;
    return seen.n_granted == CROWD;
}

TEST(a_callback_may_release_at_once_what_was_handed_over)
{
    rql_acquiring what = {.done = on_turn};

    memset(&seen, 0, sizeof seen);
    patient_options = patient(client);
    for (int i = 0; i < CROWD; i++) {
        CHECK_OK(rql_lock_acquire_async(loop, "x", &patient_options, &what, NULL));
    }
    run_until(all_had_their_turn, NULL);
    close_loop();
    assert_int_equal(seen.n_released, CROWD);
    assert_true(seen.n_unavailable > 0);
    assert_true(seen.longest_us < AT_ONCE_US * wait_slowness());
    expect_nothing_left("x");
}

/* ---- a series of the gem, whose last lock was handed over ---- */

static struct {
    rql_status extended;
    rql_status released;
    rql_series_result result;
    int n_done;
} ended;

static void on_series(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    (void)error;
    (void)data;
    check_callback();
    CHECK_OK(status);
    ended.extended = rql_series_extend(series, AWAIT_MS, NULL);
    ended.released = rql_series_release(series, &ended.result, NULL);
    ended.n_done++;
}

static bool has_ended(const void *data)
{
    (void)data;
    return ended.n_done > 0;
}

TEST(a_callback_may_release_at_once_a_series_that_was_handed_over)
{
    static const char *const names[] = {"free", "x"};
    rql_series_acquiring what = {.done = on_series};
    rql_series_options options;
    struct asked first = asked_for();
    struct asked behind = asked_for();

    memset(&ended, 0, sizeof ended);
    rql_result_init(&ended.result);
    patient_options = patient(client);
    rql_series_options_init(&options);
    options.names = names;
    options.n_names = N_ROWS(names);
    options.mode = RQL_SERIES_GEM;
    options.lock = &patient_options;
    take(&first, "x");
    CHECK_OK(rql_series_acquire_async(loop, &options, &what, NULL));
    run_until_int(1, "ZCARD rql:lock_queue:x");
    take(&behind, "behind"); /* its answer comes behind that of the series, which sleeps by then */
    CHECK_OK(rql_lock_release(behind.lock, NULL));
    CHECK_OK(rql_lock_release_async(loop, first.lock, NULL, NULL));
    run_until(has_ended, NULL);
    close_loop();
    CHECK_ALL(EQ(ended.extended, RQL_E_UNAVAILABLE), EQ(ended.released, RQL_OK),
              EQ(ended.result.ending, RQL_SERIES_BY_RELEASE));
    expect_nothing_left("free");
    expect_nothing_left("x");
}

/* ---- releases while the loop is being closed ---- */

static struct {
    rql_loop *own;
    atomic_int n_granted;
    atomic_int n_refused;
} closing;

static void on_late_turn(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    (void)status;
    (void)error;
    (void)data;
    if (!lock) {
        return;
    }
    atomic_fetch_add(&closing.n_granted, 1);
    /* A callback of a loop cannot close it. */
    if (rql_loop_close(closing.own, NULL, NULL, NULL) != RQL_E_INVALID) {
        atomic_fetch_add(&closing.n_refused, 1);
    }
    if (rql_lock_release_async(closing.own, lock, NULL, NULL)) {
        atomic_fetch_add(&closing.n_refused, 1);
        (void)rql_lock_forget(lock);
    }
}

static bool is_under_way(void *data)
{
    (void)data;
    return atomic_load(&closing.n_granted) > MANY / 20;
}

TEST(what_is_granted_to_a_closing_loop_is_released_there)
{
    rql_acquiring what = {.done = on_late_turn};

    patient_options = patient(client);
    atomic_store(&closing.n_refused, 0);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&closing.n_granted, 0);
        CHECK_OK(rql_loop_open(client, NULL, &closing.own, NULL));
        for (int j = 0; j < MANY; j++) {
            CHECK_OK(rql_lock_acquire_async(closing.own, "x", &patient_options, &what, NULL));
        }
        assert_true(wait_until(is_under_way, NULL, AWAIT_MS));
        CHECK_OK(rql_loop_close(closing.own, NULL, NULL, NULL));
    }
    assert_int_equal(atomic_load(&closing.n_refused), 0);
    expect_nothing_left("x");
}

LOOP_FIXTURE;
