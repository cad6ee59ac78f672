#ifndef RQLI_ERRAND_H
#define RQLI_ERRAND_H

/*
 * Script calls on a loop: each is written when its turn comes, so that a crowd neither fills memory
 * nor keeps the others waiting; by digest, once more with the text if the server does not know it
 * (F-22); and its answer, or why there is none, is told once. One thread: the loop's.
 */

#include "link/pipe.h"
#include "script/call.h"

struct rqli_errand;

struct rqli_errand_kind {
    bool gives_back; /* or keeps: goes before those that want something */
    void (*write)(struct rqli_errand *self, struct rqli_call *call, int64_t now_us);
    /* RQL_OK and the answer, which is no error reply; or a fault, told in *error. */
    void (*read)(struct rqli_errand *self, const struct rqli_exchange *answer, rql_status status,
                 const rql_error *error);
};

enum rqli_errand_state { RQLI_ERRAND_IDLE, RQLI_ERRAND_QUEUED, RQLI_ERRAND_SENT };

struct rqli_errands;

struct rqli_errand {
    const struct rqli_errand_kind *kind;
    struct rqli_errands *all;
    struct rqli_errand *next; /* queued */
    struct rqli_errand *previous;
    uint64_t place; /* sent: in the pipe; script and keys are for messages */
    const struct rqli_keys *keys;
    enum rqli_script_id script;
    enum rqli_errand_state state;
    bool is_repeated; /* the server did not know the script */
};

struct rqli_errand_line {
    struct rqli_errand *first;
    struct rqli_errand *last;
};

struct rqli_errands {
    struct rqli_pipe *pipe;
    const char *where;               /* for messages */
    struct rqli_errand_line repeats; /* go first, to keep the order */
    struct rqli_errand_line returns;
    struct rqli_errand_line wishes;
    uint64_t taught[RQLI_SCRIPT_COUNT]; /* place of the last call with the text */
};

/* Puts it in line. */
void rqli_errand_go(struct rqli_errands *self, struct rqli_errand *errand,
                    const struct rqli_errand_kind *kind);

/* Nobody is told of it any more. */
void rqli_errand_stop(struct rqli_errand *errand);

static inline bool rqli_errand_is_under_way(const struct rqli_errand *errand)
{
    return errand->state != RQLI_ERRAND_IDLE;
}

bool rqli_errands_are_waiting(const struct rqli_errands *self);

/* Writes as many as may be under way. */
void rqli_errands_write(struct rqli_errands *self);

/* The pipe cannot be opened: all that wait for it are told. */
void rqli_errands_fail(struct rqli_errands *self, const rql_error *fault);

#endif
