#include "series_fixture.h"

#include "async_fixture.h"
#include "ruby.h"

/* A free lock at whose head a series stands is reserved for it. Who holds what the series waits for
 * and asks for that lock is served before it, or both would wait for ever; for everybody else a
 * reservation ends after a while. */

enum {
    SOON_US = 100000,
    LATEST_US = 1500000, /* on a slow machine */
    RESERVED_US = 2000000,
    RUBY_POLL_US = (RUBY_DELAY_MS + RUBY_JITTER_MS) * 1000,
    SLACK_US = 700000, /* a poll of ours, and what a busy machine adds */
    GIVE_UP_MS = 8000,
};

static const char *const ab[] = {"a", "b"};
static rql_client *third;

static int set_up_three(void **state)
{
    int result = set_up_loop(state);

    third = new_client();
    make_listen(client, other);
    make_listen(other, client);
    make_listen(third, client);
    return result;
}

static int tear_down_three(void **state)
{
    third = rql_client_free(third);
    return tear_down_loop(state);
}

static void check_soon(const char *text, int64_t took_us)
{
    int64_t bound_us = SOON_US * wait_slowness();

    print_message("# %s: %lld us\n", text, (long long)took_us);
    assert_true(took_us < bound_us);
    assert_true(took_us < LATEST_US);
}

/* A series of a and b stands at the head of a, which is free; somebody else holds b. */
static void reserve_a(struct series_waiter *series)
{
    series_waiter_init(series, client, ab, 2);
    series->releases = true;
    series_waiter_start_as(series, 1);
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
}

static rql_lock_options impatient(const rql_client *of)
{
    rql_lock_options options = patient(of);

    options.timeout_ms = GIVE_UP_MS;
    return options;
}

/* All go home; what they did before they did. */
static void check_all_are_served(struct series_waiter *series)
{
    CHECK_OK(series_waiter_join(series));
    await_int(0, "ZCARD rql:lock_queue:a");
    await_int(0, "ZCARD rql:lock_queue:b");
    await_int(0, "EXISTS rql:lock:a rql:lock:b");
}

static void a_holder_has_what_is_reserved_for_who_waits_for_it(void **state)
{
    rql_lock_options options = impatient(other);
    rql_lock *held = hold(other, "b");
    struct series_waiter series;
    rql_lock *inner = NULL;
    int64_t begun_us;
    rql_status status;

    (void)state;
    reserve_a(&series);
    begun_us = wait_clock_us();
    status = rql_lock_acquire(other, "a", &options, &inner, NULL);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_lock_release(inner, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    check_all_are_served(&series);
    assert_int_equal(status, RQL_OK);
    check_soon("nested", begun_us);
}

/* As after the gem's lock without a block. */
static void a_holder_that_left_its_lock_to_its_ttl_is_one(void **state)
{
    rql_lock_options options = impatient(other);
    struct series_waiter series;
    rql_lock *inner = NULL;
    int64_t begun_us;
    rql_status status;

    (void)state;
    (void)rql_lock_forget(hold(other, "b"));
    reserve_a(&series);
    begun_us = wait_clock_us();
    status = rql_lock_acquire(other, "a", &options, &inner, NULL);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_lock_release(inner, NULL);
    CHECK_OK(rql_force_unlock(other, "b", NULL, NULL));
    check_all_are_served(&series);
    assert_int_equal(status, RQL_OK);
    check_soon("nested in what was left to its ttl", begun_us);
}

/* Who holds nothing has come before, and waits behind the reservation. */
static void a_holder_is_served_before_those_who_hold_nothing(void **state)
{
    rql_lock_options options = impatient(other);
    rql_lock *held = hold(other, "b");
    struct waiter idle = {.client = third, .name = "a", .options = patient(third)};
    struct series_waiter series;
    rql_lock *inner = NULL;
    int64_t begun_us;
    rql_status status;

    (void)state;
    idle.releases = true;
    reserve_a(&series);
    waiter_start_as(&idle, 2);
    begun_us = wait_clock_us();
    status = rql_lock_acquire(other, "a", &options, &inner, NULL);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_lock_release(inner, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&idle));
    check_all_are_served(&series);
    assert_int_equal(status, RQL_OK);
    check_soon("nested, before others", begun_us);
}

