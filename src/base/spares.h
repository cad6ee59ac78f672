#ifndef RQLI_SPARES_H
#define RQLI_SPARES_H

/* Memory that was given back and may be used again: a few blocks of one kind, without a mutex,
 * because every acquisition comes by here. */

#include <stdbool.h>

enum { RQLI_SPARES = 32 };

struct rqli_spares {
    void *_Atomic place[RQLI_SPARES];
};

void *rqli_spares_take(struct rqli_spares *self); /* NULL: there is none */

/* False: all places are taken; the block stays the caller's. */
bool rqli_spares_keep(struct rqli_spares *self, void *block);

/* Frees what is kept: blocks of malloc(). */
void rqli_spares_fini(struct rqli_spares *self);

#endif
