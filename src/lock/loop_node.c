#include "lock/loop_node.h"

#include "base/clock.h"
#include "base/fork.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/lost_writes.h"
#include "lock/server_clock.h"
#include "lock/wait.h"
#include "net/conn/push_loop.h"
#include "net/conn/push_threads.h"
#include "net/op/cluster.h"
#include "net/op/op_loop.h"

#include <stdlib.h>

/*
 * A loop's connections and operations for one server. The first node is part of the loop; the
 * others are made on the loop's thread, when a call first goes there, and stay until the loop ends.
 */

static void op_loop_fini(struct rqli_op_loop *self)
{
    rqli_conn_loop_free(self->conn);
}

static void node_fini(struct rqli_loop_node *self)
{
    op_loop_fini(&self->op);
    op_loop_fini(&self->durable);
    rqli_push_loop_fini(&self->pushes);
}

/* Called when connecting has succeeded or failed. If it failed, the calls in line fail at once:
 * each operation decides whether it tries again. */
static void opened(const struct rqli_loop_node *self, struct rqli_op_loop *op,
                   const struct rqli_clock_reading *reading, const rql_error *fault)
{
    rql_client *client = self->all->client;

    if (rqli_conn_loop_is_up(op->conn)) {
        rqli_server_clock_learn(client, self->node, reading);
        rqli_lost_writes_look_at_all(client);
        atomic_store_explicit(&client->was_connected, true, memory_order_relaxed);
    } else {
        rqli_fleet_on_silence(&client->fleet, self->node);
        rqli_op_loop_fail(op, fault);
    }
}

static void on_opened(void *node, const struct rqli_clock_reading *reading, const rql_error *fault)
{
    opened(node, &((struct rqli_loop_node *)node)->op, reading, fault);
}

static void on_durable_opened(void *node, const struct rqli_clock_reading *reading,
                              const rql_error *fault)
{
    opened(node, &((struct rqli_loop_node *)node)->durable, reading, fault);
}

static struct rqli_op_loop *op_at(struct rqli_op_loop *self, struct rqli_node *node)
{
    const struct rqli_loop_node *own = self->listener.self;
    struct rqli_loop_node *other = rqli_loop_nodes_at(own->all, node);

    if (!other) {
        return NULL;
    }
    return self == &own->durable ? &other->durable : &other->op;
}

static bool init_op(struct rqli_loop_node *self, struct rqli_op_loop *op,
                    void (*on_open)(void *self, const struct rqli_clock_reading *reading,
                                    const rql_error *fault))
{
    op->fleet = &self->all->client->fleet;
    op->node = self->node;
    op->at = op_at;
    op->timers = self->all->timers;
    op->listener = (struct rqli_conn_loop_listener){on_open, NULL, self};
    op->conn = rqli_conn_loop_new(self->all->uv, &self->node->site, &op->listener);
    return op->conn != NULL;
}

static void rouse_waiter(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    (void)waiters;
    rqli_op_replan(rqli_acquire_of(waiter)->driver);
}

/* Reads the push connection of the client's threads. Threads and loops listen to one channel, so
 * that each connection also gets the pushes for the others. While no thread reads the threads'
 * connection, this does. */
static void read_for_threads(struct rqli_push_loop *pushes)
{
    rqli_push_threads_drain(RQLI_OWNER(pushes, struct rqli_loop_node, pushes)->node->pushes);
}

static struct rqli_loop_node *node_of(const struct rqli_acquire *acquire)
{
    return RQLI_OWNER(acquire->pushes, struct rqli_loop_node, pushes.pushes);
}

/* Ends all waits of a client that is drained. Once is enough, because no wait begins any more. */
static void end_waits(struct rqli_loop_node *self)
{
    struct rqli_waiter *waiter = rqli_waiters_first(&self->pushes.subscription.waiters);

    while (waiter && !self->has_ended_waits) {
        rqli_op_end_wait_soon(rqli_acquire_of(waiter)->driver);
        waiter = rqli_waiter_next(waiter);
    }
    self->has_ended_waits = true;
}

/* The waiter that leads from now on plans its sleep again. In a client that is drained it ends, and
 * so do the others, which do not look at the client while they sleep. */