/* In a thread of its own: it holds b and waits for a. */
struct nested {
    pthread_t thread;
    rql_status status;
    int64_t granted_us;
    atomic_bool may_ask; /* for a */
};

static bool may_ask(void *data)
{
    return ((const struct nested *)data)->may_ask;
}

static void *run_nested(void *data)
{
    struct nested *self = data;
    rql_lock_options options = impatient(other);
    rql_lock *outer = NULL;
    rql_lock *inner = NULL;

    self->status = rql_lock_acquire(other, "b", &options, &outer, NULL);
    (void)wait_until(may_ask, self, AWAIT_MS);
    self->status = rql_lock_acquire(other, "a", &options, &inner, NULL);
    self->granted_us = wait_clock_us();
    (void)rql_lock_release(inner, NULL);
    (void)rql_lock_release(outer, NULL);
    return NULL;
}

static void start_nested(struct nested *self)
{
    self->status = RQL_TIMED_OUT;
    self->may_ask = false;
    assert_int_equal(pthread_create(&self->thread, NULL, run_nested, self), 0);
    await_int(1, "EXISTS rql:lock:b");
}

/* The circle is closed by a release: a was held by somebody else when both came. */
static void a_holder_that_waits_already_is_served_first(void **state)
{
    rql_lock *held = hold(third, "a");
    struct series_waiter series;
    struct nested nested;
    int64_t released_us;

    (void)state;
    start_nested(&nested);
    series_waiter_init(&series, client, ab, 2);
    series.releases = true;
    series_waiter_start_as(&series, 1);
    nested.may_ask = true;
    await_int(2, "ZCARD rql:lock_queue:a");
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(pthread_join(nested.thread, NULL), 0);
    check_all_are_served(&series);
    assert_int_equal(nested.status, RQL_OK);
    check_soon("nested, by a release", nested.granted_us - released_us);
}

/* Nobody can know whether that Ruby is part of the circle. */
static void a_holder_behind_a_ruby_is_served_first_too(void **state)
{
    rql_lock *held = hold(third, "a");
    struct series_waiter series;
    struct nested nested;
    struct ruby ruby;
    int64_t released_us;

    (void)state;
    ruby_open(&ruby, 1);
    start_nested(&nested);
    series_waiter_init(&series, client, ab, 2);
    series.releases = true;
    series_waiter_start_as(&series, 1);
    assert_false(ruby_try(&ruby, "a", 60000));
    nested.may_ask = true;
    await_int(3, "ZCARD rql:lock_queue:a");
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(pthread_join(nested.thread, NULL), 0);
    RUBY_DO(&ruby, "ZREM rql:lock_queue:a %s", ruby.acq_id);
    ruby_close(&ruby);
    check_all_are_served(&series);
    assert_int_equal(nested.status, RQL_OK);
    check_soon("nested, behind a Ruby", nested.granted_us - released_us);
}

/* The series asks, and is marked itself: it may not keep for itself what it cannot take. */
static void a_series_of_a_holder_lets_another_holder_by(void **state)
{
    struct series_waiter series;
    struct nested nested;
    struct ruby ruby;
    int64_t released_us;

    (void)state;
    ruby_open(&ruby, 1);
    assert_true(ruby_lock(&ruby, "a", 60000, GIVE_UP_MS));
    start_nested(&nested);
    series_waiter_init(&series, client, ab, 2);
    series.wish.lock.nested = true;
    series.releases = true;
    series_waiter_start_as(&series, 1);
    nested.may_ask = true;
    await_int(2, "ZCARD rql:lock_queue:a");
    ruby_sleep_ms(RUBY_DELAY_MS); /* the series watches */
    released_us = wait_clock_us();
    ruby_release(&ruby, "a");
    assert_int_equal(pthread_join(nested.thread, NULL), 0);
    ruby_close(&ruby);
    check_all_are_served(&series);
    assert_int_equal(nested.status, RQL_OK);
    check_soon("nested, past a series of a holder", nested.granted_us - released_us);
}

/* Being a holder is of no advantage where nothing is reserved. */
static void a_holder_waits_in_line_for_a_lock_that_is_held(void **state)
{
    rql_lock *held = hold(third, "a");
    struct waiter first = {.client = client, .name = "a", .options = patient(client)};
    struct nested nested;
    int64_t first_us;

    (void)state;
    waiter_start_as(&first, 1);
    start_nested(&nested);
    nested.may_ask = true;
    await_int(2, "ZCARD rql:lock_queue:a");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&first));
    first_us = first.ended_us;
    CHECK_OK(rql_lock_release(first.lock, NULL));
    assert_int_equal(pthread_join(nested.thread, NULL), 0);
    assert_int_equal(nested.status, RQL_OK);
    assert_true(first_us < nested.granted_us);
}

