#include "lock/loop.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/must.h"
#include "base/scope.h"
#include "base/uv_start.h"
#include "lock/client.h"
#include "lock/lost_writes.h"
#include "net/conn/push_loop.h"
#include "net/op/op_loop.h"

#include <stdlib.h>

/*
 * A loop takes jobs from any thread: they are posted under a mutex, and uv_async wakes the loop.
 * Everything else happens on the loop's thread, in rounds. A round handles what was posted, what
 * was read and what is due; then on_round() writes all that was said with one send() for each
 * connection, and sets the timer for the next thing that is due.
 *
 * On a uv_loop_t of the caller's the handles are unreferenced while nothing is under way, so that
 * uv_run() ends when the caller's own work is done. While a subscriber is connected, one more round
 * follows, which disconnects it.
 */

/* between two looks while calls wait for the map of a cluster */
enum { MAP_LOOK_US = 5000 };

rql_status rqli_loop_check(rql_loop *loop, rql_error *error)
{
    if (!loop) {
        return rqli_fail(error, RQL_E_INVALID, "loop is NULL");
    }
    return rqli_client_check(loop->client, error);
}

rql_status rqli_loop_check_of(rql_loop *loop, const rql_client *client, const char *what,
                              rql_error *error)
{
    rql_status status = rqli_loop_check(loop, error);

    if (!status && client != loop->client) {
        status = rqli_fail(error, RQL_E_INVALID, "%s: of another client than the loop", what);
    }
    return status;
}

/* Counts from 1, because a number of 0 says that the acquirer is a thread or a task. */
uint64_t rqli_loop_new_acquirer(const rql_loop *loop)
{
    return 1 + atomic_fetch_add_explicit(&loop->client->n_acquirers, 1, memory_order_relaxed);
}

bool rqli_loop_is_here(const rql_loop *loop)
{
    uv_thread_t me = uv_thread_self();

    return uv_thread_equal(&me, &loop->uv_thread);
}

/* Loop's thread. With `holds`, a uv loop with nothing else to do does not end; without, it does not
 * wait for this loop. One handle is enough for it: the others are never referenced. */
void rqli_loop_hold_open(rql_loop *loop, bool holds)
{
    if (holds != loop->is_held_open) {
        loop->is_held_open = holds;
        if (holds) {
            uv_ref((uv_handle_t *)&loop->call);
        } else {
            uv_unref((uv_handle_t *)&loop->call);
        }
    }
}

/* Adds a post at the end. Caller holds loop->shared.mutex. */
static void put(rql_loop *loop, struct rqli_post *post)
{
    post->next = NULL;
    *(loop->shared.last ? &loop->shared.last->next : &loop->shared.first) = post;
    loop->shared.last = post;
}

/* Posts a message and wakes the loop. Returns false if the message is_new and the loop is closed.
 * Holds the mutex to the end, because the loop may be gone as soon as it has found the post. */
static bool mail(rql_loop *loop, struct rqli_post *post, bool is_new)
{
    bool is_taken;
    bool was_empty;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    /* If there were posts already, the loop was woken for the first of them, and take_posts() takes
     * all. */
    was_empty = !loop->shared.first;
    is_taken = !is_new || !loop->shared.is_closed;
    if (is_taken) {
        put(loop, post);
        if (was_empty) {
            (void)uv_async_send(&loop->call);
        }
    }
    (void)pthread_mutex_unlock(&loop->shared.mutex);
    return is_taken;
}

/* Begins a job. Its member `loop` was set before and is not written here, because another thread
 * may read it to cancel the job. */
static void begin_job(struct rqli_job *job)
{
    rqli_dlist_add_first(&job->loop->jobs, &job->link);
    job->begin(job);
}

void rqli_loop_begin(rql_loop *loop, struct rqli_job *job)
{
    job->loop = loop;
    begin_job(job);
}

static void begin_posted(struct rqli_post *post)
{
    begin_job(RQLI_OWNER(post, struct rqli_job, post));
}

/* Posts a job that is to begin. With is_new it is refused if the loop is closed. */
static rql_status start(rql_loop *loop, struct rqli_job *job, bool is_new, rql_error *error)
{
    if (!job) {
        return rqli_fail_nomem(error);
    }
    job->loop = loop;
    job->post.take = begin_posted;
    if (rqli_loop_is_here(loop)) {
        rqli_loop_hold_open(loop, true); /* the uv loop may be about to end */
    }
    if (!mail(loop, &job->post, is_new)) {
        free(job);
        return rqli_fail(error, RQL_E_INVALID, "the loop is closed");
    }
    return RQL_OK;
}

