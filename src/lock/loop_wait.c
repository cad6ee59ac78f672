#include "lock/async_request.h"
#include "lock/client.h"
#include "lock/loop_inside.h"
#include "lock/tracking.h"
#include "lock/wait.h"

/* What comes in for those who wait on a loop. */

static rql_request *of_guest(struct rqli_guest *guest)
{
    return (rql_request *)((char *)guest - offsetof(rql_request, guest));
}

static void on_lead(struct rqli_guest *guest)
{
    rql_request *self = of_guest(guest);
    struct rqli_request_view view = rqli_wait_view(&self->acquire);

    rqli_request_on_lead(&self->acquire.request, &view);
    rqli_op_replan(&self->task);
}

void rqli_loop_end_wait(struct rqli_acquire *acquire, bool had_joined)
{
    rql_loop *loop = acquire->loop;
    rql_request *self = of_guest(acquire->guest);
    struct rqli_request_view view = rqli_wait_view(acquire);
    struct rqli_guest *leader = NULL;

    rqli_request_catch_up(&acquire->request, &view); /* what it slept through */
    if (had_joined) {
        leader = rqli_waiting_leave(&loop->waiting, acquire->guest);
    }
    if (self->watch) {
        rqli_pipe_orphan(loop->op.pipe, self->watch);
    }
    if (leader) {
        on_lead(leader);
    }
}

static void nudge(struct rqli_guest *guest)
{
    of_guest(guest)->acquire.waiter.nudged = true;
    rqli_op_replan(&of_guest(guest)->task);
}

/* Whatever it was told by is used up, or may be no more. */
static void nudge_anew(struct rqli_guest *guest)
{
    of_guest(guest)->acquire.waiter.watches = false;
    nudge(guest);
}

static void nudge_watcher(struct rqli_guest *guest)
{
    if (of_guest(guest)->acquire.waiter.watches) {
        nudge_anew(guest);
    }
}

void rqli_loop_on_listening(void *loop)
{
    rqli_waiting_each(&((rql_loop *)loop)->waiting, false, nudge_anew);
}

void rqli_loop_on_pushed(void *loop, const struct rqli_pushed *pushed, int64_t received_us)
{
    const struct rqli_waiting *waiting = &((rql_loop *)loop)->waiting;
    struct rqli_guest *guest;

    if (pushed->kind == RQLI_PUSHED_CHANGE) {
        if (pushed->lock_key.data) {
            rqli_waiting_each_of(waiting, pushed->lock_key, false, nudge_watcher);
        } else {
            rqli_waiting_each(waiting, true, nudge_anew); /* all may have changed */
        }
        return;
    }
    guest = pushed->kind == RQLI_PUSHED_GRANT || pushed->kind == RQLI_PUSHED_LOOK
                ? rqli_waiting_of_nonce(waiting, pushed->nonce)
                : NULL;
    if (!guest) {
        return; /* of another, or too late */
    }
    if (pushed->kind == RQLI_PUSHED_LOOK) {
        nudge(guest);
    } else {
        struct rqli_waiter *waiter = &of_guest(guest)->acquire.waiter;

        waiter->push = pushed->push;
        waiter->push.received_us = received_us;
        waiter->pushed = true;
        rqli_op_replan(&of_guest(guest)->task);
    }
}

void rqli_loop_on_read(void *loop)
{
    rqli_subscriber_drain(((rql_loop *)loop)->client->subscriber);
}

/* ---- a lock of Ruby's ---- */

static void on_asked(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    rql_request *self = owner;

    self->watch = 0;
    if (!fault && answer->reply->type == RQLI_REPLY_NIL) {
        nudge(&self->guest); /* free when the watch began; what was before that is not told */
    }
}

static void watch_ruby(struct rqli_acquire *acquire)
{
    rql_loop *loop = acquire->loop;
    rql_request *self = of_guest(acquire->guest);
    uint64_t pipe = rqli_pipe_generation(loop->op.pipe);
    uint64_t ear = rqli_ear_generation(loop->ear);
    bool is_set_up = loop->tracking_pipe == pipe && loop->tracking_ear == ear;

    if (acquire->waiter.watches && rqli_wait_is_armed(acquire, pipe)) {
        return;
    }
    if (self->watch || !rqli_ear_is_listening(loop->ear) || !rqli_pipe_has_room(loop->op.pipe)) {
        return;
    }
    acquire->waiter.watches = true;
    rqli_wait_arm(acquire, pipe);
    rqli_tracking_write(rqli_pipe_out(loop->op.pipe), acquire->watched,
                        is_set_up ? 0 : rqli_ear_client_id(loop->ear));
    if (!is_set_up) {
        loop->tracking_pipe = pipe;
        loop->tracking_ear = ear;
        (void)rqli_pipe_expect(loop->op.pipe, NULL, NULL);
    }
    (void)rqli_pipe_expect(loop->op.pipe, NULL, NULL);
    self->watch = rqli_pipe_expect(loop->op.pipe, on_asked, self);
}

/* ---- whether pushes still come ---- */

static void on_called(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    rql_loop *loop = owner;

    if (!fault && answer->reply->type == RQLI_REPLY_INTEGER) {
        rqli_ear_on_called(loop->ear, answer->reply->integer);
    }
}

static void test_subscription(rql_loop *loop)
{
    if (rqli_pipe_has_room(loop->op.pipe) && rqli_ear_wants_call(loop->ear)) {
        rqli_push_call(rqli_pipe_out(loop->op.pipe), loop->client->endpoint.identity);
        (void)rqli_pipe_expect(loop->op.pipe, on_called, loop);
    }
}

void rqli_loop_attend(struct rqli_acquire *acquire)
{
    rql_loop *loop = acquire->loop;

    rqli_loop_listen(loop);
    test_subscription(loop);
    if (acquire->was_restored && rqli_waiting_leads(acquire->guest)) {
        /* All others, once, and not each of them all others. */
        rqli_waiting_each_of(&loop->waiting, acquire->guest->lock_key, false, nudge);
        acquire->waiter.nudged = false;
    }
    if (acquire->watched.data) {
        watch_ruby(acquire);
    }
}