/* One after the other, and the last is reserved for a series that waits for the first. */
static void a_gem_series_has_what_is_reserved_for_who_waits_for_it(void **state)
{
    static const char *const bca[] = {"b", "c", "a"};
    rql_lock *held = hold(third, "c");
    struct series_waiter gem;
    struct series_waiter series;
    int64_t released_us;

    (void)state;
    series_waiter_init(&gem, other, bca, 3);
    gem.wish.options.mode = RQL_SERIES_GEM;
    gem.wish.lock.timeout_ms = GIVE_UP_MS;
    gem.releases = true;
    series_waiter_start(&gem);
    await_int(1, "EXISTS rql:lock:b");
    await_int(1, "ZCARD rql:lock_queue:c");
    reserve_a(&series);
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    (void)series_waiter_join(&gem);
    check_all_are_served(&series);
    assert_int_equal(gem.status, RQL_OK);
    check_soon("a series of the gem's", gem.ended_us - released_us);
}

static void what_a_loop_holds_counts_for_all_its_requests(void **state)
{
    struct asked outer = asked_for();
    struct asked inner = asked_for();
    struct series_waiter series;
    int64_t begun_us;

    (void)state;
    inner.options = impatient(client);
    start_asking(&outer, "b");
    await_asked(&outer);
    series_waiter_init(&series, other, ab, 2);
    series.releases = true;
    series_waiter_start_as(&series, 1);
    begun_us = wait_clock_us();
    start_asking(&inner, "a");
    await_asked(&inner);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_lock_release(inner.lock, NULL);
    CHECK_OK(rql_lock_release(outer.lock, NULL));
    check_all_are_served(&series);
    assert_int_equal(inner.status, RQL_OK);
    check_soon("on a loop", begun_us);
}

static void a_task_that_holds_is_known_as_a_holder(void **state)
{
    struct asked outer = asked_for();
    struct asked inner = asked_for();
    struct series_waiter series;
    int64_t begun_us;

    (void)state;
    outer.options.task = 7;
    inner.options = impatient(client);
    inner.options.task = 7;
    start_asking(&outer, "b");
    await_asked(&outer);
    series_waiter_init(&series, other, ab, 2);
    series.releases = true;
    series_waiter_start_as(&series, 1);
    begun_us = wait_clock_us();
    start_asking(&inner, "a");
    await_asked(&inner);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_lock_release(inner.lock, NULL);
    CHECK_OK(rql_lock_release(outer.lock, NULL));
    check_all_are_served(&series);
    assert_int_equal(inner.status, RQL_OK);
    check_soon("a task", begun_us);
}

