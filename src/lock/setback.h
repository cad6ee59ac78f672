#ifndef RQLI_SETBACK_H
#define RQLI_SETBACK_H

/* The steps of an acquisition after a try without a grant: note why, and try again or give up. */

#include "lock/acquisition.h"

/* Copies the nonces in the canonical order, in which the script takes them and the keys: so two
 * series over the same locks never wait for each other in a circle. */
void rqli_acquire_copy_nonces(struct rqli_acquire *self);

/* Gives back what was granted, and continues under new nonces, with the same place in the queue. */
void rqli_acquire_begin_anew(struct rqli_acquire *self);
/* Handles the answer that the acquirer owns a lock already. */
void rqli_acquire_on_conflict(struct rqli_acquire *self);

/* Handles a try that had no answer. was_sent: it may have reached the server. */
void rqli_acquire_on_failed(struct rqli_acquire *self, const rql_error *fault, bool was_sent);
/* Keeps the fault for rqli_acquire_raise(). */
void rqli_acquire_note_fault(struct rqli_acquire *self, const rql_error *fault);

#endif
