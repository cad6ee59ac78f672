#include "check.h"

#include "aborts.h"
#include "base/clock.h"
#include "chance.h"
#include "lock/request.h"

#include <rql/base.h>

enum { ORIGIN_US = 7000000, N_LIVES = 20000, STEPS_MAX = 100000, LAST_STEPS_MAX = 4 };

static const struct rqli_request_place nowhere = {.lock_ends_us = RQLI_NEVER_US};
static const struct rqli_request_input at_origin = {.now_us = ORIGIN_US, .is_listening = true};

static struct rqli_request born(int64_t tries)
{
    const struct rqli_request_limits limits = {RQLI_NEVER_US, tries, 200000};
    struct rqli_request request;

    rqli_request_init(&request, &limits);
    return request;
}

static void outcomes_end_it_and_leave_nothing(void **state)
{
    static const rql_status outcomes[] = {
        RQL_FAIL_FAST_NO_TRY,
        RQL_FAIL_FAST_AFTER_TRY,
        RQL_CONFLICT,
    };

    (void)state;
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        struct rqli_request request = born(3);

        print_message("# outcome: %s\n", rql_status_text(outcomes[i]));
        rqli_request_on_refused(&request, outcomes[i]);
        assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_FINISH);
        assert_int_equal(rqli_request_next(&request).status, outcomes[i]);
        assert_int_equal(request.tries, 1);
        assert_false(request.in_queue);
    }
}

static void check_leaving(struct rqli_request request, bool is_confirmed, rql_status expected)
{
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_LEAVE);
    rqli_request_on_left(&request, is_confirmed);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_FINISH);
    assert_int_equal(rqli_request_next(&request).status, expected);
    assert_int_equal(request.in_queue, !is_confirmed);
}

static void faults_leave_what_they_may_have_left(void **state)
{
    static const struct {
        rql_status fault;
        bool leaves;
        rql_status left;
        rql_status unconfirmed;
    } cases[] = {
        {RQL_E_IO, false, 0, 0},
        {RQL_E_NOMEM, false, 0, 0},
        {RQL_E_READ_ONLY, false, 0, 0},
        {RQL_E_UNAVAILABLE, false, 0, 0},
        {RQL_E_UNKNOWN, true, RQL_TIMED_OUT, RQL_E_UNKNOWN},
        {RQL_E_PROTOCOL, true, RQL_E_PROTOCOL, RQL_E_PROTOCOL},
        {RQL_E_SERVER, true, RQL_E_SERVER, RQL_E_SERVER},
        {RQL_E_AUTH, true, RQL_E_AUTH, RQL_E_AUTH},
        {RQL_E_WRONG_TYPE, true, RQL_E_WRONG_TYPE, RQL_E_WRONG_TYPE},
        {RQL_E_BUSY, true, RQL_E_BUSY, RQL_E_BUSY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rqli_request request = born(3);

        print_message("# fault: %s\n", rql_status_text(cases[i].fault));
        rqli_request_on_fault(&request, cases[i].fault);
        if (cases[i].leaves) {
            check_leaving(request, true, cases[i].left);
            check_leaving(request, false, cases[i].unconfirmed);
        } else {
            assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_FINISH);
            assert_int_equal(rqli_request_next(&request).status, cases[i].fault);
            assert_false(request.in_queue);
        }
    }
}

/* E_IO and its like promise that nothing was done: not true of the request that was queued. */
static void a_fault_of_a_queued_request_always_leaves(void **state)
{
    static const rql_status faults[] = {
        RQL_E_IO,
        RQL_E_NOMEM,
        RQL_E_READ_ONLY,
        RQL_E_UNAVAILABLE,
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct rqli_request request = born(3);

        print_message("# fault: %s\n", rql_status_text(faults[i]));
        rqli_request_on_queued(&request, &nowhere, &at_origin);
        rqli_request_on_poll(&request);
        rqli_request_on_fault(&request, faults[i]);
        check_leaving(request, true, faults[i]);
        check_leaving(request, false, RQL_E_UNKNOWN);
    }
}

/* The first of all waiters asks whenever a try is counted; whatever that brings is this try. */
static void a_grant_that_was_over_is_counted_once(void **state)
{
    static const struct rqli_request_place first = {.lock_ends_us = RQLI_NEVER_US,
                                                    .is_first = true};
    struct rqli_request_input view = {.now_us = ORIGIN_US, .leads = true, .is_listening = true};
    struct rqli_request request = born(4);

    (void)state;
    rqli_request_on_queued(&request, &first, &view);
    assert_int_equal(request.tries, 1);
    for (int64_t tries = 2; tries <= 3; tries++) {
        view.now_us = rqli_request_next(&request).until_us;
        rqli_request_on_time(&request, &view);
        assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_TRY);
        rqli_request_on_over(&request, &view);
        assert_int_equal(request.tries, tries);
        assert_int_equal(rqli_request_next(&request).until_us, view.now_us + 200000);
    }
    rqli_request_on_poll(&request);
    rqli_request_on_over(&request, &view);
    check_leaving(request, true, RQL_RETRY_LIMIT);
}

