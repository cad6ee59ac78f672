/*
 * A task is an operation under way on a loop. Its timer is the only one, for three ends: of the
 * time for replies (CALLING), of the pause before the next round (PAUSING), of a wait (WAITING).
 *
 * Calls that give back go ahead of those that want something, so that a crowd that waits keeps
 * nobody from releasing; calls that are repeated with the script's text go first of all, and what
 * wants something waits until it is known which these are, or it would overtake them.
 */

#include "net/op.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/client_name.h"
#include "net/stream.h"
#include "net/url.h"

#include <stddef.h>

static const char *where(const struct rqli_op_loop *self)
{
    return rqli_conn_loop_socket(self->conn)->endpoint->where;
}

/* ---- calls ---- */

/* The same at both ends: an operation begins to give back between two rounds only. */
static struct rqli_op_line *line_of(const struct rqli_op_call *call)
{
    struct rqli_op_loop *loop = call->task->loop;

    if (call->state == RQLI_OP_CALL_READ) {
        return &loop->unacked;
    }
    if (call->is_repeated) {
        return &loop->repeats;
    }
    return call->task->op->gives_back ? &loop->returns : &loop->wishes;
}

/* Behind all that are in it. For a call that is repeated is_repeated is set before. */
static void enter_line(struct rqli_op_call *call, enum rqli_op_call_state state)
{
    struct rqli_op_line *line;

    call->state = state;
    line = line_of(call);
    call->next = NULL;
    call->previous = line->last;
    *(line->last ? &line->last->next : &line->first) = call;
    line->last = call;
}

static void leave_line(struct rqli_op_call *call)
{
    struct rqli_op_line *line = line_of(call);

    *(call->previous ? &call->previous->next : &line->first) = call->next;
    *(call->next ? &call->next->previous : &line->last) = call->previous;
    call->state = RQLI_OP_CALL_IDLE;
}

/* Its reply concerns nobody any more. */
static void stop_call(struct rqli_op_call *call)
{
    if (call->state == RQLI_OP_CALL_QUEUED || call->state == RQLI_OP_CALL_READ) {
        leave_line(call);
    } else if (call->state == RQLI_OP_CALL_SENT) {
        rqli_conn_loop_orphan(call->task->loop->conn, call->position);
        call->state = RQLI_OP_CALL_IDLE;
    }
}

/* That may be sent now. */
static struct rqli_op_call *first_in_line(const struct rqli_op_loop *self)
{
    if (self->repeats.first) {
        return self->repeats.first;
    }
    if (self->returns.first) {
        return self->returns.first;
    }
    return rqli_conn_loop_has_answered(self->conn, self->doubted) ? self->wishes.first : NULL;
}

bool rqli_op_loop_has_queued(const struct rqli_op_loop *self)
{
    return self->repeats.first || self->returns.first || self->wishes.first;
}

/* The calls of a task are an array, in the order of the operation's. */
static size_t index_of(const struct rqli_op_call *call)
{
    return (size_t)(call - call->task->calls);
}

static void step(struct rqli_op_task *self);

/* A call of the round is over; the operation goes on when all are. It may be freed within. */
static void end_call(struct rqli_op_task *task)
{
    if (--task->n_open == 0) {
        step(task);
    }
}

/* The reply to a call, or why there is none. What is to be made safe is over when it is. */
static void read_call(struct rqli_op_call *call, const struct rqli_exchange *answer,
                      const rql_error *fault)
{
    struct rqli_op_task *task = call->task;

    task->op->ops->read(task->op, index_of(call), answer, answer ? answer->reply : NULL, fault);
    if (answer && task->op->durability) {
        enter_line(call, RQLI_OP_CALL_READ);
    } else {
        end_call(task);
    }
}

/* It has done nothing, and stands in line once more, within the same round and its time. What was
 * sent behind it before the server is taught may find the script unknown as well. */
static void repeat(struct rqli_op_call *self)
{
    struct rqli_op_loop *loop = self->task->loop;

    if (self->position > loop->doubted) {
        loop->doubted = loop->sent;
    }
    self->is_repeated = true;
    enter_line(self, RQLI_OP_CALL_QUEUED);
}

/* From the connection, in the order of the calls. An error reply to a script becomes a fault, so
 * that operations see those of plain commands only. */
