#include "async_fixture.h"

#include "children.h"
#include "lock/async.h"
#include "lock/loop.h"
#include "lock/setback.h"
#include "net/op/op_loop.h"
#include "threads.h"

#include <semaphore.h>

enum { CROWD = 16, CALLERS = 4, BRIEF_MS = 200, GRACE_MS = 50 };

/* ---- calls from other threads ---- */

struct remote {
    struct asked asked[CROWD];
    rql_status status[CROWD];
};

static void call_from_elsewhere(size_t index, void *data)
{
    struct remote *remote = data;

    for (size_t i = index; i < CROWD; i += CALLERS) {
        struct asked *asked = &remote->asked[i];

        asked->what = (rql_acquiring){.done = on_asked, .user_data = asked};
        remote->status[i] = rql_lock_acquire_async(loop, "x", &asked->options, &asked->what, NULL);
    }
}

static bool all_released(const void *data)
{
    const struct remote *remote = data;

    for (size_t i = 0; i < CROWD; i++) {
        if (remote->asked[i].n_released == 0) {
            return false;
        }
    }
    return true;
}

TEST(calls_may_come_from_any_thread)
{
    struct remote remote = {0};
    struct threads *threads;

    for (size_t i = 0; i < CROWD; i++) {
        remote.asked[i] = asked_for();
        remote.asked[i].releases = true;
    }
    threads = threads_start(CALLERS, call_from_elsewhere, &remote);
    run_until(all_released, &remote);
    threads_join(threads);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK_OK(remote.status[i]);
        CHECK_OK(remote.asked[i].status);
        CHECK_OK(remote.asked[i].release_status);
        assert_int_equal(remote.asked[i].n_done, 1);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

/* The loop has not run yet, and has nothing of its own thread's to do. */
TEST(a_call_from_another_thread_is_begun_by_the_first_run)
{
    struct remote remote = {0};

    for (size_t i = 0; i < CROWD; i++) {
        remote.asked[i] = asked_for();
        remote.asked[i].releases = true;
    }
    threads_join(threads_start(CALLERS, call_from_elsewhere, &remote));
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_true(all_released(&remote));
}

/* Nothing was sent yet: what is asked for last is the first that the server hears of. */
TEST(what_gives_back_goes_first)
{
    rql_lock *own = hold(client, "x");
    struct asked asked = asked_for();
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    CHECK_OK(rql_lock_release(hold(client, "y"), NULL)); /* the server knows the scripts */
    asked.options.fail_fast = true;
    start_asking(&asked, "x");
    CHECK_OK(rql_lock_release_async(loop, own, &done, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK((rql_status)status);
    CHECK_OK(release_and_wait(asked.lock));
}

/* Or its request has ended: then nothing is to be listened for. */
static bool listens(const void *data)
{
    const struct asked *asked = data;

    return asked->n_done > 0 || loop->nodes.first.pushes.subscription.generation > 0;
}

/* What the loop has sent is answered, for this is sent behind it. */
static void await_answers(void)
{
    struct asked asked = asked_for();

    asked.releases = true;
    start_asking(&asked, "behind");
    run_until(is_released, &asked);
}

/* The loop is held up until its time, and that of a reply, is over. False: on a busy machine that
 * was over before the lock was released. */
static bool is_granted_late(int64_t timeout_ms)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();
    int64_t until_us = wait_clock_us() + timeout_ms * 1000;
    int64_t over_us = until_us + 2 * GRACE_MS * INT64_C(1000);
    bool is_in_time;

    asked.options.timeout_ms = timeout_ms;
    start_asking(&asked, "x");
    run_until(listens, &asked);
    await_answers();
    CHECK_OK(rql_lock_release(held, NULL));
    is_in_time = asked.n_done == 0 && wait_clock_us() < until_us;
    if (is_in_time) {
        assert_true(wait_until(is_past, &over_us, AWAIT_MS));
    }
    await_asked(&asked);
    if (is_in_time) {
        CHECK_OK(asked.status);
    }
    if (asked.status == RQL_OK) {
        CHECK_OK(release_and_wait(asked.lock));
    }
    return is_in_time;
}

TEST(a_grant_that_came_in_time_is_taken_however_late)
{
    int64_t timeout_ms = BRIEF_MS;

    while (!is_granted_late(timeout_ms)) {
        timeout_ms *= 2;
        assert_true(timeout_ms < AWAIT_MS);
    }
}

/* What a blocking call on another thread has returned. */
struct failed {
    int n_done;
    rql_status status;
    char message[RQL_ERROR_MESSAGE_SIZE];
};

static rql_status list_nothing(void *data, rql_error *error)
{
    (void)data;
    return rql_locks_list(NULL, NULL, error);
}

static void on_failed(rql_status status, const rql_error *error, void *data)
{
    struct failed *failed = data;

    check_callback();
    failed->n_done++;
    failed->status = status;
    (void)snprintf(failed->message, sizeof failed->message, "%s", error ? error->message : "");
}

static bool has_failed(const void *data)
{
    return ((const struct failed *)data)->n_done > 0;
}

TEST(a_blocking_call_that_fails_tells_its_callback_why)
{
    struct failed failed = {0};
    const rql_work work = {list_nothing, on_failed, &failed};

    CHECK_OK(rql_loop_run(loop, &work, NULL));
    run_until(has_failed, &failed);
    assert_int_equal(failed.status, RQL_E_INVALID);
    assert_true(failed.message[0] != '\0');
}

static void release_series(rql_status status, rql_series *series, const rql_error *error,
                           void *data)
{
    const rql_done done = {on_released_status, data};

    (void)error;
    CHECK_OK(status);
    CHECK_OK(rql_series_release_async(loop, series, NULL, &done, NULL));
}

/* The client keeps the handles of locks that were released, and uses them again. */
TEST(a_handle_of_a_request_bears_the_ids_of_the_thread_that_has_it_next)
{
    static const char *const names[] = {"a", "b"};
    int status = INT_MAX;
    rql_series_acquiring what = {.done = release_series, .user_data = &status};
    rql_series_options options = series_of(names, 2);
    char acquirer[RQL_ID_SIZE];
    rql_lock_facts facts;
    rql_lock *held;

    CHECK_OK(rql_series_acquire_async(loop, &options, &what, NULL));
    run_until(is_told, &status);
    CHECK_OK(status);
    held = hold(client, "a");
    rql_lock_describe(held, &facts);
    assert_string_equal(facts.acquirer_id, rql_client_acquirer_id(client, 0, acquirer));
    CHECK_OK(rql_lock_release(held, NULL));
}

/* ---- how long a loop lives ---- */

TEST(a_loop_ends_when_nothing_is_under_way)
{
    struct asked asked = asked_for();

    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0); /* idle: at once */
    asked.releases = true;
    start_asking(&asked, "x");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    CHECK_OK(asked.status);
    assert_int_equal(asked.n_released, 1);
}

TEST(a_loop_may_be_closed_unused)
{
    close_loop();
}

/* ---- closing ---- */

TEST(closing_cancels_what_waits)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];
    struct asked holder = asked_for();
    struct asked last = asked_for();
    struct asked late = asked_for();
    int released = INT_MAX;
    int released_last = INT_MAX;
    bool closed = false;
    const rql_done done = {on_released_status, &released};
    const rql_done done_last = {on_released_status, &released_last};

    start_asking(&holder, "y");
    await_asked(&holder);
    start_asking(&last, "z");
    await_asked(&last);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        start_asking(&crowd[i], "x");
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    start_asking(&late, "x"); /* not even begun */
    CHECK_OK(rql_lock_release_async(loop, holder.lock, &done, NULL));
    CHECK_OK(rql_loop_close(loop, on_closed, &closed, NULL));
    assert_int_equal(rql_loop_close(loop, on_closed, &closed, NULL), RQL_E_INVALID);
    assert_int_equal(rql_lock_acquire_async(loop, "z", NULL, &late.what, NULL), RQL_E_INVALID);
    CHECK_OK(
        rql_lock_release_async(loop, last.lock, &done_last, NULL)); /* it still ends what it has */
    assert_false(closed);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    loop = NULL;
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i].n_done, 1);
        assert_int_equal(crowd[i].status, RQL_CANCELLED);
    }
    assert_int_equal(late.n_done, 1);
    assert_int_equal(late.status, RQL_CANCELLED);
    CHECK_OK(released);
    CHECK_OK(released_last);
    CHECK_QUEUE_IS_EMPTY("x");
    assert_int_equal(ask_int("EXISTS rql:lock:y rql:lock:z"), 0);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

