#ifndef RQLI_QUEUE_VIEW_H
#define RQLI_QUEUE_VIEW_H

/* A queue (wire.md 4) as rql_queue_info in one allocation, gathered from pages of its sorted set
 * and from the request records that name the hosts (protocol.md "Keys"). A page begins at the score
 * where the last one ended, not at a rank: requests that leave meanwhile hide no others. No I/O
 * here. */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/inspect.h>

enum {
    RQLI_QUEUE_PAGE = 1000, /* requests of one command */
    RQLI_QUEUE_HOSTS = 200, /* records of one exchange; each carries metadata */
    RQLI_QUEUE_SCORE_SIZE = 40,
};

struct rqli_queue_row {
    size_t acq_at; /* into text */
    size_t acq_length;
    size_t hst_at; /* or SIZE_MAX */
    int64_t score_us;
};

struct rqli_queue_view {
    struct rqli_slice key; /* borrowed */
    rql_key_status status;
    int64_t limit; /* of a page */
    bool has_more; /* the last page was full */
    size_t n_rows;
    size_t n_looked_up; /* rows whose record was asked for */
    size_t n_asked;     /* of these, in the command that is under way */
    size_t rows_capacity;
    struct rqli_queue_row *rows;
    char *text;
    size_t text_length;
    size_t text_capacity;
    int64_t n_ties; /* rows that have the last score */
    char last_score[RQLI_QUEUE_SCORE_SIZE];
};

/* limit is 1 to RQLI_QUEUE_PAGE. */
void rqli_queue_view_init(struct rqli_queue_view *self, struct rqli_slice key, int64_t limit);
void rqli_queue_view_fini(struct rqli_queue_view *self);

/* While has_more: ask for a page, take it. `where` is for messages. */
void rqli_queue_view_ask(const struct rqli_queue_view *self, struct rqli_command *command);
rql_status rqli_queue_view_take(struct rqli_queue_view *self, const struct rqli_reply *reply,
                                const char *where, rql_error *error);

/* Asks for at most `limit` records that are still unknown; returns how many. 0: none was asked for,
 * there is no reply to take. */
size_t rqli_queue_view_ask_hosts(struct rqli_queue_view *self, struct rqli_command *command,
                                 size_t limit);
rql_status rqli_queue_view_take_hosts(struct rqli_queue_view *self, const struct rqli_reply *reply,
                                      const char *where, rql_error *error);

/* An empty queue is RQL_KEY_RELEASED: the server keeps no empty sets. */
rql_status rqli_queue_view_finish(const struct rqli_queue_view *self, rql_queue_info **out,
                                  rql_error *error);

#endif
