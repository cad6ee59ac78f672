/*
 * The calls of a loop's operations at one node, over one connection. Calls that give back go ahead
 * of those that want something, so that a crowd of waiters does not keep a holder from releasing. A
 * call that did nothing, because the server had forgotten its script, stands in line once more.
 */

#include "net/op/op_loop.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/conn/stream.h"
#include "net/login/client_name.h"
#include "net/sock/site.h"

/* ---- calls ---- */

/* Returns the index of a call: a driver's calls are an array in the order of the operation's. */
static size_t index_of(const struct rqli_op_call *call)
{
    return (size_t)(call - call->driver->calls);
}

/* Defined below, because the answer to a call may end a round, and the next round sends calls. */
static struct rqli_op_loop *loop_of(const struct rqli_op_call *self);
static bool repeat_call(struct rqli_op_call *self, const struct rqli_batch *answer,
                        rql_error *fault);
static void end_call(struct rqli_op_driver *self);

/* Returns the line of a call. It is the same when the call enters and when it leaves: an operation
 * begins to give back between two rounds only. */
static struct rqli_dlist *line_of(const struct rqli_op_call *call)
{
    struct rqli_op_loop *loop = call->loop;

    if (call->state == RQLI_OP_CALL_READ) {
        return &loop->unacked;
    }
    return call->driver->op->gives_back ? &loop->returns : &loop->wishes;
}

/* Adds the call at the end of its line. */
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

static void queue_call(struct rqli_op_call *self)
{
    enter_line(self, RQLI_OP_CALL_QUEUED);
}

static void stop_call(struct rqli_op_call *self)
{
    if (self->state == RQLI_OP_CALL_QUEUED || self->state == RQLI_OP_CALL_READ) {
        leave_line(self);
    } else if (self->state == RQLI_OP_CALL_SENT) {
        rqli_conn_loop_orphan(self->loop->conn, self->position);
    }
    self->state = RQLI_OP_CALL_IDLE;
}

/* Returns the call that may be sent now. The server confirms one write after the other, and blocks
 * the connection meanwhile: further calls with a durability gather, so that it waits once for all.
 */
static struct rqli_op_call *first_in_line(const struct rqli_op_loop *self)
{
    struct rqli_op_call *first =
        (struct rqli_op_call *)(self->returns.first ? self->returns.first : self->wishes.first);