static void plan_again(struct rqli_waiter *waiter)
{
    struct rqli_acquire *acquire = rqli_acquire_of(waiter);
    const struct rqli_request_input input = rqli_wait_input(acquire);

    if (rqli_client_is_draining(acquire->client)) {
        end_waits(node_of(acquire));
        return;
    }
    rqli_request_on_lead(&acquire->request, &input);
    rqli_op_replan(acquire->driver);
}

/* Sets a node up that is all zero. Returns false without memory; the node has to be ended all the
 * same. */
static bool node_init(struct rqli_loop_node *self, struct rqli_loop_nodes *all,
                      struct rqli_node *node)
{
    self->all = all;
    self->node = node;
    self->pushes.subscription.waiters.rouse = rouse_waiter;
    self->pushes.on_read = read_for_threads;
    self->pushes.on_lead = plan_again;
    if (!rqli_push_loop_init(&self->pushes, all->uv, &node->site)) {
        return false;
    }
    return init_op(self, &self->op, on_opened) && init_op(self, &self->durable, on_durable_opened);
}

void rqli_loop_nodes_abandon(const struct rqli_loop_nodes *self)
{
    for (const struct rqli_loop_node *node = &self->first; node; node = node->next) {
        rqli_conn_loop_abandon(node->op.conn);
        rqli_conn_loop_abandon(node->durable.conn);
        rqli_conn_loop_abandon(node->pushes.conn);
    }
}

struct rqli_loop_node *rqli_loop_nodes_find(struct rqli_loop_nodes *self,
                                            const struct rqli_node *node)
{
    struct rqli_loop_node *found = &self->first;

    while (found && found->node != node) {
        found = found->next;
    }
    return found;
}

/* Puts a node into the rounds of the loop. The nodes that were put there last are found first. */
static void use(struct rqli_loop_nodes *self, struct rqli_loop_node *node)
{
    node->next = self->first.next;
    self->first.next = node;
}

/* Takes a parked node back into use. Returns NULL if it is not among the parked ones. */
static struct rqli_loop_node *take_back(struct rqli_loop_nodes *self, const struct rqli_node *node)
{
    struct rqli_loop_node *before = NULL;
    struct rqli_loop_node *found = self->aside;

    while (found && found->node != node) {
        before = found;
        found = found->next;
    }
    if (found && before) {
        before->next = atomic_load(&found->next);
    } else if (found) {
        self->aside = found->next;
    }
    if (found) {
        use(self, found);
    }
    return found;
}

void rqli_loop_nodes_take_back(struct rqli_loop_nodes *self)
{
    while (self->aside) {
        (void)take_back(self, self->aside->node);
    }
}

/* Makes a node. It is listed when it is complete, because another thread may fork at any time. */
static struct rqli_loop_node *add(struct rqli_loop_nodes *self, struct rqli_node *node)
{
    struct rqli_loop_node *made = calloc(1, sizeof *made);

    if (made && !node_init(made, self, node)) {
        node_fini(made);
        free(made);
        made = NULL;
    }
    if (made) {
        use(self, made);
    }
    return made;
}

struct rqli_loop_node *rqli_loop_nodes_at(struct rqli_loop_nodes *self, struct rqli_node *node)
{
    struct rqli_loop_node *at = rqli_loop_nodes_find(self, node);

    at = at ? at : take_back(self, node);
    return at ? at : add(self, node);
}

void rqli_loop_nodes_drop(struct rqli_loop_nodes *self)
{
    for (struct rqli_loop_node *node = &self->first; node; node = node->next) {
        rqli_conn_loop_drop(node->op.conn);
    }
}

/* ---- unused connections ---- */

/* Closes a connection that was not used since since_us. Clears was_up, because an idle close must
 * not be reported as a broken connection. */
static void end_op(struct rqli_op_loop *self, int64_t since_us)
{
    if (rqli_conn_loop_is_idle(self->conn) && !rqli_op_loop_has_queued(self) &&
        rqli_conn_loop_heard_us(self->conn) <= since_us) {
        rqli_conn_loop_drop(self->conn);
        self->was_up = false;
    }
}

