#include "lock/loop.h"

#include "base/clock.h"
#include "base/fork.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/history.h"
#include "lock/server_clock.h"
#include "lock/wait.h"
#include "net/cluster.h"
#include "net/op_loop.h"
#include "net/push_loop.h"
#include "net/push_threads.h"

#include <stdlib.h>

/*
 * A loop's connections and operations for one server. The first node is part of the loop; the
 * others are made on the loop's thread, when a call first goes there, and stay until the loop ends.
 */

static void op_loop_fini(struct rqli_op_loop *self)
{
    rqli_conn_loop_free(self->conn);
}

void rqli_loop_node_fini(struct rqli_loop_node *self)
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
    rql_client *client = self->loop->client;

    if (rqli_conn_loop_is_up(op->conn)) {
        rqli_server_clock_learn(client, self->node, reading);
        rqli_history_look_at_all(client);
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
    struct rqli_loop_node *other = rqli_loop_at(own->loop, node);

    if (!other) {
        return NULL;
    }
    return self == &own->durable ? &other->durable : &other->op;
}

static bool init_op(struct rqli_loop_node *self, struct rqli_op_loop *op,
                    void (*on_open)(void *self, const struct rqli_clock_reading *reading,
                                    const rql_error *fault))
{
    op->fleet = &self->loop->client->fleet;
    op->node = self->node;
    op->at = op_at;
    op->timers = &self->loop->timers;
    op->listener = (struct rqli_conn_loop_listener){on_open, NULL, self};
    op->conn = rqli_conn_loop_new(self->loop->uv, &self->node->site, &op->listener);
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

/* The waiter that leads from now on plans its sleep again. */
static void plan_anew(struct rqli_waiter *waiter)
{
    struct rqli_acquire *acquire = rqli_acquire_of(waiter);
    const struct rqli_request_input input = rqli_wait_input(acquire);

    rqli_request_on_lead(&acquire->request, &input);
    rqli_op_replan(acquire->driver);
}

bool rqli_loop_node_init(struct rqli_loop_node *self, rql_loop *loop, struct rqli_node *node)
{
    self->loop = loop;
    self->node = node;
    self->pushes.subscription.waiters.rouse = rouse_waiter;
    self->pushes.on_read = read_for_threads;
    self->pushes.on_lead = plan_anew;
    if (!rqli_push_loop_init(&self->pushes, loop->uv, &node->site)) {
        return false;
    }
    return init_op(self, &self->op, on_opened) && init_op(self, &self->durable, on_durable_opened);
}

void rqli_loop_node_abandon(const struct rqli_loop_node *self)
{
    rqli_conn_loop_abandon(self->op.conn);
    rqli_conn_loop_abandon(self->durable.conn);
    rqli_conn_loop_abandon(self->pushes.conn);
}

struct rqli_loop_node *rqli_loop_find(rql_loop *loop, const struct rqli_node *node)
{
    struct rqli_loop_node *self = &loop->first;

    while (self && self->node != node) {
        self = self->next;
    }
    return self;
}

/* Puts a node into the rounds of the loop. The nodes that were put there last are found first. */
static void use(rql_loop *loop, struct rqli_loop_node *self)
{
    self->next = loop->first.next;
    loop->first.next = self;
}

/* Takes a parked node back into use. Returns NULL if it is not among the parked ones. */
static struct rqli_loop_node *take_back(rql_loop *loop, const struct rqli_node *node)
{
    struct rqli_loop_node *before = NULL;
    struct rqli_loop_node *self = loop->aside;

    while (self && self->node != node) {
        before = self;
        self = self->next;
    }
    if (self && before) {
        before->next = atomic_load(&self->next);
    } else if (self) {
        loop->aside = self->next;
    }
    if (self) {
        use(loop, self);
    }
    return self;
}

void rqli_loop_take_all_back(rql_loop *loop)
{
    while (loop->aside) {
        (void)take_back(loop, loop->aside->node);
    }
}

/* Makes a node. It is listed when it is complete, because another thread may fork at any time. */
static struct rqli_loop_node *add(rql_loop *loop, struct rqli_node *node)
{
    struct rqli_loop_node *self = calloc(1, sizeof *self);

    if (self && !rqli_loop_node_init(self, loop, node)) {
        rqli_loop_node_fini(self);
        free(self);
        self = NULL;
    }
    if (self) {
        use(loop, self);
    }
    return self;
}

struct rqli_loop_node *rqli_loop_at(rql_loop *loop, struct rqli_node *node)
{
    struct rqli_loop_node *self = rqli_loop_find(loop, node);

    self = self ? self : take_back(loop, node);
    return self ? self : add(loop, node);
}

void rqli_loop_drop(rql_loop *loop)
{
    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
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
        rqli_fleet_holds_at(&self->loop->client->fleet, self->node)) {
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
 * be many whose servers have gone. A call for a parked node takes it back by rqli_loop_at(). */
static void put_aside_unused(rql_loop *loop)
{
    struct rqli_loop_node *before = &loop->first;
    struct rqli_loop_node *node;

    while ((node = before->next)) {
        if (is_at_rest(node)) {
            before->next = atomic_load(&node->next);
            node->next = loop->aside;
            loop->aside = node;
        } else {
            before = node;
        }
    }
}

static void look(struct rqli_due *due)
{
    rql_loop *loop = RQLI_OWNER(due, rql_loop, look);
    int64_t unused_us = loop->client->cluster->unused_us;
    int64_t now_us = rqli_now_us();

    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        end_node(node, now_us - unused_us);
    }
    put_aside_unused(loop);
    rqli_timers_set(&loop->timers, due, now_us + unused_us);
}

bool rqli_loop_end_unused(rql_loop *loop)
{
    const struct rqli_cluster *cluster = loop->client->cluster;

    if (!cluster) {
        return true;
    }
    if (!rqli_timers_reserve(&loop->timers)) {
        return false;
    }
    loop->look.fire = look;
    rqli_timers_set(&loop->timers, &loop->look, rqli_now_us() + cluster->unused_us);
    return true;
}

/* ---- waiting ---- */

/*
 * The part of an acquisition's wait that is different on a loop, where nothing may block: pings,
 * and the commands that arm a watch, are written after the other commands, and their replies come
 * as calls.
 */

static struct rqli_loop_node *node_of(const struct rqli_acquire *acquire)
{
    return RQLI_OWNER(acquire->pushes, struct rqli_loop_node, pushes.pushes);
}

static rql_loop *loop_of(const struct rqli_acquire *acquire)
{
    const struct rqli_loop_node *own = acquire->driver->loop->listener.self;

    return own->loop;
}

static struct rqli_pushes *go_to(struct rqli_acquire *acquire, struct rqli_node *node)
{
    struct rqli_loop_node *at = rqli_loop_at(loop_of(acquire), node);

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

static void leave_durable(struct rqli_acquire *acquire)
{
    acquire->driver->loop = &loop_of(acquire)->first.op;
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