rql_status rqli_loop_start(rql_loop *loop, struct rqli_job *job, rql_error *error)
{
    return start(loop, job, true, error);
}

/* Takes the job also while the loop is being closed, because callbacks of jobs that the closing has
 * ended may still have been given a lock. */
rql_status rqli_loop_start_to_end(rql_loop *loop, struct rqli_job *job, rql_error *error)
{
    return start(loop, job, !rqli_loop_is_here(loop) || loop->n_parts > 0, error);
}

void rqli_loop_post(rql_loop *loop, struct rqli_post *post)
{
    (void)mail(loop, post, false);
}

void rqli_loop_finish(struct rqli_job *job)
{
    rqli_dlist_remove(&job->loop->jobs, &job->link);
}

/* The callback gets a copy of the error, and comes last: it may begin another job, or close the
 * loop. */
void rqli_loop_complete(struct rqli_job *job, const rql_done *done, rql_status status,
                        const rql_error *error)
{
    const rql_done callback = *done;
    rql_error detail;

    if (status) {
        detail = *error;
    }
    rqli_loop_finish(job);
    free(job);
    if (callback.fn) {
        callback.fn(status, status ? &detail : NULL, callback.user_data);
    }
}

static bool has_jobs(const rql_loop *loop)
{
    return loop->jobs.first != NULL;
}

/* Takes all posts in their order. Posts that their takers add come in the next round, so that they
 * cannot keep the loop from reading. A taker may free the object that its post is part of. */
static void take_posts(rql_loop *loop)
{
    struct rqli_post *post;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    post = loop->shared.first;
    loop->shared.first = NULL;
    loop->shared.last = NULL;
    (void)pthread_mutex_unlock(&loop->shared.mutex);
    while (post) {
        struct rqli_post *next = post->next;

        post->take(post);
        post = next;
    }
}

/* Returns whether this is a fork child. A child may run its copy of the uv loop: then none of the
 * callbacks does anything. */
static bool is_foreign(const rql_loop *loop)
{
    return rqli_fork_is_foreign(&loop->fork);
}

static void on_call(uv_async_t *call)
{
    rql_loop *loop = call->data;

    if (!is_foreign(loop)) {
        take_posts(loop);
    }
}

/* Returns whether requests wait: the subscriber is opened for them, and opened again when it was
 * lost. The other connections are opened for calls that stand in line. */
static bool wants_pushes(const struct rqli_loop_node *self)
{
    return self->wants_pushes && rqli_push_loop_has_waiters(&self->pushes);
}

/* Returns whether the plain connection is wanted. Durable calls want it as well, because a request
 * that waits for replicas is withdrawn, and released, over the plain one. */
static bool wants_plain(const struct rqli_loop_node *self)
{
    return rqli_op_loop_wants_conn(&self->op) || rqli_op_loop_wants_conn(&self->durable);
}

static void read_node(struct rqli_loop_node *self)
{
    rqli_conn_loop_read(self->op.conn);
    rqli_conn_loop_read(self->durable.conn);
    rqli_conn_loop_read(self->pushes.conn);
}

static void tend_node(struct rqli_loop_node *self, int64_t now_us)
{
    rqli_conn_loop_tend(self->op.conn, now_us, wants_plain(self));
    rqli_conn_loop_tend(self->durable.conn, now_us, rqli_op_loop_wants_conn(&self->durable));
    rqli_conn_loop_tend(self->pushes.conn, now_us, wants_pushes(self));
}

/* Handles everything that has a time: deadlines, pauses, back-off, and connections that are
 * silent. */
static void on_timer(uv_timer_t *timer)
{
    rql_loop *loop = timer->data;
    int64_t now_us;

    loop->timer_us = RQLI_NEVER_US;
    if (is_foreign(loop)) {
        return;
    }
    /* Bytes that have come are read first: it may be the loop that was held up, and not the
     * server. */
    for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        read_node(node);
    }
    now_us = rqli_now_us();
    for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        tend_node(node, now_us);
    }
    rqli_timers_fire(&loop->timers, now_us);
}

/* Returns when this connection has to be looked after. The thread that reads the map of a cluster
 * knows of no loop and wakes none: while calls wait for the map, which is only a moment in a loop's
 * life, the loop looks every 5 ms whether it was read. */
static int64_t due_us(const struct rqli_op_loop *self)
{
    bool wants_conn = rqli_op_loop_wants_conn(self);
    int64_t at_us = rqli_conn_loop_due_us(self->conn, wants_conn);

    return rqli_op_loop_has_queued(self) && !wants_conn
               ? rqli_earlier(at_us, rqli_now_us() + MAP_LOOK_US)
               : at_us;
}

