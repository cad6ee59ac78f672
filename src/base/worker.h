#ifndef RQLI_WORKER_H
#define RQLI_WORKER_H

/* A thread that sleeps until something is due. It sleeps on a futex, so it needs no descriptor, and
 * waking it costs one system call. */

#include "base/futex.h"

#include <pthread.h>

enum { RQLI_WORKER_OVER = -1 };

struct rqli_worker {
    const char *name; /* of the thread */
    /* Called on the thread, for the first time at once. Does the work that is due, and returns when
     * to call it again (RQLI_NEVER_US: when the worker is roused). RQLI_WORKER_OVER ends the
     * thread. */
    int64_t (*step)(struct rqli_worker *self);

    pthread_t thread; /* the members from here on are private */
    bool is_started;  /* guarded by the mutex of its owner */
    rqli_signal runs; /* 1: the thread runs */
    rqli_signal roused;
    _Atomic int64_t due_us;
};

/* Starts the thread, unless it is started already. False: no thread is available. */
bool rqli_worker_start(struct rqli_worker *self);

static inline bool rqli_worker_runs(struct rqli_worker *self)
{
    return atomic_load_explicit(&self->runs, memory_order_acquire) == 1;
}

/* Waits until the thread runs, because the system may delay a new thread for longer than others. */
void rqli_worker_await(struct rqli_worker *self, int64_t until_us);

/* Has the step called at at_us at the latest. Returns false if it would have been called by then
 * anyway. Any thread may call this, also from within the step. */
bool rqli_worker_rouse(struct rqli_worker *self, int64_t at_us);

/* Waits until the step has returned RQLI_WORKER_OVER, as its owner has asked it to. No-op if the
 * worker is not started. */
void rqli_worker_stop(struct rqli_worker *self);

bool rqli_worker_is_here(const struct rqli_worker *self); /* whether the caller is its thread */

#endif
