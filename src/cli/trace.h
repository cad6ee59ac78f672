#ifndef CLI_TRACE_H
#define CLI_TRACE_H

/* The trace of a run under a lock (W3C Trace Context), and its spans for OpenTelemetry: rql.wait,
 * from the call to the grant, and rql.hold, from the grant to the release.
 *
 * A span is appended to the file of --trace when it has ended: a line of OTLP/JSON, which the file
 * receiver of a collector reads. A span that cannot be written is reported once, and changes
 * nothing else. */

#include "cmd.h"

/* A traceparent of version 00 is "00-<trace id>-<span id>-<flags>". */
enum {
    CLI_TRACE_ID_SIZE = 33,
    CLI_SPAN_ID_SIZE = 17,
    CLI_TRACEPARENT_SIZE = 56,
    CLI_LINKS_MAX = 8, /* a wait that is longer names no more traces that it waited for */
};

struct cli_trace {
    const struct cli_args *args;       /* borrowed */
    char parent[CLI_TRACEPARENT_SIZE]; /* of the lock and of COMMAND; "": none */
    bool is_on;                        /* spans are written; otherwise the rest is not set */
    bool has_failed;                   /* the file; it was reported */
    char trace_id[CLI_TRACE_ID_SIZE];
    char caller_id[CLI_SPAN_ID_SIZE]; /* the span that this program runs in; "": none */
    char wait_id[CLI_SPAN_ID_SIZE];
    char hold_id[CLI_SPAN_ID_SIZE];
    int64_t wall_us; /* from cli_now_us() to the time since 1970 */
    int64_t begun_us;
    int64_t place; /* in the queue, as last known; 0: not known */

    /* Of the grant. */
    int64_t waited_us;
    bool has_facts; /* the grant is of a single lock, and not of an agent */
    bool is_handed_over;
    size_t n_tokens; /* one for each lock; 0: there was no grant */
    int64_t tokens[RQL_SERIES_MAX];

    size_t n_links;
    char links[CLI_LINKS_MAX][CLI_TRACEPARENT_SIZE]; /* of the holders that were seen */
};

/* Returns whether the text is a traceparent that the library takes. */
bool cli_is_traceparent(const char *text);

/* A paragraph about traces, for the manual pages of the commands that have --trace. */
extern const char cli_trace_details[];

/* Begins the trace of an acquisition, and its wait. */
void cli_trace_begin(struct cli_trace *self, const struct cli_args *args);

/* Returns the traceparent for the lock and for COMMAND, or NULL. */
const char *cli_trace_parent(const struct cli_trace *self);

/* Asks the server who holds the locks, and notes the traces of these holders. For any thread, but
 * no other call may use this meanwhile. */
void cli_trace_look(struct cli_trace *self, rql_client *client);

/* Notes a grant: its tokens, and the facts of a single lock, or NULL. */
void cli_trace_grant(struct cli_trace *self, const rql_lock_facts *facts, const int64_t *tokens,
                     size_t count);

/* End the wait and the hold. error: what went wrong, the status of the span; or NULL. */
void cli_trace_end_wait(struct cli_trace *self, const char *outcome, const rql_error *error);
void cli_trace_end_hold(struct cli_trace *self, const char *outcome, const rql_error *error);

#endif
