#ifndef RQLI_CALL_QUEUE_H
#define RQLI_CALL_QUEUE_H

/*
 * Calls on a loop: each is written when its turn comes, so that a crowd neither fills memory nor
 * keeps the others waiting; a script's by digest, once more with the text if the server does not
 * know it; and its answer, or why there is none, is reported once. One thread: the loop's.
 */

#include "net/conn_loop.h"
#include "wire/command.h"

struct rqli_queued_call;

struct rqli_queued_call_kind {
    bool gives_back; /* or keeps: goes before those that want something */
    void (*write)(struct rqli_queued_call *self, struct rqli_call *call, int64_t now_us);
    /* RQL_OK and the answer, which is no error reply unless to a plain command; or a fault, as
     * *error says. */
    void (*read)(struct rqli_queued_call *self, const struct rqli_exchange *answer,
                 rql_status status, const rql_error *error);
};

enum rqli_queued_call_state {
    RQLI_QUEUED_CALL_IDLE,
    RQLI_QUEUED_CALL_QUEUED,
    RQLI_QUEUED_CALL_SENT
};

struct rqli_call_queue;

struct rqli_queued_call {
    const struct rqli_queued_call_kind *kind;
    struct rqli_call_queue *all;
    struct rqli_queued_call *next; /* queued */
    struct rqli_queued_call *previous;
    uint64_t position; /* sent: on the connection */
    enum rqli_queued_call_state state;
    bool is_plain;
    bool is_repeated; /* the server did not know the script */
};

struct rqli_queued_call_line {
    struct rqli_queued_call *first;
    struct rqli_queued_call *last;
};

struct rqli_call_queue {
    struct rqli_conn_loop *conn;
    const char *where;                    /* for messages */
    struct rqli_queued_call_line repeats; /* go first, to keep the order */
    struct rqli_queued_call_line returns;
    struct rqli_queued_call_line wishes;
    uint64_t taught[RQLI_SCRIPT_COUNT]; /* position of the last call with the text */
};

/* Puts it in line. */
void rqli_queued_call_go(struct rqli_call_queue *self, struct rqli_queued_call *queued_call,
                         const struct rqli_queued_call_kind *kind);

/* Nobody is told of it any more. */
void rqli_queued_call_stop(struct rqli_queued_call *queued_call);

static inline bool rqli_queued_call_is_under_way(const struct rqli_queued_call *queued_call)
{
    return queued_call->state != RQLI_QUEUED_CALL_IDLE;
}

bool rqli_call_queue_are_waiting(const struct rqli_call_queue *self);

/* Writes as many as may be under way. */
void rqli_call_queue_write(struct rqli_call_queue *self);

/* The connection cannot be opened: all that wait for it are told. */
void rqli_call_queue_fail(struct rqli_call_queue *self, const rql_error *fault);

#endif
