#ifndef RQLI_PAUSE_H
#define RQLI_PAUSE_H

#include <stdint.h>

/*
 * The pauses between two attempts at the same, all of them, so that they can be compared. Each is
 * doubled from the first to the most.
 */
struct rqli_pause {
    int64_t first_us;
    int64_t most_us;
};

/* A try to acquire, a release or an extension had no answer, or a refusal that passes. Longer than
 * a round trip, and short beside the time that callers give; a failover takes many of them. */
#define RQLI_PAUSE_CALL ((struct rqli_pause){20000, 20000})

/* There was no memory for a call that gives back. The next may find some at once. */
#define RQLI_PAUSE_MEMORY ((struct rqli_pause){5000, 5000})

/* A withdrawal in the background was not confirmed. Nothing waits for it but the lock's next
 * owner. */
#define RQLI_PAUSE_WITHDRAWAL ((struct rqli_pause){100000, 100000})

/* A slot of a cluster moves: TRYAGAIN, ASK, or a node that is told first. Moving one takes as long
 * as its keys are many, and those of a lock are few. */
#define RQLI_PAUSE_REDIRECT ((struct rqli_pause){5000, 100000})

/* No node of a cluster has the slot. A replica takes over within seconds. */
#define RQLI_PAUSE_CLUSTER_DOWN ((struct rqli_pause){50000, 500000})

/* A connection could not be opened; the most is reconnect_backoff_max_ms. */
#define RQLI_PAUSE_CONNECT ((struct rqli_pause){10000, INT64_MAX})

/* One connection more could not be opened, which none depends on; or credentials could not be
 * had, and the login lasts for a while yet. */
#define RQLI_PAUSE_SPARE ((struct rqli_pause){1000000, 1000000})

/* A client could not say what it is called, which only people read. */
#define RQLI_PAUSE_NAME ((struct rqli_pause){10000000, 10000000})

/* No sentinel answers, or the master is not the one that was found. */
#define RQLI_PAUSE_SENTINEL ((struct rqli_pause){250000, 250000})

/* Two notices in a row that a lock of Ruby's had changed, and nothing had: the server has no room
 * for all that is watched, and waiters would take turns without a pause. */
#define RQLI_PAUSE_WATCH ((struct rqli_pause){100000, 5000000})

/* The n-th pause, from 0. */
static inline int64_t rqli_pause_us(struct rqli_pause self, unsigned n)
{
    int64_t pause_us = self.first_us;

    while (n-- > 0 && pause_us < self.most_us) {
        pause_us *= 2;
    }
    return pause_us < self.most_us ? pause_us : self.most_us;
}

#endif