/* What may not happen in a state that the machine has left. */
enum slip {
    SLIP_GRANTED,
    SLIP_REFUSED,
    SLIP_QUEUED,
    SLIP_OVER,
    SLIP_SETBACK,
    SLIP_TIME,
    SLIP_LOOK,
    SLIP_LEFT
};

struct blunder {
    struct rqli_request request;
    enum slip slip;
};

static void blunder(void *data)
{
    struct blunder *self = data;

    switch (self->slip) {
    case SLIP_GRANTED:
        rqli_request_on_granted(&self->request);
        break;
    case SLIP_REFUSED:
        rqli_request_on_refused(&self->request, RQL_CONFLICT);
        break;
    case SLIP_QUEUED:
        rqli_request_on_queued(&self->request, &nowhere, &at_origin);
        break;
    case SLIP_OVER:
        rqli_request_on_over(&self->request, &at_origin);
        break;
    case SLIP_SETBACK:
        rqli_request_on_setback(&self->request, RQL_E_IO, &at_origin);
        break;
    case SLIP_TIME:
        rqli_request_on_time(&self->request, &at_origin);
        break;
    case SLIP_LOOK:
        rqli_request_on_poll(&self->request);
        break;
    case SLIP_LEFT:
        rqli_request_on_left(&self->request, true);
        break;
    }
}

static void nothing_happens_to_a_request_that_has_ended(void **state)
{
    (void)state;
    for (int slip = SLIP_GRANTED; slip <= SLIP_LEFT; slip++) {
        struct blunder done = {born(3), (enum slip)slip};

        print_message("# slip %d\n", slip);
        rqli_request_on_granted(&done.request);
        assert_true(aborts(blunder, &done));
    }
}

static void who_leaves_only_leaves(void **state)
{
    static const enum slip slips[] = {SLIP_QUEUED, SLIP_OVER, SLIP_SETBACK, SLIP_TIME, SLIP_LOOK};

    (void)state;
    for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++) {
        struct blunder leaving = {born(1), slips[i]};

        print_message("# slip %d\n", (int)slips[i]);
        rqli_request_on_queued(&leaving.request, &nowhere, &at_origin);
        assert_int_equal(rqli_request_next(&leaving.request).want, RQLI_WANT_LEAVE);
        assert_true(aborts(blunder, &leaving));
    }
}

static void refuse_with_a_fault(void *data)
{
    rqli_request_on_refused(data, RQL_E_IO);
}

static void set_back_with_an_outcome(void *data)
{
    rqli_request_on_setback(data, RQL_CONFLICT, &at_origin);
}

static void fail_with_an_outcome(void *data)
{
    rqli_request_on_fault(data, RQL_TIMED_OUT);
}

static void refuse_with_success(void *data)
{
    rqli_request_on_refused(data, RQL_OK);
}

static void set_back_with_success(void *data)
{
    rqli_request_on_setback(data, RQL_OK, &at_origin);
}

static void fail_with_success(void *data)
{
    rqli_request_on_fault(data, RQL_OK);
}

static void outcomes_and_faults_are_not_mixed_up(void **state)
{
    struct rqli_request request = born(3);

    (void)state;
    assert_true(aborts(refuse_with_a_fault, &request));
    assert_true(aborts(set_back_with_an_outcome, &request));
    assert_true(aborts(fail_with_an_outcome, &request));
    assert_true(aborts(refuse_with_success, &request));
    assert_true(aborts(set_back_with_success, &request));
    assert_true(aborts(fail_with_success, &request));
}

/* One life under chance. */
struct life {
    struct rqli_request request;
    uint32_t seed;
    int64_t now_us;
    bool was_confirmed;
};

static struct rqli_request_input look_around(struct life *life)
{
    return (struct rqli_request_input){
        .now_us = life->now_us,
        .jitter_us = chance_below(&life->seed, 25000),
        .leads = chance_below(&life->seed, 2) > 0,
        .is_listening = chance_below(&life->seed, 3) > 0,
    };
}

static rql_status some_fault(struct life *life)
{
    return (rql_status)(-1 - (int)chance_below(&life->seed, 12));
}

