#ifndef RQLB_STAGE_H
#define RQLB_STAGE_H

/*
 * What all processes of the demo see: one page of shared memory.
 *
 * Each hold is written down with times of CLOCK_MONOTONIC, which is the same in all processes, so
 * that the judge can compare holds of different processes. The counter is read at the start of a
 * hold and written at its end, with nothing but the lock to protect it.
 */

#include "common/fault.h"

#include <rql/rql.h>
#include <semaphore.h>
#include <stdatomic.h>

enum {
    PROCESSES = 4,
    THREADS = 4,
    WORKERS = PROCESSES * THREADS,
    HOLDS_MAX = 100000,
    LOCK_TTL_MS = 1000,
    ACQUIRE_TIMEOUT_MS = 10000,
    NOBODY = -1,
};

#define LOCK_NAME "demo"

struct hold {
    _Atomic int64_t token; /* written last: 0 while the entry is being made */
    int64_t granted_us;    /* by the server's clock, as scores of the queue are */
    int64_t entered_ns;
    _Atomic int64_t left_ns; /* 0 while it lasts */
    int worker;
    bool handed_over;
};

struct stage {
    sem_t ready; /* posted once by each worker */
    atomic_bool stop;
    atomic_int doomed; /* the process that is to die in its next hold, or NOBODY */
    atomic_int caught; /* its worker that holds the lock and waits for the end, or NOBODY */
    _Atomic int64_t counter;
    atomic_size_t n_holds;
    struct fault fault;
    char acquirer[WORKERS][RQL_ID_SIZE];
    struct hold hold[HOLDS_MAX];
};

/* The number of complete entries at the start of hold[]. */
size_t stage_holds(const struct stage *self);

/* The latest of them, or NULL. */
const struct hold *stage_last(const struct stage *self);

/* Its server is replaced: the lock ends by its ttl, and another server has it soon. */
static inline bool is_passing_fault(rql_status status)
{
    return status == RQL_E_IO || status == RQL_E_UNKNOWN || status == RQL_E_UNAVAILABLE;
}

static inline int process_of(int worker)
{
    return worker / THREADS;
}

#endif
