#ifndef RQLI_REASON_H
#define RQLI_REASON_H

/* Why an acquisition did not succeed: the line of rql_error, and the refusal as data and in the
 * gem's words. */

#include "lock/acquisition.h"

#include <rql/inspect.h>

/* Returns the first of several locks that was not available, in the order in which the server looks
 * at them; one past the last: there is none. */
size_t rqli_reason_obstacle(const struct rqli_acquire *acquire);

/* Raises why an acquisition did not succeed, when it is over; nothing if op.status is RQL_OK. */
void rqli_acquire_raise(const struct rqli_acquire *self, rql_error *error);

/* Fills in the refusal of the options, if there is one, of an acquisition that was refused. asks:
 * the server, for holder and queue, and for the line of rql_error; facts that cannot be had are
 * left out. */
void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks);

#endif