/* Closes the connections of a node that are not used. They stay while locks are held there, as
 * those of threads do, and while a request waits there, because a waiting request may not poll. The
 * connection for pushes is closed with those for commands: it may receive pushes for others, and so
 * look used. */
static void end_node(struct rqli_loop_node *self, int64_t since_us)
{
    if (rqli_push_loop_has_waiters(&self->pushes) ||
        rqli_fleet_holds_at(&self->all->client->fleet, self->node)) {
        return;
    }
    end_op(&self->op, since_us);
    end_op(&self->durable, since_us);
    if (!rqli_conn_loop_is_up(self->op.conn) && !rqli_conn_loop_is_up(self->durable.conn)) {
        rqli_conn_loop_drop(self->pushes.conn);
    }
}

static bool is_at_rest(const struct rqli_loop_node *self)
{
    return rqli_conn_loop_is_down(self->op.conn) && rqli_conn_loop_is_down(self->durable.conn) &&
           rqli_conn_loop_is_down(self->pushes.conn) && !rqli_op_loop_has_queued(&self->op) &&
           !rqli_op_loop_has_queued(&self->durable) && !rqli_push_loop_has_waiters(&self->pushes);
}

/* Parks the nodes that are not used. Each round of the loop visits all nodes in use, and there may
 * be many whose servers have gone. A call for a parked node takes it back by
 * rqli_loop_nodes_at(). */
static void put_aside_unused(struct rqli_loop_nodes *self)
{
    struct rqli_loop_node *before = &self->first;
    struct rqli_loop_node *node;

    while ((node = before->next)) {
        if (is_at_rest(node)) {
            before->next = atomic_load(&node->next);
            node->next = self->aside;
            self->aside = node;
        } else {
            before = node;
        }
    }
}

static void look(struct rqli_due *due)
{
    struct rqli_loop_nodes *self = RQLI_OWNER(due, struct rqli_loop_nodes, look);
    int64_t unused_us = self->client->cluster->unused_us;
    int64_t now_us = rqli_now_us();

    for (struct rqli_loop_node *node = &self->first; node; node = node->next) {
        end_node(node, now_us - unused_us);
    }
    put_aside_unused(self);
    rqli_timers_set(self->timers, due, now_us + unused_us);
}

/* ---- from begin to end ---- */

bool rqli_loop_nodes_init(struct rqli_loop_nodes *self)
{
    const struct rqli_cluster *cluster = self->client->cluster;

    if (!node_init(&self->first, self, &self->client->fleet.first)) {
        return false;
    }
    if (!cluster) {
        return true;
    }
    if (!rqli_timers_reserve(self->timers)) {
        return false;
    }
    self->look.fire = look;
    rqli_timers_set(self->timers, &self->look, rqli_now_us() + cluster->unused_us);
    return true;
}

/* A node that was never set up is all zero, and ends as one that was. */
void rqli_loop_nodes_fini(struct rqli_loop_nodes *self)
{
    struct rqli_loop_node *node = self->first.next;

    while (node) {
        struct rqli_loop_node *next = node->next;

        node_fini(node);
        free(node);
        node = next;
    }
    node_fini(&self->first);
}

/* ---- waiting ---- */

/*
 * The part of an acquisition's wait that is different on a loop, where nothing may block: pings,
 * and the commands that arm a watch, are written after the other commands, and their replies come
 * as calls.
 */

static struct rqli_loop_nodes *nodes_of(const struct rqli_acquire *acquire)
{
    const struct rqli_loop_node *own = acquire->driver->loop->listener.self;

    return own->all;
}

static struct rqli_pushes *go_to(struct rqli_acquire *acquire, struct rqli_node *node)
{
    struct rqli_loop_node *at = rqli_loop_nodes_at(nodes_of(acquire), node);

    return at ? &at->pushes.pushes : NULL;
}

/* A loop waits for the answer of a server that is busy with other calls, and its connection finds
 * out whether the server is silent. The withdrawal of a try that waits for replicas takes another
 * connection, and half of the grace. */
