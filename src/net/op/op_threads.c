/* Operations on the thread of their caller. A round is one batch for each node: all calls in
 * one write. Calls that have done nothing are sent once more: those of scripts that the server did
 * not know with their texts, and those about keys that have moved to the node that has them now. */

#include "net/op/op_threads.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "net/conn/push_threads.h"
#include "wire/answer.h"

#include <string.h>

/* State of a call in its round: a plain command gets its reply unchanged, even an error. */
enum call_state { ANSWERED, SCRIPT, PLAIN };

/* Nodes that are asked at the same time; the calls for further ones go next. */
enum { NODES_MAX = 8, NO_BATCH = NODES_MAX };

enum { MAP_MS = 300 }; /* for a map with the new owner of a silent node's keys */

/* The calls that go to one node. */
struct node_batch {
    struct rqli_node *node;
    struct rqli_batch *batch; /* NULL: no memory */
    bool is_sent;
    rql_status status;
    rql_error fault;
};

/* The calls of one driver. */
struct driver {
    struct rqli_op *op;
    size_t n_open; /* that are not answered yet */
    bool is_cut;   /* the keys have moved from the connection that a call had to go over */
    struct rqli_retries retries;
    struct rqli_retries before; /* at the last attempt, which counts once for all calls */
    size_t n_batches;
    struct node_batch batches[NODES_MAX];
    uint8_t calls[RQLI_OP_CALLS_MAX]; /* enum call_state */
    uint8_t batch_of[RQLI_OP_CALLS_MAX];
    uint16_t reply_of[RQLI_OP_CALLS_MAX]; /* index of its reply among those of its batch */
};

/* Returns the connection of this node for calls that go by the route. */
static struct rqli_conn *conn_for(const struct rqli_op_route *route, struct rqli_node *node)
{
    if (route->conn && node == route->node) {
        return route->conn;
    }
    switch (route->use) {
    case RQLI_OP_DURABLE:
        return node->conns.durable;
    case RQLI_OP_IN_BACKGROUND:
        return node->background;
    case RQLI_OP_FOR_CALLERS:
        break;
    }
    return rqli_conns_choose(&node->conns);
}

/* ---- writing ---- */

/* Returns the index of the batch for the node. NO_BATCH: there are NODES_MAX already. */
static size_t batch_for(struct driver *self, struct rqli_node *node)
{
    struct node_batch *to = &self->batches[self->n_batches];

    for (size_t i = 0; i < self->n_batches; i++) {
        if (self->batches[i].node == node) {
            return i;
        }
    }
    if (self->n_batches == NODES_MAX) {
        return NO_BATCH;
    }
    to->node = node; /* a fault is long, and usually there is none */
    to->is_sent = false;
    to->status = RQL_OK;
    to->batch = rqli_batch_take(conn_for(&self->op->route, node));
    return self->n_batches++;
}

/* Returns the index of its reply. */
static uint16_t write_script(const struct driver *self, struct node_batch *to,
                             const struct rqli_call *call)
{
    struct rqli_command *command = &to->batch->command;

    if (self->op->pushes_first && command->n_commands == 0) {
        rqli_command_words(command, "PING", NULL);
    }
    rqli_call_write(call, command, rqli_conn_scripts(to->batch->carrier));
    return (uint16_t)(command->n_commands - 1);
}

/* Writes a call: a plain command right away, for the node of the route; a call of a script when it
 * is known whose keys it is about. */
static void write_call(struct driver *self, size_t i, struct node_batch *home)
{
    struct rqli_call call;
    struct node_batch *to;

    rqli_call_begin(&call, &home->batch->command);
    self->op->ops->write(self->op, i, &call);
    self->calls[i] = call.is_plain ? PLAIN : SCRIPT;
    if (call.is_plain) {
        self->batch_of[i] = 0;
        self->reply_of[i] = (uint16_t)(home->batch->command.n_commands - 1);
        return;
    }
    self->batch_of[i] = (uint8_t)batch_for(self, rqli_fleet_node(self->op->route.fleet, call.set));
    to = &self->batches[self->batch_of[i]];
    if (self->batch_of[i] != NO_BATCH && to->batch) {
        self->reply_of[i] = write_script(self, to, &call);
    }
}

