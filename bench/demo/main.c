/* The demo: several processes with several threads contend for one lock while this process
 * watches, kills a holder and judges. See demo.sh. */

#include "common/clock.h"
#include "common/process.h"
#include "demo/show.h"
#include "demo/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TICK_MS = 4,
    PAINT_MS = 100,
    LINE_MS = 500,
    READY_SECONDS = 20, /* bounds for a machine that is busy with other things */
    DRAIN_SECONDS = 20,
    SECONDS_DEFAULT = 6,
    SECONDS_LEAST = 3, /* less leaves no time to see the lock move on */
    SECONDS_MOST = 60,
    KILL_AT_PERCENT = 40,
};

struct demo {
    struct stage *stage;
    struct watch *watch;
    struct show show;
    struct killing killing;
    pid_t child[PROCESSES]; /* 0: ended and reaped */
};

static bool start_processes(struct demo *self, const char *url)
{
    int process;

    for (process = 0; process < PROCESSES; process++) {
        self->child[process] = fork_tied();
        if (self->child[process] == 0) {
            _exit(run_process(self->stage, process, url));
        }
        if (self->child[process] < 0) {
            self->child[process] = 0;
            fault_raise_errno(&self->stage->fault, "cannot start a process");
            return false;
        }
    }
    return true;
}

static bool await_workers(struct demo *self)
{
    int ready = await_posts(&self->stage->ready, WORKERS, READY_SECONDS);

    if (ready < WORKERS) {
        fault_raise(&self->stage->fault, "only %d of %d threads started within %d s", ready,
                    WORKERS, READY_SECONDS);
    }
    return !fault_text(&self->stage->fault);
}

/* Of the last second, or of the time since the start if that is less. */
static void fill_rates(const struct stage *stage, int64_t began_ns, struct scene *scene)
{
    struct histogram hand_offs = {0};
    int64_t span_ns =
        scene->now_ns - began_ns < RQLB_SECOND ? scene->now_ns - began_ns : RQLB_SECOND;
    size_t from = scene->taken;

    while (from > 0 && stage->hold[from - 1].entered_ns > scene->now_ns - span_ns) {
        from--;
    }
    count_hand_offs(stage, from, scene->taken, &hand_offs);
    scene->per_second = (int64_t)(scene->taken - from) * RQLB_SECOND / span_ns;
    scene->p50_us = histogram_quantile(&hand_offs, 0.5) / RQLB_US;
    scene->p99_us = histogram_quantile(&hand_offs, 0.99) / RQLB_US;
}

static void draw(struct demo *self)
{
    const struct stage *stage = self->stage;
    struct scene scene = {
        .now_ns = now_ns(),
        .holder = NOBODY,
        .queue = self->watch->queue,
        .n_queue = self->watch->n_queue,
        .taken = stage_holds(stage),
    };
    const struct hold *last = stage_last(stage);

    if (last) {
        scene.token = atomic_load(&last->token);
        scene.holder = atomic_load(&last->left_ns) == 0 ? last->worker : NOBODY;
        scene.holder_dead = scene.holder != NOBODY && scene.holder == self->killing.worker;
    }
    fill_rates(stage, self->show.began_ns, &scene);
    show_scene(&self->show, &scene);
}

/* A holder is caught in its hold: end its process as a crash would. */
static void kill_holder(struct demo *self)
{
    int worker = atomic_load(&self->stage->caught);
    int process = process_of(worker);
    const struct hold *last = stage_last(self->stage);

    (void)kill(self->child[process], SIGKILL);
    (void)reap(self->child[process], INT64_MAX);
    self->child[process] = 0;
    self->killing.killed_ns = now_ns();
    self->killing.worker = worker;
    self->killing.process = process;
    show_kill(&self->show, worker, last ? atomic_load(&last->token) : 0);
}

/* False: the lock has not moved on since the kill. */
static bool find_next_holder(struct demo *self)
{
    const struct hold *next = next_hold(self->stage, self->killing.killed_ns);

    if (next) {
        self->killing.moved_on_ns = next->entered_ns;
        self->killing.next_worker = next->worker;
    }
    return next != NULL;
}

static void follow_killing(struct demo *self)
{
    if (self->killing.process == NOBODY) {
        if (atomic_load(&self->stage->caught) != NOBODY) {
            kill_holder(self);
        }
        return;
    }
    if (self->killing.moved_on_ns == 0 && find_next_holder(self)) {
        show_move(&self->show, &self->killing);
    }
}

