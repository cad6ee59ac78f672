#ifndef CLI_LOCKS_H
#define CLI_LOCKS_H

/* What `who` and `queue` show, in the form of the session's sink. A fault is in the session's
 * error, and nothing is printed then. */

#include "cmd.h"
#include "names.h"

enum { CLI_SHARE_SIZE = 48 };

/* Returns the text for a status: "alive", "released", "wrong type", "malformed". */
const char *cli_status_text(rql_key_status status);

/* Returns how many hold the lock, in `out` or constant: "1" alone, "3 share", "5/8" for units of a
 * limit, or "kept". */
const char *cli_holders_text(const rql_lock_info *info, char out[CLI_SHARE_SIZE]);

/* Prints the fields of a lock, its name with this heading. Fields that it does not have are left
 * out of a list of fields. */
void cli_print_lock(struct out *out, const struct cli_names *names, const char *heading,
                    const rql_lock_info *info, bool with_node);

/* Prints the first requests of a queue: rows of a table, or items of a list. */
void cli_print_requests(struct out *out, const struct cli_names *names, const rql_queue_info *info,
                        size_t most);

/* Shows who holds the locks of the pattern that is the name of the arguments; NULL: all. */
rql_status cli_show_who(struct cli_session *self);

/* Shows the queue of the lock of this name. RQL_NOT_FOUND: no request waits. */
rql_status cli_show_queue(struct cli_session *self, rql_key_status *status_of_key);

#endif
