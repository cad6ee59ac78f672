#include "check.h"

#include "base/clock.h"
#include "lock/request.h"

#include <rql/base.h>

enum {
    ORIGIN_US = 7000000,
    LIFE_US = 1666666,
    DELAY_US = 200000,
    STEPS_MAX = 12,
};

#define NEVER RQLI_NEVER_US

enum event {
    END,
    GRANTED, /* answers, up to FAULT_UNSENT */
    REFUSED,
    QUEUED,
    HELD_BACK,
    HELD_BACK_LISTENING, /* the client is subscribed by the time of the answer */
    AGAIN,
    OVER,
    UNSAFE,
    SETBACK,
    UNUSABLE, /* granted or queued, and its client cannot go on */
    FAULT,
    FAULT_UNSENT, /* before the try was sent */
    TIME,
    LOOK,
    LEADS,
    CATCH_UP,
    LATE,
    CANCELLED,
    CANCELLED_ASKING, /* while a try is under way */
    LEFT,
    UNCONFIRMED,
};

enum want {
    TRY = RQLI_REQUEST_TRYING,
    WAIT = RQLI_REQUEST_QUEUED,
    LEAVE = RQLI_REQUEST_LEAVING,
    FINISH = RQLI_REQUEST_DONE,
    ABORTS, /* it may not happen in this state */
};

/* What happens, when; then what the machine wants, until when or with which status; what it happens
 * with; and, unless 0, how many tries are counted then. */
struct step {
    enum event event;
    int64_t at_us;
    enum want want;
    int64_t then;
    rql_status with;
    int64_t tries;
};

/* Times count from ORIGIN_US; a deadline_us, ends_us or leads_at_us of 0: never; tries: no limit;
 * a delay_us: DELAY_US. */
struct story {
    const char *name;
    int64_t deadline_us;
    int64_t tries;
    int64_t delay_us;
    int64_t jitter_us;
    int64_t ends_us;
    int64_t leads_at_us;
    bool leads;
    bool is_first;
    bool of_ruby;
    bool is_deaf; /* pushes are not seen to come */
    struct step steps[STEPS_MAX];
};