static int64_t first_due_us(const rql_loop *loop)
{
    int64_t at_us = rqli_timers_first_us(&loop->timers);

    for (const struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        at_us = rqli_earlier(at_us, rqli_earlier(due_us(&node->op), due_us(&node->durable)));
        at_us = rqli_earlier(at_us, rqli_conn_loop_due_us(node->pushes.conn, wants_pushes(node)));
    }
    return at_us;
}

/* Sets the timer for the next thing that is due. libuv counts milliseconds: the time is rounded up,
 * so that the timer never fires too early. Setting the same time again, which is the usual case, is
 * left out. */
static void set_timer(rql_loop *loop)
{
    int64_t at_us = first_due_us(loop);
    int64_t left_us;

    if (at_us == loop->timer_us) {
        return;
    }
    loop->timer_us = at_us;
    if (at_us == RQLI_NEVER_US) {
        (void)uv_timer_stop(&loop->timer);
        return;
    }
    left_us = at_us - rqli_now_us();
    /* libuv counts the timer from its own time, which is that of the beginning of the round. */
    uv_update_time(loop->uv);
    (void)uv_timer_start(&loop->timer, on_timer, left_us > 0 ? (uint64_t)left_us / 1000 + 1 : 0, 0);
}

static bool has_posts(rql_loop *loop)
{
    bool has;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    has = loop->shared.first != NULL;
    (void)pthread_mutex_unlock(&loop->shared.mutex);
    return has;
}

/* Reports a connection that has ended: it may have been the only one of the client, and another
 * server may have its keys soon. */
static void see_end(rql_client *client, struct rqli_op_loop *self)
{
    bool is_up = rqli_conn_loop_is_up(self->conn);

    if (self->was_up && !is_up) {
        rqli_lost_writes_on_cut(client);
        rqli_fleet_on_silence(&client->fleet, self->node);
    }
    self->was_up = is_up;
}

static void write_out(rql_client *client, struct rqli_op_loop *self)
{
    rqli_op_loop_write(self);
    rqli_conn_loop_write(self->conn);
    see_end(client, self);
}

static bool is_due(const struct rqli_loop_node *self)
{
    return rqli_op_loop_is_due(&self->op) || rqli_op_loop_is_due(&self->durable);
}

/* Writes the calls of all nodes. If a connection breaks, its calls may go on at a node that was
 * written before; hence the repetition. */
static void write_all(rql_loop *loop)
{
    bool is_more;

    do {
        is_more = false;
        for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
            write_out(loop->client, &node->op);
            write_out(loop->client, &node->durable);
        }
        for (struct rqli_loop_node *node = loop->nodes.first.next; node; node = node->next) {
            is_more = is_more || is_due(node) || is_due(&loop->nodes.first);
        }
    } while (is_more);
}

/* Begins to end the parts of a loop that is closing, when no job is under way any more. */
static void end_parts(rql_loop *loop);

/* Called once in each round, before the loop sleeps, so that one write is enough for all that was
 * said in the round. */
static void on_round(uv_prepare_t *round)
{
    rql_loop *loop = round->data;

    if (is_foreign(loop)) {
        return;
    }
    write_all(loop);
    /* A message that was posted before the loop was shut may be a job that has not begun. */
    if (loop->is_closing && !has_jobs(loop) && !has_posts(loop)) {
        end_parts(loop);
        return;
    }
    set_timer(loop);
    rqli_loop_hold_open(loop,
                        loop->own.is_used || loop->is_closing || has_jobs(loop) || has_posts(loop));
    if (!uv_loop_alive(loop->uv)) {
        /* The uv loop ends with this round, and may never be run again: the servers would keep
         * pushes for its subscriptions. */
        for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
            rqli_conn_loop_drop(node->pushes.conn);
        }
    }
}

static bool is_subscribed(const rql_loop *loop)
{
    for (const struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        if (rqli_conn_loop_is_up(node->pushes.conn)) {
            return true;
        }
    }
    return false;
}

/* Called once in each round, after the loop has slept. The last that kept the uv loop alive may
 * have ended meanwhile, so a loop with a subscriber asks for one more round, in which on_round()
 * looks whether anything is left. It holds nothing open while the uv loop sleeps, because two loops
 * on one uv_loop_t would keep each other alive. */
static void on_polled(uv_check_t *polled)
{
    rql_loop *loop = polled->data;

    if (!is_foreign(loop) && is_subscribed(loop)) {
        rqli_loop_hold_open(loop, true);
    }
}

