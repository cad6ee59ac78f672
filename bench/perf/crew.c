#include "perf/crew.h"

#include "common/clock.h"
#include "common/process.h"
#include "perf/labour.h"

#include <stdio.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 15 };

static bool await_threads(struct crew *self, int n)
{
    int answered = await_posts(&self->done, n, PATIENCE_SECONDS);

    if (answered < n) {
        fault_raise(&self->fault, "%d of %d threads did not answer in %d s", n - answered, n,
                    PATIENCE_SECONDS);
    }
    return !fault_text(&self->fault);
}

static bool start_children(struct crew *self, const char *socket_path)
{
    int i;

    for (i = 0; i < CREW_PROCESSES; i++) {
        self->child[i] = fork_tied();
        if (self->child[i] == 0) {
            _exit(labour(self, i, socket_path));
        }
        if (self->child[i] < 0) {
            self->child[i] = 0;
            fault_raise_errno(&self->fault, "cannot start a process");
            return false;
        }
    }
    return await_threads(self, SEATS);
}

static bool init_semaphores(struct crew *self)
{
    int i;

    if (sem_init(&self->done, 1, 0) != 0) {
        return false;
    }
    for (i = 0; i < SEATS; i++) {
        if (sem_init(&self->seat[i].go, 1, 0) != 0) {
            return false;
        }
    }
    return true;
}

struct crew *crew_start(const char *socket_path)
{
    struct crew *self = shared_memory(sizeof *self);

    if (!self || !init_semaphores(self)) {
        perror("rql-bench: no shared memory");
        return NULL;
    }
    if (!start_children(self, socket_path)) {
        (void)fprintf(stderr, "rql-bench: %s\n", fault_text(&self->fault));
        crew_stop(self);
        return NULL;
    }
    return self;
}

static void collect(const struct crew *self, int first, int threads, struct outcome *out)
{
    int64_t start_ns = out->elapsed_ns;
    int64_t end_ns = start_ns + 1;
    int i;

    for (i = first; i < first + threads; i++) {
        const struct seat *seat = &self->seat[i];

        out->operations += seat->operations;
        end_ns = seat->ended_ns > end_ns ? seat->ended_ns : end_ns;
        histogram_merge(&out->times, &seat->times);
    }
    out->elapsed_ns = end_ns - start_ns;
}

bool crew_run(struct crew *self, enum job job, int threads, int64_t slot_ms, struct outcome *out)
{
    int first = job == JOB_HANDOFF ? SOLO_SEATS : 0;
    int i;

    for (i = first; i < first + threads; i++) {
        self->seat[i].operations = 0;
        histogram_clear(&self->seat[i].times);
    }
    *out = (struct outcome){.elapsed_ns = now_ns()};
    self->job = job;
    self->stop_ns = out->elapsed_ns + slot_ms * RQLB_MS;
    for (i = first; i < first + threads; i++) {
        (void)sem_post(&self->seat[i].go);
    }
    if (!await_threads(self, threads)) {
        return false;
    }
    collect(self, first, threads, out);
    return true;
}

void crew_stop(struct crew *self)
{
    bool broken = fault_text(&self->fault) != NULL; /* then nobody may be listening */
    int64_t deadline_ns = now_ns() + (broken ? 0 : PATIENCE_SECONDS * RQLB_SECOND);
    int i;

    self->job = JOB_QUIT;
    for (i = 0; i < SEATS; i++) {
        (void)sem_post(&self->seat[i].go);
    }
    for (i = 0; i < CREW_PROCESSES; i++) {
        if (self->child[i] != 0) {
            (void)reap(self->child[i], deadline_ns);
        }
    }
}