    return first && first->driver->op->durability && self->n_waits >= RQLI_CONN_WRITES ? NULL
                                                                                       : first;
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

/* Takes the reply to a call, or the reason why there is none, which may be an error reply. A call
 * with a durability is over only when its writes are safe. */
static void read_call(struct rqli_op_call *call, const struct rqli_batch *answer,
                      const rql_error *fault)
{
    const struct rqli_reply *reply = answer && !fault ? answer->reply : NULL;
    struct rqli_op_driver *driver = call->driver;

    if (reply) {
        driver->op->answered = call->loop->node;
    }
    driver->op->ops->read(driver->op, index_of(call), answer, reply, fault);
    if (reply && driver->op->durability) {
        enter_line(call, RQLI_OP_CALL_READ);
    } else {
        end_call(driver);
    }
}

/* Called by the connection, in the order of the calls. An error reply to a script becomes a fault,
 * so that operations get error replies to plain commands only. */
static void on_answer(void *owner, const struct rqli_batch *answer, rql_status status)
{
    struct rqli_op_call *self = owner;
    rql_error fault = {0};

    self->state = RQLI_OP_CALL_IDLE;
    if (status) {
        (void)rqli_stream_fault(status, self->loop->node->site.where, &fault);
        read_call(self, NULL, &fault);
    } else if (self->is_plain || answer->reply->type != RQLI_REPLY_ERROR) {
        read_call(self, answer, NULL);
    } else if (!repeat_call(self, answer, &fault)) {
        read_call(self, answer, &fault);
    }
}

/* Writes the call whose turn has come; there is room for it. */
static void write_call(struct rqli_op_loop *self, struct rqli_op_call *first)
{
    struct rqli_op *op = first->driver->op;
    struct rqli_call call;

    leave_line(first);
    if (op->generation != 0 && op->generation != rqli_conn_loop_generation(self->conn)) {
        rql_error fault;

        (void)rqli_fail(&fault, RQL_E_IO, "%s: the connection has ended; nothing was sent",
                        self->node->site.where);
        read_call(first, NULL, &fault);
        return;
    }
    rqli_call_begin(&call, rqli_conn_loop_out(self->conn));
    op->ops->write(op, index_of(first), &call);
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

/* ---- confirmations, asked for after all calls that are sent together ---- */

/* Ends the calls that wait for these confirmations; replies to calls sent later are not read yet.
 * Ending one call may end further ones. */
static void end_unacked(struct rqli_op_loop *self)
{
    while (self->unacked.first) {
        struct rqli_op_call *call = (struct rqli_op_call *)self->unacked.first;

        leave_line(call);
        rqli_acks_join(&call->driver->op->acks, &self->acks);
        end_call(call->driver);
    }
    self->acks = (struct rqli_acks){0};
}

/* Without an answer nothing is known of the calls: they do not count as safe. */
static void on_replicas(void *owner, const struct rqli_batch *answer, rql_status status)
{
    static const struct rqli_durability asked = {.replicas = 1};

    (void)status;
    if (answer) {
        rqli_acks_read(&((struct rqli_op_loop *)owner)->acks, &asked, answer->reply);
    }
}

static void on_replicas_alone(void *owner, const struct rqli_batch *answer, rql_status status)
{
    struct rqli_op_loop *self = owner;

    on_replicas(self, answer, status);
    self->n_waits--;
    end_unacked(self);
}

static void on_synced(void *owner, const struct rqli_batch *answer, rql_status status)
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
    self->n_waits--;
    end_unacked(self);
}

static void ask_for_acks(struct rqli_op_loop *self)
{
    struct rqli_durability wanted = self->wanted;

    self->wanted = (struct rqli_durability){0};
    rqli_durability_limit(&wanted, rqli_now_us()); /* the calls may have waited in line */
    rqli_durability_write(&wanted, rqli_conn_loop_out(self->conn));
    rqli_conn_loop_wait_longer(self->conn, rqli_durability_longest_ms(&wanted));
    if (wanted.replicas > 0) {
        (void)rqli_conn_loop_expect(self->conn, wanted.fsync ? on_replicas : on_replicas_alone,
                                    self);
    }
    if (wanted.fsync) {
        (void)rqli_conn_loop_expect(self->conn, on_synced, self);
    }
    self->n_waits++;
}

/* Sends the client's name, once in a while, together with commands that are sent anyway; with
 * several servers net/op/cluster.c does it. */
static void say_name(struct rqli_op_loop *self)
{
    const struct rqli_site *site = &self->node->site;
    struct rqli_client_name *name = site->session->name;

    if (name && !rqli_site_is_partitioned(site) && rqli_conn_loop_has_room(self->conn) &&
        rqli_client_name_is_due(name, rqli_now_us())) {
        rqli_client_name_write(name, rqli_conn_loop_out(self->conn));
        (void)rqli_conn_loop_expect(self->conn, NULL, NULL);
    }
}

/* Moves the calls in their order. A call stays if there is no memory for its new place. */
static void place_anew(struct rqli_dlist *line)
{
    for (size_t count = rqli_dlist_length(line); count > 0; count--) {
        struct rqli_op_call *call = (struct rqli_op_call *)line->first;
        struct rqli_op_loop *loop = loop_of(call);

        leave_line(call);
        call->loop = loop ? loop : call->loop;
        queue_call(call);
    }
}

static void place_all_anew(struct rqli_op_loop *self)
{
    unsigned n_moves = atomic_load_explicit(&self->fleet->n_moves, memory_order_relaxed);

    if (self->n_moves != n_moves && !rqli_fleet_is_looking(self->fleet)) {
        self->n_moves = n_moves;
        place_anew(&self->returns);
        place_anew(&self->wishes);
    }
}

/* Calls without room stay in line until replies have come. WAIT and WAITAOF after the calls always
 * have room: they are two commands, and each call leaves room for some more. */
void rqli_op_loop_write(struct rqli_op_loop *self)
{
    struct rqli_op_call *first;

    place_all_anew(self);
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

/* Operations that read the fault may queue calls again, at the end of the line: each call fails
 * once. */
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

/* ---- operations ---- */

/*
 * A driver runs one operation on a loop. It has a single timer, which stands for the end of
 * the time for replies, or before that of a pause of calls (CALLING), of the pause before the next
 * round (PAUSING), of a wait (WAITING).
 */

/* RQLI_NEVER_US: no timer. */
static void set_due(struct rqli_op_driver *self, int64_t at_us)
{
    rqli_timers_set(self->loop->timers, &self->due, at_us);
}

static void take_step(struct rqli_op_driver *self);

/* Ends a call. The operation goes on when all calls of the round are over. It may be freed
 * within. */
static void end_call(struct rqli_op_driver *self)
{
    if (--self->n_open == 0) {
        take_step(self);
    }
}

/* ---- where calls go ---- */

/* Returns where a call goes. With a single server the call need not be drafted: all calls go there.
 * While the node would be a guess, they all go to the driver's own node, too. */
static struct rqli_op_loop *loop_of(const struct rqli_op_call *self)
{
    const struct rqli_op_driver *driver = self->driver;
    const struct rqli_op_route *route = &driver->op->route;
    struct rqli_node *node;
    struct rqli_call call;

    if (!route->fleet->worker || rqli_fleet_is_looking(route->fleet)) {
        return driver->loop;
    }
    rqli_op_draft(driver->op, index_of(self), &call);
    node = call.is_plain ? route->node : rqli_fleet_node(route->fleet, call.set);
    return node == driver->loop->node ? driver->loop : driver->loop->at(driver->loop, node);
}

/* Queues the calls that pause, which in a new round are all. The loop writes them before it sleeps:
 * rqli_op_loop_write(). */
static void queue_calls(struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;
    size_t n_lost = 0;
    rql_error fault;

    place_all_anew(self->loop); /* earlier calls go ahead */
    for (size_t i = 0; i < op->n_calls; i++) {
        struct rqli_op_call *call = &self->calls[i];

        if (call->state != RQLI_OP_CALL_PAUSED) {
            continue;
        }
        call->loop = loop_of(call);
        if (call->loop) {
            queue_call(call);
        } else {
            call->state = RQLI_OP_CALL_IDLE;
            (void)rqli_fail_nomem(&fault);
            op->ops->read(op, i, NULL, NULL, &fault);
            n_lost++;
        }
    }
    self->n_open -= n_lost;
    if (n_lost > 0 && self->n_open == 0) {
        take_step(self);
    }
}

/* Paused calls of a round go on together, as soon as the first of them may. */
static void resume_calls(struct rqli_op_driver *self)
{
    self->resume_us = 0;
    set_due(self, self->op->until_us);
    queue_calls(self);
}

static void send_calls(struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;

    rqli_fleet_on_use(op->route.fleet);
    self->state = RQLI_OP_DRIVER_CALLING;
    self->n_open = op->n_calls;
    self->n_pauses = 0;
    op->is_late = false;
    rqli_op_begin_acks(op);
    for (size_t i = 0; i < op->n_calls; i++) {
        self->calls[i] = (struct rqli_op_call){.driver = self, .state = RQLI_OP_CALL_PAUSED};
    }
    resume_calls(self);
}

static void pause_call(struct rqli_op_call *self, const struct rqli_retries *retries)
{
    struct rqli_op_driver *driver = self->driver;

    self->state = RQLI_OP_CALL_PAUSED;
    if (driver->resume_us == 0) { /* calls that pause later join this pause */
        driver->n_pauses = retries->n_pauses;
        driver->resume_us = retries->again_us;
        set_due(driver, retries->again_us);
    }
}

/* Queues the call at the node that has its keys now. */
static bool move_call(struct rqli_op_call *self, rql_error *fault)
{
    self->loop = loop_of(self);
    if (!self->loop) {
        (void)rqli_fail_nomem(fault);
        return false;
    }
    queue_call(self);
    return true;
}

/* Sends a call again if it has done nothing. A call that has to go over a certain connection is not
 * sent over another. */
static bool repeat_call(struct rqli_op_call *self, const struct rqli_batch *answer,
                        rql_error *fault)
{
    struct rqli_op_driver *driver = self->driver;
    struct rqli_op *op = driver->op;
    struct rqli_node *node = self->loop->node;
    struct rqli_retries retries = {.until_us = op->until_us,
                                   .n_flushed = self->n_flushed,
                                   .n_moved = self->n_moved,
                                   .n_pauses = driver->n_pauses};
    enum rqli_verdict verdict;
    struct rqli_call call;

    rqli_op_draft(op, index_of(self), &call);
    verdict = rqli_call_verdict(op->route.fleet, node, call.set, answer->reply, &retries);
    self->n_flushed = retries.n_flushed;
    self->n_moved = retries.n_moved;
    if (verdict == RQLI_HERE) {
        rqli_conn_loop_forget_scripts(self->loop->conn, self->position);
        queue_call(self);
        return true;
    }
    if (verdict == RQLI_FAULT) {
        (void)rqli_batch_fault(answer, answer->reply, rqli_call_name(&call),
                               rqli_call_subject(&call), fault);
        return false;
    }
    if (op->generation != 0) {
        (void)rqli_fail_moved(node->site.where, rqli_call_subject(&call), fault);
        return false;
    }
    if (verdict == RQLI_THERE) {
        return move_call(self, fault);
    }
    pause_call(self, &retries);
    if (op->ops->paused) {
        (void)rqli_batch_fault(answer, answer->reply, rqli_call_name(&call),
                               rqli_call_subject(&call), fault);
        op->ops->paused(op, fault);
    }
    return true;
}

/* ---- from step to step ---- */

/* Waits, unless a push or a hint has come while the operation did not wait: then the operation is
 * told, and false is returned. */
static bool begin_wait(struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;
    struct rqli_waiter *waiter = op->waiter;

    if (waiter && (waiter->pushed || waiter->hinted)) {
        waiter->hinted = false;
        rqli_op_on_woken(op, waiter->pushed ? RQLI_WAKE_PUSH : RQLI_WAKE_HINT);
        return false;
    }
    if (waiter && waiter->stay == RQLI_WAITER_ASKS) {
        waiter->stay = RQLI_WAITER_SLEEPS;
    }
    self->state = RQLI_OP_DRIVER_WAITING;
    set_due(self, op->again_us);
    return true;
}

/* Asks for the next step. */
static enum rqli_op_next next_step(const struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;

    if (op->waiter && op->waiter->stay == RQLI_WAITER_SLEEPS) {
        op->waiter->stay = RQLI_WAITER_ASKS;
    }
    return op->ops->next(op);
}

/* Begins the next step. This is the last use of the operation: it may end. */
static void take_step(struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;
    enum rqli_op_next next = next_step(self);

    while (next == RQLI_OP_WAIT && !begin_wait(self)) {
        next = next_step(self);
    }
    switch (next) {
    case RQLI_OP_OVER:
        self->state = RQLI_OP_DRIVER_IDLE;
        rqli_timers_unreserve(self->loop->timers, &self->due);
        self->done(self);
        break;
    case RQLI_OP_AGAIN:
        if (op->again_us > rqli_now_us()) {
            self->state = RQLI_OP_DRIVER_PAUSING;
            set_due(self, op->again_us);
        } else {
            send_calls(self);
        }
        break;
    case RQLI_OP_WAIT: /* has begun */
        break;
    }
}

/* True: at least one call was sent. Its effect on the server has to be found out. */
static bool is_sent(const struct rqli_op_driver *self)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i].state >= RQLI_OP_CALL_SENT) {
            return true;
        }
    }
    return false;
}

