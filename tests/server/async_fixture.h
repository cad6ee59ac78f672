#ifndef ASYNC_FIXTURE_H
#define ASYNC_FIXTURE_H

/* For tests of the asynchronous calls: a uv loop of the test's, and what its callbacks saw. */

#include "fixture.h"

#include <limits.h>
#include <stdatomic.h>
#include <uv.h>

static uv_loop_t uv;
static rql_loop *loop;
static uv_timer_t budget;
static pthread_t uv_owner;
static bool inside_call; /* no callback may come now */

/* One acquisition on the loop. */
struct asked {
    rql_acquiring what;
    rql_lock_options options;
    int n_done;
    rql_status status;
    rql_lock *lock;
    rql_error error;
    bool releases; /* at once, in its callback, on the loop */
    int n_released;
    rql_status release_status;
};

static inline void check_callback(void)
{
    assert_true(pthread_equal(pthread_self(), uv_owner));
    assert_false(inside_call);
}

static inline void on_asked_released(rql_status status, const rql_error *error, void *data)
{
    struct asked *asked = data;

    (void)error;
    check_callback();
    asked->n_released++;
    asked->release_status = status;
}

static inline void on_asked(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct asked *asked = data;
    const rql_done done = {on_asked_released, asked};

    check_callback();
    asked->n_done++;
    asked->status = status;
    asked->lock = lock;
    if (error) {
        asked->error = *error;
    }
    if (asked->releases && lock) {
        asked->lock = NULL;
        CHECK_OK(rql_lock_release_async(loop, lock, &done, NULL));
    }
}

static inline struct asked asked_for(void)
{
    return (struct asked){.options = patient(client)};
}

static inline void start_asking(struct asked *asked, const char *name)
{
    rql_error error = {0};
    rql_status status;

    asked->what = (rql_acquiring){.done = on_asked, .user_data = asked};
    inside_call = true;
    status = rql_lock_acquire_async(loop, name, &asked->options, &asked->what, &error);
    inside_call = false;
    if (status) {
        fail_msg("%s: %s %s", name, rql_status_text(status), error.message);
    }
}

static inline void on_time_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs the loop until the condition holds. */
static inline void run_until(bool (*holds)(const void *data), const void *data)
{
    int64_t begun_us = wait_clock_us();

    (void)uv_timer_start(&budget, on_time_over, 20, 20);
    while (!holds(data)) {
        if (wait_clock_us() - begun_us > wait_stretched(AWAIT_MS) * 1000) {
            fail_msg("the loop did not get there in time");
        }
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&budget);
}

static inline void note_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* To see what happens when nothing happens. The timer repeats: one that is due when uv_run() begins
 * is called first, and before libuv 1.45 the loop then waits for whatever else may come. */
static inline void run_for_ms(int64_t ms)
{
    bool is_over = false;

    budget.data = &is_over;
    (void)uv_timer_start(&budget, note_time, (uint64_t)ms, 1);
    while (!is_over) {
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&budget);
}

static inline bool is_done(const void *data)
{
    return ((const struct asked *)data)->n_done > 0;
}

static inline bool is_released(const void *data)
{
    return ((const struct asked *)data)->n_released > 0;
}

static inline void await_asked(struct asked *asked)
{
    run_until(is_done, asked);
    assert_int_equal(asked->n_done, 1);
}

static inline void take(struct asked *asked, const char *name)
{
    start_asking(asked, name);
    await_asked(asked);
    CHECK_OK(asked->status);
}

static inline bool server_says(const void *data)
{
    struct expected copy = *(const struct expected *)data;

    return is_as_expected(&copy);
}

/* Runs the loop until the server answers the value. */
static inline void run_until_int(int64_t value, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void run_until_int(int64_t value, const char *format, ...)
{
    struct expected expected = {.value = value};

    FORMAT_COMMAND(expected.text, format);
    run_until(server_says, &expected);
}

static inline void on_released_status(rql_status status, const rql_error *error, void *data)
{
    (void)error;
    check_callback();
    *(int *)data = status;
}

static inline bool is_told(const void *data)
{
    return *(const int *)data != INT_MAX;
}

/* Releases on the loop. */
static inline rql_status release_and_wait(rql_lock *lock)
{
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    CHECK_OK(rql_lock_release_async(loop, lock, &done, NULL));
    run_until(is_told, &status);
    return (rql_status)status;
}

static inline void on_closed(void *data)
{
    check_callback();
    *(bool *)data = true;
}

static inline bool is_true(const void *data)
{
    return *(const bool *)data;
}

static inline void close_loop(void)
{
    bool closed = false;

    if (loop) {
        CHECK_OK(rql_loop_close(loop, on_closed, &closed, NULL));
        run_until(is_true, &closed);
        loop = NULL;
    }
}

static inline void open_loop_of(rql_client *owner)
{
    inside_call = false;
    uv_owner = pthread_self();
    CHECK_OK(uv_loop_init(&uv));
    CHECK_OK(uv_timer_init(&uv, &budget));
    CHECK_OK(rql_loop_open(owner, &uv, &loop, NULL));
}

/* Closes the loop of the library, if it is open, and that of libuv. */
static inline void end_loop(void)
{
    close_loop();
    uv_close((uv_handle_t *)&budget, NULL);
    CHECK_OK(uv_run(&uv, UV_RUN_DEFAULT));
    CHECK_OK(uv_loop_close(&uv));
}

static inline void set_up_loop(void)
{
    make_clients();
    open_loop_of(client);
}

static inline void tear_down_loop(void)
{
    end_loop();
    free_clients();
}

#define LOOP_FIXTURE FIXTURE(start_server, stop_server, set_up_loop, tear_down_loop)

#endif