/* The process of whoever holds the lock now is the one to die in its next hold. */
static void choose_victim(struct demo *self)
{
    const struct hold *last = stage_last(self->stage);

    if (last && atomic_load(&self->stage->doomed) == NOBODY) {
        atomic_store(&self->stage->doomed, process_of(last->worker));
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void watch_workers(struct demo *self)
{
    int64_t step_ns = (self->show.terminal ? PAINT_MS : LINE_MS) * RQLB_MS;
    int64_t end_ns = self->show.began_ns + self->show.length_ns;
    int64_t kill_ns = self->show.began_ns + self->show.length_ns * KILL_AT_PERCENT / 100;
    int64_t draw_ns = self->show.began_ns + step_ns;
    int64_t tick_ns = self->show.began_ns;
    size_t n_moves;

    while (tick_ns < end_ns && !fault_text(&self->stage->fault)) {
        tick_ns = larger(tick_ns + TICK_MS * RQLB_MS, now_ns()); /* a look may have taken long */
        sleep_until_ns(tick_ns);
        n_moves = self->watch->n_moves;
        watch_queue(self->watch, self->stage);
        if (self->watch->n_moves > n_moves) {
            show_node(&self->show, self->watch->node);
        }
        follow_killing(self);
        if (tick_ns >= kill_ns) {
            choose_victim(self);
        }
        if (tick_ns >= draw_ns) {
            draw(self);
            draw_ns = larger(draw_ns, tick_ns - step_ns) + step_ns;
        }
    }
}

static void end_processes(struct demo *self)
{
    int64_t deadline_ns = now_ns() + DRAIN_SECONDS * RQLB_SECOND;
    int process;

    atomic_store(&self->stage->stop, true);
    for (process = 0; process < PROCESSES; process++) {
        if (self->child[process] != 0 && !reap(self->child[process], deadline_ns)) {
            fault_raise(&self->stage->fault, "process %c did not end by itself", 'A' + process);
        }
        self->child[process] = 0;
    }
}

/* The lock may have moved on only after the last look. */
static bool give_verdict(struct demo *self)
{
    struct verdict *verdict = calloc(1, sizeof *verdict);
    bool good = false;

    if (self->killing.process != NOBODY && self->killing.moved_on_ns == 0) {
        (void)find_next_holder(self);
    }
    if (verdict && judge(self->stage, self->watch, &self->killing, verdict)) {
        good = show_verdict(&self->show, verdict, &self->killing);
    } else {
        fault_raise(&self->stage->fault, "out of memory");
    }
    free(verdict);
    return good;
}

static bool run(struct demo *self, const char *url)
{
    bool good = false;

    if (start_processes(self, url) && await_workers(self)) {
        self->watch = watch_new(self->stage, url);
    }
    if (self->watch) {
        show_title(&self->show);
        self->show.began_ns = now_ns();
        watch_workers(self);
        show_end(&self->show);
    }
    end_processes(self);
    if (self->watch && !fault_text(&self->stage->fault)) {
        /* Another server may have the lock since the last look at the queue. */
        watch_end(self->watch, self->stage);
    }
    if (self->watch && !fault_text(&self->stage->fault)) {
        good = give_verdict(self);
    }
    self->watch = watch_free(self->watch);
    return good;
}

static struct stage *make_stage(void)
{
    struct stage *stage = shared_memory(sizeof *stage);

    if (stage && sem_init(&stage->ready, 1, 0) != 0) {
        return NULL;
    }
    if (stage) {
        atomic_store(&stage->doomed, NOBODY);
        atomic_store(&stage->caught, NOBODY);
    }
    return stage;
}

int main(int argc, char **argv)
{
    struct demo demo = {.killing = {.process = NOBODY, .worker = NOBODY, .next_worker = NOBODY}};
    double seconds = argc > 2 ? strtod(argv[2], NULL) : SECONDS_DEFAULT;
    bool good;

    if (argc < 2 || argc > 3 || !(seconds >= SECONDS_LEAST && seconds <= SECONDS_MOST)) {
        (void)fprintf(stderr, "usage: rql-demo URL [SECONDS]   (%d to %d, default %d)\n",
                      SECONDS_LEAST, SECONDS_MOST, SECONDS_DEFAULT);
        return 2;
    }
    demo.stage = make_stage();
    if (!demo.stage) {
        perror("rql-demo: no shared memory");
        return 3;
    }
    show_init(&demo.show, seconds);
    good = run(&demo, argv[1]);
    if (fault_text(&demo.stage->fault)) {
        (void)fprintf(stderr, "rql-demo: %s\n", fault_text(&demo.stage->fault));
        return 3;
    }
    return good ? 0 : 1;
}
