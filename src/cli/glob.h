#ifndef CLI_GLOB_H
#define CLI_GLOB_H

/* A pattern in place of a name, as the shell has them: * ? [a-z] [!a]. A '/' is a letter. */

#include "cmd.h"

/* No pattern: every name does. */
bool cli_glob_matches(const struct cli_args *args, const char *name);

/* Take out what does not match. */
void cli_glob_locks(const struct cli_args *args, rql_lock_info_list *list);
void cli_glob_queues(const struct cli_args *args, rql_queue_info_list *list);

#endif
