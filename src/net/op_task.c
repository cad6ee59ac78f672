/*
 * A task is an operation under way on a loop. Its timer is the only one: for the end of the time
 * for replies, or before that of a pause of calls (CALLING), of the pause before the next round
 * (PAUSING), of a wait (WAITING).
 */

#include "base/clock.h"
#include "base/error.h"
#include "net/op_loop.h"
#include "net/stream.h"

#include <stddef.h>

/* RQLI_NEVER_US: no end. */
static void set_due(struct rqli_op_task *self, int64_t at_us)
{
    rqli_timers_set(self->loop->timers, &self->due, at_us);
}

static void step(struct rqli_op_task *self);

/* The operation goes on when all calls of the round are over. It may be freed within. */
void rqli_op_task_end_call(struct rqli_op_task *self)
{
    if (--self->n_open == 0) {
        step(self);
    }
}

/* ---- where calls go ---- */

static struct rqli_op_loop *at(const struct rqli_op_task *self, struct rqli_node *node)
{
    return node == self->loop->node ? self->loop : self->loop->at(self->loop, node);
}

/* Of one server nothing is asked: all go to that. Nor where it would be a guess. */
struct rqli_op_loop *rqli_op_call_loop(const struct rqli_op_call *self)
{
    const struct rqli_op_task *task = self->task;
    const struct rqli_op_route *route = &task->op->route;
    struct rqli_call call;

    if (!route->fleet->worker || rqli_fleet_is_looking(route->fleet)) {
        return task->loop;
    }
    rqli_op_draft(task->op, rqli_op_call_index(self), &call);
    return at(task, call.is_plain ? route->node : rqli_fleet_node(route->fleet, call.set));
}

/* Those that pause, which all of a new round do. They are written by the loop, before it sleeps:
 * rqli_op_loop_write(). */
static void queue_calls(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;
    size_t n_lost = 0;
    rql_error fault;

    rqli_op_loop_place_anew(self->loop); /* what came before goes ahead */
    for (size_t i = 0; i < op->n_calls; i++) {
        struct rqli_op_call *call = &self->calls[i];

        if (call->state != RQLI_OP_CALL_PAUSED) {
            continue;
        }
        call->loop = rqli_op_call_loop(call);
        if (call->loop) {
            rqli_op_call_queue(call);
        } else {
            call->state = RQLI_OP_CALL_IDLE;
            (void)rqli_fail_nomem(&fault);
            op->ops->read(op, i, NULL, NULL, &fault);
            n_lost++;
        }
    }
    self->n_open -= n_lost;
    if (n_lost > 0 && self->n_open == 0) {
        step(self);
    }
}

/* Those of a round that pause go on together, as soon as the first of them may. */
static void resume(struct rqli_op_task *self)
{
    self->resume_us = 0;
    set_due(self, self->op->until_us);
    queue_calls(self);
}

static void send_calls(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;

    rqli_fleet_on_use(op->route.fleet);
    self->state = RQLI_OP_TASK_CALLING;
    self->n_open = op->n_calls;
    self->n_pauses = 0;
    op->is_late = false;
    rqli_op_begin_acks(op);
    for (size_t i = 0; i < op->n_calls; i++) {
        self->calls[i] = (struct rqli_op_call){.task = self, .state = RQLI_OP_CALL_PAUSED};
    }
    resume(self);
}

static void pause_call(struct rqli_op_call *self, const struct rqli_retries *retries)
{
    struct rqli_op_task *task = self->task;

    self->state = RQLI_OP_CALL_PAUSED;
    if (task->resume_us == 0) { /* those that do so meanwhile are one pause with it */
        task->n_pauses = retries->n_pauses;
        task->resume_us = retries->again_us;
        set_due(task, retries->again_us);
    }
}

/* Stands in line where the keys are by now. */
static bool move_call(struct rqli_op_call *self, rql_error *fault)
{
    self->loop = rqli_op_call_loop(self);
    if (!self->loop) {
        (void)rqli_fail_nomem(fault);
        return false;
    }
    rqli_op_call_queue(self);
    return true;
}

/* What has to go over a certain connection is not sent over another. */
bool rqli_op_call_repeat(struct rqli_op_call *self, const struct rqli_exchange *answer,
                         rql_error *fault)
{
    struct rqli_op_task *task = self->task;
    struct rqli_op *op = task->op;
    struct rqli_node *node = self->loop->node;
    struct rqli_retries retries = {.until_us = op->until_us,
                                   .n_flushed = self->n_flushed,
                                   .n_moved = self->n_moved,
                                   .n_pauses = task->n_pauses};
    enum rqli_verdict verdict;
    struct rqli_call call;

    rqli_op_draft(op, rqli_op_call_index(self), &call);
    verdict = rqli_call_verdict(op->route.fleet, node, call.set, answer->reply, &retries);
    self->n_flushed = retries.n_flushed;
    self->n_moved = retries.n_moved;
    if (verdict == RQLI_HERE) {
        rqli_conn_loop_forget_scripts(self->loop->conn, self->position);
        rqli_op_call_queue(self);
        return true;
    }
    if (verdict == RQLI_FAULT) {
        (void)rqli_exchange_fault(answer, answer->reply, rqli_call_name(&call),
                                  rqli_call_subject(&call), fault);
        return false;
    }
    if (op->generation != 0) {
        (void)rqli_fail_moved(node->endpoint.where, rqli_call_subject(&call), fault);
        return false;
    }
    if (verdict == RQLI_THERE) {
        return move_call(self, fault);
    }
    pause_call(self, &retries);
    return true;
}

