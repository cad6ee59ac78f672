#ifndef RQLI_HISTORY_OTHERS_H
#define RQLI_HISTORY_OTHERS_H

/* Holds that a client has ended for others: by force, with a secret, or because their host is dead.
 * The thread in the background asks the server for the names of those who held them, and adds them
 * to the history. */

#include "lock/history.h"

/* NULL: no memory. To be freed before the history, after the thread has ended. */
struct rqli_history_others *rqli_history_others_new(rql_client *client);
struct rqli_history_others *rqli_history_others_free(struct rqli_history_others *self);

void rqli_history_others_hurry(struct rqli_history_others *self);

/* Notes a hold of this acquirer; its user, host and client are not read. If too many wait for their
 * names, the hold is only added to the usage, as that of an unknown user and host. Does nothing for
 * a client without a history. Any thread; the caller does not hold the mutex of the background. */
void rqli_history_note_other(rql_client *client, struct rqli_slice acquirer,
                             const struct rqli_ended_hold *hold);

#endif
