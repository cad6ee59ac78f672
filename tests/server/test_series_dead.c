#include "series_fixture.h"

#include "clients.h"
#include "dead.h"
#include "ruby.h"

/* Processes that were killed or stopped while they waited for a series, and a series that waits
 * behind others that were killed. Nothing is kept for the dead. */

enum {
    KILLED = 10,
    SOON_US = 100000,
    LATEST_US = 1500000, /* on a slow machine; a poll is due later */
    RESERVED_US = 2000000,
    SILENCE_US = 5000000,
    SLACK_US = 700000,
    RUBY_POLL_US = (RUBY_DELAY_MS + RUBY_JITTER_MS) * 1000,
};

static const char *const ab[] = {"a", "b"};

static void wait_for_ab(void)
{
    rql_client *own = new_client();
    struct wish wish;
    rql_series *series = NULL;

    wish_for(&wish, own, ab, 2);
    wish.lock.timeout_ms = RQL_FOREVER;
    (void)!rql_series_acquire(own, &wish.options, &series, NULL);
}

static void await_listeners(int64_t count)
{
    await_int(count, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

/* b is held; each process stands in both queues. */
static void start_series(pid_t children[], int count)
{
    for (int i = 0; i < count; i++) {
        children[i] = start_child(wait_for_ab);
        await_int(i + 1, "ZCARD rql:lock_queue:a");
    }
    await_listeners(count);
}

static void kill_all(const pid_t children[], int count)
{
    for (int i = 0; i < count; i++) {
        kill_child(children[i]);
    }
    await_listeners(0);
}

static void check_soon(const char *text, int64_t took_us)
{
    print_message("# %s: %lld us\n", text, (long long)took_us);
    assert_true(took_us < SOON_US * wait_slowness());
    assert_true(took_us < LATEST_US);
}

static void nothing_is_reserved_for_series_killed_just_now(void **state)
{
    rql_lock *held = hold(client, "b");
    pid_t children[KILLED];
    rql_lock *lock;
    int64_t begun_us;

    (void)state;
    start_series(children, KILLED);
    kill_all(children, KILLED);
    begun_us = wait_clock_us();
    lock = hold(other, "a");
    check_soon("a single lock, behind 10 series killed", wait_clock_us() - begun_us);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
}

static void who_waits_behind_series_killed_just_now_is_served(void **state)
{
    rql_lock *held = hold(client, "b");
    struct waiter waiter = {.client = other, .name = "b", .options = patient(other)};
    pid_t children[KILLED];
    int64_t released_us;

    (void)state;
    waiter.options.retry_delay_ms = 60000;
    start_series(children, KILLED);
    kill_all(children, KILLED);
    waiter_start_as(&waiter, KILLED + 1);
    await_listeners(1);
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    check_soon("a waiter, behind 10 series killed", waiter.ended_us - released_us);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void a_ruby_behind_series_killed_just_now_is_next(void **state)
{
    rql_lock *held = hold(client, "b");
    struct ruby_waiter ruby = {.name = "b", .within_ms = AWAIT_MS, .hold_ms = 1};
    pid_t children[KILLED];
    int64_t released_us;

    (void)state;
    ruby_open(&ruby.ruby, 1);
    start_series(children, KILLED);
    kill_all(children, KILLED);
    ruby_waiter_start_as(&ruby, KILLED + 1);
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    assert_true(ruby_waiter_join(&ruby));
    print_message("# Ruby, behind 10 series killed: %lld us\n",
                  (long long)(ruby.granted_us - released_us));
    assert_true(ruby.granted_us - released_us < RUBY_POLL_US + SLACK_US * wait_slowness());
    assert_true(ruby.granted_us - released_us < RESERVED_US);
}

/* It is told, and its host hears; nobody knows that it does nothing. */
static void a_series_that_was_stopped_costs_one_reservation(void **state)
{
    rql_lock *held = hold(client, "b");
    rql_lock_options options = patient(other);
    int64_t times_us[3];
    pid_t child;

    (void)state;
    start_series(&child, 1);
    (void)kill(child, SIGSTOP);
    for (int i = 0; i < 3; i++) {
        rql_lock *lock;

        times_us[i] = wait_clock_us();
        lock = hold_with(other, "a", &options);
        times_us[i] = wait_clock_us() - times_us[i];
        CHECK_OK(rql_lock_release(lock, NULL));
    }
    print_message("# behind a series that was stopped: %lld, %lld, %lld us\n",
                  (long long)times_us[0], (long long)times_us[1], (long long)times_us[2]);
    kill_child(child);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_true(times_us[0] < RESERVED_US + SLACK_US);
    assert_true(times_us[0] + times_us[1] + times_us[2] < SILENCE_US + RESERVED_US + SLACK_US);
}

static void check_series_behind(const struct crowd *crowd)
{
    static const char *const wx[] = {"w", "x"};
    struct series_waiter series;
    rql_lock *held;
    int64_t released_us;

    make_listen(other, client);
    held = hold(client, "x");
    plant_dead("x", crowd);
    series_waiter_init(&series, other, wx, 2);
    series.wish.lock.retry_delay_ms = 60000;
    series_waiter_start_as(&series, crowd->count + 1);
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&series));
    check_soon(crowd->text, series.ended_us - released_us);
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
    ask("FLUSHALL");
}

static void a_series_does_not_wait_for_the_dead(void **state)
{
    (void)state;
    check_series_behind(&(struct crowd){"1000 processes killed now", 1000, DEAD_FRESH, false});
    check_series_behind(&(struct crowd){"300 of one killed now", 300, DEAD_FRESH, true});
    check_series_behind(&(struct crowd){"1000 killed long ago", 1000, DEAD_SILENT, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(nothing_is_reserved_for_series_killed_just_now),
        TEST(who_waits_behind_series_killed_just_now_is_served),
        TEST(a_ruby_behind_series_killed_just_now_is_next),
        TEST(a_series_that_was_stopped_costs_one_reservation),
        TEST(a_series_does_not_wait_for_the_dead),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server_with_pattern, stop_server);
}