/* Returns when a connected server of the open calls answered last, or began to be silent; 0 if none
 * is connected. The parts of a reply that does not end are no answer. */
static int64_t last_answer_us(const struct rqli_op_driver *self)
{
    int64_t last_us = 0;

    for (size_t i = 0; i < self->op->n_calls; i++) {
        const struct rqli_op_call *call = &self->calls[i];

        if (call->state != RQLI_OP_CALL_IDLE && rqli_conn_loop_is_up(call->loop->conn)) {
            int64_t answered_us = rqli_conn_loop_answered_us(call->loop->conn);

            last_us = answered_us > last_us ? answered_us : last_us;
        }
    }
    return last_us;
}

/* Writes the reason why a call got no reply in time. */
static void fail_late(const struct rqli_op_call *call, rql_error *fault)
{
    const char *where = call->loop->node->site.where;

    if (call->state == RQLI_OP_CALL_SENT) {
        (void)rqli_stream_fault(RQL_E_UNKNOWN, where, fault);
    } else if (rqli_conn_loop_is_up(call->loop->conn)) {
        (void)rqli_fail(fault, RQL_E_IO, "%s: no time left; nothing was sent", where);
    } else {
        (void)rqli_fail(fault, RQL_E_IO, "cannot connect to %s: no time left", where);
    }
}