static const struct story stories[] = {
    /* Short stories end as told. */
    {"a deadline of now still gets one try, and takes what that gives", .deadline_us = 1,
     .tries = 3, .steps = {{GRANTED, 9, FINISH}}},
    {"the first refusal comes at the deadline", .deadline_us = 100, .tries = 3,
     .steps = {{QUEUED, 100, LEAVE}, {LEFT, 120, FINISH, RQL_TIMED_OUT}}},
    {"told to ask again for too long", .deadline_us = 100, .tries = 3,
     .steps = {{AGAIN, 10, TRY}, {AGAIN, 100, LEAVE}, {LEFT, 110, FINISH, RQL_TIMED_OUT}}},
    {"a leave without an answer: nobody knows", .tries = 1,
     .steps = {{QUEUED, 0, LEAVE}, {UNCONFIRMED, 50, FINISH, RQL_E_UNKNOWN}}},
    {"a conflict that shows only while it waits", .tries = 3, .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {LOOK, 10, TRY},
               {REFUSED, 20, FINISH, RQL_CONFLICT, RQL_CONFLICT}}},
    /* A first try that did not enter the queue, because the client was not subscribed. */
    {"held back until the client listens", .leads = true,
     .steps = {{HELD_BACK, 0, WAIT, 200000, 0, 1},
               {LOOK, 900, TRY},
               {QUEUED, 1000, WAIT, 1000 + LIFE_US, 0, 1},
               {GRANTED, 2000, FINISH}}},
    {"held back, and the client listens by now", .steps = {{HELD_BACK_LISTENING, 0, TRY, 0, 0, 1},
                                                           {QUEUED, 900, WAIT, NEVER, 0, 1},
                                                           {GRANTED, 1000, FINISH}}},
    {"held back for 200 ms at most", .delay_us = 5000000,
     .steps = {{HELD_BACK, 0, WAIT, 200000},
               {TIME, 199999, WAIT, 200000},
               {TIME, 200000, TRY},
               {QUEUED, 200100, WAIT, NEVER, 0, 1},
               {GRANTED, 200200, FINISH}}},
    {"held back until the next try is due, which counts", .tries = 3, .delay_us = 50000,
     .steps = {{HELD_BACK, 0, WAIT, 50000, 0, 1},
               {TIME, 50000, TRY},
               {QUEUED, 50100, WAIT, 100000, 0, 2},
               {TIME, 100000, TRY},
               {QUEUED, 100100, LEAVE, 0, 0, 3},
               {LEFT, 100200, FINISH, RQL_RETRY_LIMIT}}},
    {"the deadline comes while it is held back: nothing is there to leave", .deadline_us = 100000,
     .steps = {{HELD_BACK, 0, WAIT, 100000}, {TIME, 100000, FINISH, RQL_TIMED_OUT}}},
    {"the deadline comes with the answer that holds it back", .deadline_us = 100,
     .steps = {{HELD_BACK, 100, FINISH, RQL_TIMED_OUT}}},
    {"the deadline comes with that answer, and the client listens", .deadline_us = 100,
     .steps = {{HELD_BACK_LISTENING, 100, FINISH, RQL_TIMED_OUT}}},
    {"cancelled while it is held back", .tries = 3,
     .steps = {{HELD_BACK, 0, WAIT, 200000}, {CANCELLED, 100, FINISH, RQL_CANCELLED}}},
    {"held back after a try without an answer, which may still arrive", .tries = 3,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_UNKNOWN},
               {TIME, 20000, TRY},
               {HELD_BACK, 20100, WAIT, 220100},
               {CANCELLED, 30000, LEAVE},
               {LEFT, 30100, FINISH, RQL_CANCELLED}}},
    /* Tries are counted by timer. */
    {"for ever: only the deadline ends it", .deadline_us = 500000,
     .steps = {{QUEUED, 0, WAIT, 500000, 0, 1},
               {TIME, 400000, WAIT, 500000, 0, 3},
               {TIME, 500000, LEAVE},
               {LEFT, 500100, FINISH, RQL_TIMED_OUT}}},
    {"a follower is counted without asking, its last try asks, then it leaves", .tries = 3,
     .jitter_us = 7000,
     .steps = {{QUEUED, 0, WAIT, 207000},
               {TIME, 207000, WAIT, 414000},
               {TIME, 414000, TRY},
               {QUEUED, 414200, LEAVE},
               {LEFT, 414300, FINISH, RQL_RETRY_LIMIT}}},
    /* Waking early counts nothing. */
    {"waking early counts nothing", .tries = 2,
     .steps = {{QUEUED, 0, WAIT, 200000}, {TIME, 199999, WAIT, 200000}, {GRANTED, 199999, FINISH}}},
    {"waking early asks nothing, subscribed or not", .tries = 3, .leads = true, .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {TIME, 199999, WAIT, 200000},
               {TIME, 200000, TRY},
               {GRANTED, 200000, FINISH}}},
    /* Setbacks are tried again within the deadline. */
    {"pauses have jitter", .tries = 1, .jitter_us = 3000,
     .steps = {{SETBACK, 0, WAIT, 23000, RQL_E_IO}, {TIME, 23000, TRY}, {GRANTED, 23100, FINISH}}},
    {"waking early does not cut the pause", .tries = 1,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_IO},
               {TIME, 5000, WAIT, 20000},
               {TIME, 20000, TRY},
               {GRANTED, 20100, FINISH}}},
    {"no connection to the end: nothing to leave", .deadline_us = 50000, .tries = 3,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_IO},
               {TIME, 20000, TRY},
               {SETBACK, 50000, FINISH, RQL_E_IO, RQL_E_IO}}},
    {"the deadline comes within a pause: the fault is the reason, not the time",
     .deadline_us = 30000, .tries = 3,
     .steps = {{SETBACK, 15000, WAIT, 30000, RQL_E_UNAVAILABLE},
               {TIME, 30000, FINISH, RQL_E_UNAVAILABLE}}},
    /* A try without an answer may have left a request. */
    {"no answer, and then no connection: a request may be there", .deadline_us = 30000, .tries = 3,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_UNKNOWN},
               {TIME, 20000, TRY},
               {SETBACK, 30000, LEAVE, 0, RQL_E_IO},
               {LEFT, 30100, FINISH, RQL_E_IO}}},
    {"no answer, but the leave is confirmed: that settles it", .deadline_us = 10000, .tries = 3,
     .steps = {{SETBACK, 10000, LEAVE, 0, RQL_E_UNKNOWN}, {LEFT, 10100, FINISH, RQL_TIMED_OUT}}},
    {"no answer, and the leave gets none either", .deadline_us = 10000, .tries = 3,
     .steps = {{SETBACK, 10000, LEAVE, 0, RQL_E_UNKNOWN},
               {UNCONFIRMED, 10100, FINISH, RQL_E_UNKNOWN}}},
    /* Setbacks in the queue change none of its times. */
    {"a setback at the last try: it is made again, then leaves", .tries = 2, .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {TIME, 200000, TRY},
               {SETBACK, 200100, WAIT, 220100, RQL_E_IO},
               {TIME, 220100, TRY},
               {QUEUED, 220200, LEAVE},
               {LEFT, 220300, FINISH, RQL_RETRY_LIMIT}}},
    /* The server is asked for all by the first. */
    {"the leader, first in the queue: a heartbeat, in case a push was lost", .leads = true,
     .is_first = true,
     .steps = {{QUEUED, 0, WAIT, LIFE_US, 0, 1},
               {TIME, LIFE_US, TRY, 0, 0, 9},
               {GRANTED, LIFE_US, FINISH}}},
    {"the leader behind others: the same", .delay_us = 1000000, .leads = true,
     .steps = {{QUEUED, 0, WAIT, LIFE_US},
               {TIME, 1000000, WAIT, LIFE_US},
               {TIME, LIFE_US, TRY},
               {QUEUED, LIFE_US, WAIT, 2 * LIFE_US},
               {GRANTED, LIFE_US, FINISH}}},
    {"the leader that has tries to count: no more often", .tries = 99, .leads = true,
     .is_first = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {TIME, 200000, WAIT, 400000, 0, 2},
               {TIME, LIFE_US, TRY, 0, 0, 3},
               {GRANTED, LIFE_US, FINISH}}},
    {"the first behind Ruby: at every tick", .leads = true, .is_first = true, .of_ruby = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {TIME, 200000, TRY},
               {QUEUED, 200100, WAIT, 400000},
               {GRANTED, 300000, FINISH}}},
    {"the first of all looks after the lock, also if another leads its client", .is_first = true,
     .steps = {{QUEUED, 0, WAIT, LIFE_US}, {TIME, LIFE_US, TRY}, {GRANTED, LIFE_US, FINISH}}},
    {"where no pushes are seen to come whoever leads asks at every tick", .is_deaf = true,
     .leads = true,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {TIME, 200000, TRY},
               {QUEUED, 200100, WAIT, 400000},
               {GRANTED, 300000, FINISH}}},
    /* The end of the lock is awaited by the first. */
    {"the leader, first in the queue: 2 ms after the lock has ended", .ends_us = 50000,
     .leads = true, .is_first = true,
     .steps = {{QUEUED, 0, WAIT, 52000}, {TIME, 52000, TRY}, {GRANTED, 52100, FINISH}}},
    {"the leader behind others: too, who is in front may be dead", .ends_us = 50000, .leads = true,
     .steps = {{QUEUED, 0, WAIT, 52000}, {TIME, 52000, TRY}, {GRANTED, 52100, FINISH}}},
    {"a pause after a setback is kept whatever the lock does", .delay_us = 10000, .ends_us = 5000,
     .leads = true, .is_first = true, .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 7000},
               {TIME, 7000, TRY},
               {SETBACK, 7100, WAIT, 27100, RQL_E_IO},
               {TIME, 10000, WAIT, 27100},
               {TIME, 27100, TRY},
               {GRANTED, 27200, FINISH}}},
    /* It knows nothing of the present holder, who may have died: nobody tells it. */
    {"who has come to lead asks once at the next tick", .leads_at_us = 400001,
     .steps = {{QUEUED, 0, WAIT, NEVER},
               {LEADS, 400001, WAIT, 600000, 0, 3},
               {TIME, 600000, TRY},
               {QUEUED, 600000, WAIT, 600000 + LIFE_US},
               {GRANTED, 600000, FINISH}}},

    /* Requests that sleep until they are told that they lead, or are taken back. */
    {"a follower sleeps until its deadline", .deadline_us = 9000000,
     .steps = {{QUEUED, 0, WAIT, 9000000},
               {TIME, 9000000, LEAVE},
               {LEFT, 9000000, FINISH, RQL_TIMED_OUT}}},
    {"a follower sleeps while nobody listens: who leads asks", .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, NEVER}, {GRANTED, 1, FINISH}}},
    {"who is told that it leads asks at its next tick", .leads_at_us = 1000001,
     .steps = {{QUEUED, 0, WAIT, NEVER},
               {LEADS, 1000001, WAIT, 1200000, 0, 6},
               {TIME, 1200000, TRY},
               {GRANTED, 1200000, FINISH}}},
    {"who is told that it leads sends a heartbeat in time", .delay_us = 3600000000,
     .leads_at_us = 60000000,
     .steps = {{QUEUED, 0, WAIT, NEVER},
               {LEADS, 60000000, WAIT, 60000000 + LIFE_US},
               {GRANTED, 60000001, FINISH}}},
    {"tries slept through are counted", .steps = {{CATCH_UP, 0, TRY, 0, 0, -1},
                                                  {QUEUED, 0, WAIT, NEVER, 0, 1},
                                                  {CATCH_UP, 199999, WAIT, NEVER, 0, 1},
                                                  {CATCH_UP, 200000, WAIT, NEVER, 0, 2},
                                                  {CATCH_UP, 200000, WAIT, NEVER, 0, 2},
                                                  {CATCH_UP, 2200000, WAIT, NEVER, 0, 12},
                                                  {GRANTED, 2200000, FINISH}}},
    {"who has a limit of tries counts by itself", .tries = 3,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {CATCH_UP, 2000000, WAIT, 200000, 0, 1},
               {GRANTED, 2000000, FINISH}}},
    {"cancelled before anything was sent", .tries = 3,
     .steps = {{CANCELLED, 0, FINISH, RQL_CANCELLED}}},
    {"cancelled while it is asked", .tries = 3,
     .steps = {{CANCELLED_ASKING, 0, LEAVE},
               {CANCELLED, 0, LEAVE},
               {LEFT, 0, FINISH, RQL_CANCELLED}}},
    {"cancelled while it is asked, unconfirmed", .tries = 3,
     .steps = {{CANCELLED_ASKING, 0, LEAVE},
               {CANCELLED, 0, LEAVE},
               {UNCONFIRMED, 0, FINISH, RQL_E_UNKNOWN}}},
    {"cancelled while it waits", .tries = 3,
     .steps = {{QUEUED, 0, WAIT, 200000},
               {CANCELLED, 0, LEAVE},
               {CANCELLED, 0, LEAVE},
               {LEFT, 0, FINISH, RQL_CANCELLED}}},
    {"cancelled too late", .tries = 3, .steps = {{GRANTED, 0, FINISH}, {CANCELLED, 0, FINISH}}},
    {"a login that is refused: nothing to leave", .tries = 3,
     .steps = {{FAULT_UNSENT, 0, FINISH, RQL_E_AUTH, RQL_E_AUTH}}},
    {"a login that is refused after a try without an answer: a request may be there", .tries = 3,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_UNKNOWN},
               {TIME, 20000, TRY},
               {FAULT_UNSENT, 20100, LEAVE, 0, RQL_E_AUTH},
               {LEFT, 20200, FINISH, RQL_E_AUTH}}},
    {"a turn that did not come in time", .deadline_us = 1, .tries = 3,
     .steps = {{LATE, 1, FINISH, RQL_TIMED_OUT}}},
    {"a turn that did not come in time after a fault", .deadline_us = 50000, .tries = 3,
     .steps = {{SETBACK, 0, WAIT, 20000, RQL_E_IO},
               {TIME, 20000, TRY},
               {LATE, 20000, FINISH, RQL_E_IO}}},

    {"an outcome ends it and leaves nothing", .tries = 3,
     .steps = {{REFUSED, 0, FINISH, RQL_CONFLICT, RQL_CONFLICT, 1}}},
    /* Who asks whenever a try is counted: whatever that brings is this try. */
    {"a grant that was over is counted once", .tries = 4, .leads = true, .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 200000, 0, 1},
               {TIME, 200000, TRY},
               {OVER, 200000, WAIT, 400000, 0, 2},
               {TIME, 400000, TRY},
               {OVER, 400000, WAIT, 600000, 0, 3},
               {LOOK, 400000, TRY},
               {OVER, 400000, LEAVE},
               {LEFT, 400000, FINISH, RQL_RETRY_LIMIT}}},
    {"a grant that was over is asked for again after a pause, which may be the end", .tries = 9,
     .deadline_us = 300000, .jitter_us = 7000,
     .steps = {{OVER, 0, WAIT, 207000, 0, 1},
               {TIME, 207000, TRY},
               {OVER, 300000, LEAVE},
               {UNCONFIRMED, 300100, FINISH, RQL_E_UNKNOWN}}},
    {"a grant that is not safe is asked for again after a pause", .deadline_us = 300000,
     .jitter_us = 7000,
     .steps = {{UNSAFE, 0, WAIT, 207000, 0, 1}, {TIME, 207000, TRY}, {GRANTED, 207100, FINISH}}},
    {"and where it ends in vain that is why: in the pause", .deadline_us = 100000,
     .steps = {{UNSAFE, 0, WAIT, 100000, 0, 1},
               {TIME, 100000, LEAVE},
               {LEFT, 100100, FINISH, RQL_E_NOT_DURABLE}}},
    {"in the queue", .deadline_us = 300000,
     .steps = {{UNSAFE, 0, WAIT, 200000, 0, 1},
               {TIME, 200000, TRY},
               {QUEUED, 200000, WAIT, 300000, 0, 2},
               {TIME, 300000, LEAVE},
               {LEFT, 300100, FINISH, RQL_E_NOT_DURABLE}}},
    {"at the last try", .tries = 1,
     .steps = {{UNSAFE, 0, LEAVE}, {LEFT, 100, FINISH, RQL_E_NOT_DURABLE}}},
    {"without an answer at the end", .deadline_us = 300000,
     .steps = {{UNSAFE, 0, WAIT, 200000, 0, 1},
               {TIME, 200000, TRY},
               {SETBACK, 300000, LEAVE, 0, RQL_E_UNKNOWN},
               {LEFT, 300100, FINISH, RQL_E_NOT_DURABLE}}},
    {"unless it may not have been given back", .tries = 1,
     .steps = {{UNSAFE, 0, LEAVE}, {UNCONFIRMED, 100, FINISH, RQL_E_UNKNOWN}}},
    {"a poll between two ticks is a try of its own if what it brings was over", .leads = true,
     .is_deaf = true,
     .steps = {{QUEUED, 0, WAIT, 200000, 0, 1},
               {TIME, 200000, TRY},
               {QUEUED, 200000, WAIT, 400000, 0, 2},
               {LOOK, 300000, TRY},
               {OVER, 300000, WAIT, 500000, 0, 3},
               {GRANTED, 300001, FINISH}}},
    {"tries slept through are counted with their jitter", .jitter_us = 7000,
     .steps = {{QUEUED, 0, WAIT, NEVER, 0, 1},
               {CATCH_UP, 413999, WAIT, NEVER, 0, 2},
               {CATCH_UP, 414000, WAIT, NEVER, 0, 3},
               {GRANTED, 414000, FINISH}}},
    {"what the client cannot use is given back, though the fault is the client's own", .tries = 1,
     .steps = {{UNUSABLE, 0, LEAVE, 0, RQL_E_NOMEM}, {LEFT, 100, FINISH, RQL_E_NOMEM}}},
    {"unless that is not confirmed", .tries = 1,
     .steps = {{UNUSABLE, 0, LEAVE, 0, RQL_E_NOMEM}, {UNCONFIRMED, 100, FINISH, RQL_E_UNKNOWN}}},
    {"nothing happens to a request that has ended", .tries = 3,
     .steps = {{GRANTED, 0, FINISH},
               {GRANTED, 0, ABORTS},
               {REFUSED, 0, ABORTS, 0, RQL_CONFLICT},
               {QUEUED, 0, ABORTS},
               {OVER, 0, ABORTS},
               {SETBACK, 0, ABORTS, 0, RQL_E_IO},
               {TIME, 0, ABORTS},
               {LOOK, 0, ABORTS},
               {LEFT, 0, ABORTS}}},
    {"who leaves only leaves", .tries = 1,
     .steps = {{QUEUED, 0, LEAVE},
               {QUEUED, 0, ABORTS},
               {OVER, 0, ABORTS},
               {SETBACK, 0, ABORTS, 0, RQL_E_IO},
               {TIME, 0, ABORTS},
               {LOOK, 0, ABORTS},
               {LEFT, 0, FINISH, RQL_RETRY_LIMIT}}},
    {"outcomes and faults are not mixed up", .tries = 3,
     .steps = {{REFUSED, 0, ABORTS, 0, RQL_E_IO},
               {SETBACK, 0, ABORTS, 0, RQL_CONFLICT},
               {FAULT, 0, ABORTS, 0, RQL_TIMED_OUT},
               {REFUSED, 0, ABORTS, 0, RQL_OK},
               {SETBACK, 0, ABORTS, 0, RQL_OK},
               {FAULT, 0, ABORTS, 0, RQL_OK},
               {GRANTED, 0, FINISH}}},
};

