#include "async_fixture.h"

enum { CROWD = 16, ROUNDS = 20 };

static bool all_released(const void *data)
{
    const struct asked *crowd = data;

    for (size_t i = 0; i < CROWD; i++) {
        if (crowd[i].n_released == 0) {
            return false;
        }
    }
    return true;
}

static void start_crowd(struct asked crowd[CROWD], const char *name)
{
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        start_asking(&crowd[i], name);
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:%s", name);
}

/* They do not ask at ticks. */
static void start_patient_crowd(struct asked crowd[CROWD])
{
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        crowd[i].options.retry_delay_ms = 3600000;
        start_asking(&crowd[i], "x");
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
}

/* The client's subscriber of this loop is there. */
static void await_subscription(void)
{
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

static void the_queue_is_served_in_the_order_of_the_calls(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];

    (void)state;
    start_crowd(crowd, "x");
    await_subscription();
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(all_released, crowd);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK_OK(crowd[i].status);
        CHECK_OK(crowd[i].release_status);
        assert_int_equal(crowd[i].n_done, 1);
        assert_true(i == 0 || crowd[i].order > crowd[i - 1].order);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

static void threads_and_loops_wait_in_one_queue(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter before = {.client = client, .name = "x", .options = patient(client)};
    struct waiter after = {.client = other, .name = "x", .options = patient(other)};
    struct asked first = asked_for();
    struct asked last = asked_for();

    (void)state;
    before.releases = true;
    waiter_start_as(&before, 1);
    first.releases = true;
    start_asking(&first, "x");
    run_until_int(2, "ZCARD rql:lock_queue:x");
    waiter_start_as(&after, 3);
    start_asking(&last, "x");
    run_until_int(4, "ZCARD rql:lock_queue:x");
    run_until_int(2, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&first);
    CHECK_OK(waiter_join(&before));
    run_until_int(1, "ZCARD rql:lock_queue:x");
    assert_int_equal(last.n_done, 0);
    CHECK_OK(waiter_join(&after));
    assert_true(before.token < rql_lock_token(after.lock));
    CHECK_OK(rql_lock_release(after.lock, NULL));
    await_asked(&last);
    CHECK_OK(last.status);
    assert_true(after.token < rql_lock_token(last.lock));
    CHECK_OK(release_and_wait(last.lock));
    CHECK_QUEUE_IS_EMPTY("x");
}

static void a_contended_lock_costs_two_commands(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];
    int64_t calls;

    (void)state;
    start_patient_crowd(crowd);
    await_subscription();
    run_for_ms(300); /* the looks after the subscription are over */
    calls = calls_of("evalsha");
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(all_released, crowd);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK_OK(crowd[i].status);
    }
    /* They have asked: now each costs a release. A stall may cost a poll. */
    assert_in_range(calls_of("evalsha") - calls, CROWD + 1, CROWD + 4);
    CHECK_QUEUE_IS_EMPTY("x");
}

static void a_cancelled_request_leaves_nothing(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();
    rql_refusal refusal = {0};
    rql_stats stats;

    (void)state;
    asked.options.refusal = &refusal;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_request_cancel(asked.what.request));
    assert_int_equal(asked.n_done, 0);
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CANCELLED);
    assert_null(asked.lock);
    assert_int_equal(refusal.reason, RQL_CANCELLED);
    assert_string_equal(refusal.message, "The request for the lock \"rql:lock:x\" was cancelled.");
    if (rql_client_stats(client, &stats) == RQL_OK) {
        assert_int_equal(stats.cancelled, 1);
        assert_true(stats.commands >= 2);
        assert_true(stats.connections >= 1);
    }
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void a_request_may_be_cancelled_before_it_begins(void **state)
{
    struct asked asked = asked_for();

    (void)state;
    start_asking(&asked, "x");
    CHECK_OK(rql_request_cancel(asked.what.request));
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CANCELLED);
    CHECK_QUEUE_IS_EMPTY("x");
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static bool is_sent(const void *data)
{
    rql_stats stats;

    return rql_client_stats(client, &stats) == RQL_E_UNSUPPORTED ||
           stats.commands > *(const int64_t *)data;
}

static void a_request_may_be_cancelled_while_it_is_asked(void **state)
{
    struct asked warm = asked_for();
    struct asked asked = asked_for();
    rql_stats stats = {0};

    (void)state;
    start_asking(&warm, "warm");
    await_asked(&warm);
    (void)!rql_client_stats(client, &stats);
    redis_server_pause(&server);
    start_asking(&asked, "x");
    run_until(is_sent, &stats.commands);
    CHECK_OK(rql_request_cancel(asked.what.request));
    (void)uv_run(&uv, UV_RUN_NOWAIT);
    assert_int_equal(asked.n_done, 0);
    redis_server_resume(&server);
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_CANCELLED);
    CHECK_QUEUE_IS_EMPTY("x");
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    CHECK_OK(release_and_wait(warm.lock));
}