/* ---- from step to step ---- */

/* Asks what is next, and begins it. The last thing that is done with the operation: it may end. */
static void step(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;

    switch (op->ops->next(op)) {
    case RQLI_OP_OVER:
        self->state = RQLI_OP_TASK_IDLE;
        rqli_timers_unreserve(self->loop->timers, &self->due);
        self->done(self);
        break;
    case RQLI_OP_AGAIN:
        if (op->again_us > rqli_now_us()) {
            self->state = RQLI_OP_TASK_PAUSING;
            set_due(self, op->again_us);
        } else {
            send_calls(self);
        }
        break;
    case RQLI_OP_WAIT:
        self->state = RQLI_OP_TASK_WAITING;
        set_due(self, op->again_us);
        break;
    }
}

/* At least one call: what it does on the server has to be found out. */
static bool is_sent(const struct rqli_op_task *self)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i].state >= RQLI_OP_CALL_SENT) {
            return true;
        }
    }
    return false;
}

/* A server that one of the open calls is for: is there, and has answered something within this. The
 * parts of a reply that does not end are no answer. */
static bool is_served(const struct rqli_op_task *self, int64_t within_us)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        const struct rqli_op_call *call = &self->calls[i];

        if (call->state != RQLI_OP_CALL_IDLE && rqli_conn_loop_is_up(call->loop->conn) &&
            rqli_now_us() - rqli_conn_loop_answered_us(call->loop->conn) < within_us) {
            return true;
        }
    }
    return false;
}

/* Why a call got no reply in time. */
static void fail_late(const struct rqli_op_call *call, rql_error *fault)
{
    const char *where = call->loop->node->endpoint.where;

    if (call->state == RQLI_OP_CALL_SENT) {
        (void)rqli_stream_fault(RQL_E_UNKNOWN, where, fault);
    } else if (rqli_conn_loop_is_up(call->loop->conn)) {
        (void)rqli_fail(fault, RQL_E_IO, "%s: no time left; nothing was sent", where);
    } else {
        (void)rqli_fail(fault, RQL_E_IO, "cannot connect to %s: no time left", where);
    }
}

/* No reply in time. A server that is busy with others of this loop is waited for: what was sent, or
 * gives back, is done sooner that way than if it were begun again. Otherwise the round ends here:
 * each call that is open gets its fault, and no reply is read for it any more. */
static void give_up(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;
    bool was_sent = is_sent(self);
    size_t count = op->n_calls;

    if ((was_sent || op->gives_back) && is_served(self, op->grace_us)) {
        set_due(self, rqli_now_us() + op->grace_us);
        return;
    }
    op->is_late = !was_sent && is_served(self, RQLI_NEVER_US);
    for (size_t i = 0; i < count; i++) {
        struct rqli_op_call *call = &self->calls[i];
        rql_error fault;

        if (call->state == RQLI_OP_CALL_READ) { /* the server has not said how safe it is */
            rqli_op_call_stop(call);
            rqli_acks_join(&op->acks, &(struct rqli_acks){0});
        }
        if (call->state == RQLI_OP_CALL_IDLE) {
            continue;
        }
        fail_late(call, &fault);
        rqli_op_call_stop(call);
        op->ops->read(op, i, NULL, NULL, &fault);
    }
    step(self);
}

static void on_due(struct rqli_due *due)
{
    struct rqli_op_task *self =
        (struct rqli_op_task *)((char *)due - offsetof(struct rqli_op_task, due));

    switch (self->state) {
    case RQLI_OP_TASK_CALLING:
        if (self->resume_us > 0) {
            resume(self);
        } else {
            give_up(self);
        }
        break;
    case RQLI_OP_TASK_PAUSING:
        send_calls(self);
        break;
    case RQLI_OP_TASK_WAITING:
        rqli_op_wake(self, RQLI_WAKE_TIME);
        break;
    case RQLI_OP_TASK_IDLE:
        break;
    }
}

/* Room for its time is made once and kept until it is over: no step can fail for memory. */
bool rqli_op_start(struct rqli_op_task *self)
{
    if (!rqli_timers_reserve(self->loop->timers)) {
        return false;
    }
    self->due = (struct rqli_due){.fire = on_due};
    step(self);
    return true;
}

void rqli_op_wake(struct rqli_op_task *self, enum rqli_wake wake)
{
    if (self->state == RQLI_OP_TASK_WAITING) {
        rqli_op_on_woken(self->op, wake);
        step(self);
    }
}

void rqli_op_replan(struct rqli_op_task *self)
{
    if (self->state == RQLI_OP_TASK_WAITING) {
        step(self);
    }
}

/* A round of which something was sent, or that gives back, goes on to its end; next() finds
 * is_cancelled behind it. Where nothing is under way, calls in line are taken out: they have done
 * nothing. */
void rqli_op_cancel(struct rqli_op_task *self)
{
    bool is_calling = self->state == RQLI_OP_TASK_CALLING;

    self->op->is_cancelled = true;
    if (self->state == RQLI_OP_TASK_IDLE ||
        (is_calling && (self->op->gives_back || is_sent(self)))) {
        return;
    }
    for (size_t i = 0; is_calling && i < self->op->n_calls; i++) {
        rqli_op_call_stop(&self->calls[i]);
    }
    step(self);
}
