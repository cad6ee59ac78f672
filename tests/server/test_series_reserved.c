#include "series_fixture.h"

#include "clients.h"
#include "ruby.h"

#include <stdatomic.h>

/* A free lock is reserved for a series, and others come and go meanwhile: the reservation ends all
 * the same, for whoever waits. */

enum {
    RESERVED_US = 2000000,
    SLACK_US = 900000,
    BRIEF_MS = 300, /* less than a reservation lasts */
    GIVE_UP_MS = 8000,
    MOMENT_MS = 100,
    SELDOM_MS = 60000,
};

static const char *const ab[] = {"a", "b"};
static const char *const ac[] = {"a", "c"};
static rql_client *third;

/* a is free, and reserved for a series that asks seldom; b and c are held for long. */
static struct series_waiter series;

static void hold_for_long(const char *name)
{
    ask("HSET rql:lock:%s acq_id o hst_id h ts 1.0 ini_ttl 60000", name);
    ask("PEXPIRE rql:lock:%s 60000", name);
}

static int set_up_reserved(void **state)
{
    int result = set_up(state);

    third = new_client();
    make_listen(client, other);
    make_listen(other, client);
    make_listen(third, client);
    hold_for_long("b");
    hold_for_long("c");
    series_waiter_init(&series, client, ab, 2);
    series.wish.lock.retry_delay_ms = SELDOM_MS;
    series.releases = true;
    series_waiter_start_as(&series, 1);
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    return result;
}

static int tear_down_reserved(void **state)
{
    ask("DEL rql:lock:b rql:lock:c");
    CHECK_OK(series_waiter_join(&series));
    third = rql_client_free(third);
    return tear_down(state);
}

/* Somebody who does the same again and again. */
struct nuisance {
    void (*round)(void);
    pthread_t thread;
    atomic_bool is_over;
};

static void *be_a_nuisance(void *data)
{
    struct nuisance *self = data;

    while (!self->is_over) {
        self->round();
    }
    return NULL;
}

/* Somebody who holds nothing waits for a beside it. */
static void check_beside(void (*round)(void), const char *text)
{
    struct waiter waiter = {.client = other, .name = "a", .options = patient(other)};
    struct nuisance nuisance = {.round = round};
    int64_t begun_us = wait_clock_us();

    waiter.options.timeout_ms = GIVE_UP_MS;
    waiter.releases = true;
    waiter_start_as(&waiter, 2);
    assert_int_equal(pthread_create(&nuisance.thread, NULL, be_a_nuisance, &nuisance), 0);
    (void)waiter_join(&waiter);
    nuisance.is_over = true;
    assert_int_equal(pthread_join(nuisance.thread, NULL), 0);
    print_message("# beside %s: %s after %lld us\n", text, rql_status_text(waiter.status),
                  (long long)(waiter.ended_us - begun_us));
    CHECK_OK(waiter.status);
    assert_true(waiter.ended_us - begun_us < (RESERVED_US + SLACK_US) * wait_slowness());
}

static void wait_briefly(void)
{
    rql_lock_options options = patient(third);
    rql_lock *lock = NULL;

    options.timeout_ms = BRIEF_MS;
    if (rql_lock_acquire(third, "a", &options, &lock, NULL) == RQL_OK) {
        (void)rql_lock_release(lock, NULL);
    }
}

static void one_who_gives_up_does_not_prolong_a_reservation(void **state)
{
    (void)state;
    check_beside(wait_briefly, "one who gives up");
}

static void wait_briefly_for_several(void)
{
    struct wish wish;
    rql_series *taken = NULL;

    wish_for(&wish, third, ac, 2);
    wish.lock.timeout_ms = BRIEF_MS;
    if (rql_series_acquire(third, &wish.options, &taken, NULL) == RQL_OK) {
        (void)rql_series_release(taken, NULL, NULL);
    }
}

static void a_series_that_gives_up_does_not_prolong_that_of_another(void **state)
{
    (void)state;
    check_beside(wait_briefly_for_several, "a series that gives up");
}

static void take_at_random(void)
{
    rql_lock_options options = patient(third);
    rql_lock *lock;

    options.access_strategy = RQL_RANDOM;
    lock = hold_with(third, "a", &options);
    ruby_sleep_ms(BRIEF_MS);
    (void)rql_lock_release(lock, NULL);
}

