#ifndef WAYS_H
#define WAYS_H

/* An acquisition in each of its ways: of one lock and of several, by a thread and on a loop. */

#include "fixture.h"

#include <semaphore.h>

struct way {
    const char *name;
    bool is_series;
    bool is_on_loop;
    rql_series_mode mode;
};

static const struct way ways[] = {
    {"a lock, by a thread", .is_series = false},
    {"a series, by a thread", .is_series = true},
    {"a series as the gem's, by a thread", .is_series = true, .mode = RQL_SERIES_GEM},
    {"a lock, on a loop", .is_on_loop = true},
    {"a series, on a loop", .is_series = true, .is_on_loop = true},
    {"a series as the gem's, on a loop", true, true, RQL_SERIES_GEM},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

/* What it came to. What was acquired is given back. */
struct outcome {
    rql_status status;
    rql_error error;
    rql_lock *lock;
    rql_series *series;
    sem_t told;
};

static inline void note_fault(struct outcome *self, rql_status status, const rql_error *error)
{
    self->status = status;
    if (error) {
        self->error = *error;
    }
    (void)sem_post(&self->told);
}

static inline void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    ((struct outcome *)data)->lock = lock;
    note_fault(data, status, error);
}

static inline void on_series(rql_status status, rql_series *series, const rql_error *error,
                             void *data)
{
    ((struct outcome *)data)->series = series;
    note_fault(data, status, error);
}

static inline void acquire_on_loop(rql_client *of, const struct way *way,
                                   const rql_lock_options *lock, const rql_series_options *series,
                                   struct outcome *out)
{
    rql_acquiring one = {on_lock, out, NULL};
    rql_series_acquiring several = {on_series, out, NULL};
    rql_loop *loop = NULL;

    assert_int_equal(sem_init(&out->told, 0, 0), 0);
    CHECK_OK(rql_loop_open(&loop, of, NULL, NULL));
    CHECK_OK(way->is_series ? rql_series_acquire_async(loop, series, &several, NULL)
                            : rql_acquire_async(loop, "x", lock, &one, NULL));
    while (sem_wait(&out->told) != 0) {
    }
    CHECK_OK(rql_loop_close(loop, NULL, NULL, NULL));
    (void)sem_destroy(&out->told);
}

/* Of "x", or of "x" and "y". */
static inline struct outcome acquire_in(const struct way *way, rql_client *of,
                                        const rql_lock_options *lock)
{
    static const char *const names[] = {"x", "y"};
    struct outcome out = {.status = RQL_OK};
    rql_series_options series;

    print_message("# %s\n", way->name);
    rql_series_options_init(&series);
    series.names = names;
    series.n_names = 2;
    series.mode = way->mode;
    series.lock = lock;
    if (way->is_on_loop) {
        acquire_on_loop(of, way, lock, &series, &out);
    } else if (way->is_series) {
        out.status = rql_series_acquire(of, &series, &out.series, &out.error);
    } else {
        out.status = rql_lock_acquire(of, "x", lock, &out.lock, &out.error);
    }
    (void)rql_lock_release(out.lock, NULL);
    (void)rql_series_release(out.series, NULL, NULL);
    return out;
}

#endif
