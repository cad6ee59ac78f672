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

#include <rql/admin.h>
#include <semaphore.h>
#include <stdatomic.h>

enum {
    PROCESSES = 4,
    THREADS = 4,
    WORKERS = PROCESSES * THREADS,
    HOLDS_MAX = 100000,
    STANDSTILL_MS = 200, /* what the library's promises allow a process to be late by */
    STANDSTILLS_MAX = 1000,
    LOCK_TTL_MS = 1000,
    ACQUIRE_TIMEOUT_MS = 10000,
    NOBODY = -1,
};

#define LOCK_NAME "demo"

struct hold {
    _Atomic int64_t token; /* written last: 0 while the entry is being made */
    int64_t entered_ns;
    int64_t entered_us; /* the same moment by this machine's clock, which is the server's too */
    int64_t until_ns;   /* the end of its lease, as the holder saw it on entry; 0: over */
    _Atomic int64_t left_ns; /* 0 while it lasts */
    int worker;
    bool handed_over;
};

/* A process did not run between these moments, by the clock of entered_us. */
struct standstill {
    int64_t since_us;
    int64_t until_us;
};

/* What a process notes of itself. Written by one thread of it; `n` last. */
struct pulse {
    atomic_bool is_over; /* set when its workers have ended */
    atomic_size_t n;
    struct standstill standstill[STANDSTILLS_MAX];
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
    struct pulse pulse[PROCESSES];
    struct hold hold[HOLDS_MAX];
};

/* The number of complete entries at the start of hold[]. */
size_t stage_holds(const struct stage *self);

/* The latest of them, or NULL. */
const struct hold *stage_last(const struct stage *self);

/* The holder did not leave before its lease was over, and so did not run for most of the ttl.
 * Somebody else may have had the lock meanwhile; no promise speaks of such a hold. */
bool has_outlived(const struct hold *hold);

/* Notes a pause of a process, if it is a standstill. */
void note_pause(struct pulse *self, int64_t since_us, int64_t until_us);

/* Whether a process stood still at any time between these moments. */
bool stood_still(const struct pulse *self, int64_t since_us, int64_t until_us);

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
