#include "check.h"

#include "base/clock.h"
#include "lock/request.h"

#include <rql/base.h>

/* What happens, when, with what; then what the machine wants, until when or with which status. */
struct beat {
    enum happening {
        END,
        GRANTED,
        REFUSED,
        QUEUED,
        AGAIN,
        SETBACK,
        FAULT,
        TIME,
        LOOK,
        LEFT,
        UNCONFIRMED,
    } what;

    int64_t at_us;
    rql_status with;
    enum rqli_request_want want;
    int64_t then;
};

/* Times are relative to `origin_us`; a deadline_us or ends_us of 0: never. */
struct story {
    const char *name;
    int64_t deadline_us;
    int64_t tries;
    int64_t delay_us;
    int64_t jitter_us;
    int64_t ends_us;
    bool leads;
    bool is_listening;
    bool is_first;
    struct beat beats[12];
};

enum { ORIGIN_US = 7000000, LIFE_US = 1666666 };

static int64_t instant(int64_t us)
{
    return us > 0 ? ORIGIN_US + us : RQLI_NEVER_US;
}

static void happen(struct rqli_request *request, const struct story *story, const struct beat *beat)
{
    const struct rqli_request_place place = {
        .lock_ends_us = instant(story->ends_us),
        .is_first = story->is_first,
    };
    const struct rqli_request_input view = {
        .now_us = ORIGIN_US + beat->at_us,
        .jitter_us = story->jitter_us,
        .leads = story->leads,
        .is_listening = story->is_listening,
    };

    switch (beat->what) {
    case GRANTED:
        rqli_request_on_granted(request);
        break;
    case REFUSED:
        rqli_request_on_refused(request, beat->with);
        break;
    case QUEUED:
        rqli_request_on_queued(request, &place, &view);
        break;
    case AGAIN:
        rqli_request_on_again(request, view.now_us);
        break;
    case SETBACK:
        rqli_request_on_setback(request, beat->with, &view);
        break;
    case FAULT:
        rqli_request_on_fault(request, beat->with);
        break;
    case TIME:
        rqli_request_on_time(request, &view);
        break;
    case LOOK:
        rqli_request_on_poll(request);
        break;
    case LEFT:
    case UNCONFIRMED:
        rqli_request_on_left(request, beat->what == LEFT);
        break;
    case END:
        break;
    }
}

static void check_step(const struct rqli_request *request, const struct beat *beat)
{
    struct rqli_request_step step = rqli_request_next(request);

    assert_int_equal(step.want, beat->want);
    if (step.want == RQLI_WANT_WAIT) {
        assert_int_equal(step.until_us - ORIGIN_US, beat->then);
    } else if (step.want == RQLI_WANT_FINISH) {
        assert_int_equal(step.status, beat->then);
        assert_int_equal(request->in_queue, beat->what == UNCONFIRMED);
    }
}

static void play(const struct story *story)
{
    const struct rqli_request_limits limits = {
        .deadline_us = instant(story->deadline_us),
        .tries = story->tries,
        .delay_us = story->delay_us,
    };
    struct rqli_request request;
    const struct beat *beat;

    print_message("# story: %s\n", story->name);
    rqli_request_init(&request, &limits);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_TRY);
    for (beat = story->beats; beat->what != END; beat++) {
        happen(&request, story, beat);
        check_step(&request, beat);
    }
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_FINISH);
}

static void play_all(const struct story *stories, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        play(&stories[i]);
    }
}

#define PLAY_ALL(stories) play_all(stories, sizeof(stories) / sizeof(stories)[0])

