#include "clients.h"
#include "clock_fixture.h"
#include "series_fixture.h"

#include "ruby.h"

/* The server's clock is set back while many wait: who came later is served later all the same. The
 * server is told the time of day by this test (support/clock.c). */

enum { N_WAITERS = 6, N_BEFORE = 3, HOUR_S = 3600, POLL_MS = 2000, TICK_NS = 200000 };

static struct {
    _Atomic int64_t offset_us;
    atomic_bool is_over;
    pthread_t thread;
} told;

static int64_t time_to_tell(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 + told.offset_us;
}

static void tell_time(void)
{
    *server_clock_us = time_to_tell();
}

static void *keep_telling(void *data)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};

    while (!told.is_over) {
        tell_time();
        (void)nanosleep(&tick, NULL);
    }
    return data;
}

static void set_clock(int64_t offset_s)
{
    told.offset_us = offset_s * 1000000;
    tell_time();
}

static int start_told_server(void **state)
{
    int failed = start_server_with_clock_at(state, time_to_tell());

    return failed ? failed : pthread_create(&told.thread, NULL, keep_telling, NULL);
}

static int stop_told_server(void **state)
{
    told.is_over = true;
    (void)pthread_join(told.thread, NULL);
    return stop_server_with_clock(state);
}

static rql_client *clients[3];

static int set_up_three(void **state)
{
    set_clock(0);
    (void)set_up(state);
    clients[0] = client;
    clients[1] = other;
    clients[2] = new_client();
    for (int i = 0; i < 3; i++) {
        make_listen(clients[i], clients[(i + 1) % 3]);
    }
    return 0;
}

static int tear_down_three(void **state)
{
    clients[2] = rql_client_free(clients[2]);
    return tear_down(state);
}

static void start_some(struct waiter waiters[N_WAITERS], int from, int to)
{
    for (int i = from; i < to; i++) {
        waiters[i] = (struct waiter){.client = clients[(i + 1) % 3],
                                     .name = "x",
                                     .options = patient(client),
                                     .releases = true};
        waiter_start_as(&waiters[i], i + 1);
    }
}

static void sleep_ms(int64_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Some came before the step, some after it; `heard_ms` is how long all live on before the release.
 */
static void check_order(int64_t step_s, int64_t heard_ms)
{
    struct waiter waiters[N_WAITERS];
    rql_lock *held = hold(client, "x");
    int64_t token = rql_lock_token(held);
    int n_overtaken = 0;

    start_some(waiters, 0, N_BEFORE);
    set_clock(step_s);
    start_some(waiters, N_BEFORE, N_WAITERS);
    sleep_ms(heard_ms);
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i < N_WAITERS; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
    }
    for (int i = 0; i < N_WAITERS; i++) {
        n_overtaken += waiters[i].token < token;
        token = waiters[i].token > token ? waiters[i].token : token;
    }
    print_message("# a step of %lld s, released after %lld ms: %d overtaken\n", (long long)step_s,
                  (long long)heard_ms, n_overtaken);
    assert_int_equal(n_overtaken, 0);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
    set_clock(0);
    ask("FLUSHALL");
}

static void without_a_step_all_are_served_as_they_came(void **state)
{
    (void)state;
    check_order(0, 0);
}

static void who_waited_before_a_step_back_is_served_before_newcomers(void **state)
{
    (void)state;
    check_order(-2, POLL_MS);
    check_order(-HOUR_S, POLL_MS);
}

/* Nobody had the time to be heard of by the new time. */
static void also_when_the_lock_is_released_at_once(void **state)
{
    (void)state;
    check_order(-2, 0);
    check_order(-HOUR_S, 0);
}

/* Its request comes back with the place that it had. */
static void also_when_the_queue_was_emptied_meanwhile(void **state)
{
    struct waiter waiters[N_WAITERS];
    rql_lock *held = hold(client, "x");
    int64_t token = rql_lock_token(held);

    (void)state;
    start_some(waiters, 0, N_BEFORE);
    set_clock(-HOUR_S);
    ask("DEL rql:lock_queue:x");
    await_int(N_BEFORE, "ZCARD rql:lock_queue:x");
    start_some(waiters, N_BEFORE, N_WAITERS);
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i < N_WAITERS; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
    }
    for (int i = 0; i < N_WAITERS; i++) {
        assert_true(waiters[i].token > token);
        token = waiters[i].token;
    }
}

/* Its own clock is right, and its score is from the future for as long as the step was. */
static void a_ruby_is_not_overtaken_either(void **state)
{
    struct waiter waiters[N_WAITERS];
    struct ruby_waiter ruby = {.name = "x", .within_ms = 12000, .hold_ms = 20};
    rql_lock *held = hold(client, "x");

    (void)state;
    set_clock(-HOUR_S);
    ruby_open(&ruby.ruby, 1);
    ruby_waiter_start_as(&ruby, 1);
    start_some(waiters, 1, 3);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_true(ruby_waiter_join(&ruby));
    CHECK_OK(waiter_join(&waiters[1]));
    CHECK_OK(waiter_join(&waiters[2]));
    assert_true(ruby.granted_us < waiters[1].ended_us);
    assert_true(waiters[1].token < waiters[2].token);
}

/* A dead one from before the step must not keep newcomers away until the clock has come so far. */
static void the_dead_from_before_a_step_back_keep_nobody_waiting(void **state)
{
    struct waiter waiters[N_WAITERS];
    rql_lock *held = hold(client, "x");

    (void)state;
    ask("ZADD rql:lock_queue:x %lld rql:acq:1/2/3/4/0123456789abcdef", (long long)time(NULL));
    set_clock(-HOUR_S);
    start_some(waiters, 1, 3);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiters[1]));
    CHECK_OK(waiter_join(&waiters[2]));
    assert_true(waiters[1].token < waiters[2].token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_three, tear_down_three)
        TEST(without_a_step_all_are_served_as_they_came),
        TEST(who_waited_before_a_step_back_is_served_before_newcomers),
        TEST(also_when_the_lock_is_released_at_once),
        TEST(also_when_the_queue_was_emptied_meanwhile),
        TEST(a_ruby_is_not_overtaken_either),
        TEST(the_dead_from_before_a_step_back_keep_nobody_waiting),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (!getenv("RQL_TEST_CLOCK")) {
        return skip_all("no clock to be set");
    }
    return cmocka_run_group_tests(tests, start_told_server, stop_told_server);
}
