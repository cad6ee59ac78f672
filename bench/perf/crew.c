#include "perf/crew.h"

#include "common/clock.h"
#include "common/process.h"
#include "perf/labour.h"

#include <unistd.h>

enum { TIMEOUT_SECONDS = 30 };

static bool await_threads(struct crew *self, int n)
{
    int answered = await_posts(&self->done, n, TIMEOUT_SECONDS);

    if (answered < n) {
        fault_raise(&self->fault, "%d of %d threads did not answer in %d s", n - answered, n,
                    TIMEOUT_SECONDS);
    }
    return !fault_text(&self->fault);
}

static bool init_semaphores(struct crew *self)
{
    int failed = sem_init(&self->done, 1, 0);
    int i;

    for (i = 0; i < self->threads; i++) {
        failed |= sem_init(&self->seat[i].go, 1, 0);
    }
    if (failed) {
        fault_raise_errno(&self->fault, "no semaphores");
    }
    return !failed;
}

bool crew_start(struct crew *self)
{
    int i;

    if (!init_semaphores(self)) {
        return false;
    }
    for (i = 0; i < self->processes; i++) {
        self->child[i] = fork_tied();
        if (self->child[i] == 0) {
            _exit(labour(self, i));
        }
        if (self->child[i] < 0) {
            self->child[i] = 0;
            fault_raise_errno(&self->fault, "cannot start a process");
            return false;
        }
    }
    return await_threads(self, self->threads);
}

static void collect(const struct crew *self, struct outcome *out)
{
    int i;

    *out = (struct outcome){.counted_ns = self->stop_ns - self->count_from_ns};
    for (i = 0; i < self->order.threads; i++) {
        const struct seat *seat = &self->seat[i];

        out->done += seat->done;
        out->counted += seat->counted;
        out->waited += seat->waited;
        histogram_merge(&out->times, &seat->times);
    }
}

static void clear(struct seat *seat)
{
    seat->done = 0;
    seat->counted = 0;
    seat->waited = 0;
    histogram_clear(&seat->times);
}

bool crew_run(struct crew *self, const struct order *order, struct outcome *out)
{
    int64_t start_ns;
    int i;

    for (i = 0; i < order->threads; i++) {
        clear(&self->seat[i]);
    }
    self->order = *order;
    atomic_store(&self->released_ns, 0);
    start_ns = now_ns();
    self->count_from_ns = start_ns + order->slot_ns / 4;
    self->stop_ns = start_ns + order->slot_ns;
    for (i = 0; i < order->threads; i++) {
        (void)sem_post(&self->seat[i].go);
    }
    if (!await_threads(self, order->threads)) {
        return false;
    }
    collect(self, out);
    return true;
}

void crew_stop(struct crew *self)
{
    bool broken = fault_text(&self->fault) != NULL; /* then nobody may be listening */
    int64_t deadline_ns = now_ns() + (broken ? 0 : TIMEOUT_SECONDS * RQLB_SECOND);
    int i;

    self->order.shape = SHAPE_QUIT;
    for (i = 0; i < self->threads; i++) {
        (void)sem_post(&self->seat[i].go);
    }
    for (i = 0; i < self->processes; i++) {
        if (self->child[i] != 0) {
            (void)reap(self->child[i], deadline_ns);
        }
    }
}
