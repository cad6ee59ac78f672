#ifndef RQLI_LOOP_H
#define RQLI_LOOP_H

/*
 * A client on an event loop: the base that all asynchronous calls share.
 *
 * A call fills in a job and posts it. The loop's thread takes the job from there, and is the only
 * thread that touches it until it ends. Nothing blocks, and callbacks are called only from a round
 * of the loop.
 */

#include "base/dlist.h"
#include "base/fork.h"
#include "lock/loop_node.h"

#include <pthread.h>
#include <rql/async.h>
#include <uv.h>

/* A message from another thread to the loop. It is part of the object that it is about. */
struct rqli_post {
    struct rqli_post *next;
    void (*take)(struct rqli_post *self);
};

/* An asynchronous call that was begun and is not done yet. */
struct rqli_job {
    struct rqli_dlink link; /* first; in the list of jobs under way */
    struct rqli_post post;  /* the message that begins it */
    rql_loop *loop;
    void (*begin)(struct rqli_job *self);
    void (*cancel)(struct rqli_job *self); /* called when the loop is closed; NULL: it ends by
                                              itself */
};

struct rql_loop {
    struct rqli_fork_member fork; /* first: the list that keeps a foreign loop reachable points to
                                     its begin */
    rql_client *client;
    uv_loop_t *uv;
    uv_async_t call;
    uv_prepare_t round;
    uv_check_t polled;
    uv_timer_t timer;
    struct rqli_loop_nodes nodes;
    struct rqli_timers timers; /* of its operations, and of `nodes` */
    struct rqli_dlist jobs;    /* under way */
    int64_t timer_us;          /* when the timer is set to fire */
    bool is_held_open;         /* this loop keeps the uv loop from ending */
    bool is_closing;           /* the loop ends when no job is under way any more */
    size_t n_parts;            /* parts that are still to be closed; 0: closing them has not
                                  begun */
    uv_thread_t uv_thread;     /* the thread that runs the loop */
    rql_closed_fn closed;
    void *closed_data;
    struct rqli_post closing;

    struct {
        uv_loop_t uv;
        uv_thread_t thread;
        bool is_used;
    } own;

    struct {
        pthread_mutex_t mutex;
        struct rqli_post *first;
        struct rqli_post *last;
        bool is_closed; /* new jobs are refused */
    } shared;           /* guarded by shared.mutex */
};

/* Any thread. Checks that the loop can be used. RQL_E_INVALID: it is NULL; RQL_E_FORKED: it belongs
 * to the parent process. */
rql_status rqli_loop_check(rql_loop *loop, rql_error *error);
/* As rqli_loop_check(). RQL_E_INVALID also if `what`, of this client, belongs to another client
 * than the loop. */
rql_status rqli_loop_check_of(rql_loop *loop, const rql_client *client, const char *what,
                              rql_error *error);

/* Any thread. Hands a job over, which begins on the loop's thread. job is NULL if there was no
 * memory for it. On a fault, which is raised, the job is freed. */
rql_status rqli_loop_start(rql_loop *loop, struct rqli_job *job, rql_error *error);
/* As rqli_loop_start(), for a job that gives something back: on the loop's thread such a job is
 * taken until the last job has ended, even if the loop is closed. */
rql_status rqli_loop_start_to_end(rql_loop *loop, struct rqli_job *job, rql_error *error);
/* Any thread. Posts a message about a job that is under way. */
void rqli_loop_post(rql_loop *loop, struct rqli_post *post);

/* Loop's thread. Begins a job as part of another one, even if the loop is closed. */
void rqli_loop_begin(rql_loop *loop, struct rqli_job *job);

/* Any thread. Returns a new number for rqli_own_acquirer_id(). */
uint64_t rqli_loop_new_acquirer(const rql_loop *loop);

/* Loop's thread. Begins a blocking call, which runs on a thread of libuv's. False: there was no
 * memory, and nothing was begun. */
bool rqli_work_begin(rql_loop *loop, const rql_work *work);

/* Loop's thread. Ends a job that is done. Frees nothing. */
void rqli_loop_finish(struct rqli_job *job);
/* Loop's thread. Ends a job that is done, frees it and calls back. `done` and `error`, which may be
 * NULL for RQL_OK, may be part of the job. */
void rqli_loop_complete(struct rqli_job *job, const rql_done *done, rql_status status,
                        const rql_error *error);

/* Any thread. Returns whether the caller runs on the loop's thread. */
bool rqli_loop_is_here(const rql_loop *loop);

/* Keeps the uv loop from ending, or stops doing so: it must not end while a job is under way, and
 * must not wait for this loop when all jobs are done. */
void rqli_loop_hold_open(rql_loop *loop, bool holds);

#endif
