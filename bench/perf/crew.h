#ifndef RQLB_CREW_H
#define RQLB_CREW_H

/*
 * The threads that are measured, and the page of memory that they share with the parent.
 *
 * Each thread has a seat and waits there for its order. Seats belong to the processes in turn, so
 * that any number of first seats is spread evenly. All processes are forked before any connection
 * exists.
 */

#include "common/fault.h"
#include "common/histogram.h"
#include "perf/contender.h"
#include "perf/protocol.h"

#include <semaphore.h>
#include <stdint.h>
#include <sys/types.h>

enum { SEATS_MAX = 256, PROCESSES_MAX = 32 };

enum shape {
    SHAPE_PAIRS, /* each thread takes a lock of its own and gives it back, as fast as it can */
    SHAPE_TURNS, /* all are after one lock; the holder keeps it for the pause */
    SHAPE_PACED, /* as pairs, with the pause before each */
    SHAPE_MANY,  /* as pairs, of any of many locks, which others draw as well */
    SHAPE_QUIT,
};

struct order {
    enum shape shape;
    int threads;
    int64_t slot_ns;
    int64_t pause_ns;
};

struct seat {
    sem_t go;
    int64_t done;           /* operations, all of them */
    int64_t counted;        /* of them: in the time that counts */
    int64_t waited;         /* of these, turns: asked for before the holder before gave it back */
    struct histogram times; /* turns: from the holder's release call to the next one's return */
};

struct crew {
    const struct contender *contender;
    const char *address;
    int processes;
    int threads; /* seats in use, a multiple of processes */
    sem_t done;  /* posted by each thread when it is ready, and after each order */
    struct order order;
    int64_t count_from_ns; /* the first quarter of a slot warms up */
    int64_t stop_ns;
    _Atomic int64_t released_ns; /* when the last holder called release */
    struct fault fault;
    pid_t child[PROCESSES_MAX]; /* the parent's business */
    struct seat seat[SEATS_MAX];
};

/* Fills *self, which is zeroed shared memory with the first four fields set. False: the fault says
 * why. crew_stop() in either case. */
bool crew_start(struct crew *self);

/* False: the fault says why. */
bool crew_run(struct crew *self, const struct order *order, struct outcome *out);

/* Ends all processes. */
void crew_stop(struct crew *self);

#endif
