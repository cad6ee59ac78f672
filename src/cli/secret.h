#ifndef CLI_SECRET_H
#define CLI_SECRET_H

/* The value of --secret. "-" reads it from stdin, which keeps it out of the process list. */

#include <rql/base.h>

enum { CLI_SECRET_LINE_SIZE = RQL_SECRET_SIZE + 1 };

/* `given`, or the line that was read. */
const char *cli_secret_read(const char *given, char line[CLI_SECRET_LINE_SIZE]);

#endif
