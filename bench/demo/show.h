#ifndef RQLB_SHOW_H
#define RQLB_SHOW_H

/* What the user sees. On a terminal the state is a block that is painted over, in colour unless
 * NO_COLOR is set; elsewhere it is one line at a time. Events stay above the block. */

#include "demo/judge.h"

struct show {
    bool terminal;
    bool colour;
    bool painted;      /* the block is on the screen, the cursor below it */
    bool told;         /* an event stands above the block */
    int64_t began_ns;  /* 0:00 of the demo */
    int64_t length_ns; /* how long workers contend */
};

/* The state at one moment. */
struct scene {
    int64_t now_ns;
    int holder;       /* or NOBODY, while the lock changes hands */
    bool holder_dead; /* killed: the lock waits for its ttl */
    int64_t token;
    const int *queue;
    size_t n_queue;
    size_t taken;
    int64_t per_second;
    int64_t p50_us; /* of the hand-offs of the last second */
    int64_t p99_us;
};

void show_init(struct show *self, double seconds);
void show_title(const struct show *self);
void show_scene(struct show *self, const struct scene *scene);
void show_kill(struct show *self, int worker, int64_t token);
void show_move(struct show *self, const struct killing *killing);
void show_node(struct show *self, const char *node);
void show_end(struct show *self);

/* True if no promise was broken. One that this run could not put to the test counts as kept. */
bool show_verdict(const struct show *self, const struct verdict *verdict,
                  const struct killing *killing);

#endif