/* The replies have not come in time. While the server answers other calls of this loop, it is
 * waited for: a call that was sent, or gives back, is done sooner that way than if it were begun
 * again. Once it has been silent for the grace, the round ends: each open call gets its fault, and
 * no reply is read for it any more. */
static void give_up(struct rqli_op_driver *self)
{
    struct rqli_op *op = self->op;
    bool was_sent = is_sent(self);
    size_t count = op->n_calls;
    int64_t answered_us = last_answer_us(self);

    if ((was_sent || op->gives_back) && rqli_now_us() < answered_us + op->grace_us) {
        set_due(self, answered_us + op->grace_us);
        return;
    }
    op->is_late = !was_sent && answered_us > 0;
    for (size_t i = 0; i < count; i++) {
        struct rqli_op_call *call = &self->calls[i];
        rql_error fault;

        if (call->state == RQLI_OP_CALL_READ) { /* the server has not said how safe it is */
            stop_call(call);
            rqli_acks_join(&op->acks, &(struct rqli_acks){0});
        }
        if (call->state == RQLI_OP_CALL_IDLE) {
            continue;
        }
        fail_late(call, &fault);
        stop_call(call);
        op->ops->read(op, i, NULL, NULL, &fault);
    }
    take_step(self);
}

static void on_due(struct rqli_due *due)
{
    struct rqli_op_driver *self = RQLI_OWNER(due, struct rqli_op_driver, due);

    switch (self->state) {
    case RQLI_OP_DRIVER_CALLING:
        if (self->resume_us > 0) {
            resume_calls(self);
        } else {
            give_up(self);
        }
        break;
    case RQLI_OP_DRIVER_PAUSING:
        send_calls(self);
        break;
    case RQLI_OP_DRIVER_WAITING:
        rqli_op_wake(self, RQLI_WAKE_TIME);
        break;
    case RQLI_OP_DRIVER_IDLE:
        break;
    }
}

