#ifndef CLI_URL_H
#define CLI_URL_H

/* The URL of the server, from an argument, from --url or from RQL_URL. */

#include "cmd.h"

/* Refuses a URL with a password if it is an argument or the value of --url, because other users can
 * read command lines. Returns CLI_DONE, or the exit code after printing a line on stderr. */
int cli_url_check(const struct cli_args *args, const struct cli_command *command);

/* Reports an error, as cli_fault() does. A message about the URL begins with the origin of the
 * URL. */
int cli_url_fault(const struct cli_args *args, const rql_error *error);

/* Says on stderr how to give a login for this URL. */
void cli_say_login(const char *url);

/* Does the same for the sentinels, which have a login of their own. */
void cli_say_sentinel_login(const char *url);

#endif