/* Writes only calls that are open, with their arguments made again. False: no memory for any. */
static bool write_calls(struct driver *self)
{
    struct node_batch *home;

    self->n_batches = 0;
    home = &self->batches[batch_for(self, self->op->route.node)];
    if (!home->batch) {
        return false;
    }
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i] != ANSWERED) {
            write_call(self, i, home);
        }
    }
    self->retries.again_us = 0;
    self->before = self->retries;
    return true;
}

/* ---- reading ---- */

/* Turns an error reply to a script into a fault that names its call. The call is drafted once more
 * for that, and not written to the stream. */
static void read_error(const struct driver *self, size_t i, const struct node_batch *to,
                       const struct rqli_reply *reply)
{
    rql_error fault = {0};
    struct rqli_call call;

    rqli_op_draft(self->op, i, &call);
    if (self->is_cut) {
        (void)rqli_fail_moved(to->node->site.where, rqli_call_subject(&call), &fault);
    } else {
        (void)rqli_batch_fault(to->batch, reply, rqli_call_name(&call), rqli_call_subject(&call),
                               &fault);
    }
    self->op->ops->read(self->op, i, to->batch, NULL, &fault);
}

static uint8_t greater(uint8_t one, uint8_t other)
{
    return one > other ? one : other;
}

static void count_retries(struct driver *self, const struct rqli_retries *of_call)
{
    self->retries.again_us = rqli_later(self->retries.again_us, of_call->again_us);
    self->retries.n_flushed = greater(self->retries.n_flushed, of_call->n_flushed);
    self->retries.n_moved = greater(self->retries.n_moved, of_call->n_moved);
    self->retries.n_pauses = greater(self->retries.n_pauses, of_call->n_pauses);
}

/* True: the error reply is to a script that has done nothing, and the call is sent again. A call
 * that has to go over a certain connection is not sent over another: it fails as if that connection
 * had ended. */
static bool is_repeated(struct driver *self, size_t i, const struct node_batch *to,
                        const struct rqli_reply *reply)
{
    struct rqli_op *op = self->op;
    struct rqli_retries retries = self->before;
    enum rqli_verdict verdict;
    struct rqli_call call;

    rqli_op_draft(op, i, &call);
    verdict = rqli_call_verdict(op->route.fleet, to->node, call.set, reply, &retries);
    count_retries(self, &retries);
    if (verdict == RQLI_HERE) {
        rqli_conn_forget_scripts(to->batch->carrier);
        return true;
    }
    self->is_cut = verdict != RQLI_FAULT && op->generation != 0;
    return verdict != RQLI_FAULT && !self->is_cut;
}

static void read_reply(struct driver *self, size_t i, const struct node_batch *to)
{
    const struct rqli_reply *reply = &to->batch->reply[self->reply_of[i]];
    bool is_error = self->calls[i] == SCRIPT && reply->type == RQLI_REPLY_ERROR;

    if (is_error && is_repeated(self, i, to, reply)) {
        return;
    }
    self->calls[i] = ANSWERED;
    self->n_open--;
    if (is_error) {
        read_error(self, i, to, reply);
    } else {
        self->op->answered = to->node;
        if (self->op->durability) {
            rqli_acks_join(&self->op->acks, &to->batch->acks);
        }
        self->op->ops->read(self->op, i, to->batch, reply, NULL);
    }
}

/* Calls of a script that the server does not know, or about keys that have moved, stay open. If no
 * reply has come the fault says what may have been done. */
static void read_replies(struct driver *self)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        const struct node_batch *to = &self->batches[self->batch_of[i]];

        if (self->calls[i] == ANSWERED || self->batch_of[i] == NO_BATCH) {
            continue;
        }
        if (to->status) {
            self->calls[i] = ANSWERED;
            self->n_open--;
            self->op->ops->read(self->op, i, NULL, NULL, &to->fault);
        } else {
            read_reply(self, i, to);
        }
    }
}