static int64_t until_us(const struct rqli_acquire *acquire, int64_t now_us)
{
    int64_t deadline_us = acquire->request.limits.deadline_us;
    int64_t grace_us = rqli_client_grace_us(acquire->client);

    return acquire->waiter.keeps_conn
               ? rqli_after_ms(rqli_later(deadline_us, now_us), grace_us / 2000)
               : rqli_later(deadline_us, now_us + grace_us);
}

/* The reply of a watch would come over the durable connection, also when the request is over. */
static void leave_durable(struct rqli_acquire *acquire)
{
    rqli_wait_drop_watch(acquire);
    acquire->driver->loop = &nodes_of(acquire)->first.op;
}

/* ---- a lock of Ruby's ---- */

static void on_asked(void *owner, const struct rqli_batch *answer, rql_status fault)
{
    struct rqli_acquire *acquire = owner;

    acquire->watch = 0;
    if (!fault && answer->reply->type == RQLI_REPLY_NIL) {
        /* The lock was free when the watch began; no push reports a change from before that. */
        acquire->waiter.hinted = true;
        rqli_op_replan(acquire->driver);
    }
}

/* Arms one watch for each change of a lock of Ruby's: again only after its notice has come, or when
 * one of the connections is new. */
static void watch_ruby(struct rqli_acquire *acquire)
{
    struct rqli_op_loop *calls = acquire->driver->loop;
    struct rqli_conn_loop *conn = calls->conn;
    struct rqli_push_view around = rqli_pushes_view(acquire->pushes, &acquire->waiter);
    uint64_t generation = rqli_conn_loop_generation(conn);
    bool is_set_up =
        calls->tracking_conn == generation && calls->tracking_pushes == around.generation;

    if (acquire->waiter.watches && rqli_wait_is_armed(acquire, generation)) {
        return;
    }
    if (acquire->watch || !around.is_listening || !rqli_conn_loop_has_room(conn) ||
        !rqli_wait_may_watch(acquire, generation, !acquire->waiter.watches)) {
        return;
    }
    /* The next hint clears `watches`. The replies to the first commands are ignored: the last one
     * says whether the lock is free. */
    acquire->waiter.watches = true;
    rqli_wait_arm(acquire, generation);
    rqli_tracking_write(rqli_conn_loop_out(conn), acquire->watched,
                        is_set_up ? 0 : around.client_id);
    if (!is_set_up) {
        calls->tracking_conn = generation;
        calls->tracking_pushes = around.generation;
        (void)rqli_conn_loop_expect(conn, NULL, NULL);
    }
    (void)rqli_conn_loop_expect(conn, NULL, NULL);
    acquire->watch = rqli_conn_loop_expect(conn, on_asked, acquire);
}

/* ---- whether pushes still come ---- */

static void on_pinged(void *owner, const struct rqli_batch *answer, rql_status fault)
{
    struct rqli_loop_node *node = owner;

    if (!fault && answer->reply->type == RQLI_REPLY_INTEGER) {
        rqli_push_loop_on_pinged(&node->pushes, answer->reply->integer);
    }
}

/* Pings over that connection of the node which the calls of this acquisition use. */
static void ping_subscription(const struct rqli_acquire *acquire)
{
    struct rqli_loop_node *node = node_of(acquire);
    struct rqli_conn_loop *conn = acquire->waiter.keeps_conn ? node->durable.conn : node->op.conn;

    if (rqli_conn_loop_has_room(conn) &&
        rqli_push_loop_wants_ping(&node->pushes, &acquire->waiter)) {
        rqli_push_ping(rqli_conn_loop_out(conn), acquire->waiter.set, acquire->client->identity);
        (void)rqli_conn_loop_expect(conn, on_pinged, node);
    }
}

static enum rqli_wait_next attend(struct rqli_acquire *acquire, uint64_t generation,
                                  rql_error *error)
{
    (void)generation; /* the connection has not changed since */
    (void)error;
    node_of(acquire)->wants_pushes = true;
    ping_subscription(acquire);
    if (acquire->watched.data) {
        watch_ruby(acquire);
    }
    return RQLI_WAIT_ON;
}

const struct rqli_wait_ops rqli_wait_on_loop = {
    .go_to = go_to, .until_us = until_us, .leave_durable = leave_durable, .attend = attend};
