#ifndef RQLI_ACQUIRE_H
#define RQLI_ACQUIRE_H

/* The operation that acquires one lock, or up to 64 at once. */

#include "lock/acquisition.h"

/* Prepares an acquisition. Caller has set locks, count, several (with subject and order, and fate
 * zero), options, result and begun_us, which outlive it; on a loop also driver. All other
 * members are zero. */
void rqli_acquire_init(struct rqli_acquire *self);

/* Drives the acquisition to its end on the caller's thread. Returns any status of
 * rql_lock_acquire(): on RQL_OK the leases look after the locks, otherwise nothing is held. Reports
 * the result and fills in options->refusal. */
rql_status rqli_acquire_run(struct rqli_acquire *self, rql_error *error);

/* The steps of rqli_acquire_run() for a loop, where each may take its time. op.status holds the
 * result so far. */

/* Registers the request as a waiter. Returns false if it is over, and must not be driven. */
bool rqli_acquire_begin(struct rqli_acquire *self);
/* Ends an acquisition, begun or not, that cannot be driven for lack of memory. */
void rqli_acquire_abandon(struct rqli_acquire *self);
/* Hands the granted locks to the leases, which look after them. Returns false if they cannot: the
 * locks are to be given back. */
bool rqli_acquire_keep(struct rqli_acquire *self);
/* Reports the result to the listeners. This is the last step. */
void rqli_acquire_report(const struct rqli_acquire *self);

#endif