/* Everything that an event may need. */
struct happening {
    struct rqli_request *request;
    enum event event;
    rql_status with;
    struct rqli_request_place place;
    struct rqli_request_input view;
};

/* The answer to a try. */
static void answer(struct rqli_request *request, const struct happening *self)
{
    enum event event = self->event;

    if (event == GRANTED) {
        rqli_request_on_granted(request);
    } else if (event == REFUSED) {
        rqli_request_on_refused(request, self->with);
    } else if (event == QUEUED) {
        rqli_request_on_queued(request, &self->place, &self->view);
    } else if (event == HELD_BACK || event == HELD_BACK_LISTENING) {
        rqli_request_on_held_back(request, event == HELD_BACK_LISTENING, &self->view);
    } else if (event == AGAIN) {
        rqli_request_on_again(request, self->view.now_us);
    } else if (event == OVER) {
        rqli_request_on_over(request, &self->view);
    } else if (event == UNSAFE) {
        rqli_request_on_not_durable(request, &self->view);
    } else if (event == SETBACK) {
        rqli_request_on_setback(request, self->with, &self->view);
    } else if (event == UNUSABLE) {
        rqli_request_on_unusable(request, self->with);
    } else {
        rqli_request_on_fault(request, self->with, event == FAULT);
    }
}