static void on_answer(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    struct rqli_op_call *self = owner;
    struct rqli_op *op = self->task->op;
    rql_error fault = {0};

    self->state = RQLI_OP_CALL_IDLE;
    if (status) {
        (void)rqli_stream_fault(status, where(self->task->loop), &fault);
        read_call(self, NULL, &fault);
    } else if (self->is_plain || answer->reply->type != RQLI_REPLY_ERROR) {
        read_call(self, answer, NULL);
    } else if (rqli_reply_wants_text(answer->reply)) {
        repeat(self);
    } else {
        struct rqli_call call;

        rqli_call_begin(&call, NULL); /* written once more, for the message that names it */
        op->ops->write(op, index_of(self), &call);
        (void)rqli_exchange_fault(answer, answer->reply, rqli_scripts[call.script].name,
                                  rqli_call_subject(&call), &fault);
        read_call(self, NULL, &fault);
    }
}

/* That of a call which the server did not know, unless another behind it has brought the text
 * meanwhile: `position` is still that of the first attempt. And the first of all that is to be made
 * safe: it would wait for replicas, and then be sent once more. */
static bool wants_text(const struct rqli_op_loop *self, const struct rqli_op_call *call,
                       unsigned script)
{
    if (call->is_repeated) {
        return call->position >= self->taught[script];
    }
    return call->task->op->durability && self->taught[script] == 0;
}

/* Its turn has come, and there is room. */
static void write_call(struct rqli_op_loop *self, struct rqli_op_call *first)
{
    struct rqli_op *op = first->task->op;
    struct rqli_call call;
    bool with_text = false;

    leave_line(first);
    if (op->generation != 0 && op->generation != rqli_conn_loop_generation(self->conn)) {
        rql_error fault;

        (void)rqli_fail(&fault, RQL_E_IO, "%s: the connection has ended; nothing was sent",
                        where(self));
        read_call(first, NULL, &fault);
        return;
    }
    rqli_call_begin(&call, rqli_conn_loop_out(self->conn));
    op->ops->write(op, index_of(first), &call);
    first->is_plain = call.is_plain;
    if (!call.is_plain) {
        with_text = wants_text(self, first, call.script);
        rqli_call_write(&call, call.out, with_text);
    }
    first->position = rqli_conn_loop_expect(self->conn, on_answer, first);
    first->state = RQLI_OP_CALL_SENT;
    self->sent = first->position;
    if (with_text) {
        self->taught[call.script] = first->position;
    }
    if (op->durability) {
        rqli_durability_join(&self->wanted, op->durability);
    }
    if (op->generation != 0) {
        op->ops->placed(op);
    }
}

/* ---- what is asked behind all calls that are sent together ---- */

/* Calls that were sent behind this are not read yet. To end one may end others. */
static void end_unacked(struct rqli_op_loop *self)
{
    while (self->unacked.first) {
        struct rqli_op_call *call = self->unacked.first;

        leave_line(call);
        call->task->op->acks = self->acks;
        end_call(call->task);
    }
    self->acks = (struct rqli_acks){0};
}

/* Without an answer nothing is known of the calls: they do not count as safe. */
static void on_replicas(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    static const struct rqli_durability asked = {.replicas = 1};

    (void)status;
    if (answer) {
        rqli_acks_read(&((struct rqli_op_loop *)owner)->acks, &asked, answer->reply);
    }
}

static void on_replicas_alone(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    on_replicas(owner, answer, status);
    end_unacked(owner);
}

static void on_synced(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    static const struct rqli_durability asked = {.fsync = true};
    struct rqli_op_loop *self = owner;
    struct rqli_acks acks = {0};

    (void)status;
    if (answer) {
        rqli_acks_read(&acks, &asked, answer->reply);
    }
    self->acks.is_synced = acks.is_synced;
    self->acks.refused = self->acks.refused ? self->acks.refused : acks.refused;
    end_unacked(self);
}

static void ask_for_acks(struct rqli_op_loop *self)
{
    const struct rqli_durability wanted = self->wanted;

    self->wanted = (struct rqli_durability){0};
    rqli_durability_write(&wanted, rqli_conn_loop_out(self->conn));
    rqli_conn_loop_wait_longer(self->conn, rqli_durability_longest_ms(&wanted));
    if (wanted.replicas > 0) {
        (void)rqli_conn_loop_expect(self->conn, wanted.fsync ? on_replicas : on_replicas_alone,
                                    self);
    }
    if (wanted.fsync) {
        (void)rqli_conn_loop_expect(self->conn, on_synced, self);
    }
}

