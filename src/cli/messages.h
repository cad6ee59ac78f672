#ifndef CLI_MESSAGES_H
#define CLI_MESSAGES_H

/* What the program writes to stderr, one line each: its own messages and the log lines of the
 * library; and readers of its output that stop reading, or go away. */

#include <rql/rql.h>
#include <stdbool.h>

/* "rql: " and the text, without what a terminal would act upon. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for what has to go on meanwhile, signals and the watch over a lock: it is left out where
 * whoever reads stderr has stopped to, and the pipe is full. */
void cli_say_nowait(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line that is rewritten, on a terminal; NULL: there is none any more. What else is said takes
 * its place. */
void cli_rewrite_line(const char *text);

/* "rql: what: " and the system's text for errno. */
void cli_say_errno(const char *what, int number);

/* Says what went wrong; returns the exit code. */
int cli_fault(const rql_error *error);

/* Log lines of the library, each with the time in front; in JSON the time is "time". */
void cli_log_text(const rql_log_record *record, void *user_data);
void cli_log_json(const rql_log_record *record, void *user_data);

/* SIGPIPE does nothing from now on: work under a lock goes on when nobody reads its messages any
 * more. */
void cli_broken_pipe_init(void);

/* Between fork and exec: as it was when this program was started. */
void cli_broken_pipe_restore(void);

/* Has the reader of the results gone, and is that to end the program by SIGPIPE, as usual? It is in
 * `rql ls | head`. */
bool cli_broken_pipe_is_deadly(void);

#endif
