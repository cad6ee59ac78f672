#ifndef CLI_URL_H
#define CLI_URL_H

/* The URL of the server, as it was given: by an argument, by --url or by RQL_URL. */

#include "cmd.h"

/* Refuses a URL with a password that is an argument or the value of --url: other users can read
 * command lines. CLI_DONE, or the exit code after a line on stderr. */
int cli_url_check(const struct cli_args *args, const struct cli_command *command);

/* As cli_fault(). What the library says of the URL begins with where the URL comes from. */
int cli_url_fault(const struct cli_args *args, const rql_error *error);

#endif
