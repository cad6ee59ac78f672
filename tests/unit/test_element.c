#include "check.h"

#include "base/clock.h"
#include "net/op/op_loop.h"
#include "no_server.h"
#include "peer.h"
#include "swarm.h"
#include "wait.h"

#include <rql/async.h>
#include <sched.h>
#include <uv.h>

/* An element of a swarm takes its steps on a loop. There is no server. */

enum { AWAIT_MS = 10000, TURNS = 50, FAILURES_MAX = 3 };

#define HOUR_US INT64_C(3600000000)

static uv_loop_t uv;
static uv_async_t awake; /* keeps it alive */
static rql_client *client;
static rql_loop *loop;
static bool is_closed;
static struct rql_swarm swarm;
static struct rqli_element element;

/* The step under way. */
static struct {
    struct rqli_op op; /* first */
    bool waits;        /* until it is told to go on, or cancelled */
    bool calls;        /* a server, whose answer it waits for */
    bool has_called;
    bool is_done;
    bool was_timed;
    bool was_cancelled;
    rql_status status; /* in the end */
    int n_begun;
    int n_ended;
    int n_last;
} step;

static enum rqli_op_next next(struct rqli_op *op)
{
    step.was_cancelled = step.was_cancelled || op->is_cancelled;
    if (step.calls && !step.has_called) {
        step.has_called = true;
        op->n_calls = 1;
        op->until_us = rqli_now_us() + HOUR_US;
        return RQLI_OP_AGAIN;
    }
    if (step.waits && !step.is_done && !op->is_cancelled) {
        op->again_us = rqli_now_us() + HOUR_US;
        return RQLI_OP_WAIT;
    }
    op->status = op->is_cancelled ? RQL_STOPPED : step.status;
    return RQLI_OP_OVER;
}

static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    (void)op, (void)i;
    rqli_command_words(rqli_call_plain(call), "STALL", NULL);
}

static void read_call(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                      const struct rqli_reply *reply, const rql_error *fault)
{
    (void)op, (void)i, (void)answer, (void)reply;
    step.status = fault ? fault->status : RQL_OK;
}

static struct rqli_op *begin_step(struct rql_swarm *self, bool is_timed)
{
    static const struct rqli_op_ops ops = {.next = next, .write = write_call, .read = read_call};

    step.op = (struct rqli_op){.ops = &ops, .route = rqli_client_route_of_all(self->client)};
    step.is_done = false;
    step.was_timed = is_timed;
    step.n_begun++;
    return &step.op;
}

static void end_step(struct rql_swarm *self, rql_status status)
{
    (void)self;
    (void)status;
    step.n_ended++;
}

static struct rqli_op *begin_last(struct rql_swarm *self)
{
    (void)self;
    step.n_last++;
    return NULL;
}

static const struct rqli_element_ops element_ops = {"test", begin_step, end_step, begin_last, NULL};

static void begin_element(rql_client *of)
{
    const struct rqli_watch_terms terms = {.hang_us = HOUR_US,
                                           .failures_max = FAILURES_MAX,
                                           .open_least_us = HOUR_US,
                                           .open_most_us = HOUR_US};

    client = of;
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(uv_async_init(&uv, &awake, NULL), 0);
    CHECK_OK(rql_loop_open(client, &uv, &loop, NULL));
    swarm = (struct rql_swarm){.client = client};
    memset(&step, 0, sizeof step);
    rqli_element_init(&element, &element_ops, &swarm);
    assert_true(rqli_element_begin(&element, loop, HOUR_US, &terms));
}

BEFORE_EACH(set_up)
{
    begin_element(client_without_server());
}

static void on_closed(void *data)
{
    (void)data;
    is_closed = true;
}

/* Runs the loop until this holds. */
#define RUN_UNTIL(condition)                                                                       \
    do {                                                                                           \
        int64_t end_us = rqli_after_ms(rqli_now_us(), AWAIT_MS);                                   \
                                                                                                   \
        while (!(condition)) {                                                                     \
            assert_true(rqli_now_us() < end_us);                                                   \
            (void)uv_run(&uv, UV_RUN_NOWAIT);                                                      \
            (void)sched_yield();                                                                   \
        }                                                                                          \
    } while (0)

/* Whatever is due now is done. */
static void run(void)
{
    for (int i = 0; i < TURNS; i++) {
        (void)uv_run(&uv, UV_RUN_NOWAIT);
    }
}

