#ifndef RQLI_CONN_H
#define RQLI_CONN_H

/*
 * A command connection as its users see it. A batch is taken from a connection of threads
 * (net/conn/batch_threads.h), filled, run and given back. On a loop (net/conn/conn_loop.h) each
 * call is answered with a batch that has its reply.
 */

#include "net/conn/durability.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/status.h>
#include <stdatomic.h>

struct rqli_batch {
    struct rqli_command command;                 /* fill before rqli_conn_run() */
    const struct rqli_reply *reply;              /* command.n_commands of them, after RQL_OK */
    int64_t sent_us;                             /* before the bytes were handed to the system */
    int64_t received_us;                         /* when the last reply was there */
    uint64_t generation;                         /* of the connection that carried the batch */
    void (*drop)(const struct rqli_batch *self); /* ends that connection */
    void *carrier;                               /* that connection, for drop */
    /* How safe the server shall make its writes; NULL: as it does by itself. Borrowed until the
     * replies are there; then acks has the result. */
    const struct rqli_durability *durability;
    struct rqli_acks acks;
};

/* Does as rqli_reply_fault() for a reply of this batch. An answer that makes no sense ends its
 * connection, because the next answers may belong to other callers; so does READONLY, because the
 * name may lead to the new master by now. */
static inline rql_status rqli_batch_fault(const struct rqli_batch *batch,
                                          const struct rqli_reply *reply, const char *what,
                                          const char *where, rql_error *error)
{
    rql_status status = rqli_reply_fault(reply, what, where, error);

    if (status == RQL_E_PROTOCOL || status == RQL_E_READ_ONLY) {
        batch->drop(batch);
    }
    return status;
}

/* The largest number of writes that are unanswered at the same time. */
enum { RQLI_CONN_WRITES = 2 };

/* Returns how long calls that want this durability may take: they wait for as many writes as may
 * be under way, and for their own. */
static inline int64_t rqli_conn_longest_us(const struct rqli_durability *wanted)
{
    return (RQLI_CONN_WRITES + 1) * rqli_durability_longest_ms(wanted) * 1000;
}

struct rqli_leaver;

/* Threads whose requests are about to be withdrawn over the same connection: lock/leaving.c. */
struct rqli_leavers {
    struct rqli_leaver *first; /* no leader has taken it yet */
    struct rqli_leaver *last;
    bool is_led;    /* a leader makes the calls of those before them */
    bool is_silent; /* the last calls that were made got no answer */
};

/* Data of the connection's users about each generation; the connection itself never reads it. */
struct rqli_conn_notes {
    atomic_bool was_up; /* there was a connection, and the clock was learned from it */
    uint64_t tracking;  /* CLIENT TRACKING was set up; this and the rest under the users' mutex */
    uint64_t tracking_pushes; /* tracking is for the subscriber of that generation */
    struct rqli_leavers leavers;
};

#endif
