#ifndef RQLI_PAUSE_H
#define RQLI_PAUSE_H

#include <stdint.h>

/*
 * All pauses between two attempts at the same thing, in one place, so that they can be compared.
 * Each pause is doubled from the first to the longest.
 */
struct rqli_pause {
    int64_t first_us;
    int64_t most_us;
};

/* A try to acquire, or a release, got no answer, or a refusal that is temporary. The
 * pause is longer than a round trip, and short compared with the time that callers allow; a
 * failover takes many of them. */
#define RQLI_PAUSE_CALL ((struct rqli_pause){20000, 20000})

/* There was no memory for a call that gives a lock back. The next attempt may find some at once. */
#define RQLI_PAUSE_MEMORY ((struct rqli_pause){5000, 5000})

/* A withdrawal in the background was not confirmed. Only the lock's next owner waits for it. */
#define RQLI_PAUSE_WITHDRAWAL ((struct rqli_pause){100000, 100000})

/* A slot of a cluster is being moved: TRYAGAIN, ASK, or a node that must be notified first. Moving
 * a slot takes longer the more keys it has, and a lock has few. */
#define RQLI_PAUSE_REDIRECT ((struct rqli_pause){5000, 100000})

/* No node of a cluster serves the slot. A replica is promoted within seconds. */
#define RQLI_PAUSE_CLUSTER_DOWN ((struct rqli_pause){50000, 500000})

/* A connection could not be opened; the longest pause is reconnect_backoff_max_ms. */
#define RQLI_PAUSE_CONNECT ((struct rqli_pause){10000, INT64_MAX})

/* An additional connection could not be opened, which no caller depends on; or new credentials
 * could not be obtained, and the login is valid for a while yet. */
#define RQLI_PAUSE_SPARE ((struct rqli_pause){1000000, 1000000})

/* A client could not report its name, which only people read. */
#define RQLI_PAUSE_NAME ((struct rqli_pause){10000000, 10000000})

/* No sentinel answers, or the sentinels report that the master is down. */
#define RQLI_PAUSE_SENTINEL ((struct rqli_pause){250000, 250000})

/* Two notices in a row said that a lock of Ruby's had changed, and it had not: the server has no
 * room for all the keys that are tracked, and without a pause waiters would evict each other's keys
 * in turns. */
#define RQLI_PAUSE_WATCH ((struct rqli_pause){100000, 5000000})

/* Returns the n-th pause, counted from 0. */
static inline int64_t rqli_pause_us(struct rqli_pause self, unsigned n)
{
    int64_t pause_us = self.first_us;

    while (n-- > 0 && pause_us < self.most_us) {
        pause_us *= 2;
    }
    return pause_us < self.most_us ? pause_us : self.most_us;
}

#endif
