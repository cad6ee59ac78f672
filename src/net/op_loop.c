#include "net/op_loop.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/stream.h"

#include <stddef.h>

static void set_due(struct rqli_op_task *self, int64_t at_us)
{
    rqli_timers_set(&self->loop->timers, &self->due, at_us);
}

static size_t index_of(const struct rqli_queued_call *queued, struct rqli_op_task **task_out)
{
    const struct rqli_op_call *call = (const struct rqli_op_call *)queued;

    *task_out = call->task;
    return (size_t)(call - call->task->calls);
}

static void write_call(struct rqli_queued_call *queued, struct rqli_call *call, int64_t now_us)
{
    struct rqli_op_task *self;
    size_t at = index_of(queued, &self);

    (void)now_us;
    self->op->ops->write(self->op, at, call);
}

static void step(struct rqli_op_task *self);

static void read_call(struct rqli_queued_call *queued, const struct rqli_exchange *answer,
                      rql_status status, const rql_error *fault)
{
    struct rqli_op_task *self;
    size_t at = index_of(queued, &self);

    self->op->ops->read(self->op, at, answer, status ? NULL : answer->reply, status ? fault : NULL);
    if (--self->n_open == 0) {
        step(self);
    }
}

static const struct rqli_queued_call_kind giving = {true, write_call, read_call};
static const struct rqli_queued_call_kind asking = {false, write_call, read_call};

static void send_calls(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;

    self->state = RQLI_OP_TASK_CALLING;
    self->n_open = op->n_calls;
    op->is_late = false;
    set_due(self, op->until_us);
    for (size_t i = 0; i < op->n_calls; i++) {
        self->calls[i].task = self;
        rqli_queued_call_go(&self->loop->queue, &self->calls[i].queued,
                            op->gives_back ? &giving : &asking);
    }
}

/* Asks what is next, and begins it. The last thing that is done with the operation: it may end. */
static void step(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;

    switch (op->ops->next(op)) {
    case RQLI_OP_OVER:
        self->state = RQLI_OP_TASK_IDLE;
        rqli_timers_unreserve(&self->loop->timers, &self->due);
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

static bool is_sent(const struct rqli_op_task *self)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i].queued.state == RQLI_QUEUED_CALL_SENT) {
            return true;
        }
    }
    return false;
}

static void fail_in_time(const struct rqli_op_task *self, bool was_sent, rql_error *fault)
{
    const char *where = self->loop->queue.where;

    if (was_sent) {
        (void)rqli_stream_fault(RQL_E_UNKNOWN, where, fault);
    } else if (rqli_conn_loop_is_up(self->loop->conn)) {
        (void)rqli_fail(fault, RQL_E_IO, "%s: no time left; nothing was sent", where);
    } else {
        (void)rqli_fail(fault, RQL_E_IO, "cannot connect to %s: no time left", where);
    }
}

/* Did the server say anything within this time? */
static bool is_talking(const struct rqli_conn_loop *conn, int64_t within_us)
{
    return rqli_conn_loop_is_up(conn) && rqli_now_us() - rqli_conn_loop_heard_us(conn) < within_us;
}

/* No reply in time. A server that is busy with others of this loop is waited for. */
static void give_up(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;
    bool was_sent = is_sent(self);
    size_t count = op->n_calls;

    if ((was_sent || op->gives_back) && is_talking(self->loop->conn, op->grace_us)) {
        set_due(self, rqli_now_us() + op->grace_us);
        return;
    }
    op->is_late = !was_sent && rqli_conn_loop_is_up(self->loop->conn);
    for (size_t i = 0; i < count; i++) {
        struct rqli_queued_call *queued = &self->calls[i].queued;

        if (rqli_queued_call_is_under_way(queued)) {
            rql_error fault;

            fail_in_time(self, queued->state == RQLI_QUEUED_CALL_SENT, &fault);
            rqli_queued_call_stop(queued);
            op->ops->read(op, i, NULL, NULL, &fault);
        }
    }
    step(self);
}

static void on_due(struct rqli_due *due)
{
    struct rqli_op_task *self =
        (struct rqli_op_task *)((char *)due - offsetof(struct rqli_op_task, due));

    switch (self->state) {
    case RQLI_OP_TASK_CALLING:
        give_up(self);
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

bool rqli_op_start(struct rqli_op_task *self)
{
    if (!rqli_timers_reserve(&self->loop->timers)) {
        return false;
    }
    self->due = (struct rqli_due){.fire = on_due};
    step(self);
    return true;
}

void rqli_op_wake(struct rqli_op_task *self, enum rqli_wake wake)
{
    if (self->state == RQLI_OP_TASK_WAITING) {
        self->op->ops->woken(self->op, wake);
        step(self);
    }
}

void rqli_op_replan(struct rqli_op_task *self)
{
    if (self->state == RQLI_OP_TASK_WAITING) {
        step(self);
    }
}

void rqli_op_cancel(struct rqli_op_task *self)
{
    bool is_calling = self->state == RQLI_OP_TASK_CALLING;

    self->op->is_cancelled = true;
    if (self->state == RQLI_OP_TASK_IDLE ||
        (is_calling && (self->op->gives_back || is_sent(self)))) {
        return;
    }
    for (size_t i = 0; is_calling && i < self->op->n_calls; i++) {
        rqli_queued_call_stop(&self->calls[i].queued);
    }
    step(self);
}