/* Room for the timer is reserved once and kept until the operation is over: no step can run out of
 * memory. */
bool rqli_op_start(struct rqli_op_driver *self)
{
    if (!rqli_timers_reserve(self->loop->timers)) {
        return false;
    }
    self->due = (struct rqli_due){.fire = on_due};
    take_step(self);
    return true;
}

void rqli_op_wake(struct rqli_op_driver *self, enum rqli_wake wake)
{
    if (self->state == RQLI_OP_DRIVER_WAITING) {
        rqli_op_on_woken(self->op, wake);
        take_step(self);
    }
}

void rqli_op_replan(struct rqli_op_driver *self)
{
    if (self->state == RQLI_OP_DRIVER_WAITING) {
        take_step(self);
    }
}

void rqli_op_end_wait_soon(struct rqli_op_driver *self)
{
    if (self->state == RQLI_OP_DRIVER_WAITING) {
        set_due(self, rqli_now_us());
    }
}

/* A round of which a call was sent, or that gives back, goes on to its end; next() finds
 * is_cancelled after it. If nothing is in flight, calls in line are taken out: they have done
 * nothing. */
void rqli_op_cancel(struct rqli_op_driver *self)
{
    bool is_calling = self->state == RQLI_OP_DRIVER_CALLING;

    self->op->is_cancelled = true;
    if (self->state == RQLI_OP_DRIVER_IDLE ||
        (is_calling && (self->op->gives_back || is_sent(self)))) {
        return;
    }
    for (size_t i = 0; is_calling && i < self->op->n_calls; i++) {
        stop_call(&self->calls[i]);
    }
    take_step(self);
}
