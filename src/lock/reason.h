#ifndef RQLI_REASON_H
#define RQLI_REASON_H

/* The line of rql_error for an acquisition that did not succeed. */

#include "lock/acquisition.h"

/* The first of several locks that something stood against, in the order that the server looks; one
 * past the last: none. */
size_t rqli_reason_obstacle(const struct rqli_acquire *acquire);

/* The acquisition was refused, and its caller wants details: keeps the line for
 * rqli_acquire_raise(). owner: the id of the acquirer that holds the lock, NULL if it is not known.
 * Asks the server for the name of that acquirer's client. */
void rqli_reason_keep(struct rqli_acquire *self, const char *owner);

/* The acquisition is over: raises why, unless op.status is RQL_OK. */
void rqli_acquire_raise(const struct rqli_acquire *self, rql_error *error);

#endif