AFTER_EACH(tear_down)
{
    rqli_element_stop(&element);
    is_closed = false;
    CHECK_OK(rql_loop_close(loop, on_closed, NULL, NULL));
    RUN_UNTIL(is_closed);
    uv_close((uv_handle_t *)&awake, NULL);
    run();
    assert_int_equal(uv_loop_close(&uv), 0);
    rqli_element_fini(&element);
    client = rqli_client_free(client);
}

static void go_on(void)
{
    step.is_done = true;
    rqli_op_wake(&element.driver, RQLI_WAKE_TIME);
}

static rql_element_status status_now(void)
{
    rql_element_status status;

    rqli_element_describe(&element, &status);
    return status;
}

TEST(who_is_roused_in_a_step_takes_one_more_behind_it)
{
    step.waits = true;
    RUN_UNTIL(step.n_begun == 1);
    assert_true(step.was_timed);
    rqli_element_rouse(&element);
    rqli_element_rouse(&element);
    run();
    assert_int_equal(step.n_begun, 1); /* one at a time */
    go_on();
    RUN_UNTIL(step.n_begun == 2);
    assert_false(step.was_timed);
    go_on();
    run();
    CHECK_ALL(EQ(step.n_begun, 2), EQ(step.n_ended, 2));
}

/* The next one by time comes when it would have come. */
TEST(a_step_in_between_moves_no_other)
{
    int64_t next_us;

    RUN_UNTIL(step.n_ended == 1);
    next_us = element.next_us;
    rqli_element_rouse(&element);
    RUN_UNTIL(step.n_ended == 2);
    assert_false(step.was_timed);
    assert_int_equal(element.next_us, next_us);
    element.next_us = rqli_now_us(); /* that time has come */
    rqli_element_rouse(&element);
    RUN_UNTIL(step.n_ended == 3);
    assert_true(step.was_timed);
    assert_true(element.next_us > next_us);
}

TEST(who_is_told_to_stop_ends_its_step_and_then_does_its_last_thing)
{
    step.waits = true;
    RUN_UNTIL(step.n_begun == 1);
    rqli_element_stop(&element);
    RUN_UNTIL(step.n_last == 1);
    rqli_element_rouse(&element);
    run();
    CHECK_ALL(EQ(step.was_cancelled, true), EQ(step.n_ended, 1), EQ(step.n_begun, 1),
              EQ(status_now().state, RQL_ELEMENT_OFF), EQ(status_now().steps, 0),
              EQ(element.is_begun, false));
}

/* Whoever waits for a step of an element that may take none would wait for ever. */
TEST(a_step_that_an_open_breaker_refuses_counts_as_tried)
{
    step.status = RQL_E_IO;
    for (int i = 1; i <= FAILURES_MAX; i++) {
        RUN_UNTIL(step.n_ended == i);
        rqli_element_rouse(&element);
    }
    run();
    CHECK_ALL(EQ(step.n_begun, FAILURES_MAX), EQ(element.tried, FAILURES_MAX + 1),
              EQ(status_now().breaker, RQL_BREAKER_OPEN), EQ(status_now().steps, 0),
              EQ(status_now().failures, FAILURES_MAX));
}

static bool has_heard_call(int peer)
{
    char heard[PEER_TEXT] = "";

    (void)peer_hear(peer, heard);
    return strstr(heard, "STALL") != NULL;
}

/* A call that was sent is not taken back, and its answer may never come. */
TEST(a_step_that_hangs_in_a_call_is_cut_off_from_its_server)
{
    struct peer_place place;
    int peer;

    peer_listen(&place);
    tear_down();
    begin_element(client_of_url(place.url));
    step.calls = true;
    RUN_UNTIL(wait_readable(place.fd, 0));
    peer = peer_accept(&place, PEER_LOGIN_FOR_COMMANDS ":0\r\n");
    RUN_UNTIL(has_heard_call(peer));
    element.shared.watch.sign_us = rqli_now_us() - HOUR_US - 1;
    rqli_element_look_after(&element);
    run(); /* no time-out of the connection is waited for */
    CHECK_ALL(EQ(step.n_ended, 1), EQ(step.status, RQL_E_UNKNOWN),
              EQ(recv(peer, &(char){0}, 1, MSG_DONTWAIT), 0));
    (void)close(peer);
}
