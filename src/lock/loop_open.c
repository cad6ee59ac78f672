#include "base/cancel.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/must.h"
#include "base/scope.h"
#include "base/uv_start.h"
#include "lock/client.h"
#include "lock/loop.h"

#include <stdlib.h>

/*
 * Opening and closing a loop. With a uv_loop_t of the caller's the handles join that loop, and
 * rql_loop_close() returns at once; `closed` is called when the last handle is closed. Without one
 * a thread of our own runs a loop, and closing waits for its end.
 */

/* No handle is open any more, or none was made yet. What is still zero is skipped. */
static void loop_free(rql_loop *loop)
{
    struct rqli_loop_node *node = loop->first.next;

    while (node) {
        struct rqli_loop_node *next = node->next;

        rqli_loop_node_fini(node);
        free(node);
        node = next;
    }
    rqli_loop_node_fini(&loop->first);
    rqli_timers_fini(&loop->timers);
    (void)pthread_mutex_destroy(&loop->shared.mutex);
    free(loop);
}

RQLI_DEFINE_AUTO(rql_loop *, loop_free);

/* The last handle is closed. A loop of our own is freed by who closed it, once its thread has
 * ended; one on a uv loop of the caller's is freed here, before the caller is told. */
static void end(rql_loop *loop)
{
    rql_closed_fn closed = loop->closed;
    void *user_data = loop->closed_data;

    rqli_fork_leave(&loop->fork);
    if (!loop->own.is_used) {
        loop_free(loop);
    }
    if (closed) {
        closed(user_data);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    rql_loop *loop = handle->data;

    if (--loop->n_parts == 0) {
        end(loop);
    }
}

/* First the connections, then the handles of the loop itself: what a connection still reports
 * needs them. */
static void on_connection_closed(void *data)
{
    rql_loop *loop = data;

    if (--loop->n_parts == 0) {
        loop->n_parts = 3;
        uv_close((uv_handle_t *)&loop->call, on_handle_closed);
        uv_close((uv_handle_t *)&loop->timer, on_handle_closed);
        uv_close((uv_handle_t *)&loop->round, on_handle_closed);
    }
}

/* Once, in the round in which the last job has ended. */
void rqli_loop_fold(rql_loop *loop)
{
    if (loop->n_parts > 0) {
        return;
    }
    rqli_loop_take_all_back(loop);
    /* Before the first is closed: one that is down calls back at once. */
    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        loop->n_parts += 3;
    }
    rqli_loop_hold_open(loop, true);
    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        rqli_conn_loop_close(node->op.conn, on_connection_closed, loop);
        rqli_conn_loop_close(node->durable.conn, on_connection_closed, loop);
        rqli_conn_loop_close(node->pushes.conn, on_connection_closed, loop);
    }
}

/* To cancel one may end others, and begin new ones, which come in front of the mark, as each does
 * whose turn it is. */
static void cancel_all(rql_loop *loop)
{
    struct rqli_dlink mark;

    rqli_dlist_add_first(&loop->jobs, &mark);
    while (mark.next) {
        struct rqli_job *job = (struct rqli_job *)mark.next;

        rqli_dlist_remove(&loop->jobs, &job->link);
        rqli_dlist_add_first(&loop->jobs, &job->link);
        if (job->cancel) {
            job->cancel(job);
        }
    }
    rqli_dlist_remove(&loop->jobs, &mark);
}

/* Requests that wait are cancelled; what is held stays held, and is its owner's to release. */
static void begin_closing(struct rqli_post *post)
{
    rql_loop *loop = (rql_loop *)((char *)post - offsetof(rql_loop, closing));

    loop->is_closing = true;
    cancel_all(loop);
}

static void run(rql_loop *loop)
{
    (void)uv_run(&loop->own.uv, UV_RUN_DEFAULT);
    /* All handles are closed: the loop is held open until then. */
    RQLI_MUST(uv_loop_close(&loop->own.uv) == 0);
}

static void run_thread(void *loop)
{
    (void)pthread_setname_np(pthread_self(), "rql-loop");
    run(loop);
}

