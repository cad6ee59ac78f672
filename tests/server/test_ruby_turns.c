#include "series_fixture.h"

#include "async_fixture.h"
#include "ruby.h"

/* Ruby tells nobody that it has released a lock. The waiter of ours whose turn it is has it at once
 * all the same, wherever it stood when it asked last. */

enum {
    ROUNDS = 7,
    LONG_ROUNDS = 101,
    PINGS_MAX = 5, /* in the median of many rounds on a quiet machine */
    HOLD_MS = 40,
    SOON_US = 20000,
    LATE_US = 1000000, /* a poll may be due from then on */
    SLOWNESS_LIMIT = 5,
    N_RUBIES = 20,
    LONG_MS = 12000,
    NO_POLL_MS = 60000,
    POLLS_MS = 400, /* who polls watches what ours holds, too */
};

static rql_client *third;

static int set_up_turns(void **state)
{
    int result = set_up_loop(state);

    third = new_client();
    make_listen(client, other);
    make_listen(other, client);
    make_listen(third, client);
    return result;
}

static int tear_down_turns(void **state)
{
    third = rql_client_free(third);
    return tear_down_loop(state);
}

/* Its own tries come too late to be taken for a notice. */
static struct waiter waiter_of(rql_client *of)
{
    struct waiter waiter = {.client = of, .name = "x", .options = patient(of)};

    waiter.options.retry_delay_ms = NO_POLL_MS;
    return waiter;
}

static int order(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return a < b ? -1 : a > b;
}

static int64_t median(int64_t *times, size_t n)
{
    qsort(times, n, sizeof *times, order);
    return times[n / 2];
}

/* After a pause, as the notice of a release comes: what sleeps is slower to answer. */
static int64_t ping_us(void)
{
    enum { PINGS = 21 };

    int64_t times[PINGS];

    for (size_t i = 0; i < PINGS; i++) {
        ruby_sleep_ms(HOLD_MS);
        times[i] = wait_clock_us();
        ask("PING");
        times[i] = wait_clock_us() - times[i];
    }
    return median(times, PINGS);
}

/* How long a lock was idle that Ruby has released, in each of some rounds. RQL_TEST_LONG: many, and
 * the machine is quiet. */
static void check_idle(const char *text, int64_t (*round)(void))
{
    bool is_long = getenv("RQL_TEST_LONG") != NULL;
    int n_rounds = is_long ? LONG_ROUNDS : ROUNDS;
    int64_t slowness;
    int64_t times[LONG_ROUNDS];
    int64_t middle_us;
    int64_t one_us;

    for (int i = 0; i < n_rounds; i++) {
        times[i] = round();
        ask("FLUSHALL");
    }
    one_us = ping_us();
    middle_us = median(times, (size_t)n_rounds);
    slowness = wait_slowness() < SLOWNESS_LIMIT ? wait_slowness() : SLOWNESS_LIMIT;
    print_message("# %s: idle for %lld us, %lld to %lld; PING %lld us\n", text,
                  (long long)middle_us, (long long)times[0], (long long)times[n_rounds - 1],
                  (long long)one_us);
    assert_true(middle_us < SOON_US * slowness);
    assert_true(times[n_rounds - 1] < LATE_US);
    assert_true(!is_long || middle_us <= PINGS_MAX * one_us);
}

/* The turn of a Ruby that is in front of a free lock: it takes it, holds it for a while and ends it
 * as `ends` says. Returns when. */
static int64_t have_turn(struct ruby *ruby, int64_t hold_ms,
                         void (*ends)(const struct ruby *, const char *name))
{
    int64_t released_us;

    assert_true(ruby_lock(ruby, "x", 60000, LONG_MS));
    ruby_sleep_ms(hold_ms);
    released_us = wait_clock_us();
    ends(ruby, "x");
    return released_us;
}

static int64_t join_and_release(struct waiter *waiter)
{
    CHECK_OK(waiter_join(waiter));
    if (waiter->lock) {
        (void)rql_lock_release(waiter->lock, NULL);
    }
    return waiter->ended_us;
}

