#ifndef CLI_OUTER_H
#define CLI_OUTER_H

/* The command of `rql run` or `rql series` that this program runs in, if there is one. */

#include "cmd.h"

/* Returns the name of a lock that the arguments name and that the outer rql holds for this program,
 * or NULL if there is none. A wait for such a lock would never end. The environment alone proves
 * nothing, because a daemon inherits it and may outlive the lock: the server must confirm that the
 * same grant is still in force. If the server does not answer, the result is NULL. */
const char *cli_find_outer_lock(const struct cli_session *session);

/* Reports a lock that the outer rql holds, and returns the exit code. The outer rql releases it
 * when its command ends, and that command would wait for this one. */
int cli_refuse_outer_lock(const struct cli_args *args, const char *name);

/* Returns the token of the lock with this name that this program runs under, as far as the
 * environment says; 0: it runs under no such lock. */
int64_t cli_outer_token(const char *name);

/* Returns the locks that this program runs under, for RQL_OUTER of its command: for each a line
 * "TOKEN NAME", which ends in a line feed, malloc'd; NULL: none. */
char *cli_outer_locks(void);

/* The pair that names the grants under which a holder or a waiter runs: their tokens, separated by
 * a blank. So a circle of runs inside of each other can be seen. */
#define CLI_UNDER "under"

/* Adds that pair to the metadata of the arguments, if this program runs under a lock and there is
 * room for it. */
void cli_add_outer_tokens(struct cli_args *args);

/* Returns whether this program runs under any lock, as far as the environment says. */
bool cli_is_nested(void);

#endif
