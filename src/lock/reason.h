#ifndef RQLI_REASON_H
#define RQLI_REASON_H

/* Why an acquisition did not succeed: the line of rql_error, and the refusal as data and in the
 * gem's words. */

#include "lock/acquisition.h"

#include <rql/inspect.h>

/* The first of several locks that something stood against, in the order that the server looks; one
 * past the last: none. */
size_t rqli_reason_obstacle(const struct rqli_acquire *acquire);

/* The acquisition was refused, and its caller wants details: keeps the line for
 * rqli_acquire_raise(). owner: the id of the acquirer that holds the lock, NULL if it is not known.
 * Asks the server for the name of that acquirer's client. */
void rqli_reason_keep(struct rqli_acquire *self, const char *owner);

/* The acquisition is over: raises why, unless op.status is RQL_OK. */
void rqli_acquire_raise(const struct rqli_acquire *self, rql_error *error);

/* It was refused: fills in the refusal of its options, if there is one. asks: the server, for
 * holder and queue, and for the line of rql_error; what cannot be had then is left out. */
void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks);

#endif