/* Ours releases for Ruby, and Ruby for ours. */
static int64_t after_ruby_after_ours(void)
{
    struct waiter waiter = waiter_of(other);
    rql_lock *held = hold(client, "x");
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    waiter_start_as(&waiter, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    released_us = have_turn(&ruby, HOLD_MS, ruby_release);
    released_us = join_and_release(&waiter) - released_us;
    ruby_close(&ruby);
    return released_us;
}

/* It came while Ruby held, but was second then. */
static int64_t after_ruby_behind_another_of_ours(void)
{
    struct waiter first = waiter_of(client);
    struct waiter second = waiter_of(other);
    struct ruby holder;
    struct ruby between;
    int64_t released_us;

    ruby_open(&holder, 1);
    ruby_open(&between, 2);
    assert_true(ruby_lock(&holder, "x", 60000, LONG_MS));
    first.releases = true;
    waiter_start_as(&first, 1);
    assert_false(ruby_try(&between, "x", 60000));
    waiter_start_as(&second, 3);
    ruby_release(&holder, "x");
    CHECK_OK(waiter_join(&first));
    released_us = have_turn(&between, HOLD_MS, ruby_release);
    released_us = join_and_release(&second) - released_us;
    ruby_close(&holder);
    ruby_close(&between);
    return released_us;
}

/* All of them were in front when it asked last. */
static int64_t after_many_rubies(void)
{
    struct waiter waiter = waiter_of(other);
    struct ruby rubies[N_RUBIES + 1];
    int64_t released_us = 0;

    for (int i = 0; i <= N_RUBIES; i++) {
        ruby_open(&rubies[i], i + 1);
        assert_int_equal(ruby_try(&rubies[i], "x", 60000), i == 0);
    }
    waiter_start_as(&waiter, N_RUBIES + 1);
    ruby_sleep_ms(HOLD_MS);
    ruby_release(&rubies[0], "x");
    for (int i = 1; i <= N_RUBIES; i++) {
        released_us = have_turn(&rubies[i], 2, ruby_release);
    }
    released_us = join_and_release(&waiter) - released_us;
    for (int i = 0; i <= N_RUBIES; i++) {
        ruby_close(&rubies[i]);
    }
    return released_us;
}

/* Who polled for its client has given up. */
static int64_t after_the_leader_has_gone(void)
{
    struct waiter leader = waiter_of(other);
    struct waiter waiter = waiter_of(other);
    rql_lock *held = hold(client, "x");
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    leader.options.timeout_ms = 100;
    waiter_start_as(&leader, 2);
    waiter_start(&waiter);
    assert_true(has_timed_out(waiter_join(&leader)));
    await_int(2, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    released_us = have_turn(&ruby, HOLD_MS, ruby_release);
    released_us = join_and_release(&waiter) - released_us;
    ruby_close(&ruby);
    return released_us;
}

/* Ruby holds, and the first of ours, which was told of it, has given up. */
static int64_t after_the_first_has_gone(void)
{
    struct waiter first = waiter_of(client);
    struct waiter second = waiter_of(other);
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    assert_true(ruby_lock(&ruby, "x", 60000, LONG_MS));
    first.options.timeout_ms = 100;
    waiter_start_as(&first, 1);
    waiter_start_as(&second, 2);
    assert_true(has_timed_out(waiter_join(&first)));
    await_int(1, "ZCARD rql:lock_queue:x");
    ruby_sleep_ms(HOLD_MS);
    released_us = wait_clock_us();
    ruby_release(&ruby, "x");
    released_us = join_and_release(&second) - released_us;
    ruby_close(&ruby);
    return released_us;
}

/* Nobody of ours stands in the queue any more when ours releases. */
static int64_t after_ruby_swept_the_queue(void)
{
    struct waiter waiter = waiter_of(other);
    rql_lock *held = hold(client, "x");
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    waiter_start_as(&waiter, 1);
    RUBY_DO(&ruby, "ZREMRANGEBYSCORE rql:lock_queue:x -inf %.6f", ruby_now());
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    released_us = join_and_release(&waiter) - released_us;
    ruby_close(&ruby);
    return released_us;
}

/* It swept them, and is the only one left. */
static int64_t after_ruby_swept_all_but_itself(void)
{
    struct waiter waiter = waiter_of(other);
    rql_lock *held = hold(client, "x");
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    waiter_start_as(&waiter, 1);
    RUBY_DO(&ruby, "ZREMRANGEBYSCORE rql:lock_queue:x -inf %.6f", ruby_now());
    assert_false(ruby_try(&ruby, "x", 60000));
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    released_us = join_and_release(&waiter) - released_us; /* it came before Ruby */
    assert_true(ruby_lock(&ruby, "x", 60000, LONG_MS));
    ruby_release(&ruby, "x");
    ruby_close(&ruby);
    return released_us;
}

static int64_t after_ruby_on_a_loop(void)
{
    struct asked asked = asked_for();
    rql_lock *held = hold(other, "x");
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    asked.options.retry_delay_ms = NO_POLL_MS;
    start_asking(&asked, "x");
    run_until_int(2, "ZCARD rql:lock_queue:x");
    run_for_ms(HOLD_MS);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_true(ruby_lock(&ruby, "x", 60000, LONG_MS));
    run_for_ms(HOLD_MS);
    released_us = wait_clock_us();
    ruby_release(&ruby, "x");
    await_asked(&asked);
    released_us = wait_clock_us() - released_us;
    assert_int_equal(asked.status, RQL_OK);
    CHECK_OK(rql_lock_release(asked.lock, NULL));
    ruby_close(&ruby);
    return released_us;
}

/* Ruby holds the second of its locks. */
static int64_t before_a_series(void)
{
    static const char *const names[] = {"w", "x"};
    struct series_waiter waiter;
    struct ruby ruby;
    int64_t released_us;

    ruby_open(&ruby, 1);
    assert_true(ruby_lock(&ruby, "x", 60000, LONG_MS));
    series_waiter_init(&waiter, other, names, 2);
    waiter.wish.lock.retry_delay_ms = NO_POLL_MS;
    waiter.releases = true;
    series_waiter_start_as(&waiter, 1);
    ruby_sleep_ms(HOLD_MS);
    released_us = wait_clock_us();
    ruby_release(&ruby, "x");
    CHECK_OK(series_waiter_join(&waiter));
    ruby_close(&ruby);
    return waiter.ended_us - released_us;
}

/* The way of the gem's unlock and clear_locks, whoever holds the lock. */
static void (*way)(const struct ruby *, const char *name);
static bool is_of_ruby;

enum { N_WAITERS = 6 };

/* They are served as they came, whatever Ruby has done to the queue. */
static int64_t after_the_queue_was_emptied(void)
{
    rql_client *const of[N_WAITERS] = {client, other, client, third, other, third};
    struct waiter waiters[N_WAITERS];
    struct ruby ruby;
    rql_lock *held = is_of_ruby ? NULL : hold(client, "x");
    int64_t released_us;
    int64_t token = 0;

    ruby_open(&ruby, 1);
    assert_true(held || ruby_lock(&ruby, "x", 60000, LONG_MS));
    for (int i = 0; i < N_WAITERS; i++) {
        waiters[i] = waiter_of(of[i]);
        waiters[i].options.retry_delay_ms = is_of_ruby ? NO_POLL_MS : POLLS_MS;
        waiters[i].releases = true;
        waiter_start_as(&waiters[i], i + 1);
    }
    await_int(1, "EVAL "
                 "return(tonumber(redis.call('info','stats'):match('tracking_total_keys:([0-9]+)')"
                 ")) 0");
    ruby_sleep_ms(HOLD_MS);
    released_us = wait_clock_us();
    way(&ruby, "x");
    for (int i = 0; i < N_WAITERS; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
    }
    for (int i = 0; i < N_WAITERS; i++) {
        if (waiters[i].token <= token) {
            fail_msg("waiter %d was overtaken", i);
        }
        token = waiters[i].token;
    }
    assert_true(waiters[N_WAITERS - 1].ended_us - released_us < LATE_US);
    if (held) {
        (void)rql_lock_release(held, NULL);
    }
    ruby_close(&ruby);
    return waiters[0].ended_us - released_us;
}

static void check_emptied(const char *text, bool of_ruby,
                          void (*by)(const struct ruby *, const char *name))
{
    is_of_ruby = of_ruby;
    way = by;
    check_idle(text, after_the_queue_was_emptied);
}

static void ours_is_told_after_a_ruby_that_came_after_ours(void **state)
{
    (void)state;
    check_idle("C, Ruby, C", after_ruby_after_ours);
}

static void ours_is_told_that_was_second_when_it_came(void **state)
{
    (void)state;
    check_idle("Ruby, C, Ruby, C", after_ruby_behind_another_of_ours);
}

static void ours_is_told_behind_many_rubies(void **state)
{
    (void)state;
    check_idle("20 Rubies, C", after_many_rubies);
}

static void who_comes_to_lead_is_told(void **state)
{
    (void)state;
    check_idle("C, Ruby, C that gives up, C", after_the_leader_has_gone);
    check_idle("Ruby, C that gives up, C", after_the_first_has_gone);
}

static void who_was_swept_is_told_when_ours_releases(void **state)
{
    (void)state;
    check_idle("C, swept C", after_ruby_swept_the_queue);
    check_idle("C, Ruby, swept C", after_ruby_swept_all_but_itself);
}

static void a_request_on_a_loop_is_told(void **state)
{
    (void)state;
    check_idle("C, Ruby, C on a loop", after_ruby_on_a_loop);
}

static void a_series_is_told(void **state)
{
    (void)state;
    check_idle("Ruby, a series", before_a_series);
}

static void after_rubys_unlock_ours_are_served_as_they_came(void **state)
{
    (void)state;
    check_emptied("unlock of Ruby's", true, ruby_unlock);
    check_emptied("unlock of ours", false, ruby_unlock);
}

static void after_rubys_clear_locks_ours_are_served_as_they_came(void **state)
{
    (void)state;
    check_emptied("clear_locks, of Ruby's", true, ruby_clear_locks);
    check_emptied("clear_locks, of ours", false, ruby_clear_locks);
}

static void unlock_of_ours(const struct ruby *ruby, const char *name)
{
    (void)ruby;
    CHECK_OK(rql_force_unlock(client, name, NULL, NULL));
}

static void clear_locks_of_ours(const struct ruby *ruby, const char *name)
{
    (void)ruby;
    (void)name;
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
}

static void after_our_unlock_ours_are_served_as_they_came(void **state)
{
    (void)state;
    check_emptied("our unlock, of Ruby's", true, unlock_of_ours);
    check_emptied("our unlock, of ours", false, unlock_of_ours);
}

static void after_our_clear_locks_ours_are_served_as_they_came(void **state)
{
    (void)state;
    check_emptied("our clear_locks, of Ruby's", true, clear_locks_of_ours);
    check_emptied("our clear_locks, of ours", false, clear_locks_of_ours);
}

/* It is at the head of a free lock, and leaves. */
static void a_ruby_that_gives_up_does_not_stand_in_the_way(void **state)
{
    struct waiter waiter = waiter_of(other);
    rql_lock *held = hold(client, "x");
    struct ruby ruby;
    int64_t left_us;

    (void)state;
    waiter.options.retry_delay_ms = 200;
    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    waiter_start_as(&waiter, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    left_us = wait_clock_us();
    RUBY_DO(&ruby, "ZREM rql:lock_queue:x %s", ruby.acq_id);
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.ended_us - left_us < LATE_US);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    ruby_close(&ruby);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_turns, tear_down_turns)
        TEST(ours_is_told_after_a_ruby_that_came_after_ours),
        TEST(ours_is_told_that_was_second_when_it_came),
        TEST(ours_is_told_behind_many_rubies),
        TEST(who_comes_to_lead_is_told),
        TEST(who_was_swept_is_told_when_ours_releases),
        TEST(a_request_on_a_loop_is_told),
        TEST(a_series_is_told),
        TEST(after_rubys_unlock_ours_are_served_as_they_came),
        TEST(after_rubys_clear_locks_ours_are_served_as_they_came),
        TEST(after_our_unlock_ours_are_served_as_they_came),
        TEST(after_our_clear_locks_ours_are_served_as_they_came),
        TEST(a_ruby_that_gives_up_does_not_stand_in_the_way),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