static void short_stories_end_as_told(void **state)
{
    static const struct story stories[] = {
        {.name = "granted at once", .tries = 3, .beats = {{GRANTED, 0, 0, RQLI_WANT_FINISH, 0}}},
        {.name = "a deadline of now still gets one try, and takes what that gives",
         .deadline_us = 1,
         .tries = 3,
         .beats = {{GRANTED, 9, 0, RQLI_WANT_FINISH, 0}}},
        {.name = "a deadline of now ends with the first refusal",
         .deadline_us = 1,
         .tries = 3,
         .delay_us = 200000,
         .beats = {{QUEUED, 9, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 20, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
        {.name = "the first refusal comes at the deadline",
         .deadline_us = 100,
         .tries = 3,
         .delay_us = 200000,
         .beats = {{QUEUED, 100, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 120, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
        {.name = "told to ask again at once",
         .tries = 3,
         .beats = {{AGAIN, 10, 0, RQLI_WANT_TRY, 0}, {GRANTED, 20, 0, RQLI_WANT_FINISH, 0}}},
        {.name = "told to ask again for too long",
         .deadline_us = 100,
         .tries = 3,
         .beats = {{AGAIN, 10, 0, RQLI_WANT_TRY, 0},
                   {AGAIN, 100, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 110, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
        {.name = "handed over while it waits",
         .tries = 3,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {GRANTED, 900, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "a leave without an answer: nobody knows",
         .tries = 1,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_LEAVE, 0},
                   {UNCONFIRMED, 50, 0, RQLI_WANT_FINISH, RQL_E_UNKNOWN}}},
        {.name = "a conflict that shows only while it waits",
         .tries = 3,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {LOOK, 10, 0, RQLI_WANT_TRY, 0},
                   {REFUSED, 20, RQL_CONFLICT, RQLI_WANT_FINISH, RQL_CONFLICT}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void tries_are_counted_by_timer(void **state)
{
    static const struct story stories[] = {
        {.name = "for ever: only the deadline ends it",
         .deadline_us = 500000,
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_WAIT, 400000},
                   {TIME, 400000, 0, RQLI_WANT_WAIT, 500000},
                   {TIME, 500000, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 500100, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
        {.name = "one try: leaves with the first refusal",
         .tries = 1,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 10, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
        {.name = "a follower is counted without asking, its last try asks, then it leaves",
         .tries = 3,
         .delay_us = 200000,
         .jitter_us = 7000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 207000},
                   {TIME, 207000, 0, RQLI_WANT_WAIT, 414000},
                   {TIME, 414000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 414200, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 414300, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
        {.name = "the last try may succeed",
         .tries = 2,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 200100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "pushes are not counted and move no tick",
         .tries = 2,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {LOOK, 10, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 90000, 0, RQLI_WANT_WAIT, 200000},
                   {LOOK, 90010, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 190000, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 200100, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 200200, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void waking_early_or_late_counts_no_more_than_once(void **state)
{
    static const struct story stories[] = {
        {.name = "waking early counts nothing",
         .tries = 2,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 199999, 0, RQLI_WANT_WAIT, 200000},
                   {GRANTED, 199999, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "waking early asks nothing, subscribed or not",
         .tries = 3,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 199999, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 200000, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "waking late counts once",
         .tries = 3,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 1000000, 0, RQLI_WANT_WAIT, 1200000},
                   {TIME, 1200000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 1200100, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 1200200, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void setbacks_are_tried_again_within_the_deadline(void **state)
{
    static const struct story stories[] = {
        {.name = "no connection, then granted",
         .tries = 1,
         .beats = {{SETBACK, 0, RQL_E_IO, RQLI_WANT_WAIT, 20000},
                   {TIME, 20000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 20100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "pauses have jitter",
         .tries = 1,
         .jitter_us = 3000,
         .beats = {{SETBACK, 0, RQL_E_IO, RQLI_WANT_WAIT, 23000},
                   {TIME, 23000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 23100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "waking early does not cut the pause",
         .tries = 1,
         .beats = {{SETBACK, 0, RQL_E_IO, RQLI_WANT_WAIT, 20000},
                   {TIME, 5000, 0, RQLI_WANT_WAIT, 20000},
                   {TIME, 20000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 20100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "no connection to the end: nothing to leave",
         .deadline_us = 50000,
         .tries = 3,
         .beats = {{SETBACK, 0, RQL_E_IO, RQLI_WANT_WAIT, 20000},
                   {TIME, 20000, 0, RQLI_WANT_TRY, 0},
                   {SETBACK, 50000, RQL_E_IO, RQLI_WANT_FINISH, RQL_E_IO}}},
        {.name = "the deadline comes within a pause: the fault is the reason, not the time",
         .deadline_us = 30000,
         .tries = 3,
         .beats = {{SETBACK, 15000, RQL_E_UNAVAILABLE, RQLI_WANT_WAIT, 30000},
                   {TIME, 30000, 0, RQLI_WANT_FINISH, RQL_E_UNAVAILABLE}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void a_try_without_an_answer_may_have_left_a_request(void **state)
{
    static const struct story stories[] = {
        {.name = "no answer, and then no connection: a request may be there",
         .deadline_us = 30000,
         .tries = 3,
         .beats = {{SETBACK, 0, RQL_E_UNKNOWN, RQLI_WANT_WAIT, 20000},
                   {TIME, 20000, 0, RQLI_WANT_TRY, 0},
                   {SETBACK, 30000, RQL_E_IO, RQLI_WANT_LEAVE, 0},
                   {LEFT, 30100, 0, RQLI_WANT_FINISH, RQL_E_IO}}},
        {.name = "no answer, but the leave is confirmed: that settles it",
         .deadline_us = 10000,
         .tries = 3,
         .beats = {{SETBACK, 10000, RQL_E_UNKNOWN, RQLI_WANT_LEAVE, 0},
                   {LEFT, 10100, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
        {.name = "no answer, and the leave gets none either",
         .deadline_us = 10000,
         .tries = 3,
         .beats = {{SETBACK, 10000, RQL_E_UNKNOWN, RQLI_WANT_LEAVE, 0},
                   {UNCONFIRMED, 10100, 0, RQLI_WANT_FINISH, RQL_E_UNKNOWN}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void setbacks_in_the_queue_change_none_of_its_times(void **state)
{
    static const struct story stories[] = {
        {.name = "a setback in the queue keeps the ticks",
         .tries = 2,
         .delay_us = 200000,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {LOOK, 100000, 0, RQLI_WANT_TRY, 0},
                   {SETBACK, 150000, RQL_E_UNAVAILABLE, RQLI_WANT_WAIT, 170000},
                   {TIME, 170000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 171000, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 200100, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 200200, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
        {.name = "a setback at the last try: it is made again, then leaves",
         .tries = 2,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {SETBACK, 200100, RQL_E_IO, RQLI_WANT_WAIT, 220100},
                   {TIME, 220100, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 220200, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 220300, 0, RQLI_WANT_FINISH, RQL_RETRY_LIMIT}}},
        {.name = "a fault behind the pause does not outlive a result",
         .deadline_us = 100000,
         .tries = 9,
         .delay_us = 200000,
         .beats = {{SETBACK, 0, RQL_E_IO, RQLI_WANT_WAIT, 20000},
                   {TIME, 20000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 20100, 0, RQLI_WANT_WAIT, 100000},
                   {TIME, 100000, 0, RQLI_WANT_LEAVE, 0},
                   {LEFT, 100100, 0, RQLI_WANT_FINISH, RQL_TIMED_OUT}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

/* Only one request of each lock polls; with a delay below and one above the time between
 * heartbeats. */
static void the_server_is_asked_for_all_by_the_first(void **state)
{
    static const struct story stories[] = {
        {.name = "the leader, first in the queue: at every tick",
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .leads = true,
         .is_first = true,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 200100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "the leader behind others: a heartbeat",
         .tries = RQL_FOREVER,
         .delay_us = 1000000,
         .leads = true,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 1000000},
                   {TIME, 1000000, 0, RQLI_WANT_WAIT, LIFE_US},
                   {TIME, LIFE_US, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, LIFE_US, 0, RQLI_WANT_WAIT, 2000000},
                   {GRANTED, LIFE_US, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "the leader behind others, and a long delay: a heartbeat all the same",
         .tries = RQL_FOREVER,
         .delay_us = 60000000,
         .leads = true,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, LIFE_US},
                   {TIME, LIFE_US, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 1700000, 0, RQLI_WANT_WAIT, 1700000 + LIFE_US},
                   {GRANTED, 1700000, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "a follower does not ask, but looks whether it leads",
         .tries = RQL_FOREVER,
         .delay_us = 60000000,
         .is_listening = true,
         .ends_us = 50000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, LIFE_US},
                   {TIME, LIFE_US, 0, RQLI_WANT_WAIT, 2 * LIFE_US},
                   {GRANTED, LIFE_US, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "the first of all asks at every tick, also if another leads its client",
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .is_first = true,
         .is_listening = true,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 200100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "without a subscription: everybody asks at every tick",
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 200000},
                   {TIME, 200000, 0, RQLI_WANT_TRY, 0},
                   {QUEUED, 200100, 0, RQLI_WANT_WAIT, 400000},
                   {GRANTED, 300000, 0, RQLI_WANT_FINISH, RQL_OK}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void the_end_of_the_lock_is_awaited_by_the_first(void **state)
{
    static const struct story stories[] = {
        {.name = "the leader, first in the queue: 2 ms after the lock has ended",
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .leads = true,
         .is_first = true,
         .is_listening = true,
         .ends_us = 50000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 52000},
                   {TIME, 52000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 52100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "the leader behind others: too, who is in front may be dead",
         .tries = RQL_FOREVER,
         .delay_us = 200000,
         .leads = true,
         .is_listening = true,
         .ends_us = 50000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 52000},
                   {TIME, 52000, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 52100, 0, RQLI_WANT_FINISH, RQL_OK}}},
        {.name = "a pause after a setback is kept whatever the lock does",
         .tries = RQL_FOREVER,
         .delay_us = 10000,
         .leads = true,
         .is_first = true,
         .ends_us = 5000,
         .beats = {{QUEUED, 0, 0, RQLI_WANT_WAIT, 7000},
                   {TIME, 7000, 0, RQLI_WANT_TRY, 0},
                   {SETBACK, 7100, RQL_E_IO, RQLI_WANT_WAIT, 27100},
                   {TIME, 10000, 0, RQLI_WANT_WAIT, 27100},
                   {TIME, 27100, 0, RQLI_WANT_TRY, 0},
                   {GRANTED, 27200, 0, RQLI_WANT_FINISH, RQL_OK}}},
    };

    (void)state;
    PLAY_ALL(stories);
}

static void a_follower_that_comes_to_lead_takes_over_asking(void **state)
{
    const struct rqli_request_limits limits = {RQLI_NEVER_US, RQL_FOREVER, 60000000};
    const struct rqli_request_place place = {.lock_ends_us = RQLI_NEVER_US};
    struct rqli_request_input view = {.now_us = ORIGIN_US, .is_listening = true};
    struct rqli_request request;

    (void)state;
    rqli_request_init(&request, &limits);
    rqli_request_on_queued(&request, &place, &view);
    view.now_us = rqli_request_next(&request).until_us;
    view.leads = true;
    rqli_request_on_time(&request, &view);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_TRY);
}

/* It knows nothing of the present holder, who may have died: nobody tells it. */
static void who_has_come_to_lead_asks_once_at_the_next_tick(void **state)
{
    const struct rqli_request_limits limits = {RQLI_NEVER_US, RQL_FOREVER, 200000};
    const struct rqli_request_place place = {.lock_ends_us = RQLI_NEVER_US};
    struct rqli_request_input view = {.now_us = ORIGIN_US, .is_listening = true};
    struct rqli_request request;

    (void)state;
    rqli_request_init(&request, &limits);
    rqli_request_on_queued(&request, &place, &view);
    view.now_us = rqli_request_next(&request).until_us;
    rqli_request_on_time(&request, &view);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_WAIT);
    view.now_us = rqli_request_next(&request).until_us;
    assert_int_equal(view.now_us, ORIGIN_US + 400000);
    view.leads = true;
    rqli_request_on_time(&request, &view);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_TRY);
    rqli_request_on_queued(&request, &place, &view);
    view.now_us = rqli_request_next(&request).until_us;
    rqli_request_on_time(&request, &view);
    assert_int_equal(rqli_request_next(&request).want, RQLI_WANT_WAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_stories_end_as_told),
        cmocka_unit_test(tries_are_counted_by_timer),
        cmocka_unit_test(waking_early_or_late_counts_no_more_than_once),
        cmocka_unit_test(setbacks_are_tried_again_within_the_deadline),
        cmocka_unit_test(a_try_without_an_answer_may_have_left_a_request),
        cmocka_unit_test(setbacks_in_the_queue_change_none_of_its_times),
        cmocka_unit_test(the_server_is_asked_for_all_by_the_first),
        cmocka_unit_test(the_end_of_the_lock_is_awaited_by_the_first),
        cmocka_unit_test(a_follower_that_comes_to_lead_takes_over_asking),
        cmocka_unit_test(who_has_come_to_lead_asks_once_at_the_next_tick),
    };

    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