/* ---- one after the other ---- */

static rql_status put_and_await(struct rqli_op *op, struct rqli_batch *batch, rql_error *fault)
{
    rql_status status = rqli_batch_put(batch, op->generation, fault);

    if (status) {
        return status;
    }
    op->ops->placed(op);
    return rqli_batch_await(batch, op->until_us, fault);
}

static rql_status connect_and_send(const struct rqli_op *op, struct rqli_batch *batch,
                                   rql_error *fault)
{
    rql_status status = rqli_conn_connect(batch->carrier, op->until_us, fault);

    return status ? status : rqli_batch_send(batch, 0, fault);
}

/* Sends to the nodes that are connected, or to all the others. */
static void send_to_several(struct driver *self, bool are_up)
{
    for (size_t i = 0; i < self->n_batches; i++) {
        struct node_batch *to = &self->batches[i];

        if (!to->batch) {
            to->status = rqli_fail_nomem(&to->fault);
        } else if (to->batch->command.n_commands > 0 && !to->is_sent &&
                   (!are_up || rqli_conn_is_up(to->batch->carrier))) {
            to->batch->durability = self->op->durability;
            to->status = connect_and_send(self->op, to->batch, &to->fault);
            to->is_sent = true;
        }
    }
}

/* Sends to all nodes before the first answer is awaited. A node that cannot be connected to may
 * take all the time there is: the answers of the others that have come by then are still read. */
static void run_several(struct driver *self)
{
    send_to_several(self, true);
    send_to_several(self, false);
    for (size_t i = 0; i < self->n_batches; i++) {
        struct node_batch *to = &self->batches[i];

        if (to->batch && to->batch->command.n_commands > 0 && !to->status) {
            to->status = rqli_batch_await(to->batch, self->op->until_us, &to->fault);
        }
    }
}

/* Runs the batch of the only node that has calls. */
static void run_batch(struct rqli_op *op, struct node_batch *to)
{
    to->batch->durability = op->durability;
    if (op->generation != 0) {
        to->status = put_and_await(op, to->batch, &to->fault);
    } else {
        to->status = rqli_conn_run(to->batch, op->until_us, &to->fault);
    }
}

static bool is_silent(const struct node_batch *to)
{
    return to->status == RQL_E_IO || to->status == RQL_E_UNKNOWN;
}

/* Some nodes did not answer: calls that are sent again go to the nodes that have their keys by
 * then. The time is taken first, because the map is read as soon as the silence is reported. */
static void find_others(const struct driver *self)
{
    const struct rqli_op *op = self->op;
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < self->n_batches; i++) {
        if (is_silent(&self->batches[i])) {
            rqli_fleet_on_silence(op->route.fleet, self->batches[i].node);
        }
    }
    if (op->route.fleet->map_reader && op->route.use == RQLI_OP_FOR_CALLERS) {
        rqli_fleet_await_next_map(op->route.fleet, now_us,
                                  rqli_earlier(rqli_after_ms(now_us, MAP_MS), op->until_us));
    }
}

/* The node of the route has a part even if there is no call for it; the part is empty then. */
static void run_batches(struct driver *self)
{
    struct node_batch *last = &self->batches[self->n_batches - 1];
    bool are_silent = false;

    if (self->n_batches == 1 ||
        (self->n_batches == 2 && self->batches[0].batch->command.n_commands == 0 && last->batch)) {
        run_batch(self->op, last);
    } else {
        run_several(self);
    }
    for (size_t i = 0; i < self->n_batches; i++) {
        are_silent = are_silent || is_silent(&self->batches[i]);
    }
    if (are_silent) {
        find_others(self);
    }
}

static void read_lack_of_memory(struct driver *self)
{
    rql_error fault;

    (void)rqli_fail_nomem(&fault);
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i] != ANSWERED) {
            self->op->ops->read(self->op, i, NULL, NULL, &fault);
        }
    }
    self->n_open = 0;
}

