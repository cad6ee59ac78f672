#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/loop.h"
#include "lock/wait.h"

/*
 * wait.c for a loop, where nothing may block: pings and the arming of a watch are written behind
 * the other commands, and their replies come as calls.
 */

/* What comes in for those who wait on a loop. */

/* The reply of a watch that is under way finds nobody any more, and the acquisition may wait again
 * and arm another one. The next waiter of the same lock leads, and plans its sleep anew. */
void rqli_loop_end_wait(struct rqli_acquire *acquire)
{
    struct rqli_request_input input;
    struct rqli_waiter *leader = NULL;

    if (acquire->waiter.has_joined) {
        leader = rqli_waiters_leave(&acquire->at->pushes.subscription.waiters, &acquire->waiter);
    }
    if (acquire->watch) {
        rqli_conn_loop_orphan(acquire->task->loop->conn, acquire->watch);
        acquire->watch = 0;
    }
    if (leader) {
        input = rqli_wait_input(rqli_acquire_of(leader));
        rqli_request_on_lead(&rqli_acquire_of(leader)->request, &input);
        rqli_op_replan(rqli_acquire_of(leader)->task);
    }
}

void rqli_loop_rouse(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    (void)waiters;
    rqli_op_replan(rqli_acquire_of(waiter)->task);
}

/* The client's waiting threads and its loops listen to one channel, so that each connection gets
 * what is for the others. While no thread reads, this does. */
void rqli_loop_on_read(void *node)
{
    rqli_push_threads_drain(((struct rqli_loop_node *)node)->node->pushes);
}

/* ---- a lock of Ruby's ---- */

static void on_asked(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    struct rqli_acquire *acquire = owner;

    acquire->watch = 0;
    if (!fault && answer->reply->type == RQLI_REPLY_NIL) {
        /* Free when the watch began; no push reports what was before that. */
        acquire->waiter.hinted = true;
        rqli_op_replan(acquire->task);
    }
}

/* One watch for each change: armed again only when its notice has come, or when one of the
 * connections is new. */
static void watch_ruby(struct rqli_acquire *acquire)
{
    struct rqli_op_loop *calls = acquire->task->loop;
    struct rqli_conn_loop *conn = calls->conn;
    struct rqli_push_view around = rqli_push_loop_view(&acquire->at->pushes, &acquire->waiter);
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
    /* Cleared by the next hint. The replies to the first commands are of no interest: the last one
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

static void on_pinged(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    struct rqli_loop_node *node = owner;

    if (!fault && answer->reply->type == RQLI_REPLY_INTEGER) {
        rqli_push_loop_on_pinged(&node->pushes, answer->reply->integer);
    }
}

/* Over that of the node's connections which this one's calls go by. */
static void ping_subscription(const struct rqli_acquire *acquire)
{
    struct rqli_loop_node *node = acquire->at;
    struct rqli_conn_loop *conn = acquire->waiter.keeps_conn ? node->durable.conn : node->op.conn;

    if (rqli_conn_loop_has_room(conn) &&
        rqli_push_loop_wants_ping(&node->pushes, &acquire->waiter)) {
        rqli_push_ping(rqli_conn_loop_out(conn), acquire->waiter.set, acquire->client->identity);
        (void)rqli_conn_loop_expect(conn, on_pinged, node);
    }
}

/* Its request waits: pushes are for that. */
void rqli_loop_attend(struct rqli_acquire *acquire)
{
    acquire->at->wants_pushes = true;
    ping_subscription(acquire);
    if (acquire->watched.data) {
        watch_ruby(acquire);
    }
}
