#ifndef CLI_LOCKS_H
#define CLI_LOCKS_H

/* What `who` and `queue` show, in the form of the session's sink. A fault is in the session's
 * error, and nothing is printed then. */

#include "cmd.h"

/* Shows who holds the locks of the pattern that is the name of the arguments; NULL: all. */
rql_status cli_show_who(struct cli_session *self);

/* Shows the queue of the lock of this name. RQL_NOT_FOUND: no request waits. */
rql_status cli_show_queue(struct cli_session *self, rql_key_status *status_of_key);

#endif
