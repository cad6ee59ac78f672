#include "async_fixture.h"

/* A request may be cancelled until its callback is called: also when that is on its way on another
 * thread, and while what is to be told is still asked for. */

enum { POOL = 4 /* threads of libuv's */ };

/* ---- by another thread, which keeps the callback waiting meanwhile ---- */

static struct {
    pthread_mutex_t mutex;
    atomic_bool is_called;
    rql_status status;
    rql_lock *lock;
    rql_series *series;
} called = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_call(rql_status status)
{
    atomic_store(&called.is_called, true);
    (void)pthread_mutex_lock(&called.mutex);
    called.status = status;
    (void)pthread_mutex_unlock(&called.mutex);
}

static void on_held(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    (void)error;
    (void)data;
    called.lock = lock;
    note_call(status);
}

static void on_all_held(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    (void)error;
    (void)data;
    called.series = series;
    note_call(status);
}

static bool is_called(void *data)
{
    (void)data;
    return atomic_load(&called.is_called);
}

/* The loop is the library's: its callback waits for us. */
static rql_loop *begin_calling(void)
{
    rql_loop *own = NULL;

    (void)pthread_mutex_lock(&called.mutex);
    atomic_store(&called.is_called, false);
    called.status = RQL_E_INVALID;
    CHECK_OK(rql_loop_open(client, NULL, &own, NULL));
    return own;
}

static void cancel_what_is_called(rql_request *request)
{
    bool came = wait_until(is_called, NULL, AWAIT_MS);
    rql_status status = came ? rql_request_cancel(request) : RQL_E_INVALID;

    (void)pthread_mutex_unlock(&called.mutex);
    CHECK_OK(status);
}

TEST(a_request_lives_until_its_callback)
{
    rql_acquiring what = {.done = on_held};
    rql_loop *own = begin_calling();

    CHECK_OK(rql_lock_acquire_async(own, "x", NULL, &what, NULL));
    cancel_what_is_called(what.request);
    CHECK_OK(rql_loop_close(own, NULL, NULL, NULL));
    CHECK_OK(called.status);
    CHECK_OK(rql_lock_release(called.lock, NULL));
    expect_nothing_left("x");
}

TEST(a_series_lives_until_its_callback)
{
    const char *const names[] = {"x", "y"};
    rql_series_acquiring what = {.done = on_all_held};
    rql_series_options options = series_of(names, 2);
    rql_loop *own = begin_calling();

    CHECK_OK(rql_series_acquire_async(own, &options, &what, NULL));
    cancel_what_is_called(what.request);
    CHECK_OK(rql_loop_close(own, NULL, NULL, NULL));
    CHECK_OK(called.status);
    CHECK_OK(rql_series_release(called.series, NULL, NULL));
    expect_nothing_left("x");
}

/* ---- refused before it began, and its refusal is being described ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static rql_status wait_at_gate(void *data, rql_error *error)
{
    (void)data;
    (void)error;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    return RQL_OK;
}

/* Whoever has a question of its own waits until open_gate(). */
static void close_gate(void)
{
    const rql_work work = {.run = wait_at_gate};

    (void)pthread_mutex_lock(&gate);
    for (int i = 0; i < POOL; i++) {
        CHECK_OK(rql_loop_run(loop, &work, NULL));
    }
    run_for_ms(1);
}

static void open_gate(void)
{
    (void)pthread_mutex_unlock(&gate);
}

/* It extends its lock, and so it would wait for ever. */
static rql_lock *hold_for_ever(struct asked *asked)
{
    *asked = asked_for();
    asked->options.task = 7;
    asked->options.auto_extend = true;
    take(asked, "x");
    return asked->lock;
}

/* Once more; that is refused, and cannot be described before the gate opens. */
static void ask_in_vain(struct asked *asked, rql_refusal *refusal)
{
    asked->n_done = 0;
    asked->options.detailed_acq_timeout_error = true;
    rql_result_init(refusal);
    asked->options.refusal = refusal;
    close_gate();
    start_asking(asked, "x");
    run_for_ms(1);
}

TEST(a_refusal_that_is_described_is_cancelled_too_late)
{
    struct asked asked;
    rql_refusal refusal;
    rql_lock *held = hold_for_ever(&asked);

    ask_in_vain(&asked, &refusal);
    CHECK_OK(rql_request_cancel(asked.what.request));
    run_for_ms(1);
    open_gate();
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CONFLICT);
    assert_int_equal(refusal.reason, RQL_CONFLICT);
    rql_refusal_clear(&refusal);
    CHECK_OK(release_and_wait(held));
    expect_nothing_left("x");
}

TEST(a_request_that_was_cancelled_is_not_described_by_the_server)
{
    struct asked asked = asked_for();
    rql_refusal refusal;
    rql_lock *held = hold(other, "x");

    rql_result_init(&refusal);
    asked.options.refusal = &refusal;
    asked.options.detailed_acq_timeout_error = true;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CANCELLED);
    assert_int_equal(refusal.reason, RQL_CANCELLED);
    assert_null(refusal.holder);
    assert_null(refusal.queue);
    rql_refusal_clear(&refusal);
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
}

LOOP_FIXTURE;
