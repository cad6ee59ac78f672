#ifndef SERVE_READER_H
#define SERVE_READER_H

/* Two threads that read the lock server, so that no HTTP client waits for it, and what they have
 * read last. */

#include "cmd.h"

enum serve_kind {
    SERVE_METRICS, /* OpenMetrics without its end mark */
    SERVE_LOCKS,   /* JSON, as rql top prints it */
    SERVE_HISTORY, /* JSON: what was used in the last days */
    SERVE_N_KINDS
};

struct serve_reader;

/* Makes a reader. Returns CLI_DONE, or the exit code after a line on stderr. The server need not be
 * there. */
int serve_reader_new(const struct cli_args *args, struct serve_reader **out);

/* Starts its threads. */
void serve_reader_start(struct serve_reader *self);

enum { SERVE_LINE = RQL_ERROR_MESSAGE_SIZE + RQL_SERVER_URL_SIZE + 64 };

/* Returns a copy of the last reading, which the caller frees, and its age. NULL: there is none, and
 * a line says why. */
char *serve_reader_copy(struct serve_reader *self, enum serve_kind kind, size_t *size,
                        int64_t *age_ms, char why[SERVE_LINE]);

/* Writes a line about the server. Returns whether it has answered in the last 10 s; of several
 * servers each has to. */
bool serve_reader_is_healthy(struct serve_reader *self, char line[SERVE_LINE]);

/* Ends the threads. If one waits for an answer of the server they are left alone, to end with the
 * program. */
void serve_reader_end(struct serve_reader *self);

#endif
