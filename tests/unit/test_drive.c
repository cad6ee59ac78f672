#include "check.h"

#include "base/clock.h"
#include "chance.h"
#include "lock/drive.h"

#include <rql/base.h>

enum { ORIGIN_US = 7000000, LOG_SIZE = 64, N_WORLDS = 20000, STEPS_MAX = 100000 };

/* Plays what is written: one letter an answer, to whatever it is asked.
 *   try:   g granted, q queued, c conflict, a again, o over already, s setback, f fault
 *   wait:  t the time came, p pushed, l look
 *   leave: y confirmed, n not
 * and writes down what it was asked: T, W, L. */
struct play {
    const char *script;
    rql_status fault; /* of s and f */
    int64_t now_us;
    int64_t until_us; /* of the last wait */
    rql_error *error; /* that the tries must get */
    size_t length;
    char log[LOG_SIZE];
};

static char answer(struct play *play, char question)
{
    assert_true(play->length < LOG_SIZE - 1);
    play->log[play->length++] = question;
    assert_true(*play->script != '\0');
    return *play->script++;
}

static void view(void *self, struct rqli_request_view *out)
{
    const struct play *play = self;

    *out = (struct rqli_request_view){.now_us = play->now_us, .is_listening = true};
}

static struct rqli_try try_take(void *self, rql_error *error)
{
    struct play *play = self;
    struct rqli_try given = {.place = {.lock_ends_us = RQLI_NEVER_US, .rank = 3}};

    assert_ptr_equal(error, play->error);
    play->now_us += 100;
    switch (answer(play, 'T')) {
    case 'g':
        given.result = RQLI_TRY_GRANTED;
        break;
    case 'q':
        given.result = RQLI_TRY_QUEUED;
        break;
    case 'c':
        given.result = RQLI_TRY_REFUSED;
        given.status = RQL_CONFLICT;
        break;
    case 'a':
        given.result = RQLI_TRY_AGAIN;
        break;
    case 'o':
        given.result = RQLI_TRY_OVER;
        break;
    case 's':
        given.result = RQLI_TRY_SETBACK;
        given.status = play->fault;
        break;
    case 'f':
        given.result = RQLI_TRY_FAULT;
        given.status = play->fault;
        break;
    default:
        fail_msg("it tried before '%s'", play->script);
    }
    return given;
}

static enum rqli_wait_result wait_for_push(void *self, int64_t until_us)
{
    struct play *play = self;

    play->until_us = until_us;
    switch (answer(play, 'W')) {
    case 't':
        play->now_us = until_us;
        return RQLI_WAIT_TIME;
    case 'p':
        return RQLI_WAIT_GRANTED;
    case 'l':
        return RQLI_WAIT_LOOK;
    default:
        fail_msg("it waited before '%s'", play->script);
    }
    return RQLI_WAIT_TIME;
}

static bool leave(void *self)
{
    char said = answer(self, 'L');

    assert_true(said == 'y' || said == 'n');
    return said == 'y';
}

/* Three tries, 200 ms apart, within half a second. */
static const struct rqli_request_limits limits = {ORIGIN_US + 500000, 3, 200000};

struct play_case {
    const char *name;
    const char *script;
    const char *log;
    rql_status fault;
    rql_status expected;
};

static void act(const struct play_case *row)
{
    rql_error error = {0};
    struct play play = {
        .script = row->script, .fault = row->fault, .now_us = ORIGIN_US, .error = &error};
    const struct rqli_world world = {view, try_take, wait_for_push, leave, &play};
    struct rqli_request request;

    print_message("# %s\n", row->name);
    rqli_request_init(&request, &limits);
    assert_int_equal(rqli_drive(&request, &world, &error), row->expected);
    assert_string_equal(play.log, row->log);
    assert_string_equal(play.script, "");
}