/* What a client is called, once in a while, with what is written anyway. */
static void say_name(struct rqli_op_loop *self)
{
    struct rqli_client_name *name = rqli_conn_loop_socket(self->conn)->endpoint->name;

    if (name && rqli_conn_loop_has_room(self->conn) &&
        rqli_client_name_is_due(name, rqli_now_us())) {
        rqli_client_name_write(name, rqli_conn_loop_out(self->conn));
        (void)rqli_conn_loop_expect(self->conn, NULL, NULL);
    }
}

/* What has no room now stays in line until replies have come; what is asked behind the calls always
 * has: two commands, and each call leaves room for some more. */
void rqli_op_loop_write(struct rqli_op_loop *self)
{
    struct rqli_op_call *first = first_in_line(self);

    if (first) {
        say_name(self);
    }
    while (first && rqli_conn_loop_has_room(self->conn)) {
        write_call(self, first);
        first = first_in_line(self);
    }
    if (rqli_durability_is_wanted(&self->wanted)) {
        ask_for_acks(self);
    }
}

/* Operations that read the fault may stand in line again, behind: each call fails once. */
static void fail_line(struct rqli_op_line *line, const rql_error *fault)
{
    size_t count = 0;
    struct rqli_op_call *call;

    for (call = line->first; call; call = call->next) {
        count++;
    }
    for (; count > 0 && line->first; count--) {
        call = line->first;
        leave_line(call);
        read_call(call, NULL, fault);
    }
}

void rqli_op_loop_fail(struct rqli_op_loop *self, const rql_error *fault)
{
    fail_line(&self->repeats, fault);
    fail_line(&self->returns, fault);
    fail_line(&self->wishes, fault);
}

/* ---- operations ---- */

/* RQLI_NEVER_US: no end. */
static void set_due(struct rqli_op_task *self, int64_t at_us)
{
    rqli_timers_set(&self->loop->timers, &self->due, at_us);
}

/* They are written by the loop, before it sleeps: rqli_op_loop_write(). */
static void send_calls(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;

    self->state = RQLI_OP_TASK_CALLING;
    self->n_open = op->n_calls;
    op->is_late = false;
    op->acks = (struct rqli_acks){0};
    set_due(self, op->until_us);
    for (size_t i = 0; i < op->n_calls; i++) {
        self->calls[i].task = self;
        self->calls[i].is_repeated = false;
        enter_line(&self->calls[i], RQLI_OP_CALL_QUEUED);
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

/* No reply in time. A server that is busy with others of this loop is waited for: what was sent, or
 * gives back, is done sooner that way than if it were begun again. Otherwise the round ends here:
 * each call that is open gets its fault, and no reply is read for it any more. */
static void give_up(struct rqli_op_task *self)
{
    struct rqli_op *op = self->op;
    const struct rqli_op_loop *loop = self->loop;
    bool was_sent = is_sent(self);
    bool is_up = rqli_conn_loop_is_up(loop->conn);
    size_t count = op->n_calls;

    if ((was_sent || op->gives_back) && is_up &&
        rqli_now_us() - rqli_conn_loop_heard_us(loop->conn) < op->grace_us) {
        set_due(self, rqli_now_us() + op->grace_us);
        return;
    }
    op->is_late = !was_sent && is_up;
    for (size_t i = 0; i < count; i++) {
        struct rqli_op_call *call = &self->calls[i];
        rql_error fault;

        if (call->state == RQLI_OP_CALL_READ) {
            stop_call(call);
        }
        if (call->state == RQLI_OP_CALL_IDLE) {
            continue;
        }
        if (call->state == RQLI_OP_CALL_SENT) {
            (void)rqli_stream_fault(RQL_E_UNKNOWN, where(loop), &fault);
        } else if (is_up) {
            (void)rqli_fail(&fault, RQL_E_IO, "%s: no time left; nothing was sent", where(loop));
        } else {
            (void)rqli_fail(&fault, RQL_E_IO, "cannot connect to %s: no time left", where(loop));
        }
        stop_call(call);
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

/* Room for its time is made once and kept until it is over: no step can fail for memory. */
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
        stop_call(&self->calls[i]);
    }
    step(self);
}
