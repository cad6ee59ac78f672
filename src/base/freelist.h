#ifndef RQLI_FREELIST_H
#define RQLI_FREELIST_H

/* Memory that was given back and can be reused: a few blocks of one kind, without a mutex, because
 * every acquisition takes and keeps one. */

#include <stdbool.h>

enum { RQLI_FREELIST = 32 };

struct rqli_freelist {
    void *_Atomic place[RQLI_FREELIST];
};

void *rqli_freelist_take(struct rqli_freelist *self); /* NULL: there is none */

/* Returns false if all places are taken; the block then stays the caller's. */
bool rqli_freelist_keep(struct rqli_freelist *self, void *block);

/* Frees the blocks that are kept, which must come from malloc(). */
void rqli_freelist_fini(struct rqli_freelist *self);

#endif
