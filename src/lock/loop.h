#ifndef RQLI_LOOP_H
#define RQLI_LOOP_H

/*
 * A client on an event loop: what all asynchronous calls share.
 *
 * A call fills in a job and posts it; the loop's thread takes it from there, and is the only one to
 * touch it until its end. Nothing blocks, and nobody is called back but from a round of the loop.
 */

#include "base/dlist.h"
#include "base/fork.h"
#include "net/op.h"
#include "net/subscription.h"

#include <pthread.h>
#include <rql/async.h>
#include <uv.h>

struct rqli_acquire;

/* What another thread has to say. Part of what it is about. */
struct rqli_post {
    struct rqli_post *next;
    void (*take)(struct rqli_post *self);
};

/* Something that was asked for and is not done yet. */
struct rqli_job {
    struct rqli_dlink link; /* first: of all that are under way */
    struct rqli_post post;  /* its own first news */
    rql_loop *loop;
    void (*begin)(struct rqli_job *self);
    void (*cancel)(struct rqli_job *self); /* the loop is closed; NULL: ends by itself */
};

/* What a loop has of its own for one server: nothing is connected before it is needed. */
struct rqli_loop_node {
    struct rqli_loop_node *_Atomic next; /* of those in use, or of those put aside */
    rql_loop *loop;
    struct rqli_node *node;
    struct rqli_op_loop op; /* its operations */
    struct rqli_op_loop
        durable; /* those that ask for more than the server's word, which may take */
    struct rqli_push_loop pushes;
    bool wants_pushes;
};

struct rql_loop {
    struct rqli_fork_member fork; /* first: what leads to a foreign one leads to its begin */
    rql_client *client;
    uv_loop_t *uv;
    uv_async_t call;
    uv_prepare_t round;
    uv_timer_t timer;
    struct rqli_loop_node first;  /* the server, or the first that the URL names; then the others */
    struct rqli_loop_node *aside; /* that have been in use, and have no part in its rounds */
    struct rqli_timers timers;    /* of its operations, and: */
    struct rqli_due look;         /* for connections that nobody uses; of several servers */
    struct rqli_dlist jobs;       /* under way */
    int64_t timer_us;             /* it is set to */
    bool is_held_open;            /* the uv loop, by us */
    bool is_closing;              /* it ends when no job is under way */
    size_t n_parts;               /* that are still to be closed; 0: not begun */
    uv_thread_t uv_thread;        /* that runs the loop */
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
        bool is_closed; /* nothing new is taken */
    } shared;           /* everything in here under shared.mutex */
};

/* Any thread. RQL_E_INVALID: NULL, or closed; RQL_E_FORKED. */
rql_status rqli_loop_check(rql_loop *loop, rql_error *error);

/* Any thread. Hands a job over, which is begun on the loop's thread; NULL: there was no memory for
 * it. On a fault, raised, it is freed. */
rql_status rqli_loop_start(rql_loop *loop, struct rqli_job *job, rql_error *error);
/* The same for a job that gives back: on the loop's thread it is taken until the last one has
 * ended, also when the loop is closed. */
rql_status rqli_loop_start_to_end(rql_loop *loop, struct rqli_job *job, rql_error *error);
/* Any thread. The same for news of a job that is under way. */
void rqli_loop_post(rql_loop *loop, struct rqli_post *post);

/* Loop's thread: a job as part of another, also when the loop is closed. */
void rqli_loop_begin(rql_loop *loop, struct rqli_job *job);

/* Any thread. For rqli_own_acquirer_id(). */
uint64_t rqli_loop_new_acquirer(const rql_loop *loop);

/* Loop's thread: the same for what blocks, which a thread of libuv's does. False: no memory,
 * nothing was begun. */
bool rqli_work_begin(rql_loop *loop, const rql_work *work);

/* Calls it, if it is one. */
void rqli_report_done(const rql_done *done, rql_status status, const rql_error *error);

/* Loop's thread: a job is done. Frees nothing. */
void rqli_loop_finish(struct rqli_job *job);

/* Loop's thread. How an acquisition listens; see lock/wait.h. */
void rqli_loop_attend(struct rqli_acquire *acquire);
void rqli_loop_end_wait(struct rqli_acquire *acquire);

/* Loop's thread. What it has for this server, which stays as long as the loop; it is made if it is
 * new. NULL: no memory. */
struct rqli_loop_node *rqli_loop_at(rql_loop *loop, struct rqli_node *node);
/* The same, and nothing is made. NULL: it is not in use. */
struct rqli_loop_node *rqli_loop_find(rql_loop *loop, const struct rqli_node *node);

/* Loop's thread: ends the connections for commands, and gives what is under way its fault. */
void rqli_loop_drop(rql_loop *loop);

/* What loop.c and loop_node.c share. The loop's thread, but where said. */

/* loop_node.c: it is all zero. False: no memory; to be ended all the same. */
bool rqli_loop_node_init(struct rqli_loop_node *self, rql_loop *loop, struct rqli_node *node);
void rqli_loop_node_fini(struct rqli_loop_node *self);          /* its connections are closed */
void rqli_loop_node_abandon(const struct rqli_loop_node *self); /* in a fork child */

/* loop_node.c: from now on connections that nobody uses are closed, each for itself: of several
 * servers, as the client's own are by net/cluster.c. False: no memory. */
bool rqli_loop_end_unused(rql_loop *loop);
/* loop_node.c: all that were put aside are in use again, to be closed. */
void rqli_loop_take_all_back(rql_loop *loop);

/* Any thread. */
bool rqli_loop_is_here(const rql_loop *loop);

/* A loop with nothing else to do must not end now; nor wait for us when we are done. */
void rqli_loop_hold_open(rql_loop *loop, bool holds);

#endif
