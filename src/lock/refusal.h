#ifndef RQLI_REFUSAL_H
#define RQLI_REFUSAL_H

/* Describes a refused acquisition as data and in the gem's words. */

#include "lock/acquisition.h"

#include <rql/inspect.h>

/* It was refused: fills in the refusal of its options, if there is one. asks: the server, for
 * holder and queue, and for the line of rql_error; what cannot be had then is left out. */
void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks);

#endif