static void happen(const void *data)
{
    const struct happening *self = data;
    struct rqli_request *request = self->request;
    enum event event = self->event;

    if (event <= FAULT_UNSENT) {
        answer(request, self);
    } else if (event == TIME) {
        rqli_request_on_time(request, &self->view);
    } else if (event == LOOK) {
        rqli_request_on_poll(request);
    } else if (event == LEADS) {
        rqli_request_on_lead(request, &self->view);
    } else if (event == CATCH_UP) {
        rqli_request_catch_up(request, &self->view);
    } else if (event == LATE) {
        rqli_request_on_late(request);
    } else if (event == CANCELLED || event == CANCELLED_ASKING) {
        rqli_request_on_cancelled(request, event == CANCELLED_ASKING);
    } else {
        rqli_request_on_left(request, event == LEFT);
    }
}

static int64_t instant(int64_t us)
{
    return us > 0 && us != NEVER ? ORIGIN_US + us : NEVER;
}

static void check_step(struct rqli_request *request, const struct story *story,
                       const struct step *step)
{
    int64_t now_us = ORIGIN_US + step->at_us;
    struct happening happening = {
        .request = request,
        .event = step->event,
        .with = step->with,
        .place = {.lock_ends_us = instant(story->ends_us),
                  .is_first = story->is_first,
                  .of_ruby = story->of_ruby},
        .view = {.now_us = now_us,
                 .jitter_us = story->jitter_us,
                 .leads = story->leads || now_us >= instant(story->leads_at_us),
                 .delivers = !story->is_deaf},
    };

    if (step->want == ABORTS) {
        assert_true(aborts(happen, &happening));
        return;
    }
    happen(&happening);
    assert_int_equal(request->state, step->want);
    if (step->want == WAIT) {
        assert_int_equal(request->wake_us, instant(step->then));
    } else if (step->want == FINISH) {
        assert_int_equal(request->verdict, step->then);
        assert_int_equal(request->in_queue, step->event == UNCONFIRMED);
    }
    assert_true(step->tries == 0 || request->tries == (step->tries < 0 ? 0 : step->tries));
}

