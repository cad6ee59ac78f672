#ifndef RQLB_CREW_H
#define RQLB_CREW_H

/*
 * The threads that are measured, and the page of memory that they share with the parent.
 *
 * Each thread has a seat and waits there for its order. The first SOLO seats belong to one process:
 * pings, floor and uncontended pairs. The others belong to two processes in turn and hand one lock
 * round. All processes are forked before any client exists.
 */

#include "common/fault.h"
#include "common/histogram.h"

#include <semaphore.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SOLO_SEATS = 32,
    HAND_PROCESSES = 2,
    HAND_SEATS = 32,
    SEATS = SOLO_SEATS + HAND_SEATS,
    CREW_PROCESSES = 1 + HAND_PROCESSES,
};

enum job { JOB_PING, JOB_FLOOR, JOB_PAIR, JOB_HANDOFF, JOB_QUIT };

struct seat {
    sem_t go;
    int64_t operations;
    int64_t ended_ns;
    struct histogram times;
};

struct crew {
    sem_t done; /* posted by each thread when it is ready, and after each order */
    enum job job;
    int64_t stop_ns;
    _Atomic int64_t released_ns; /* when the last holder called release */
    struct fault fault;
    pid_t child[CREW_PROCESSES]; /* the parent's business */
    struct seat seat[SEATS];
};

/* One order carried out: all its threads together. */
struct outcome {
    int64_t operations;
    int64_t elapsed_ns;
    struct histogram times;
};

/* NULL: the reason was written to stderr. */
struct crew *crew_start(const char *socket_path);

/* Lets `threads` threads do `job` for slot_ms. False: the fault says why. */
bool crew_run(struct crew *self, enum job job, int threads, int64_t slot_ms, struct outcome *out);

/* Ends all processes. */
void crew_stop(struct crew *self);

#endif
