#include "check.h"

#include "base/clock.h"
#include "base/worker.h"

/* A thread that sleeps until something is due: when it is called, and that it sleeps in between. */

enum { SOON_US = 20000, LONG_US = 30000000, N_ROUSED = 2000 };

struct counter {
    struct rqli_worker worker; /* first */
    _Atomic int64_t again_us;  /* what the step returns */
    _Atomic int32_t steps;
    _Atomic int32_t wanted; /* by the test */
    _Atomic int32_t seen;   /* of wanted, by the last step */
    _Atomic int64_t stepped_us;
};

static int64_t step(struct rqli_worker *worker)
{
    struct counter *self = (struct counter *)worker;
    int64_t again_us = atomic_load(&self->again_us); /* before the test goes on */

    atomic_store(&self->seen, atomic_load(&self->wanted));
    atomic_store(&self->stepped_us, rqli_now_us());
    (void)atomic_fetch_add(&self->steps, 1);
    rqli_signal_wake(&self->steps);
    return again_us;
}

static void await(_Atomic int32_t *value, int32_t at_least)
{
    int64_t until_us = rqli_now_us() + LONG_US;
    int32_t now = atomic_load(value);

    while (now < at_least && rqli_now_us() < until_us) {
        rqli_signal_wait(value, now, rqli_now_us() + SOON_US);
        now = atomic_load(value);
    }
    assert_true(now >= at_least);
}

static void start(struct counter *self, int64_t again_us)
{
    *self = (struct counter){.worker = {.name = "rql-test", .step = step}, .again_us = again_us};
    assert_true(rqli_worker_start(&self->worker));
    assert_true(rqli_worker_start(&self->worker));
    rqli_worker_await(&self->worker, rqli_now_us() + LONG_US);
    assert_true(rqli_worker_runs(&self->worker));
    assert_false(rqli_worker_is_here(&self->worker));
    await(&self->steps, 1);
}

static void stop(struct counter *self)
{
    atomic_store(&self->again_us, RQLI_WORKER_OVER);
    rqli_worker_stop(&self->worker);
    assert_false(self->worker.is_started);
}

TEST(it_steps_at_once_and_then_sleeps_and_can_be_started_again)
{
    struct counter counter;

    for (int i = 0; i < 2; i++) {
        start(&counter, RQLI_NEVER_US);
        stop(&counter);
        rqli_worker_stop(&counter.worker); /* twice is fine */
        assert_int_equal(atomic_load(&counter.steps), 2);
    }
}

TEST(it_steps_again_when_that_is_due)
{
    struct counter counter;
    int64_t due_us = rqli_now_us() + SOON_US;

    start(&counter, due_us);
    atomic_store(&counter.again_us, RQLI_NEVER_US);
    await(&counter.steps, 2);
    assert_true(atomic_load(&counter.stepped_us) >= due_us);
    stop(&counter);
}

TEST(only_what_is_earlier_rouses_it)
{
    struct counter counter;
    int64_t now_us = rqli_now_us();

    start(&counter, now_us + 2 * (int64_t)LONG_US);
    /* Until the thread has stored when it comes again, any time is earlier. */
    while (atomic_load(&counter.worker.due_us) == RQLI_NEVER_US) {
        rqli_signal_wait(&counter.steps, 1, rqli_now_us() + 1000);
    }
    assert_false(rqli_worker_rouse(&counter.worker, now_us + 3 * (int64_t)LONG_US));
    assert_true(rqli_worker_rouse(&counter.worker, now_us + LONG_US));
    assert_false(rqli_worker_rouse(&counter.worker, now_us + LONG_US));
    assert_int_equal(atomic_load(&counter.steps), 1);
    assert_true(rqli_worker_rouse(&counter.worker, 0));
    await(&counter.steps, 2);
    stop(&counter);
}

/* Also when it is just about to sleep, or in its step. */
TEST(no_call_is_missed)
{
    struct counter counter;

    start(&counter, RQLI_NEVER_US);
    for (int32_t i = 1; i <= N_ROUSED; i++) {
        int64_t until_us = rqli_now_us() + LONG_US;

        atomic_store(&counter.wanted, i);
        (void)rqli_worker_rouse(&counter.worker, 0);
        while (atomic_load(&counter.seen) < i && rqli_now_us() < until_us) {
            int32_t steps = atomic_load(&counter.steps);

            if (atomic_load(&counter.seen) < i) {
                rqli_signal_wait(&counter.steps, steps, until_us);
            }
        }
        assert_int_equal(atomic_load(&counter.seen), i);
    }
    stop(&counter);
}
