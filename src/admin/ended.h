#ifndef RQLI_ENDED_H
#define RQLI_ENDED_H

/* Notes the holds that a call ends for others. */

#include "lock/history.h"

#include <rql/inspect.h>

/* Reads who holds the lock, before it is ended. NULL: no history is kept, or it cannot be read. */
rql_holder_list *rqli_ended_read(rql_client *client, const struct rqli_keys *keys);

/* Adds to the history that their holds have ended: that of this acquirer, or all with NULL. No
 * holders, nothing is added. */
void rqli_ended_note(rql_client *client, const struct rqli_keys *keys,
                     const rql_holder_list *holders, const char *acquirer, enum rqli_ending ending);

#endif