TEST(every_story_ends_as_told)
{
    EACH_ROW (story, stories) {
        const struct rqli_request_limits limits = {
            .deadline_us = instant(story->deadline_us),
            .tries = story->tries ? story->tries : RQL_FOREVER,
            .delay_us = story->delay_us ? story->delay_us : DELAY_US,
        };
        struct rqli_request request;

        rqli_request_init(&request, &limits);
        assert_int_equal(request.state, TRY);
        for (const struct step *step = story->steps; step->event != END; step++) {
            print_message("#   step %d\n", (int)(step - story->steps));
            check_step(&request, story, step);
        }
        assert_int_equal(request.state, FINISH);
    }
}

/* What it ends with when it is withdrawn, and when nobody knows whether; E_IO and its like promise
 * that nothing was done: not true of the request that was queued. */
static const struct fault_row {
    rql_status fault;
    bool is_queued;
    bool leaves;
    rql_status left;
    rql_status unconfirmed;
} fault_rows[] = {
    {RQL_E_IO, false, false, RQL_E_IO, RQL_E_IO},
    {RQL_E_NOMEM, false, false, RQL_E_NOMEM, RQL_E_NOMEM},
    {RQL_E_READ_ONLY, false, false, RQL_E_READ_ONLY, RQL_E_READ_ONLY},
    {RQL_E_UNAVAILABLE, false, false, RQL_E_UNAVAILABLE, RQL_E_UNAVAILABLE},
    {RQL_E_UNKNOWN, false, true, RQL_TIMED_OUT, RQL_E_UNKNOWN},
    {RQL_E_PROTOCOL, false, true, RQL_E_PROTOCOL, RQL_E_PROTOCOL},
    {RQL_E_SERVER, false, true, RQL_E_SERVER, RQL_E_SERVER},
    {RQL_E_AUTH, false, true, RQL_E_AUTH, RQL_E_AUTH},
    {RQL_E_WRONG_TYPE, false, true, RQL_E_WRONG_TYPE, RQL_E_WRONG_TYPE},
    {RQL_E_BUSY, false, true, RQL_E_BUSY, RQL_E_BUSY},
    {RQL_E_IO, true, true, RQL_E_IO, RQL_E_UNKNOWN},
    {RQL_E_NOMEM, true, true, RQL_E_NOMEM, RQL_E_UNKNOWN},
    {RQL_E_READ_ONLY, true, true, RQL_E_READ_ONLY, RQL_E_UNKNOWN},
    {RQL_E_UNAVAILABLE, true, true, RQL_E_UNAVAILABLE, RQL_E_UNKNOWN},
};