struct last_block {
    rql_hold *hold;
    int status;
};

static void keep_hold(rql_hold *hold, rql_lock *lock, void *data)
{
    (void)lock;
    check_callback();
    ((struct last_block *)data)->hold = hold;
}

static void on_block_done(rql_status status, int value, const rql_error *error, void *data)
{
    (void)value;
    (void)error;
    check_callback();
    ((struct last_block *)data)->status = status;
}

static bool has_hold(const void *data)
{
    return ((const struct last_block *)data)->hold != NULL;
}

TEST(closing_waits_for_blocks)
{
    struct last_block last = {.status = INT_MAX};
    rql_async_block block = {keep_hold, on_block_done, &last, NULL};
    bool closed = false;

    CHECK_OK(rql_lock_run_async(loop, "x", NULL, &block, NULL));
    run_until(has_hold, &last);
    CHECK_OK(rql_loop_close(loop, on_closed, &closed, NULL));
    run_for_ms(20);
    assert_false(closed);
    CHECK_OK(rql_hold_end(last.hold, 0));
    run_until(is_true, &closed);
    loop = NULL;
    CHECK_OK(last.status);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* ---- fork ---- */

static struct asked forked;

static void use_the_parents_loop(void)
{
    bool closed = false;
    rql_work work = {0};
    rql_loop *made = NULL;
    bool is_right = rql_lock_acquire_async(loop, "z", NULL, &forked.what, NULL) == RQL_E_FORKED &&
                    rql_request_cancel(forked.what.request) == RQL_E_FORKED &&
                    rql_lock_release_async(loop, NULL, NULL, NULL) == RQL_E_FORKED &&
                    rql_loop_run(loop, &work, NULL) == RQL_E_FORKED &&
                    rql_loop_open(client, NULL, &made, NULL) == RQL_E_FORKED &&
                    rql_loop_close(loop, on_closed, &closed, NULL) == RQL_E_FORKED;

    if (is_right && uv_loop_fork(&uv) == 0) {
        (void)uv_run(&uv, UV_RUN_NOWAIT);
        is_right = forked.n_done == 0;
    }
    must(is_right, LEAST_CODE);
}

TEST(a_child_touches_nothing_of_a_loop)
{
    rql_lock *held = hold(other, "x");
    pid_t child;

    forked = asked_for();
    start_asking(&forked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    child = start_limited_child(use_the_parents_loop);
    expect_good_end(child);
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&forked);
    CHECK_OK(forked.status);
    CHECK_OK(release_and_wait(forked.lock));
}

/* A loop of the program's that has nothing more to do may never be run again. */
TEST(a_loop_that_ends_does_not_listen)
{
    for (int i = 0; i < 2; i++) {
        rql_lock *held = hold(other, "x");
        struct asked asked = asked_for();

        start_asking(&asked, "x");
        run_until_int(1, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                      rql_client_identity(client));
        CHECK_OK(rql_lock_release(held, NULL));
        await_asked(&asked);
        CHECK_OK(release_and_wait(asked.lock));
        assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
        await_int(0, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                  rql_client_identity(client));
    }
}

static bool is_subscribed(const void *data)
{
    return rqli_conn_loop_is_up(((const rql_loop *)data)->nodes.first.pushes.conn);
}

static bool is_subscribing(const void *data)
{
    return !rqli_conn_loop_is_down(((const rql_loop *)data)->nodes.first.pushes.conn);
}

static void check_unsubscribed(const rql_loop *of, const rql_client *owner)
{
    assert_false(is_subscribing(of));
    await_int(0, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
              rql_client_identity(owner));
}

/* libuv's pool, whose threads wait. Its work belongs to another uv loop. */
enum { POOL_THREADS = 4 };

struct busy_pool {
    uv_loop_t uv;
    uv_work_t work[POOL_THREADS];
    sem_t is_free;
};

static void await_free(uv_work_t *work)
{
    struct busy_pool *self = work->data;

    (void)sem_wait(&self->is_free);
}

static void on_free(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

static void occupy(struct busy_pool *self)
{
    CHECK_OK(uv_loop_init(&self->uv));
    CHECK_OK(sem_init(&self->is_free, 0, 0));
    for (int i = 0; i < POOL_THREADS; i++) {
        self->work[i].data = self;
        CHECK_OK(uv_queue_work(&self->uv, &self->work[i], await_free, on_free));
    }
}

static void free_threads(struct busy_pool *self)
{
    for (int i = 0; i < POOL_THREADS; i++) {
        CHECK_OK(sem_post(&self->is_free));
    }
}

static void end_pool(struct busy_pool *self)
{
    CHECK_OK(uv_run(&self->uv, UV_RUN_DEFAULT));
    CHECK_OK(uv_loop_close(&self->uv));
    (void)sem_destroy(&self->is_free);
}

/* The attempt to connect is then the last thing that keeps the uv loop alive. */
TEST(a_loop_that_ends_while_its_subscriber_connects_does_not_listen)
{
    static struct busy_pool pool;
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    await_answers(); /* the connection for commands is there */
    occupy(&pool);
    start_asking(&asked, "x");
    run_until(is_subscribing, loop);
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    assert_int_equal(loop->nodes.first.pushes.subscription.generation, 0);
    free_threads(&pool);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_true(loop->nodes.first.pushes.subscription.generation > 0);
    check_unsubscribed(loop, client);
    end_pool(&pool);
    CHECK_OK(rql_lock_release(held, NULL));
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void subscribe(rql_loop *to)
{
    struct asked asked = asked_for();

    loop = to;
    start_asking(&asked, "x");
    run_until(is_subscribed, loop);
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
}

/* The caller's own work ends while the uv loop sleeps, and nothing else is left. Each of the two
 * loops must notice this, and neither may keep the other alive. */
TEST(loops_that_end_with_the_callers_own_work_do_not_listen)
{
    rql_lock *held = hold(other, "x");
    rql_loop *loops[2] = {loop};
    uv_work_t work;

    CHECK_OK(rql_loop_open(other, &uv, &loops[1], NULL));
    subscribe(loops[1]);
    subscribe(loops[0]);
    CHECK_OK(uv_queue_work(&uv, &work, do_nothing, on_free));
    assert_true(is_subscribed(loops[0]) && is_subscribed(loops[1]));
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    check_unsubscribed(loops[0], client);
    check_unsubscribed(loops[1], other);
    CHECK_OK(rql_lock_release(held, NULL));
    loop = loops[1];
    close_loop();
    loop = loops[0];
}

static bool is_arming(const void *data)
{
    return ((const rql_request *)data)->acquire.watch != 0;
}

static bool is_armed(const void *data)
{
    const struct rqli_acquire *acquire = &((const rql_request *)data)->acquire;

    return acquire->watch == 0 && acquire->waiter.watches;
}

static void hold_as_ruby(const char *name)
{
    ask("HSET rql:lock:%s acq_id rql:acq:1/2/3/4/0123456789abcdef ts 1.5 ini_ttl 60000", name);
    ask("PEXPIRE rql:lock:%s 60000", name);
}

/* As one does whose hand-over was refused, while the reply of its watch is on its way. */
TEST(a_lock_of_rubys_is_watched_again_by_a_request_that_begins_anew)
{
    struct asked asked = asked_for();
    struct rqli_acquire *acquire;

    hold_as_ruby("x");
    asked.options.retry_delay_ms = 3600000;
    start_asking(&asked, "x");
    run_until(is_arming, asked.what.request);
    acquire = &asked.what.request->acquire;
    rqli_acquire_begin_anew(acquire);
    rqli_request_on_poll(&acquire->request);
    rqli_op_replan(acquire->driver);
    run_until(is_armed, asked.what.request);
    ask("DEL rql:lock:x");
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
}

/* There is no replica: each call takes this long. */
static struct asked durable_for(int64_t ms)
{
    struct asked asked = asked_for();

    asked.options.replicas = 1;
    asked.options.replica_timeout_ms = ms;
    asked.options.durability_is_advice = true;
    asked.options.retry_delay_ms = 3600000;
    return asked;
}

static bool has_sent(const void *n_calls)
{
    return loop->nodes.first.durable.n_waits == *(const size_t *)n_calls;
}

/* They are sent one by one, and answered only then. */
static void send_durable(struct asked *asked, const char *name, size_t n_calls)
{
    start_asking(asked, name);
    run_until(has_sent, &n_calls);
}

static bool only_waits(const void *data)
{
    return ((const rql_request *)data)->driver.state == RQLI_OP_DRIVER_WAITING;
}

static bool has_read_all(const void *conn)
{
    return rqli_conn_loop_is_idle(conn);
}

/* The reply of its watch comes when the server has waited for the replicas of another request. */
TEST(a_durable_request_is_given_up_while_its_watch_of_rubys_lock_is_under_way)
{
    struct asked asked = durable_for(50);
    struct asked listening = asked_for();
    struct asked slow = durable_for(2000);
    rql_lock *held;

    hold_as_ruby("x");
    take(&asked, "y");
    held = asked.lock;
    asked.n_done = 0;
    start_asking(&listening, "y");
    run_until_int(1, "ZCARD rql:lock_queue:y");
    redis_server_pause(&server);
    send_durable(&asked, "x", 1);
    send_durable(&slow, "z", 2);
    redis_server_resume(&server);
    run_until(only_waits, asked.what.request);
    assert_true(is_arming(asked.what.request));
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CANCELLED);
    assert_int_equal(slow.n_done, 0);
    ask("DEL rql:lock:x"); /* a watch that finds its lock free has the request ask */
    await_asked(&slow);
    run_until(has_read_all, loop->nodes.first.durable.conn);
    CHECK_OK(release_and_wait(slow.lock));
    CHECK_OK(release_and_wait(held));
    await_asked(&listening);
    CHECK_OK(release_and_wait(listening.lock));
    expect_nothing_left("x");
}

LOOP_FIXTURE;
