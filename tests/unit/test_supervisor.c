#include "check.h"

#include "supervise.h"
#include "swarm.h"

/* An element as its supervisor sees it. No thread, no clock. */

enum { HANG = 100, LEAST = 10, MOST = 50, STEPS_MAX = 16 };

static const struct rqli_watch_terms terms = {
    .hang_us = HANG, .failures_max = 3, .open_least_us = LEAST, .open_most_us = MOST};

enum event {
    END,
    LOOK,
    START,
    DIE,
    LEAVE, /* as it was told to */
    BEGIN, /* a step */
    SIGN,
    SUCCEED,
    CANCEL,
    STEP_SUCCEEDS, /* which it may begin, and which takes no time */
    STEP_FAILS,
    MAY_NOT_STEP,
};

/* What happens to an element that runs, and when; what is then to be done (of LOOK alone), what it
 * is, its breaker, and, unless 0, until when that is open. */
struct step {
    enum event event;
    int64_t at_us;
    enum rqli_watch_action action;
    rql_element_state state;
    rql_breaker_state breaker;
    int64_t open_until_us;
};

#define NOTHING RQLI_WATCH_NOTHING
#define RUNNING RQL_ELEMENT_RUNNING
#define CLOSED RQL_BREAKER_CLOSED
#define OPEN RQL_BREAKER_OPEN