static void each_answer_leads_to_the_right_next_step(void **state)
{
    static const struct play_case cases[] = {
        {"granted", "g", "T", 0, RQL_OK},
        {"refused", "c", "T", 0, RQL_CONFLICT},
        {"asked again", "aag", "TTT", 0, RQL_OK},
        {"pushed", "qp", "TW", 0, RQL_OK},
        {"granted too late, then in time", "otg", "TWT", 0, RQL_OK},
        {"granted too late each time", "otaotoy", "TWTTWTL", 0, RQL_RETRY_LIMIT},
        {"granted too late, and by push", "op", "TW", 0, RQL_OK},
        {"granted too late at a look, which is a try more", "qlotqy", "TWTWTL", 0, RQL_RETRY_LIMIT},
        {"granted too late, then queued for the rest", "otqtqy", "TWTWTL", 0, RQL_RETRY_LIMIT},
        {"granted too late, and no leave", "ototon", "TWTWTL", 0, RQL_E_UNKNOWN},
        {"told to look", "qlqlg", "TWTWT", 0, RQL_OK},
        {"waits, and its last try asks", "qttg", "TWWT", 0, RQL_OK},
        {"tries used up", "qttqy", "TWWTL", 0, RQL_RETRY_LIMIT},
        {"refused while it waits", "qlc", "TWT", 0, RQL_CONFLICT},
        {"a fault that did nothing", "f", "T", RQL_E_IO, RQL_E_IO},
        {"a fault that may have done something", "fy", "TL", RQL_E_PROTOCOL, RQL_E_PROTOCOL},
        {"a fault while it waits", "qlfy", "TWTL", RQL_E_IO, RQL_E_IO},
        {"a fault while it waits, and no leave", "qlfn", "TWTL", RQL_E_IO, RQL_E_UNKNOWN},
        {"no answer, then granted", "stg", "TWT", RQL_E_UNKNOWN, RQL_OK},
        {"no answer, then granted by push", "sp", "TW", RQL_E_UNKNOWN, RQL_OK},
        {"no connection, then granted", "stg", "TWT", RQL_E_IO, RQL_OK},
        {"no leave", "qttqn", "TWWTL", 0, RQL_E_UNKNOWN},
        {"no answer, then refused", "stc", "TWT", RQL_E_UNKNOWN, RQL_CONFLICT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        act(&cases[i]);
    }
}

static void it_waits_until_the_machine_says(void **state)
{
    struct play play = {.script = "qtp", .now_us = ORIGIN_US};
    const struct rqli_world world = {view, try_take, wait_for_push, leave, &play};
    struct rqli_request request;

    (void)state;
    rqli_request_init(&request, &limits);
    assert_int_equal(rqli_drive(&request, &world, NULL), RQL_OK);
    assert_int_equal(play.until_us, ORIGIN_US + 100 + 2 * 200000);
    assert_int_equal(request.place.rank, 3);
}

/* What was asked of the server takes time: the machine is told of the time after it. */
static void the_view_is_taken_after_the_try(void **state)
{
    struct play play = {.script = "ay", .now_us = ORIGIN_US + 500000 - 100};
    const struct rqli_world world = {view, try_take, wait_for_push, leave, &play};
    struct rqli_request request;

    (void)state;
    rqli_request_init(&request, &limits);
    assert_int_equal(rqli_drive(&request, &world, NULL), RQL_TIMED_OUT);
    assert_string_equal(play.log, "TL");
}

/* A world of chance that knows what is really in the queue. */
struct chaos {
    uint32_t seed;
    int64_t now_us;
    int n_steps;
    int n_leaves;
    bool may_be_there; /* something of ours on the server */
    bool is_ours;      /* the lock */
};

static void step(struct chaos *chaos)
{
    assert_int_equal(chaos->n_leaves, 0); /* the last that is asked */
    assert_false(chaos->is_ours);
    assert_true(chaos->n_steps++ < STEPS_MAX);
}

static void view_chaos(void *self, struct rqli_request_view *out)
{
    struct chaos *chaos = self;

    *out = (struct rqli_request_view){
        .now_us = chaos->now_us,
        .jitter_us = chance_below(&chaos->seed, 20000),
        .leads = chance_below(&chaos->seed, 2) > 0,
        .is_listening = chance_below(&chaos->seed, 2) > 0,
    };
}

/* Before it was sent, or with an answer that says so; or who knows. */
static rql_status some_fault(struct chaos *chaos)
{
    static const rql_status harmless[] = {RQL_E_IO, RQL_E_NOMEM, RQL_E_READ_ONLY,
                                          RQL_E_UNAVAILABLE};
    static const rql_status others[] = {RQL_E_UNKNOWN, RQL_E_PROTOCOL, RQL_E_SERVER, RQL_E_AUTH};

    if (chance_below(&chaos->seed, 2) > 0) {
        return harmless[chance_below(&chaos->seed, 4)];
    }
    chaos->may_be_there = true;
    return others[chance_below(&chaos->seed, 4)];
}

static struct rqli_try try_chaos(void *self, rql_error *error)
{
    struct chaos *chaos = self;
    struct rqli_try given = {.result = (enum rqli_try_result)chance_below(&chaos->seed, 7)};

    (void)error;
    step(chaos);
    chaos->now_us += 20 + chance_below(&chaos->seed, 50000);
    if (given.result < RQLI_TRY_SETBACK && chance_below(&chaos->seed, 4) > 0) {
        given.result = RQLI_TRY_QUEUED;
    }
    given.place.is_first = chance_below(&chaos->seed, 2) > 0;
    given.place.lock_ends_us = chaos->now_us + chance_below(&chaos->seed, 3000000);
    if (given.result == RQLI_TRY_SETBACK || given.result == RQLI_TRY_FAULT) {
        given.status = some_fault(chaos);
    } else {
        chaos->is_ours = given.result == RQLI_TRY_GRANTED;
        chaos->may_be_there = given.result == RQLI_TRY_QUEUED || given.result == RQLI_TRY_AGAIN ||
                              given.result == RQLI_TRY_OVER;
        given.status = given.result == RQLI_TRY_REFUSED ? RQL_CONFLICT : RQL_OK;
    }
    return given;
}

static enum rqli_wait_result wait_chaos(void *self, int64_t until_us)
{
    struct chaos *chaos = self;
    uint32_t how = chance_below(&chaos->seed, 20);
    int64_t left_us = until_us > chaos->now_us ? until_us - chaos->now_us : 0;

    step(chaos);
    chaos->now_us += how < 4 ? left_us / 2 : left_us + chance_below(&chaos->seed, 3000);
    if (how == 0) {
        chaos->is_ours = true;
        chaos->may_be_there = false;
        return RQLI_WAIT_GRANTED;
    }
    return how < 3 ? RQLI_WAIT_LOOK : RQLI_WAIT_TIME;
}

static bool leave_chaos(void *self)
{
    struct chaos *chaos = self;

    step(chaos);
    assert_true(chaos->may_be_there);
    chaos->n_leaves++;
    chaos->may_be_there = chance_below(&chaos->seed, 3) == 0;
    return !chaos->may_be_there;
}

/* What its doc says of the server: nothing was done there, or nothing is left there. */
static bool promises_nothing_left(rql_status status)
{
    return status >= 0 || status == RQL_E_IO || status == RQL_E_NOMEM ||
           status == RQL_E_READ_ONLY || status == RQL_E_UNAVAILABLE;
}

static void live(uint32_t seed)
{
    struct chaos chaos = {.seed = seed, .now_us = ORIGIN_US};
    const struct rqli_world world = {view_chaos, try_chaos, wait_chaos, leave_chaos, &chaos};
    struct rqli_request_limits random = {.tries = RQL_FOREVER};
    struct rqli_request request;
    rql_status status;

    random.deadline_us = ORIGIN_US + chance_below(&chaos.seed, 8000000);
    random.delay_us = 1000 + chance_below(&chaos.seed, 400000);
    if (chance_below(&chaos.seed, 2) > 0) {
        random.tries = 1 + chance_below(&chaos.seed, 20);
    }
    rqli_request_init(&request, &random);
    status = rqli_drive(&request, &world, NULL);
    assert_int_equal(chaos.is_ours, status == RQL_OK);
    assert_true(!chaos.may_be_there || chaos.n_leaves == 1);
    assert_true(!chaos.may_be_there || !promises_nothing_left(status));
}

static void every_world_ends_with_nothing_left_untold(void **state)
{
    for (uint32_t i = 1; i <= N_WORLDS; i++) {
        *(uint32_t *)*state = i * 2654435761U;
        live(*(uint32_t *)*state);
    }
}

static int say_seed(void **state)
{
    print_message("# last seed %u\n", (unsigned)*(uint32_t *)*state);
    return 0;
}

int main(void)
{
    uint32_t seed = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_leads_to_the_right_next_step),
        cmocka_unit_test(it_waits_until_the_machine_says),
        cmocka_unit_test(the_view_is_taken_after_the_try),
        cmocka_unit_test_prestate_setup_teardown(every_world_ends_with_nothing_left_untold, NULL,
                                                 say_seed, &seed),
    };

    return cmocka_run_group_tests_name("drive", tests, NULL, NULL);
}