static void one_who_takes_at_random_does_not_prolong_a_reservation(void **state)
{
    (void)state;
    check_beside(take_at_random, "one who takes at random");
}

/* Somebody looks at a: it is reserved from now on. */
static int64_t begin_reservation(void)
{
    rql_lock *lock = NULL;

    assert_int_equal(rql_lock_try(other, "a", NULL, &lock, NULL), RQL_FAIL_FAST_AFTER_TRY);
    return wait_clock_us();
}

/* The series asks when its reservation lapses, and does not come back before Ruby has tried. */
static void a_ruby_has_its_turn_when_the_reservation_ends(void **state)
{
    struct ruby ruby;
    int64_t begun_us;
    bool has_it;

    (void)state;
    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "a", 60000));
    begun_us = begin_reservation();
    has_it = ruby_lock(&ruby, "a", 60000, GIVE_UP_MS);
    begun_us = wait_clock_us() - begun_us;
    if (has_it) {
        ruby_release(&ruby, "a");
    }
    ruby_close(&ruby);
    print_message("# a Ruby: %s after %lld us\n", has_it ? "served" : "not served",
                  (long long)begun_us);
    assert_true(has_it);
    assert_true(begun_us < RESERVED_US + SLACK_US);
}

/* Each of them counts as one that was let by, as one of ours does. */
static void a_series_is_passed_by_one_ruby_at_a_time(void **state)
{
    struct ruby first;
    struct ruby second;
    bool has_it;

    (void)state;
    ruby_open(&first, 1);
    ruby_open(&second, 2);
    assert_false(ruby_try(&first, "a", 60000));
    assert_false(ruby_try(&second, "a", 60000));
    (void)begin_reservation();
    assert_true(ruby_lock(&first, "a", 60000, GIVE_UP_MS));
    ruby_sleep_ms(MOMENT_MS); /* the series watches it */
    ruby_release(&first, "a");
    ruby_sleep_ms(MOMENT_MS);
    has_it = ruby_lock(&second, "a", 60000, 10 * MOMENT_MS);
    if (has_it) {
        ruby_release(&second, "a");
    }
    ruby_close(&first);
    ruby_close(&second);
    assert_false(has_it);
}

static void do_nothing(void)
{
    ruby_sleep_ms(MOMENT_MS);
}

/* The clock was set back since it had its turn. */
static void a_ruby_of_the_future_does_not_prolong_a_reservation(void **state)
{
    (void)state;
    freeReplyObject(redisCommand(raw, "HSET rql:req:a ruby %s",
                                 "9795370457159169 1795370454830280 0 1795370454.83 gone"));
    check_beside(do_nothing, "a Ruby of the future");
}

/* The one behind it asks often. */
static void a_series_behind_another_does_not_prolong_its_reservation(void **state)
{
    struct series_waiter second;
    struct ruby ruby;
    int64_t begun_us = wait_clock_us();
    bool has_it;

    (void)state;
    series_waiter_init(&second, third, ac, 2);
    second.wish.lock.retry_delay_ms = 10;
    second.wish.lock.retry_jitter_ms = 0;
    second.releases = true;
    series_waiter_start_as(&second, 1);
    ruby_open(&ruby, 1);
    has_it = ruby_lock(&ruby, "a", 60000, GIVE_UP_MS);
    print_message("# behind two series: %s after %lld us\n", has_it ? "served" : "not served",
                  (long long)(wait_clock_us() - begun_us));
    if (has_it) {
        ruby_release(&ruby, "a");
    }
    ask("DEL rql:lock:b rql:lock:c");
    CHECK_OK(series_waiter_join(&second));
    ruby_close(&ruby);
    assert_true(has_it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_reserved, tear_down_reserved)
        TEST(one_who_gives_up_does_not_prolong_a_reservation),
        TEST(a_series_that_gives_up_does_not_prolong_that_of_another),
        TEST(one_who_takes_at_random_does_not_prolong_a_reservation),
        TEST(a_ruby_of_the_future_does_not_prolong_a_reservation),
        TEST(a_series_behind_another_does_not_prolong_its_reservation),
        TEST(a_ruby_has_its_turn_when_the_reservation_ends),
        TEST(a_series_is_passed_by_one_ruby_at_a_time),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
