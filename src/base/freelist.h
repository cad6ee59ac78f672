#ifndef RQLI_FREELIST_H
#define RQLI_FREELIST_H

/* Memory that was given back and may be used again: a few blocks of one kind, without a mutex,
 * because every acquisition comes by here. */

#include <stdbool.h>

enum { RQLI_FREELIST = 32 };

struct rqli_freelist {
    void *_Atomic place[RQLI_FREELIST];
};

void *rqli_freelist_take(struct rqli_freelist *self); /* NULL: there is none */

/* False: all places are taken; the block stays the caller's. */
bool rqli_freelist_keep(struct rqli_freelist *self, void *block);

/* Frees what is kept: blocks of malloc(). */
void rqli_freelist_fini(struct rqli_freelist *self);

#endif
