#ifndef CLI_LOGGER_H
#define CLI_LOGGER_H

/* Log lines of the library on stderr, each with the time in front. */

#include <rql/options.h>

void cli_log_text(const rql_log_record *record, void *user_data);
void cli_log_json(const rql_log_record *record, void *user_data); /* the time is "time" */

#endif