static void a_grant_and_a_cancel_at_once_leak_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        rql_lock *held = hold(other, "x");
        struct asked asked = asked_for();

        start_asking(&asked, "x");
        run_until_int(1, "ZCARD rql:lock_queue:x");
        await_subscription();
        CHECK_OK(rql_lock_release(held, NULL)); /* hands it over */
        CHECK_OK(rql_request_cancel(asked.what.request));
        await_asked(&asked);
        if (asked.status == RQL_OK) {
            CHECK_OK(release_and_wait(asked.lock));
        } else {
            assert_int_equal(asked.status, RQL_CANCELLED);
        }
        CHECK_QUEUE_IS_EMPTY("x");
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    }
}

static void the_next_one_leads_when_the_leader_goes(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked first = asked_for();
    struct asked second = asked_for();

    (void)state;
    start_asking(&first, "x");
    start_asking(&second, "x");
    run_until_int(2, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_request_cancel(first.what.request));
    await_asked(&first);
    ask("DEL rql:lock:x"); /* no script, so nobody is told: it is found by polling */
    await_asked(&second);
    CHECK_OK(second.status);
    CHECK_OK(release_and_wait(second.lock));
    CHECK_QUEUE_IS_EMPTY("x");
    (void)rql_lock_release(held, NULL);
}

/* A crowd in front of a lock that nothing happens to: as many questions as one waiter has. */
static void followers_do_not_ask(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];
    int64_t calls;
    int64_t begun_us;

    (void)state;
    start_crowd(crowd, "x");
    await_subscription();
    run_for_ms(300); /* the looks after the subscription are over */
    begun_us = wait_clock_us();
    calls = calls_of("evalsha");
    run_for_ms(1000);
    calls = calls_of("evalsha") - calls;
    assert_true(calls >= 1);
    assert_true(calls <= 2 + (wait_clock_us() - begun_us) / 200000);
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(all_released, crowd);
}

/* Until its time is over. */
static void ask_in_vain(struct asked *asked)
{
    int rounds = 0;

    do {
        asked->n_done = 0;
        start_asking(asked, "x");
        await_asked(asked);
    } while (is_cut_short(asked->status, "x", &rounds));
    assert_int_equal(asked->status, RQL_TIMED_OUT);
}

static void times_out(int64_t timeout_ms)
{
    struct asked asked = asked_for();
    int64_t begun_us = wait_clock_us();

    asked.options.timeout_ms = timeout_ms;
    ask_in_vain(&asked);
    assert_true(wait_clock_us() - begun_us >= timeout_ms * 1000);
    CHECK_QUEUE_IS_EMPTY("x");
}

struct looks {
    int64_t at_least;
};

static bool has_looks(const void *data)
{
    return calls_of("evalsha") >= ((const struct looks *)data)->at_least;
}

/* What was said while nobody listened is lost: all look, those too who else leave it to the first.
 */
static void all_look_when_the_subscriber_has_come_back(void **state)
{
    static struct asked crowd[CROWD]; /* outlives a failure */
    rql_lock *held = hold(other, "x");
    struct looks looks = {.at_least = calls_of("evalsha") + 2 * CROWD};

    (void)state;
    start_patient_crowd(crowd);
    for (int i = 0; i < 3; i++) {
        run_until(has_looks, &looks);
        looks.at_least = calls_of("evalsha") + CROWD;
        ask("CLIENT KILL TYPE pubsub");
    }
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(all_released, crowd);
}

static void deadlines_end_a_wait(void **state)
{
    rql_lock *held = hold(other, "x");
    (void)state;
    times_out(0);
    times_out(1);
    times_out(300);
    (void)rql_lock_release(held, NULL);
}

static void tries_are_counted_by_timer(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    (void)state;
    asked.options.retry_count = 3;
    asked.options.retry_delay_ms = 30;
    asked.options.retry_jitter_ms = 0;
    start_asking(&asked, "x");
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_RETRY_LIMIT);
    CHECK_QUEUE_IS_EMPTY("x");
    (void)rql_lock_release(held, NULL);
}

static void followers_count_the_tries_that_they_slept_through(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked first = asked_for();
    struct asked second = asked_for();
    rql_lock_facts facts;

    (void)state;
    second.options.retry_delay_ms = 10;
    second.options.retry_jitter_ms = 0;
    first.releases = true;
    start_asking(&first, "x");
    run_until_int(1,
                  "ZCARD rql:lock_queue:x"); /* connected: the second one counts from its begin */
    start_asking(&second, "x");
    run_until_int(2, "ZCARD rql:lock_queue:x");
    run_for_ms(200);
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&second);
    facts = rql_lock_describe(second.lock);
    assert_in_range(facts.tries, facts.waited_us / 10000 - 3, facts.waited_us / 10000 + 3);
    CHECK_OK(release_and_wait(second.lock));
}

