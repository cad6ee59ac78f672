#include "check.h"

#include "base/clock.h"
#include "lock/request.h"

#include <rql/base.h>

/* Requests that are told when they come to lead, and those that their callers take back: what only
 * a loop does. */

enum { ORIGIN_US = 7000000, DELAY_US = 200000, LIFE_US = 1666666 };

static struct rqli_request request;
static struct rqli_request_input view;

static void begin(int64_t tries, int64_t deadline_us)
{
    const struct rqli_request_limits limits = {deadline_us, tries, DELAY_US};

    view =
        (struct rqli_request_input){.now_us = ORIGIN_US, .is_listening = true, .is_notified = true};
    rqli_request_init(&request, &limits);
}

static void queue_up(void)
{
    const struct rqli_request_place place = {.lock_ends_us = RQLI_NEVER_US};

    rqli_request_on_queued(&request, &place, &view);
}

static void check_waits_until(int64_t us)
{
    struct rqli_request_step step = rqli_request_next(&request);

    assert_int_equal(step.want, RQLI_WANT_WAIT);
    assert_int_equal(step.until_us, us);
}

static void check_wants(enum rqli_request_want want)
{
    assert_int_equal(rqli_request_next(&request).want, want);
}

static void check_finished(rql_status status)
{
    struct rqli_request_step step = rqli_request_next(&request);

    assert_int_equal(step.want, RQLI_WANT_FINISH);
    assert_int_equal(step.status, status);
}

static void a_follower_sleeps_until_its_deadline(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    queue_up();
    check_waits_until(RQLI_NEVER_US);
    begin(RQL_FOREVER, ORIGIN_US + 9000000);
    queue_up();
    check_waits_until(ORIGIN_US + 9000000);
    view.now_us += 9000000;
    rqli_request_on_time(&request, &view);
    check_wants(RQLI_WANT_LEAVE);
    rqli_request_on_left(&request, true);
    check_finished(RQL_TIMED_OUT);
}

/* Nor does it ask when nothing can be pushed: who leads does. */
static void a_follower_sleeps_while_nobody_listens(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    view.is_listening = false;
    queue_up();
    check_waits_until(RQLI_NEVER_US);
}

static void a_follower_counts_a_limited_number_of_tries(void **state)
{
    (void)state;
    begin(3, RQLI_NEVER_US);
    view.is_listening = false;
    queue_up();
    for (int i = 1; i < 3; i++) {
        check_waits_until(view.now_us + DELAY_US);
        view.now_us += DELAY_US;
        rqli_request_on_time(&request, &view);
    }
    check_wants(RQLI_WANT_TRY); /* the last one asks */
    queue_up();
    check_wants(RQLI_WANT_LEAVE);
    rqli_request_on_left(&request, true);
    check_finished(RQL_RETRY_LIMIT);
}

static void who_comes_to_lead_asks_at_its_next_tick(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    queue_up();
    view.now_us += 5 * DELAY_US + 1;
    view.leads = true;
    rqli_request_on_lead(&request, &view);
    assert_int_equal(request.tries, 6);
    check_waits_until(ORIGIN_US + 6 * DELAY_US);
    view.now_us = ORIGIN_US + 6 * DELAY_US;
    rqli_request_on_time(&request, &view);
    check_wants(RQLI_WANT_TRY);
}

static void who_comes_to_lead_sends_a_heartbeat_in_time(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    request.limits.delay_us = 3600000000;
    queue_up();
    view.now_us += 60000000;
    view.leads = true;
    rqli_request_on_lead(&request, &view);
    check_waits_until(view.now_us + LIFE_US);
}

static void who_asks_or_leaves_already_does_not_mind_leading(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    view.leads = true;
    rqli_request_on_lead(&request, &view);
    check_wants(RQLI_WANT_TRY);
    queue_up();
    rqli_request_on_cancelled(&request, false);
    rqli_request_on_lead(&request, &view);
    check_wants(RQLI_WANT_LEAVE);
}

