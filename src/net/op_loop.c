/*
 * The calls of a loop's operations at one node, over one connection. Those that give back go ahead
 * of those that want something, so that a crowd that waits keeps nobody from releasing. What the
 * server has done nothing about, for it had forgotten the script, stands in line once more.
 */

#include "net/op_loop.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/client_name.h"
#include "net/stream.h"
#include "net/url.h"

/* ---- calls ---- */

/* The same at both ends: an operation begins to give back between two rounds only. */
static struct rqli_dlist *line_of(const struct rqli_op_call *call)
{
    struct rqli_op_loop *loop = call->loop;

    if (call->state == RQLI_OP_CALL_READ) {
        return &loop->unacked;
    }
    return call->task->op->gives_back ? &loop->returns : &loop->wishes;
}

/* Behind all that are in it. */
static void enter_line(struct rqli_op_call *call, enum rqli_op_call_state state)
{
    call->state = state;
    rqli_dlist_add(line_of(call), &call->link);
}

static void leave_line(struct rqli_op_call *call)
{
    rqli_dlist_remove(line_of(call), &call->link);
    call->state = RQLI_OP_CALL_IDLE;
}

void rqli_op_call_queue(struct rqli_op_call *self)
{
    enter_line(self, RQLI_OP_CALL_QUEUED);
}

void rqli_op_call_stop(struct rqli_op_call *self)
{
    if (self->state == RQLI_OP_CALL_QUEUED || self->state == RQLI_OP_CALL_READ) {
        leave_line(self);
    } else if (self->state == RQLI_OP_CALL_SENT) {
        rqli_conn_loop_orphan(self->loop->conn, self->position);
    }
    self->state = RQLI_OP_CALL_IDLE;
}

/* That may be sent now. */
static struct rqli_op_call *first_in_line(const struct rqli_op_loop *self)
{
    return (struct rqli_op_call *)(self->returns.first ? self->returns.first : self->wishes.first);
}

bool rqli_op_loop_is_due(const struct rqli_op_loop *self)
{
    return rqli_conn_loop_has_room(self->conn) && first_in_line(self);
}

bool rqli_op_loop_wants_conn(const struct rqli_op_loop *self)
{
    return rqli_op_loop_has_queued(self) && !rqli_fleet_is_looking(self->fleet);
}

bool rqli_op_loop_has_queued(const struct rqli_op_loop *self)
{
    return self->returns.first || self->wishes.first;
}

/* The reply to a call, or why there is none. What is to be made safe is over when it is. */
static void read_call(struct rqli_op_call *call, const struct rqli_exchange *answer,
                      const rql_error *fault)
{
    struct rqli_op_task *task = call->task;

    if (answer) {
        task->op->answered = call->loop->node;
    }
    task->op->ops->read(task->op, rqli_op_call_index(call), answer, answer ? answer->reply : NULL,
                        fault);
    if (answer && task->op->durability) {
        enter_line(call, RQLI_OP_CALL_READ);
    } else {
        rqli_op_task_end_call(task);
    }
}

/* From the connection, in the order of the calls. An error reply to a script becomes a fault, so
 * that operations see those of plain commands only. */
static void on_answer(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    struct rqli_op_call *self = owner;
    rql_error fault = {0};

    self->state = RQLI_OP_CALL_IDLE;
    if (status) {
        (void)rqli_stream_fault(status, self->loop->node->endpoint.where, &fault);
        read_call(self, NULL, &fault);
    } else if (self->is_plain || answer->reply->type != RQLI_REPLY_ERROR) {
        read_call(self, answer, NULL);
    } else if (!rqli_op_call_repeat(self, answer, &fault)) {
        read_call(self, NULL, &fault);
    }
}

/* Its turn has come, and there is room. */
static void write_call(struct rqli_op_loop *self, struct rqli_op_call *first)
{
    struct rqli_op *op = first->task->op;
    struct rqli_call call;

    leave_line(first);
    if (op->generation != 0 && op->generation != rqli_conn_loop_generation(self->conn)) {
        rql_error fault;

        (void)rqli_fail(&fault, RQL_E_IO, "%s: the connection has ended; nothing was sent",
                        self->node->endpoint.where);
        read_call(first, NULL, &fault);
        return;
    }
    rqli_call_begin(&call, rqli_conn_loop_out(self->conn));
    op->ops->write(op, rqli_op_call_index(first), &call);
    first->is_plain = call.is_plain;
    if (!call.is_plain) {
        rqli_call_write(&call, call.out, rqli_conn_loop_scripts(self->conn));
    }
    first->position = rqli_conn_loop_expect(self->conn, on_answer, first);
    first->state = RQLI_OP_CALL_SENT;
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
        struct rqli_op_call *call = (struct rqli_op_call *)self->unacked.first;

        leave_line(call);
        rqli_acks_join(&call->task->op->acks, &self->acks);
        rqli_op_task_end_call(call->task);
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
    struct rqli_durability wanted = self->wanted;

    self->wanted = (struct rqli_durability){0};
    rqli_durability_limit(&wanted, rqli_now_us()); /* the calls may have stood in line */
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

/* What a client is called, once in a while, with what is written anyway; of several servers one is
 * told by net/cluster.c. */
static void say_name(struct rqli_op_loop *self)
{
    const struct rqli_endpoint *endpoint = &self->node->endpoint;
    struct rqli_client_name *name = endpoint->name;

    if (name && !rqli_endpoint_is_partitioned(endpoint) && rqli_conn_loop_has_room(self->conn) &&
        rqli_client_name_is_due(name, rqli_now_us())) {
        rqli_client_name_write(name, rqli_conn_loop_out(self->conn));
        (void)rqli_conn_loop_expect(self->conn, NULL, NULL);
    }
}

/* In their order. One for which there is no memory elsewhere stays. */
static void place_anew(struct rqli_dlist *line)
{
    for (size_t count = rqli_dlist_length(line); count > 0; count--) {
        struct rqli_op_call *call = (struct rqli_op_call *)line->first;
        struct rqli_op_loop *loop = rqli_op_call_loop(call);

        leave_line(call);
        call->loop = loop ? loop : call->loop;
        rqli_op_call_queue(call);
    }
}

void rqli_op_loop_place_anew(struct rqli_op_loop *self)
{
    unsigned n_moves = atomic_load_explicit(&self->fleet->n_moves, memory_order_relaxed);

    if (self->n_moves != n_moves && !rqli_fleet_is_looking(self->fleet)) {
        self->n_moves = n_moves;
        place_anew(&self->returns);
        place_anew(&self->wishes);
    }
}

/* What has no room now stays in line until replies have come; what is asked behind the calls always
 * has: two commands, and each call leaves room for some more. */
void rqli_op_loop_write(struct rqli_op_loop *self)
{
    struct rqli_op_call *first;

    rqli_op_loop_place_anew(self);
    first = first_in_line(self);
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
static void fail_line(struct rqli_dlist *line, const rql_error *fault)
{
    for (size_t count = rqli_dlist_length(line); count > 0 && line->first; count--) {
        struct rqli_op_call *call = (struct rqli_op_call *)line->first;

        leave_line(call);
        read_call(call, NULL, fault);
    }
}

void rqli_op_loop_fail(struct rqli_op_loop *self, const rql_error *fault)
{
    fail_line(&self->returns, fault);
    fail_line(&self->wishes, fault);
}
