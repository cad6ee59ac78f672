#ifndef RQLI_REFUSAL_H
#define RQLI_REFUSAL_H

/* Describes a refused acquisition as data and in the gem's words. */

#include "lock/acquisition.h"

#include <rql/inspect.h>

/* The first of several locks that something stood against, in the order that the server looks; one
 * past the last: none. */
size_t rqli_refusal_obstacle(const struct rqli_acquire *acquire);

/* It was refused: fills in the refusal of its options. asks: the server, for holder and queue; what
 * cannot be had then is left out. */
void rqli_refusal_fill(const struct rqli_acquire *acquire, bool asks);

#endif
