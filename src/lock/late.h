#ifndef RQLI_LATE_H
#define RQLI_LATE_H

/* Lazy releases: they were sent and reported as done, and their answers are read later. */

#include "lock/lock.h"

/* Returns false if there is no thread in the background, or too many releases are late: then the
 * release has to wait for its answer. Caller does not hold the mutex of the background. */
bool rqli_late_has_room(struct rqli_background *background);

/* Takes over the handle of a lazy release. The next release finds the answer, or else the thread in
 * the background waits for it and repeats the release if no answer comes. If the lock was not ours
 * any more, or no answer comes in the longest time that a release may take, this is reported as a
 * loss. */
void rqli_release_settle_later(rql_lock *lock, struct rqli_batch *release);

/* Returns whether a lazy release of this lock by this acquirer is not confirmed: the server may
 * still say that this acquirer holds the lock, and the release is about to end that. */
bool rqli_release_is_late(rql_client *client, const char *name, const char *acquirer);

#endif