static void a_setback_is_slept_off_by_followers_too(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    rqli_request_on_setback(&request, RQL_E_IO, &view);
    check_waits_until(ORIGIN_US + 20000);
    view.now_us += 20000;
    rqli_request_on_time(&request, &view);
    check_wants(RQLI_WANT_TRY);
}

static void tries_slept_through_are_counted(void **state)
{
    (void)state;
    begin(RQL_FOREVER, RQLI_NEVER_US);
    rqli_request_catch_up(&request, &view); /* before the first */
    assert_int_equal(request.tries, 0);
    queue_up();
    assert_int_equal(request.tries, 1);
    view.now_us += DELAY_US - 1;
    rqli_request_catch_up(&request, &view);
    assert_int_equal(request.tries, 1);
    view.now_us += 1;
    rqli_request_catch_up(&request, &view);
    rqli_request_catch_up(&request, &view);
    assert_int_equal(request.tries, 2);
    view.now_us += 10 * DELAY_US;
    rqli_request_catch_up(&request, &view);
    assert_int_equal(request.tries, 12);
    begin(3, RQLI_NEVER_US); /* who has a limit counts by itself */
    queue_up();
    view.now_us += 10 * DELAY_US;
    rqli_request_catch_up(&request, &view);
    assert_int_equal(request.tries, 1);
}

static void cancelled_before_anything_was_sent(void **state)
{
    (void)state;
    begin(3, RQLI_NEVER_US);
    rqli_request_on_cancelled(&request, false);
    check_finished(RQL_CANCELLED);
    assert_false(request.in_queue);
}

static void cancelled_while_it_is_asked_or_waits(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        for (int confirmed = 0; confirmed < 2; confirmed++) {
            begin(3, RQLI_NEVER_US);
            if (waits) {
                queue_up();
            }
            rqli_request_on_cancelled(&request, !waits);
            check_wants(RQLI_WANT_LEAVE);
            rqli_request_on_cancelled(&request, false); /* once is enough */
            check_wants(RQLI_WANT_LEAVE);
            rqli_request_on_left(&request, confirmed);
            check_finished(confirmed ? RQL_CANCELLED : RQL_E_UNKNOWN);
        }
    }
}

static void cancelled_too_late(void **state)
{
    (void)state;
    begin(3, RQLI_NEVER_US);
    rqli_request_on_granted(&request);
    rqli_request_on_cancelled(&request, false);
    check_finished(RQL_OK);
}

static void a_turn_that_did_not_come_in_time(void **state)
{
    (void)state;
    begin(3, ORIGIN_US);
    rqli_request_on_late(&request);
    check_finished(RQL_TIMED_OUT);
    begin(3, ORIGIN_US + 50000);
    rqli_request_on_setback(&request, RQL_E_IO, &view);
    view.now_us += 20000;
    rqli_request_on_time(&request, &view);
    rqli_request_on_late(&request);
    check_finished(RQL_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_sleeps_until_its_deadline),
        cmocka_unit_test(a_follower_sleeps_while_nobody_listens),
        cmocka_unit_test(a_follower_counts_a_limited_number_of_tries),
        cmocka_unit_test(who_comes_to_lead_asks_at_its_next_tick),
        cmocka_unit_test(who_comes_to_lead_sends_a_heartbeat_in_time),
        cmocka_unit_test(who_asks_or_leaves_already_does_not_mind_leading),
        cmocka_unit_test(a_setback_is_slept_off_by_followers_too),
        cmocka_unit_test(tries_slept_through_are_counted),
        cmocka_unit_test(cancelled_before_anything_was_sent),
        cmocka_unit_test(cancelled_while_it_is_asked_or_waits),
        cmocka_unit_test(cancelled_too_late),
        cmocka_unit_test(a_turn_that_did_not_come_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
