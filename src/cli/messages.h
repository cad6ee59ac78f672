#ifndef CLI_MESSAGES_H
#define CLI_MESSAGES_H

/* The lines that the program writes to stderr: its own messages and the log lines of the library.
 * Also handles readers of its output that stop reading, or go away. */

#include <rql/admin.h>
#include <stdbool.h>

/* Writes "rql: " and the text as a line, with escapes for bytes that a terminal would act upon. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for code that must not block: signals and the watch over a lock. The line is left out if
 * the reader of stderr has stopped reading, and the pipe is full. */
void cli_say_nowait(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes one line that is rewritten, on a terminal; NULL removes it. Any other message replaces
 * it. */
void cli_rewrite_line(const char *text);

/* Writes "rql: what: " and the system's text for errno. */
void cli_say_errno(const char *what, int number);

/* Reports the error; returns the exit code. */
int cli_fault(const rql_error *error);

/* Returns whether the error may be temporary: no server answers, or it is not ready yet. Errors
 * such as wrong passwords are permanent. */
bool cli_may_pass(rql_status status);

/* Writes a log line of the library, with the time in front; in JSON the time is "time". */
void cli_log_text(const rql_log_record *record, void *user_data);
void cli_log_json(const rql_log_record *record, void *user_data);

/* Ignores SIGPIPE from now on: work under a lock continues even if its messages have no reader any
 * more. */
void cli_broken_pipe_init(void);

/* Restores the action of SIGPIPE from the start of this program. Called between fork and exec. */
void cli_broken_pipe_restore(void);

/* Returns whether the reader of the results has gone and the program should end by SIGPIPE, as
 * usual. That is so in `rql ls | head`. */
bool cli_broken_pipe_is_deadly(void);

#endif