static void a_refusal_is_described(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();
    rql_refusal refusal = {0};

    (void)state;
    asked.options.timeout_ms = wait_stretched(50);
    asked.options.detailed_acq_timeout_error = true;
    asked.options.refusal = &refusal;
    ask_in_vain(&asked);
    assert_int_equal(refusal.reason, RQL_TIMED_OUT);
    assert_non_null(refusal.holder);
    assert_string_equal(refusal.holder->lock_key, "rql:lock:x");
    rql_refusal_clear(&refusal);
    (void)rql_lock_release(held, NULL);
}

static void a_try_does_not_wait(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    (void)state;
    asked.options.fail_fast = true;
    start_asking(&asked, "x");
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_FAIL_FAST_NO_TRY);
    CHECK_QUEUE_IS_EMPTY("x");
    (void)rql_lock_release(held, NULL);
}

static void a_named_task_waits_once(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked first = asked_for();
    struct asked second = asked_for();
    struct asked elsewhere = asked_for();
    char expected[RQL_ID_SIZE];

    (void)state;
    first.options.task = 7;
    second.options.task = 7;
    elsewhere.options.task = 7;
    start_asking(&first, "x");
    start_asking(&second, "x");
    start_asking(&elsewhere, "y");
    await_asked(&second);
    assert_int_equal(second.status, RQL_E_BUSY);
    assert_int_equal(second.error.status, RQL_E_BUSY);
    await_asked(&elsewhere);
    CHECK_OK(elsewhere.status);
    assert_string_equal(rql_lock_describe(elsewhere.lock).acq_id,
                        rql_current_acquirer_id(client, 7, expected));
    CHECK_OK(release_and_wait(elsewhere.lock));
    CHECK_OK(rql_request_cancel(first.what.request));
    await_asked(&first);
    assert_int_equal(first.status, RQL_CANCELLED);
    (void)rql_lock_release(held, NULL);
}

static void a_task_that_holds_may_enter_again(void **state)
{
    struct asked outer = asked_for();
    struct asked inner = asked_for();

    (void)state;
    outer.options.task = 7;
    inner.options.task = 7;
    inner.options.conflict_strategy = RQL_WORK_THROUGH;
    start_asking(&outer, "x");
    await_asked(&outer);
    start_asking(&inner, "x");
    await_asked(&inner);
    CHECK_OK(inner.status);
    assert_int_equal(rql_lock_describe(inner.lock).process, RQL_CONFLICT_WORK_THROUGH);
    CHECK_OK(release_and_wait(inner.lock));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    CHECK_OK(release_and_wait(outer.lock));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* Nobody looks at the loop for longer than a heartbeat may be late. */
static void a_loop_that_stalls_loses_no_place(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();
    struct waiter behind = {.client = other, .name = "x", .options = patient(other)};
    int64_t end_us;

    (void)state;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    await_subscription();
    waiter_start_as(&behind, 2);
    end_us = wait_clock_us() + 2500000;
    while (wait_clock_us() < end_us) {
        (void)ask_int("ZCARD rql:lock_queue:x");
    }
    run_for_ms(1);
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
    CHECK_OK(waiter_join(&behind));
    assert_true(behind.token > 0);
    CHECK_OK(rql_lock_release(behind.lock, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(the_queue_is_served_in_the_order_of_the_calls),
        LOOP_TEST(threads_and_loops_wait_in_one_queue),
        LOOP_TEST(a_contended_lock_costs_two_commands),
        LOOP_TEST(a_cancelled_request_leaves_nothing),
        LOOP_TEST(a_request_may_be_cancelled_before_it_begins),
        LOOP_TEST(a_request_may_be_cancelled_while_it_is_asked),
        LOOP_TEST(a_grant_and_a_cancel_at_once_leak_nothing),
        LOOP_TEST(the_next_one_leads_when_the_leader_goes),
        LOOP_TEST(followers_do_not_ask),
        LOOP_TEST(all_look_when_the_subscriber_has_come_back),
        LOOP_TEST(deadlines_end_a_wait),
        LOOP_TEST(tries_are_counted_by_timer),
        LOOP_TEST(followers_count_the_tries_that_they_slept_through),
        LOOP_TEST(a_refusal_is_described),
        LOOP_TEST(a_try_does_not_wait),
        LOOP_TEST(a_named_task_waits_once),
        LOOP_TEST(a_task_that_holds_may_enter_again),
        LOOP_TEST(a_loop_that_stalls_loses_no_place),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
