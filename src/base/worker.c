#include "base/worker.h"

#include "base/clock.h"
#include "base/fork.h"

#include <uv.h>

/*
 * A thread that sleeps until something is due and then calls its step. Waking it costs a system
 * call only if that brings the next step forward.
 */

/* Brings the next step forward to at_us. Returns false if it is due by then already. */
static bool bring_forward(struct rqli_worker *self, int64_t at_us)
{
    int64_t due_us = atomic_load(&self->due_us);

    while (at_us < due_us) {
        if (atomic_compare_exchange_weak(&self->due_us, &due_us, at_us)) {
            return true;
        }
    }
    return false;
}

/* Reads the word before the time: a thread that rouses the worker in between changes the word, and
 * the sleep ends at once. */
static void sleep_until_due(struct rqli_worker *self)
{
    int32_t seen = atomic_load(&self->roused);
    int64_t due_us = atomic_load(&self->due_us);

    while (rqli_now_us() < due_us) {
        rqli_signal_wait(&self->roused, seen, due_us);
        seen = atomic_load(&self->roused);
        due_us = atomic_load(&self->due_us);
    }
}

/* due_us is 0 at first, so the first step comes at once. */
static void run(void *argument)
{
    struct rqli_worker *self = argument;
    int64_t again_us = 0;

    /* From here on rqli_worker_await() returns. The word stays 1. */
    atomic_store_explicit(&self->runs, 1, memory_order_release);
    rqli_signal_wake(&self->runs);
    (void)pthread_setname_np(pthread_self(), self->name);
    while (again_us != RQLI_WORKER_OVER) {
        sleep_until_due(self);
        /* Reset before the step, because a thread that rouses the worker from now on may come too
         * late for this one. */
        atomic_store(&self->due_us, RQLI_NEVER_US);
        again_us = self->step(self);
        (void)bring_forward(self, again_us);
    }
}

/* libuv gives its threads the stack that the limits allow, on every system. Callbacks need it,
 * because they run here. */
bool rqli_worker_start(struct rqli_worker *self)
{
    if (!self->is_started) {
        sigset_t before = rqli_mask_asynchronous();

        self->is_started = uv_thread_create(&self->thread, run, self) == 0;
        rqli_mask_restore(&before);
    }
    return self->is_started;
}

void rqli_worker_await(struct rqli_worker *self, int64_t until_us)
{
    while (!rqli_worker_runs(self) && rqli_now_us() < until_us) {
        rqli_signal_wait(&self->runs, 0, until_us);
    }
}

bool rqli_worker_rouse(struct rqli_worker *self, int64_t at_us)
{
    /* The time is set before the word, because a thread that the word wakes must find the new
     * time. */
    bool is_earlier = bring_forward(self, at_us);

    if (is_earlier) {
        (void)atomic_fetch_add(&self->roused, 1);
        rqli_signal_wake(&self->roused);
    }
    return is_earlier;
}

void rqli_worker_stop(struct rqli_worker *self)
{
    if (self->is_started) {
        /* The owner has noted by now that the worker is to end, so the next step says so. A step
         * that is running is finished first. */
        (void)rqli_worker_rouse(self, 0);
        (void)pthread_join(self->thread, NULL);
        self->is_started = false;
    }
}

bool rqli_worker_is_here(const struct rqli_worker *self)
{
    return self->is_started && pthread_equal(pthread_self(), self->thread);
}
