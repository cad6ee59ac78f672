#ifndef RQLB_TALLY_H
#define RQLB_TALLY_H

/* Counts the commands that clients sent to the server. */

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* How many since the server started; -1 if it does not say. plain_lock: SET is counted too, which
 * is right only where nobody but the plain lock uses it. */
int64_t tally_commands(redisContext *context, bool plain_lock);

#endif
