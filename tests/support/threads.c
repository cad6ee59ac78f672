#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct worker {
    struct threads *owner;
    size_t index;
    pthread_t thread;
};

struct threads {
    pthread_barrier_t start;
    threads_fn body;
    void *data;
    size_t count;
    struct worker *workers;
};

static void must(int works, const char *what)
{
    if (!works) {
        (void)fprintf(stderr, "threads: %s failed\n", what);
        abort();
    }
}

static void *run(void *arg)
{
    const struct worker *self = arg;

    (void)pthread_barrier_wait(&self->owner->start);
    self->owner->body(self->index, self->owner->data);
    return NULL;
}

struct threads *threads_start(size_t count, threads_fn body, void *data)
{
    struct threads *threads = calloc(1, sizeof *threads);
    size_t i;

    must(threads != NULL, "calloc");
    threads->workers = calloc(count, sizeof *threads->workers);
    must(threads->workers != NULL, "calloc");
    threads->body = body;
    threads->data = data;
    threads->count = count;
    must(pthread_barrier_init(&threads->start, NULL, (unsigned)count) == 0, "pthread_barrier_init");
    for (i = 0; i < count; i++) {
        struct worker *worker = &threads->workers[i];

        worker->owner = threads;
        worker->index = i;
        must(pthread_create(&worker->thread, NULL, run, worker) == 0, "pthread_create");
    }
    return threads;
}

void threads_join(struct threads *threads)
{
    size_t i;

    for (i = 0; i < threads->count; i++) {
        (void)pthread_join(threads->workers[i].thread, NULL);
    }
    (void)pthread_barrier_destroy(&threads->start);
    free(threads->workers);
    free(threads);
}

void threads_run(size_t count, threads_fn body, void *data)
{
    threads_join(threads_start(count, body, data));
}