static bool start_thread(rql_loop *loop)
{
    /* A thread begins with the mask of the one that starts it: ours gets no signals. */
    sigset_t before = rqli_mask_asynchronous();
    int failed = uv_thread_create(&loop->own.thread, run_thread, loop);
    rqli_mask_restore(&before);
    loop->uv_thread = loop->own.thread;
    return failed == 0;
}

/* In a fork child: the parent's sockets are closed without a word to the server, and no handle is
 * touched, for the loop is the parent's. */
static void abandon(void *self)
{
    rql_loop *loop = self;

    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        rqli_loop_node_abandon(node);
    }
}

/* What there is no memory for is freed with the loop. */
static bool make_parts(rql_loop *loop)
{
    /* Part of the loop, so that closing never lacks memory. */
    loop->closing.take = begin_closing;
    return rqli_loop_node_init(&loop->first, loop, &loop->client->fleet.first) &&
           rqli_loop_end_unused(loop);
}

/* From here on it ends by being closed. */
static bool set_going(rql_loop *loop)
{
    if (!rqli_fork_join(&loop->fork, abandon, loop)) {
        return false;
    }
    if (!rqli_loop_prepare(loop)) {
        rqli_fork_leave(&loop->fork);
        return false;
    }
    return true;
}

/* If the thread cannot be started the loop is run here until its handles are closed, which is at
 * once. */
static bool start_own(rql_loop *loop)
{
    loop->own.is_used = true;
    loop->uv = &loop->own.uv;
    if (!rqli_uv_loop_init(loop->uv)) {
        return false;
    }
    if (!make_parts(loop) || !set_going(loop)) {
        (void)uv_loop_close(loop->uv);
        return false;
    }
    if (!start_thread(loop)) {
        loop->is_closing = true; /* ends here in place of there */
        run(loop);
        return false;
    }
    return true;
}

/* The thread that opens it is the one that runs the uv loop. */
static bool start_on(rql_loop *loop, uv_loop_t *uv)
{
    loop->uv = uv;
    loop->uv_thread = uv_thread_self();
    return make_parts(loop) && set_going(loop);
}

rql_status rql_loop_open(rql_loop **out, rql_client *client, struct uv_loop_s *uv, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(loop_free) rql_loop *loop = NULL;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "rql_loop_open: out is NULL");
    }
    loop = calloc(1, sizeof *loop);
    if (!loop) {
        return rqli_fail_nomem(error);
    }
    loop->client = client;
    (void)pthread_mutex_init(&loop->shared.mutex, NULL);
    if (!rqli_uv_pool_start() || (uv ? !start_on(loop, uv) : !start_own(loop))) {
        return rqli_fail(error, RQL_E_NOMEM, "rql_loop_open: no memory, descriptor or thread");
    }
    *out = RQLI_GIVE(loop);
    return RQL_OK;
}

/* False: it was closed before. */
static bool shut(rql_loop *loop)
{
    bool was_open;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    /* Under the mutex of the posts: a job is taken before this, and closing waits for its end, or
     * it is refused. */
    was_open = !loop->shared.is_closed;
    loop->shared.is_closed = true;
    (void)pthread_mutex_unlock(&loop->shared.mutex);
    return was_open;
}

rql_status rql_loop_close(rql_loop *loop, rql_closed_fn closed, void *user_data, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_loop_check(loop, error);
    bool is_own;

    if (status) {
        return status;
    }
    /* Read now: another uv loop may have freed it as soon as the post is there. */
    is_own = loop->own.is_used;
    if (is_own && rqli_loop_is_here(loop)) {
        return rqli_fail(
            error, RQL_E_INVALID,
            "rql_loop_close: from a callback of this loop, which would wait for itself");
    }
    if (!shut(loop)) {
        return rqli_fail(error, RQL_E_INVALID, "rql_loop_close: it is closed already");
    }
    /* Read on its thread, behind the mutex that the post is put in under. */
    loop->closed = closed;
    loop->closed_data = user_data;
    if (rqli_loop_is_here(loop)) {
        rqli_loop_hold_open(loop, true);
    }
    rqli_loop_post(loop, &loop->closing);
    if (is_own) {
        (void)uv_thread_join(&loop->own.thread);
        loop_free(loop);
    }
    return RQL_OK;
}
