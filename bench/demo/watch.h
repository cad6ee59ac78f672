#ifndef RQLB_WATCH_H
#define RQLB_WATCH_H

/* Looks at the queue on the server, from outside the contending processes, and remembers every
 * request that it saw there: the judge compares them with the grants. */

#include "demo/stage.h"

enum { SEEN_MAX = HOLDS_MAX, MOVES_MAX = 256 };

struct seen {
    int64_t score_us; /* the request's place in the queue: server time of its arrival */
    int worker;
};

/* Another server has the lock. By the clock of the servers, which is this machine's. */
struct move {
    int64_t since_us; /* the last look that saw it where it was before */
    int64_t until_us; /* the first one that saw it elsewhere */
};

struct watch {
    rql_client *client;
    int queue[WORKERS]; /* the workers that waited at the last look, first in line first */
    size_t n_queue;
    char node[RQL_SERVER_NODE_SIZE]; /* that had it at the last look; "" before the first one */
    int64_t looked_us;               /* when that was asked for */
    size_t n_moves;
    struct move moves[MOVES_MAX];
    int64_t last_score_us[WORKERS];
    size_t n_seen;
    struct seen seen[SEEN_MAX];
};

/* After the workers were forked. NULL: the stage's fault says why. */
struct watch *watch_new(struct stage *stage, const char *url);
struct watch *watch_free(struct watch *self);

/* One look at the queue; a fault ends the demo. Nothing is seen while its server is replaced. */
void watch_queue(struct watch *self, struct stage *stage);

/* The last look, when nothing is in the queue any more: sees which server has the lock now. */
void watch_end(struct watch *self, struct stage *stage);

#endif
