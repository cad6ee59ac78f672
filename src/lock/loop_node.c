#include "base/clock.h"
#include "base/fork.h"
#include "lock/client.h"
#include "lock/history.h"
#include "lock/loop.h"
#include "lock/server_clock.h"
#include "net/cluster.h"

#include <stddef.h>
#include <stdlib.h>

/*
 * What a loop has for one server. The first is part of the loop; the others are made when a call
 * first goes there, on the loop's thread, and stay until the loop ends.
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

/* Connected, or not. The calls in line fail at once then: each operation decides whether it tries
 * again. */
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
    op->conn = rqli_conn_loop_new(self->loop->uv, &self->node->endpoint, &op->listener);
    return op->conn != NULL;
}

bool rqli_loop_node_init(struct rqli_loop_node *self, rql_loop *loop, struct rqli_node *node)
{
    self->loop = loop;
    self->node = node;
    if (!rqli_push_loop_init(&self->pushes, loop->uv, &node->endpoint, rqli_loop_rouse)) {
        return false;
    }
    self->pushes.on_read = rqli_loop_on_read;
    self->pushes.owner = self;
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

/* Into its rounds. Those that have used it last are found first. */
static void use(rql_loop *loop, struct rqli_loop_node *self)
{
    self->next = loop->first.next;
    loop->first.next = self;
}

/* NULL: it is not there. */
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

/* It is listed when it is whole: the thread that forks may be another. */
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

/* ---- connections that nobody uses ---- */

/* That it is down is no end that anybody need know of. */
static void end_op(struct rqli_op_loop *self, int64_t since_us)
{
    if (rqli_conn_loop_is_idle(self->conn) && !rqli_op_loop_has_queued(self) &&
        rqli_conn_loop_heard_us(self->conn) <= since_us) {
        rqli_conn_loop_drop(self->conn);
        self->was_up = false;
    }
}

/* Where locks are held it stays, as those of threads do; and where one waits, who may not poll. The
 * one for pushes goes with those for commands: it may hear what is for others. */
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

/* Each round of the loop looks at all that are in use, and those that have gone may be many. What
 * is about to be asked of one comes by rqli_loop_at(). */
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
    rql_loop *loop = (rql_loop *)((char *)due - offsetof(rql_loop, look));
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