static void a_holder_may_ask_by_a_series(void **state)
{
    static const char *const ac[] = {"a", "c"};
    rql_lock *held = hold(other, "b");
    struct series_waiter series;
    struct wish wish;
    rql_series *inner = NULL;
    int64_t begun_us;
    rql_status status;

    (void)state;
    reserve_a(&series);
    wish_for(&wish, other, ac, 2);
    wish.lock.timeout_ms = GIVE_UP_MS;
    begun_us = wait_clock_us();
    status = rql_series_acquire(other, &wish.options, &inner, NULL);
    begun_us = wait_clock_us() - begun_us;
    (void)rql_series_release(inner, NULL, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    check_all_are_served(&series);
    assert_int_equal(status, RQL_OK);
    check_soon("a series of a holder", begun_us);
}

/* lock { lock } of the gem: nothing is known of it, so it has to wait until the reservation ends.
 */
static void check_ruby_has_what_is_reserved(bool has_company)
{
    struct waiter idle = {.client = third, .name = "a", .options = patient(third)};
    struct series_waiter series;
    struct ruby ruby;
    int64_t begun_us;
    bool has_it;

    ruby_open(&ruby, 1);
    assert_true(ruby_lock(&ruby, "b", 60000, GIVE_UP_MS));
    reserve_a(&series);
    idle.releases = true;
    if (has_company) {
        waiter_start_as(&idle, 2);
    }
    begun_us = wait_clock_us();
    has_it = ruby_lock(&ruby, "a", 60000, GIVE_UP_MS);
    begun_us = wait_clock_us() - begun_us;
    if (has_it) {
        ruby_release(&ruby, "a");
    }
    ruby_release(&ruby, "b");
    if (has_company) {
        CHECK_OK(waiter_join(&idle));
    }
    check_all_are_served(&series);
    ruby_close(&ruby);
    print_message("# Ruby, %s: %s after %lld us\n", has_company ? "behind one more" : "nested",
                  has_it ? "served" : "not served", (long long)begun_us);
    assert_true(has_it);
    assert_true(begun_us < RESERVED_US * (has_company ? 3 : 1) + RUBY_POLL_US + SLACK_US);
}

static void a_ruby_that_holds_has_it_when_the_reservation_ends(void **state)
{
    (void)state;
    check_ruby_has_what_is_reserved(false);
    ask("FLUSHALL");
    check_ruby_has_what_is_reserved(true);
}

static void a_reservation_ends_for_others_later_each_time(void **state)
{
    rql_lock_options options = patient(other);
    rql_lock *held = hold(third, "b");
    struct series_waiter series;
    int64_t took_us[2];

    (void)state;
    options.timeout_ms = GIVE_UP_MS;
    reserve_a(&series);
    for (int i = 0; i < 2; i++) {
        rql_lock *lock = NULL;
        rql_status status;

        took_us[i] = wait_clock_us();
        status = rql_lock_acquire(other, "a", &options, &lock, NULL);
        took_us[i] = wait_clock_us() - took_us[i];
        print_message("# passed for the %s time: %s after %lld us\n", i == 0 ? "first" : "second",
                      rql_status_text(status), (long long)took_us[i]);
        (void)rql_lock_release(lock, NULL);
    }
    CHECK_OK(rql_lock_release(held, NULL));
    check_all_are_served(&series);
    assert_in_range(took_us[0], RESERVED_US / 2, RESERVED_US + SLACK_US);
    assert_in_range(took_us[1], RESERVED_US + SLACK_US, 2 * RESERVED_US + SLACK_US);
}

/* Only one is let past, and the series keeps its place before the others. */
static void a_series_that_was_passed_is_next(void **state)
{
    struct waiter waiters[3];
    rql_lock *held = hold(third, "b");
    struct series_waiter series;

    (void)state;
    reserve_a(&series);
    for (int i = 0; i < 3; i++) {
        waiters[i] = (struct waiter){.client = i == 1 ? third : other,
                                     .name = "a",
                                     .options = patient(other),
                                     .releases = i > 0};
        waiter_start_as(&waiters[i], i + 2);
    }
    CHECK_OK(waiter_join(&waiters[0]));
    CHECK_OK(rql_lock_release(held, NULL)); /* b is free, and a is held by who was let past */
    assert_int_equal(ask_int("EXISTS rql:lock:b"), 0);
    CHECK_OK(rql_lock_release(waiters[0].lock, NULL));
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(waiter_join(&waiters[1]));
    CHECK_OK(waiter_join(&waiters[2]));
    assert_true(waiters[0].token < series.token);
    assert_true(series.token < waiters[1].token);
    assert_true(waiters[1].token < waiters[2].token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_three, tear_down_three)
        TEST(a_holder_has_what_is_reserved_for_who_waits_for_it),
        TEST(a_holder_that_left_its_lock_to_its_ttl_is_one),
        TEST(a_holder_is_served_before_those_who_hold_nothing),
        TEST(a_holder_that_waits_already_is_served_first),
        TEST(a_holder_behind_a_ruby_is_served_first_too),
        TEST(a_series_of_a_holder_lets_another_holder_by),
        TEST(a_holder_waits_in_line_for_a_lock_that_is_held),
        TEST(a_gem_series_has_what_is_reserved_for_who_waits_for_it),
        TEST(what_a_loop_holds_counts_for_all_its_requests),
        TEST(a_task_that_holds_is_known_as_a_holder),
        TEST(a_holder_may_ask_by_a_series),
        TEST(a_ruby_that_holds_has_it_when_the_reservation_ends),
        TEST(a_reservation_ends_for_others_later_each_time),
        TEST(a_series_that_was_passed_is_next),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
