#ifndef RQLB_WATCH_H
#define RQLB_WATCH_H

/* Looks at the queue on the server, from outside the contending processes, and remembers every
 * request that it saw there: the judge compares them with the grants. */

#include "demo/stage.h"

enum { SEEN_MAX = HOLDS_MAX };

struct seen {
    int64_t score_us; /* the request's place in the queue: server time of its arrival */
    int worker;
};

struct watch {
    rql_client *client;
    int queue[WORKERS]; /* the workers that waited at the last look, first in line first */
    size_t n_queue;
    int64_t last_score_us[WORKERS];
    size_t n_seen;
    struct seen seen[SEEN_MAX];
};

/* After the workers were forked. NULL: the stage's fault says why. */
struct watch *watch_new(struct stage *stage, const char *url);
struct watch *watch_free(struct watch *self);

/* One look at the queue; a fault ends the demo. */
void watch_queue(struct watch *self, struct stage *stage);

#endif
