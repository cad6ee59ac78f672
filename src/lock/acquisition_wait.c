#include "lock/acquisition_inside.h"
#include "lock/client.h"
#include "lock/loop_inside.h"
#include "lock/tracking.h"

#include <stddef.h>

static rql_request *of_guest(struct rqli_guest *guest)
{
    return (rql_request *)((char *)guest - offsetof(rql_request, guest));
}

static void on_lead(rql_request *self)
{
    struct rqli_request_view view = rqli_acquisition_view(self);

    if (self->machine.state == RQLI_REQUEST_QUEUED) {
        rqli_request_on_lead(&self->machine, &view);
        rqli_acquisition_drive(self);
    }
}

void rqli_acquisition_stop_waiting(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    struct rqli_guest *leader = NULL;

    if (self->has_joined) {
        self->has_joined = false;
        leader = rqli_waiting_leave(&loop->waiting, &self->guest);
    }
    if (self->watch) {
        rqli_pipe_orphan(loop->op.pipe, self->watch);
    }
    if (leader) {
        on_lead(of_guest(leader));
    }
}

/* Something may have come for it while it waits. */
static void rouse(struct rqli_guest *guest)
{
    rql_request *self = of_guest(guest);

    if (self->machine.state == RQLI_REQUEST_QUEUED) {
        rqli_acquisition_drive(self);
    }
}

static void nudge(struct rqli_guest *guest)
{
    of_guest(guest)->attempt->waiter.nudged = true;
    rouse(guest);
}

/* Whatever it was told by is used up, or may be no more. */
static void nudge_anew(struct rqli_guest *guest)
{
    of_guest(guest)->attempt->waiter.watches = false;
    nudge(guest);
}

static void nudge_watcher(struct rqli_guest *guest)
{
    if (of_guest(guest)->attempt->waiter.watches) {
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
        return; /* of another, or too late; see link/subscriber.c */
    }
    if (pushed->kind == RQLI_PUSHED_LOOK) {
        nudge(guest);
    } else {
        struct rqli_waiter *waiter = &of_guest(guest)->attempt->waiter;

        waiter->push = pushed->push;
        waiter->push.received_us = received_us;
        waiter->pushed = true;
        rouse(guest);
    }
}

void rqli_loop_on_read(void *loop)
{
    rqli_subscriber_drain(((rql_loop *)loop)->client->subscriber);
}

bool rqli_acquisition_take_what_came(rql_request *self)
{
    struct rqli_waiter *waiter = &self->attempt->waiter;
    struct rqli_world world = rqli_acquisition_world(self);
    enum rqli_wait_result result = RQLI_WAIT_LOOK;

    if (waiter->pushed) {
        result = self->kind->take_push(self->attempt);
    } else if (!waiter->nudged) {
        return false;
    }
    waiter->nudged = false;
    rqli_drive_on_wait(&self->machine, result, &world);
    return true;
}

/* ---- a lock of Ruby's ---- */

static void on_looked(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    rql_request *self = owner;

    self->watch = 0;
    if (!fault && answer->reply->type == RQLI_REPLY_NIL) {
        nudge(&self->guest); /* free when the watch began; what was before that is not told */
    }
}

static void watch_ruby(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    uint64_t pipe = rqli_pipe_generation(loop->op.pipe);
    uint64_t ear = rqli_ear_generation(loop->ear);
    bool is_set_up = loop->tracking_pipe == pipe && loop->tracking_ear == ear;

    if (self->attempt->waiter.watches && rqli_attempt_is_armed(self->attempt, pipe)) {
        return;
    }
    if (self->watch || !rqli_ear_is_listening(loop->ear) || !rqli_pipe_has_room(loop->op.pipe)) {
        return;
    }
    self->attempt->waiter.watches = true;
    rqli_attempt_arm(self->attempt, pipe);
    rqli_tracking_write(rqli_pipe_out(loop->op.pipe), self->attempt->watched,
                        is_set_up ? 0 : rqli_ear_client_id(loop->ear));
    if (!is_set_up) {
        loop->tracking_pipe = pipe;
        loop->tracking_ear = ear;
        (void)rqli_pipe_expect(loop->op.pipe, NULL, NULL);
    }
    (void)rqli_pipe_expect(loop->op.pipe, NULL, NULL);
    self->watch = rqli_pipe_expect(loop->op.pipe, on_looked, self);
}

/* ---- whether pushes still come ---- */

static void on_called(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    rql_loop *loop = owner;

    if (!fault && answer->reply->type == RQLI_REPLY_INTEGER) {
        rqli_ear_on_called(loop->ear, answer->reply->integer);
    }
}

static void test_hearing(rql_loop *loop)
{
    if (rqli_pipe_has_room(loop->op.pipe) && rqli_ear_wants_call(loop->ear)) {
        rqli_push_call(rqli_pipe_out(loop->op.pipe), loop->client->endpoint.identity);
        (void)rqli_pipe_expect(loop->op.pipe, on_called, loop);
    }
}

void rqli_acquisition_attend(rql_request *self)
{
    const struct attempt *attempt = self->attempt;
    rql_loop *loop = self->job.loop;
    bool leads = rqli_waiting_leads(&self->guest);

    rqli_loop_listen(loop);
    test_hearing(loop);
    if (attempt->was_restored && leads) { /* all others, once, and not each of them all others */
        rqli_waiting_each_of(&loop->waiting, self->guest.lock_key, false, nudge);
        self->attempt->waiter.nudged = false;
    }
    if (attempt->watched.data) {
        watch_ruby(self);
    }
}