static const struct life {
    const char *name;
    struct step steps[STEPS_MAX];
    int64_t n_steps, n_restarts, n_failures; /* in the end */
} elements[] = {
    {"an element that works is left alone",
     .steps = {{STEP_SUCCEEDS, 0, NOTHING, RUNNING},
               {LOOK, 10, NOTHING, RUNNING},
               {STEP_SUCCEEDS, 20, NOTHING, RUNNING},
               {LOOK, 1000000, NOTHING, RUNNING}},
     .n_steps = 2},
    {"a dead element is started again, one that was told to end is not",
     .steps = {{DIE, 0, NOTHING, RQL_ELEMENT_DEAD},
               {LOOK, 0, RQLI_WATCH_START, RQL_ELEMENT_DEAD},
               {LOOK, 1, RQLI_WATCH_START, RQL_ELEMENT_DEAD},
               {START, 1, NOTHING, RUNNING},
               {LOOK, 2, NOTHING, RUNNING},
               {LEAVE, 2, NOTHING, RQL_ELEMENT_OFF},
               {LOOK, 3, NOTHING, RQL_ELEMENT_OFF}},
     .n_restarts = 2},
    {"a step without a sign hangs",
     .steps = {{BEGIN, 0, NOTHING, RUNNING},
               {LOOK, HANG, NOTHING, RUNNING},
               {SIGN, 50, NOTHING, RUNNING},
               {LOOK, 50 + HANG, NOTHING, RUNNING},
               {LOOK, 51 + HANG, RQLI_WATCH_REPLACE, RQL_ELEMENT_HUNG},
               {LOOK, 52 + HANG, NOTHING, RQL_ELEMENT_HUNG},
               {SUCCEED, 60 + HANG, NOTHING, RUNNING},
               {DIE, 60 + HANG, NOTHING, RQL_ELEMENT_DEAD},
               {LOOK, 61 + HANG, RQLI_WATCH_START, RQL_ELEMENT_DEAD}},
     .n_steps = 1, .n_restarts = 1},
    {"a breaker opens and tries one step",
     .steps = {{STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 1, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 2, NOTHING, RUNNING, OPEN, 2 + LEAST},
               {MAY_NOT_STEP, 1 + LEAST, NOTHING, RUNNING, OPEN},
               {BEGIN, 2 + LEAST, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {SUCCEED, 20, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 21, NOTHING, RUNNING, CLOSED}},
     .n_steps = 1, .n_failures = 4},
    {"a breaker stays open for longer up to a limit, and begins anew",
     .steps = {{STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 0, NOTHING, RUNNING, OPEN, LEAST},
               {STEP_FAILS, 10, NOTHING, RUNNING, OPEN, 10 + 20},
               {STEP_FAILS, 30, NOTHING, RUNNING, OPEN, 30 + 40},
               {STEP_FAILS, 70, NOTHING, RUNNING, OPEN, 70 + MOST},
               {STEP_FAILS, 120, NOTHING, RUNNING, OPEN, 120 + MOST},
               {STEP_SUCCEEDS, 170, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 170, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 170, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 170, NOTHING, RUNNING, OPEN, 170 + LEAST}},
     .n_steps = 1, .n_failures = 10},
    {"a step that is cancelled closes no breaker and counts as none",
     .steps = {{STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 0, NOTHING, RUNNING, OPEN, LEAST},
               {BEGIN, 10, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {CANCEL, 11, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {LOOK, 12 + HANG, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {STEP_FAILS, 13 + HANG, NOTHING, RUNNING, OPEN, 13 + HANG + 2 * LEAST}},
     .n_failures = 4},
    /* Of the server that says nothing. */
    {"an element that is begun anew has its breaker as it was",
     .steps = {{STEP_FAILS, 0, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 1, NOTHING, RUNNING, CLOSED},
               {DIE, 2, NOTHING, RQL_ELEMENT_DEAD, CLOSED},
               {START, 3, NOTHING, RUNNING, CLOSED},
               {STEP_FAILS, 4, NOTHING, RUNNING, OPEN, 4 + LEAST},
               {DIE, 5, NOTHING, RQL_ELEMENT_DEAD, OPEN},
               {START, 6, NOTHING, RUNNING, OPEN},
               {MAY_NOT_STEP, 3 + LEAST, NOTHING, RUNNING, OPEN},
               {BEGIN, 4 + LEAST, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {DIE, 15, NOTHING, RQL_ELEMENT_DEAD, RQL_BREAKER_HALF_OPEN},
               {START, 16, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {LOOK, 200, NOTHING, RUNNING, RQL_BREAKER_HALF_OPEN},
               {STEP_FAILS, 201, NOTHING, RUNNING, OPEN, 201 + 2 * LEAST}},
     .n_failures = 4},
};

static void happen(struct rqli_watch *watch, const struct step *step)
{
    enum event event = step->event;

    if (event == LOOK) {
        assert_int_equal(rqli_watch_look(watch, step->at_us), step->action);
    } else if (event == START) {
        rqli_watch_on_started(watch);
    } else if (event == DIE || event == LEAVE) {
        rqli_watch_on_ended(watch, event == LEAVE);
    } else if (event == SIGN) {
        rqli_watch_on_sign(watch, step->at_us);
    } else if (event != SUCCEED && event != CANCEL) {
        assert_int_equal(rqli_watch_may_step(watch, step->at_us), event != MAY_NOT_STEP);
    }
    if (event == BEGIN || event == STEP_SUCCEEDS || event == STEP_FAILS) {
        rqli_watch_on_step(watch, step->at_us);
    }
    if (event == SUCCEED || event == STEP_SUCCEEDS || event == STEP_FAILS) {
        rqli_watch_on_done(watch, step->at_us, event == STEP_FAILS ? RQL_E_IO : RQL_OK);
    } else if (event == CANCEL) {
        rqli_watch_on_done(watch, step->at_us, RQL_STOPPED);
    }
}

TEST(every_element_is_watched)
{
    EACH_ROW (life, elements) {
        struct rqli_watch watch;

        rqli_watch_init(&watch, &terms);
        rqli_watch_on_started(&watch);
        for (const struct step *step = life->steps; step->event != END; step++) {
            print_message("#   step %d\n", (int)(step - life->steps));
            happen(&watch, step);
            assert_int_equal(watch.state, step->state);
            assert_int_equal(watch.breaker, step->breaker);
            assert_true(step->open_until_us == 0 || watch.open_until_us == step->open_until_us);
        }
        CHECK_ALL(EQ(watch.steps, life->n_steps), EQ(watch.restarts, life->n_restarts),
                  EQ(watch.failures, life->n_failures));
    }
}

TEST(the_dead_are_looked_for_often_enough)
{
    assert_int_equal(rqli_flush_look_ms(15000, 10000), 3750);
    assert_int_equal(rqli_flush_look_ms(15000, 2000), 1000);
    assert_int_equal(rqli_flush_look_ms(1, 1), 1);
    for (int64_t ttl = 4; ttl < 200; ttl += 3) {
        for (int64_t period = 2; period < 200; period += 3) {
            int64_t look = rqli_flush_look_ms(ttl, period);

            /* Seen at half the ttl and one look, judged half a ttl and one look later. */
            assert_true(ttl + 2 * look <= ttl + period + 1);
        }
    }
}