static bool prepare(rql_loop *loop)
{
    loop->call.data = loop;
    loop->round.data = loop;
    loop->polled.data = loop;
    loop->timer.data = loop;
    loop->timer_us = RQLI_NEVER_US;
    /* The only one of the four that needs a descriptor, and can fail. */
    if (uv_async_init(loop->uv, &loop->call, on_call) != 0) {
        return false;
    }
    /* Until the first round, which looks for what other threads have posted by then. */
    loop->is_held_open = true;
    (void)uv_timer_init(loop->uv, &loop->timer);
    uv_unref((uv_handle_t *)&loop->timer);
    (void)uv_prepare_init(loop->uv, &loop->round);
    uv_unref((uv_handle_t *)&loop->round);
    (void)uv_prepare_start(&loop->round, on_round);
    (void)uv_check_init(loop->uv, &loop->polled);
    uv_unref((uv_handle_t *)&loop->polled);
    (void)uv_check_start(&loop->polled, on_polled);
    return true;
}

/* A blocking call that runs on libuv's pool. */
struct work {
    struct rqli_job job; /* first */
    uv_work_t uv;
    rql_work work;
    rql_status status;
    rql_error error;
};

/* Runs on a thread of libuv's pool. Nothing else touches self until on_ran(). */
static void run(uv_work_t *uv)
{
    struct work *self = uv->data;

    self->status = self->work.run(self->work.user_data, &self->error);
}

/* libuv calls this on the loop's thread after the call has returned. */
static void on_ran(uv_work_t *uv, int status)
{
    struct work *self = uv->data;
    const rql_done done = {self->work.done, self->work.user_data};

    (void)status; /* nothing cancels it */
    rqli_loop_complete(&self->job, &done, self->status, &self->error);
}

/* uv_queue_work() fails only without a function to run. */
static void begin(struct rqli_job *job)
{
    struct work *self = (struct work *)job;

    self->uv.data = self;
    (void)uv_queue_work(job->loop->uv, &self->uv, run, on_ran);
}

static struct rqli_job *work_new(const rql_work *work)
{
    struct work *self = calloc(1, sizeof *self);

    if (!self) {
        return NULL;
    }
    /* The job cannot be cancelled: a loop that is closed waits for its end. */
    self->job.begin = begin;
    self->work = *work;
    return &self->job;
}

bool rqli_work_begin(rql_loop *loop, const rql_work *work)
{
    struct rqli_job *job = work_new(work);

    if (job) {
        rqli_loop_begin(loop, job);
    }
    return job != NULL;
}

rql_status rql_loop_run(rql_loop *loop, const rql_work *work, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    if (!work || !work->run) {
        return rqli_fail(error, RQL_E_INVALID, "rql_loop_run: there is nothing to run");
    }
    return rqli_loop_start(loop, work_new(work), error);
}

/* ---- from open to close ---- */

/*
 * Opening and closing a loop. With a uv_loop_t of the caller's the handles join that loop, and
 * rql_loop_close() returns at once; `closed` is called when the last handle is closed. Without one,
 * a thread of the library's own runs a loop, and rql_loop_close() waits for that thread to end.
 */

/* Frees a loop of which no handle is open any more, or none was made yet. Members that are still
 * zero are skipped. */
static void loop_free(rql_loop *loop)
{
    rqli_loop_nodes_fini(&loop->nodes);
    rqli_timers_fini(&loop->timers);
    (void)pthread_mutex_destroy(&loop->shared.mutex);
    free(loop);
}

RQLI_DEFINE_AUTO(rql_loop *, loop_free);

/* Called when the last handle is closed. A loop that has its own thread is freed by
 * rql_loop_close(), once that thread has ended. A loop on a uv loop of the caller's is freed here,
 * before `closed` is called. */
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

/* Closes the handles of the loop itself after the last connection, because the reports of a
 * connection still need them. */
static void on_connection_closed(void *data)
{
    rql_loop *loop = data;

    if (--loop->n_parts == 0) {
        loop->n_parts = 4;
        uv_close((uv_handle_t *)&loop->call, on_handle_closed);
        uv_close((uv_handle_t *)&loop->timer, on_handle_closed);
        uv_close((uv_handle_t *)&loop->round, on_handle_closed);
        uv_close((uv_handle_t *)&loop->polled, on_handle_closed);
    }
}