TEST(faults_leave_what_they_may_have_left)
{
    static const struct story story = {.tries = 3};
    const struct rqli_request_limits limits = {NEVER, 3, DELAY_US};

    for (size_t i = 0; i < 2 * N_ROWS(fault_rows); i++) {
        const struct fault_row *row = &fault_rows[i / 2];
        enum event end = i % 2 ? UNCONFIRMED : LEFT;
        rql_status status = i % 2 ? row->unconfirmed : row->left;
        const struct step queued[] = {{QUEUED, 0, WAIT, DELAY_US, 0, 0}, {LOOK, 0, TRY, 0, 0, 0}};
        const struct step ends[] = {{FAULT, 0, row->leaves ? LEAVE : FINISH, status, row->fault, 0},
                                    {end, 0, FINISH, status, 0, 0}};
        struct rqli_request request;

        print_message("# fault: %s, queued %d\n", rql_status_text(row->fault), row->is_queued);
        rqli_request_init(&request, &limits);
        for (size_t k = 0; row->is_queued && k < N_ROWS(queued); k++) {
            check_step(&request, &story, &queued[k]);
        }
        for (size_t k = 0; k < (row->leaves ? N_ROWS(ends) : 1); k++) {
            check_step(&request, &story, &ends[k]);
        }
    }
}
