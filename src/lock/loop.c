#include "lock/loop.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/leases.h"

#include <stddef.h>
#include <stdlib.h>

/*
 * A loop takes jobs from any thread: they are posted under a mutex and wake the loop by uv_async.
 * All else happens on its thread, in rounds: what was posted, what was read and what is due is
 * handled, then on_round() writes everything that was said in one send() and sets the timer for the
 * next thing due.
 *
 * With a uv_loop_t of the caller's the handles are unreferenced while nothing is under way, so that
 * uv_run() ends when the caller's own work is done.
 */

/* While calls wait for the map of a cluster. */
enum { MAP_LOOK_US = 5000 };

rql_status rqli_loop_check(rql_loop *loop, rql_error *error)
{
    if (!loop) {
        return rqli_fail(error, RQL_E_INVALID, "loop is NULL");
    }
    return rqli_client_check(loop->client, error);
}

/* From 1: a number of 0 says that the acquirer is a thread or a task. */
uint64_t rqli_loop_new_acquirer(const rql_loop *loop)
{
    return 1 + atomic_fetch_add_explicit(&loop->client->n_acquirers, 1, memory_order_relaxed);
}

bool rqli_loop_is_here(const rql_loop *loop)
{
    uv_thread_t me = uv_thread_self();

    return uv_thread_equal(&me, &loop->uv_thread);
}

/* Loop's thread. A loop with nothing else to do must not end now; nor wait for us when we are done.
 * One handle is enough for it: timer and prepare are never referenced. */
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

/* Under the mutex. */
static void put(rql_loop *loop, struct rqli_post *post)
{
    post->next = NULL;
    *(loop->shared.last ? &loop->shared.last->next : &loop->shared.first) = post;
    loop->shared.last = post;
}

/* is_new: not when the loop is closed. Under the mutex to the end: the loop may be gone as soon as
 * it has found the post. */
static bool mail(rql_loop *loop, struct rqli_post *post, bool is_new)
{
    bool is_taken;
    bool was_empty;

    (void)pthread_mutex_lock(&loop->shared.mutex);
    /* Otherwise the loop was woken for the first of them, and take_posts() takes all. */
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

/* Its loop is known, and stays: another thread may read it, to cancel the job. */
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
    begin_job((struct rqli_job *)((char *)post - offsetof(struct rqli_job, post)));
}

/* is_new: not when the loop is closed. */
static rql_status start(rql_loop *loop, struct rqli_job *job, bool is_new, rql_error *error)
{
    if (!job) {
        return rqli_fail_nomem(error);
    }
    job->loop = loop;
    job->post.take = begin_posted;
    if (rqli_loop_is_here(loop)) {
        rqli_loop_hold_open(loop, true); /* it may be about to end */
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

/* Callbacks of what the closing has ended may still have been given a lock. */
rql_status rqli_loop_start_to_end(rql_loop *loop, struct rqli_job *job, rql_error *error)
{
    return start(loop, job, !rqli_loop_is_here(loop) || loop->n_parts > 0, error);
}

void rqli_loop_post(rql_loop *loop, struct rqli_post *post)
{
    (void)mail(loop, post, false);
}

void rqli_report_done(const rql_done *done, rql_status status, const rql_error *error)
{
    if (done->fn) {
        done->fn(status, status ? error : NULL, done->user_data);
    }
}

void rqli_loop_finish(struct rqli_job *job)
{
    rqli_dlist_remove(&job->loop->jobs, &job->link);
}

static bool has_jobs(const rql_loop *loop)
{
    return loop->jobs.first != NULL;
}

/* Takes what was posted, in that order. What the takers post comes in the next round, so that they
 * cannot keep the loop from reading. A taker may free what its post is part of. */
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

/* In a fork child, which may run its copy of the uv loop: none of the callbacks does anything. */
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

/* What the subscriber is opened for, and anew when it was lost: requests that wait. The others are
 * for calls that stand in line. */
static bool wants_pushes(const struct rqli_loop_node *self)
{
    return self->wants_pushes && rqli_push_loop_has_waiters(&self->pushes);
}

/* What waits for replicas is withdrawn, and released, over the other connection. */
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

/* One by one: what fires may set or take out the others. */
static void fire_due(struct rqli_timers *timers, int64_t now_us)
{
    struct rqli_due *due = rqli_timers_take_due(timers, now_us);

    while (due) {
        due->fire(due);
        due = rqli_timers_take_due(timers, now_us);
    }
}

/* All that has a time: deadlines, pauses, back-off, silence of a connection. */
static void on_timer(uv_timer_t *timer)
{
    rql_loop *loop = timer->data;
    int64_t now_us;

    loop->timer_us = RQLI_NEVER_US;
    if (is_foreign(loop)) {
        return;
    }
    /* What has come is taken first: it may be the loop that was held up. */
    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        read_node(node);
    }
    now_us = rqli_now_us();
    for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        tend_node(node, now_us);
    }
    fire_due(&loop->timers, now_us);
}

