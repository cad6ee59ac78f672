#ifndef RQLB_QUEUES_H
#define RQLB_QUEUES_H

/* Locks with so many requests in their queues. */

#include "perf/protocol.h"
#include "perf/replay.h"

enum { QUEUES = 6, QUEUE_LONGEST = 100000 };

struct queues {
    struct replay *replay;
    int64_t holder[QUEUES]; /* number of the acquirer that holds the lock; the next ones wait */
    double waiting_bytes;   /* of the server's memory, for each request of the longest */
};

/* 1, 10 ... waiting requests. False: the fault says why. */
bool queues_fill(struct queues *self, struct replay *replay);

/* One acquisition after the other: a newcomer stands at the end, the holder gives the lock to the
 * first. Pipelined, so that the server is what is measured. */
bool queues_run(struct queues *self, const struct request *request, struct outcome *out);

#endif
