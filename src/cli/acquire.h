#ifndef CLI_ACQUIRE_H
#define CLI_ACQUIRE_H

#include "cmd.h"
#include "held.h"

/* Takes the lock or the series that the arguments name, as the flags say. If that is held, it is in
 * *held; the signals that end a wait stay blocked, and held->mask is the mask before. Else answers
 * the exit code, after a line on stderr; or, without a line, minus the signal that ended the wait
 * and is to end the program. */
int cli_acquire(const struct cli_args *args, rql_client *client, struct cli_held *held);

#endif