/* Pauses until op->again_us; then sends the calls, and reads the replies. */
static void run_round(struct rqli_op *op)
{
    struct driver driver;

    rqli_sleep_until(op->again_us);
    rqli_fleet_await_map(op->route.fleet, op->until_us);
    driver.op = op;
    driver.n_open = op->n_calls;
    driver.is_cut = false;
    driver.retries = (struct rqli_retries){.until_us = op->until_us};
    memset(driver.calls, SCRIPT, op->n_calls);
    rqli_op_begin_acks(op);
    while (driver.n_open > 0) {
        if (write_calls(&driver)) {
            run_batches(&driver);
            read_replies(&driver);
        } else {
            read_lack_of_memory(&driver);
        }
        for (size_t i = 0; i < driver.n_batches; i++) {
            rqli_batch_give(driver.batches[i].batch);
        }
        rqli_sleep_until(driver.retries.again_us);
    }
}

/* A waiter that is not in the register cannot be notified: then the thread sleeps. */
rql_status rqli_op_run(struct rqli_op *op)
{
    enum rqli_op_next next;

    rqli_fleet_on_use(op->route.fleet);
    next = op->ops->next(op);
    while (next != RQLI_OP_OVER) {
        if (next == RQLI_OP_WAIT && op->waiter && rqli_waiter_has_joined(op->waiter)) {
            rqli_op_on_woken(
                op, rqli_push_threads_wait(op->route.node->pushes, op->waiter, op->again_us));
        } else if (next == RQLI_OP_WAIT) {
            rqli_sleep_until(op->again_us);
            rqli_op_on_woken(op, RQLI_WAKE_TIME);
        } else {
            run_round(op);
        }
        next = op->ops->next(op);
    }
    return op->status;
}

/* ---- one call ---- */

/* One call of a script, on the thread of its caller: it goes to the node that has its keys, and is
 * sent once more if it did nothing. */

RQLI_DEFINE_AUTO(struct rqli_batch *, rqli_batch_give);

rql_status rqli_call_run(const struct rqli_op_route *route, const struct rqli_call *call,
                         int64_t until_us, struct rqli_batch **out, rql_error *error)
{
    struct rqli_retries retries = {.until_us = until_us};

    rqli_fleet_on_use(route->fleet);
    rqli_fleet_await_map(route->fleet, until_us);
    for (;;) {
        struct rqli_node *node = rqli_fleet_node(route->fleet, call->set);
        RQLI_AUTO(rqli_batch_give)
        struct rqli_batch *batch = rqli_batch_take(conn_for(route, node));
        rql_status status;

        if (!batch) {
            return rqli_fail_nomem(error);
        }
        rqli_call_write(call, &batch->command, rqli_conn_scripts(batch->carrier));
        status = rqli_conn_run(batch, until_us, error);
        if (status) {
            rqli_fleet_on_silence(route->fleet, node);
            return status;
        }
        switch (rqli_call_verdict(route->fleet, node, call->set, batch->reply, &retries)) {
        case RQLI_DONE:
            *out = RQLI_GIVE(batch);
            return RQL_OK;
        case RQLI_HERE:
            rqli_conn_forget_scripts(batch->carrier);
            break;
        case RQLI_THERE:
            break;
        case RQLI_LATER:
            rqli_sleep_until(retries.again_us);
            break;
        case RQLI_FAULT:
            return rqli_batch_fault(batch, batch->reply, rqli_call_name(call),
                                    rqli_call_subject(call), error);
        }
    }
}

/* Each call removes some of the dead waiters from the queue, so the loop ends. */
bool rqli_serve(const struct rqli_op_route *route, const struct rqli_keys *keys,
                int64_t deadline_us)
{
    struct rqli_outcome outcome = {.second = RQLI_SERVED_PARTLY};
    struct rqli_call call;

    rqli_serve_write(keys, &call);
    while (outcome.second == RQLI_SERVED_PARTLY) {
        RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;

        (void)rqli_call_run(route, &call, deadline_us, &batch, NULL);
        if (!batch || !rqli_outcome_read(batch->reply, &outcome)) {
            return false;
        }
    }
    return outcome.second == RQLI_SERVED_ONE;
}