static void try_by_chance(struct life *life)
{
    struct rqli_request_place place = {.is_first = chance_below(&life->seed, 2) > 0};
    struct rqli_request_input view;

    life->now_us += 20 + chance_below(&life->seed, chance_below(&life->seed, 9) ? 500 : 700000);
    view = look_around(life);
    place.lock_ends_us = chance_below(&life->seed, 3)
                             ? life->now_us + chance_below(&life->seed, 3000000)
                             : RQLI_NEVER_US;
    switch (chance_below(&life->seed, 40)) {
    case 0:
        rqli_request_on_granted(&life->request);
        break;
    case 1:
        rqli_request_on_refused(&life->request, RQL_CONFLICT);
        break;
    case 2:
        rqli_request_on_fault(&life->request, some_fault(life));
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        rqli_request_on_setback(&life->request, some_fault(life), &view);
        break;
    case 7:
        rqli_request_on_again(&life->request, life->now_us);
        break;
    case 8:
    case 9:
        rqli_request_on_over(&life->request, &view);
        break;
    default:
        rqli_request_on_queued(&life->request, &place, &view);
        break;
    }
}

static void wait_by_chance(struct life *life, int64_t until_us)
{
    int64_t left_us = until_us > life->now_us ? until_us - life->now_us : 0;
    struct rqli_request_input view;

    switch (chance_below(&life->seed, 20)) {
    case 0:
        rqli_request_on_granted(&life->request);
        return;
    case 1:
    case 2:
        life->now_us += left_us / 2;
        rqli_request_on_poll(&life->request);
        return;
    case 3:
        life->now_us += left_us / 2; /* woken early */
        break;
    case 4:
        life->now_us += left_us + chance_below(&life->seed, 2000000); /* not scheduled for long */
        break;
    default:
        life->now_us += left_us;
        break;
    }
    view = look_around(life);
    rqli_request_on_time(&life->request, &view);
    if (rqli_request_next(&life->request).want == RQLI_WANT_WAIT) {
        assert_true(rqli_request_next(&life->request).until_us > life->now_us);
    }
}

static bool live_on(struct life *life)
{
    struct rqli_request_step step = rqli_request_next(&life->request);

    switch (step.want) {
    case RQLI_WANT_TRY:
        try_by_chance(life);
        break;
    case RQLI_WANT_WAIT:
        assert_true(step.until_us <= life->request.limits.deadline_us);
        wait_by_chance(life, step.until_us);
        break;
    case RQLI_WANT_LEAVE:
        assert_true(life->request.in_queue);
        life->was_confirmed = chance_below(&life->seed, 4) > 0;
        rqli_request_on_left(&life->request, life->was_confirmed);
        break;
    case RQLI_WANT_FINISH:
        return false;
    }
    return true;
}

/* Says nothing about what is left on the server. */
static bool is_open(rql_status status)
{
    return status < 0 && status != RQL_E_IO && status != RQL_E_NOMEM && status != RQL_E_READ_ONLY &&
           status != RQL_E_UNAVAILABLE;
}

static void live(uint32_t seed)
{
    struct rqli_request_limits limits = {.tries = RQL_FOREVER};
    struct life life = {.seed = seed, .now_us = ORIGIN_US, .was_confirmed = true};
    int last_steps = 0;
    int steps = 0;

    limits.deadline_us = ORIGIN_US + chance_below(&life.seed, 8000000);
    limits.delay_us = 1000 + chance_below(&life.seed, chance_below(&life.seed, 2) ? 9000 : 4000000);
    if (chance_below(&life.seed, 2) > 0) {
        limits.tries = 1 + chance_below(&life.seed, 20);
    }
    rqli_request_init(&life.request, &limits);
    while (live_on(&life)) {
        last_steps += life.now_us >= limits.deadline_us;
        steps++;
        assert_true(steps < STEPS_MAX);
        assert_true(last_steps <= LAST_STEPS_MAX);
    }
    assert_int_equal(life.request.in_queue, !life.was_confirmed);
    if (!life.was_confirmed) {
        assert_true(is_open(rqli_request_next(&life.request).status));
    }
}

static int say_seed(void **state)
{
    print_message("# last seed: %u\n", (unsigned)*(uint32_t *)*state);
    return 0;
}

static void every_life_ends_by_its_deadline(void **state)
{
    for (uint32_t i = 1; i <= N_LIVES; i++) {
        *(uint32_t *)*state = i * 2654435761U;
        live(*(uint32_t *)*state);
    }
}

int main(void)
{
    uint32_t seed = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_end_it_and_leave_nothing),
        cmocka_unit_test(faults_leave_what_they_may_have_left),
        cmocka_unit_test(a_fault_of_a_queued_request_always_leaves),
        cmocka_unit_test(a_grant_that_was_over_is_counted_once),
        cmocka_unit_test(nothing_happens_to_a_request_that_has_ended),
        cmocka_unit_test(who_leaves_only_leaves),
        cmocka_unit_test(outcomes_and_faults_are_not_mixed_up),
        cmocka_unit_test_prestate_setup_teardown(every_life_ends_by_its_deadline, NULL, say_seed,
                                                 &seed),
    };

    return cmocka_run_group_tests_name("request_rules", tests, NULL, NULL);
}