/* The thread that reads the map of a cluster knows of no loop: this one looks, for a moment in its
 * life. */
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

    for (const struct rqli_loop_node *node = &loop->first; node; node = node->next) {
        at_us = rqli_earlier(at_us, rqli_earlier(due_us(&node->op), due_us(&node->durable)));
        at_us = rqli_earlier(at_us, rqli_conn_loop_due_us(node->pushes.conn, wants_pushes(node)));
    }
    return at_us;
}

/* libuv counts milliseconds: rounded up, so that the timer never fires before its time. Setting the
 * same time again is left out, it is the usual case. */
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
    /* The timer counts from libuv's time, which is that of the begin of the round. */
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

/* Its connection may have been the only one of the client; and another may have its keys soon. */
static void see_end(rql_client *client, struct rqli_op_loop *self)
{
    bool is_up = rqli_conn_loop_is_up(self->conn);

    if (self->was_up && !is_up) {
        rqli_leases_on_cut(client->leases);
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

/* Where one breaks its calls may go on at another that was written before: hence once more. */
static void write_all(rql_loop *loop)
{
    bool is_more;

    do {
        is_more = false;
        for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
            write_out(loop->client, &node->op);
            write_out(loop->client, &node->durable);
        }
        for (struct rqli_loop_node *node = loop->first.next; node; node = node->next) {
            is_more = is_more || is_due(node) || is_due(&loop->first);
        }
    } while (is_more);
}

/* Once in each round, before the loop sleeps: one write for all that was said in it. */
static void on_round(uv_prepare_t *round)
{
    rql_loop *loop = round->data;

    if (is_foreign(loop)) {
        return;
    }
    write_all(loop);
    /* What was posted before the loop was shut may be a job that has not begun. */
    if (loop->is_closing && !has_jobs(loop) && !has_posts(loop)) {
        rqli_loop_fold(loop);
        return;
    }
    set_timer(loop);
    rqli_loop_hold_open(loop,
                        loop->own.is_used || loop->is_closing || has_jobs(loop) || has_posts(loop));
    if (!uv_loop_alive(loop->uv)) {
        /* It ends with this round, and may never be run again: the servers would keep pushes for
         * it. */
        for (struct rqli_loop_node *node = &loop->first; node; node = node->next) {
            rqli_conn_loop_drop(node->pushes.conn);
        }
    }
}

bool rqli_loop_prepare(rql_loop *loop)
{
    loop->call.data = loop;
    loop->round.data = loop;
    loop->timer.data = loop;
    loop->timer_us = RQLI_NEVER_US;
    /* Alone of the three it needs a descriptor, and can fail. */
    if (uv_async_init(loop->uv, &loop->call, on_call) != 0) {
        return false;
    }
    loop->is_held_open = true;
    rqli_loop_hold_open(loop, loop->own.is_used);
    (void)uv_timer_init(loop->uv, &loop->timer);
    uv_unref((uv_handle_t *)&loop->timer);
    (void)uv_prepare_init(loop->uv, &loop->round);
    uv_unref((uv_handle_t *)&loop->round);
    (void)uv_prepare_start(&loop->round, on_round);
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

/* On a thread of libuv's pool: nothing else touches self until on_ran(). */
static void run(uv_work_t *uv)
{
    struct work *self = uv->data;

    self->status = self->work.run(self->work.user_data, &self->error);
}

/* Behind the call libuv reports on the loop's thread. */
static void on_ran(uv_work_t *uv, int status)
{
    struct work *self = uv->data;
    const rql_done done = {self->work.done, self->work.user_data};
    rql_status outcome = self->status;
    rql_error error = self->error;

    (void)status; /* nothing cancels it */
    /* From copies, and last: the callback may begin other work, or close the loop. */
    rqli_loop_finish(&self->job);
    free(self);
    rqli_report_done(&done, outcome, &error);
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
    /* It cannot be cancelled: a loop that is closed waits for its end. */
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

rql_status rql_run_async(rql_loop *loop, const rql_work *work, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    if (!work || !work->run) {
        return rqli_fail(error, RQL_E_INVALID, "rql_run_async: there is nothing to run");
    }
    return rqli_loop_start(loop, work_new(work), error);
}