/* Begins to close the connections; once, in the round in which the last job has ended. */
static void end_parts(rql_loop *loop)
{
    if (loop->n_parts > 0) {
        return;
    }
    rqli_loop_nodes_take_back(&loop->nodes);
    /* All are counted before the first is closed, because a connection that is down calls back at
     * once. */
    for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        loop->n_parts += 3;
    }
    rqli_loop_hold_open(loop, true);
    for (struct rqli_loop_node *node = &loop->nodes.first; node; node = node->next) {
        rqli_conn_loop_close(node->op.conn, on_connection_closed, loop);
        rqli_conn_loop_close(node->durable.conn, on_connection_closed, loop);
        rqli_conn_loop_close(node->pushes.conn, on_connection_closed, loop);
    }
    /* They may have been the only connections of a client that holds locks. */
    rqli_lost_writes_on_cut(loop->client);
}

/* Cancels all jobs. Cancelling one may end others, and begin new ones, which enter the list in
 * front of the mark. Each job moves in front of the mark, too, before it is cancelled. */
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

/* Cancels the requests that wait. Held locks stay held, and their owners have to release them. */
static void begin_closing(struct rqli_post *post)
{
    rql_loop *loop = RQLI_OWNER(post, rql_loop, closing);

    loop->is_closing = true;
    cancel_all(loop);
}

static void run_own(rql_loop *loop)
{
    (void)uv_run(&loop->own.uv, UV_RUN_DEFAULT);
    /* All handles are closed by now, because the loop is held open until then. */
    RQLI_MUST(uv_loop_close(&loop->own.uv) == 0);
}

static void run_thread(void *loop)
{
    (void)pthread_setname_np(pthread_self(), "rql-loop");
    run_own(loop);
}

static bool start_thread(rql_loop *loop)
{
    /* A thread inherits the signal mask of the thread that starts it: the loop's thread gets no
     * asynchronous signals. */
    sigset_t before = rqli_mask_asynchronous();
    int failed = uv_thread_create(&loop->own.thread, run_thread, loop);
    rqli_mask_restore(&before);
    loop->uv_thread = loop->own.thread;
    return failed == 0;
}

/* Runs in a fork child. Closes its copies of the parent's sockets without a word to the server, and
 * touches no handle, because the loop is the parent's. */
static void abandon(void *self)
{
    const rql_loop *loop = self;

    rqli_loop_nodes_abandon(&loop->nodes);
}

/* Makes the parts of a loop. If there is no memory for all, the parts that were made are freed with
 * the loop. */
static bool make_parts(rql_loop *loop)
{
    /* The message is part of the loop, so that closing never lacks memory. */
    loop->closing.take = begin_closing;
    loop->nodes.client = loop->client;
    loop->nodes.uv = loop->uv;
    loop->nodes.timers = &loop->timers;
    return rqli_loop_nodes_init(&loop->nodes);
}

/* Makes the handles of a loop. From here on the loop has to be closed to be ended. */
static bool set_going(rql_loop *loop)
{
    if (!rqli_fork_join(&loop->fork, abandon, loop)) {
        return false;
    }
    if (!prepare(loop)) {
        rqli_fork_leave(&loop->fork);
        return false;
    }
    return true;
}

/* Starts a loop with a thread of its own. If the thread cannot be started, the loop runs here until
 * its handles are closed, which happens at once. */
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
        loop->is_closing = true; /* the loop ends here, and not on its thread */
        run_own(loop);
        return false;
    }
    return true;
}

/* Starts a loop on the caller's uv loop, which is run by the thread that opens this one. */
static bool start_on(rql_loop *loop, uv_loop_t *uv)
{
    loop->uv = uv;
    loop->uv_thread = uv_thread_self();
    return make_parts(loop) && set_going(loop);
}

rql_status rql_loop_open(rql_client *client, struct uv_loop_s *uv, rql_loop **out, rql_error *error)
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

/* Marks a loop as closed. Returns false if it was closed before. */
static bool shut(rql_loop *loop)
{
    bool was_open;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    /* The mutex of the posts orders this: either a job is taken before, and closing waits for its
     * end, or the job is refused. */
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
    /* Read now, because the thread of another uv loop may have freed the loop as soon as the
     * message is posted. */
    is_own = loop->own.is_used;
    if (is_own && rqli_loop_is_here(loop)) {
        return rqli_fail(
            error, RQL_E_INVALID,
            "rql_loop_close: called from a callback of this loop, it would wait for itself");
    }
    if (!shut(loop)) {
        return rqli_fail(error, RQL_E_INVALID, "rql_loop_close: the loop is already closed");
    }
    /* Its thread reads these after it has taken the mutex under which the message is posted. */
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
