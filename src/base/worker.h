#ifndef RQLI_WORKER_H
#define RQLI_WORKER_H

/* A thread that sleeps until something is due. It sleeps on a futex, so it needs no descriptor, and
 * to rouse it costs one system call. */

#include "base/futex.h"

#include <pthread.h>

enum { RQLI_WORKER_OVER = -1 };

struct rqli_worker {
    const char *name; /* of the thread */
    /* On the thread, first at once: does what is due, and returns when it is to be called again
     * (RQLI_NEVER_US: when it is roused). RQLI_WORKER_OVER ends the thread. */
    int64_t (*step)(struct rqli_worker *self);

    pthread_t thread; /* from here on its own */
    bool is_started;  /* under the mutex of its owner */
    rqli_signal runs; /* 1: the thread does */
    rqli_signal roused;
    _Atomic int64_t due_us;
};

/* Does nothing if it is started already. False: no thread to be had. */
bool rqli_worker_start(struct rqli_worker *self);

static inline bool rqli_worker_runs(struct rqli_worker *self)
{
    return atomic_load_explicit(&self->runs, memory_order_acquire) == 1;
}

/* The system keeps a new thread from running for longer than others: waits for it. */
void rqli_worker_await(struct rqli_worker *self, int64_t until_us);

/* Has the step called at at_us at the latest. False: it would have been. Any thread, from within
 * the step, too. */
bool rqli_worker_rouse(struct rqli_worker *self, int64_t at_us);

/* Waits until the step has said that it is over, as its owner has asked it to. Not started: is
 * fine. */
void rqli_worker_stop(struct rqli_worker *self);

bool rqli_worker_is_here(const struct rqli_worker *self); /* this is its thread */

#endif
