#ifndef RQLI_CONN_H
#define RQLI_CONN_H

/*
 * The command connection of a client, shared by all its threads and driven by them.
 *
 * A caller takes a batch, writes commands into it, runs it, reads the replies and gives it
 * back. Callers do the writing themselves; one waiting caller at a time reads for all and then
 * hands the reading on, so the library needs no thread for it and a reply wakes its owner straight
 * from the kernel. If a caller's deadline passes, it gives its batch back while the reply is
 * still to come: the reply is read and dropped.
 */

#include "net/durability.h"
#include "net/socket.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/status.h>
#include <stdatomic.h>

struct rqli_clock_reading;
struct rqli_endpoint;
struct rqli_conn;

struct rqli_batch {
    struct rqli_command command;                 /* fill before rqli_batch_run() */
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

/* The largest number of writes that are unanswered at the same time. */
enum { RQLI_CONN_WRITES = 2 };

/* Returns how long calls that want this durability may take: they wait for as many writes as may
 * be under way, and for their own. */
static inline int64_t rqli_conn_longest_us(const struct rqli_durability *wanted)
{
    return (RQLI_CONN_WRITES + 1) * rqli_durability_longest_ms(wanted) * 1000;
}

/* Makes a connection, which connects at the first run. endpoint is borrowed and must outlive it. */
struct rqli_conn *rqli_conn_new(const struct rqli_endpoint *endpoint);
struct rqli_conn *rqli_conn_free(struct rqli_conn *self);

/* Takes a batch with an empty command. Any thread. NULL: out of memory. */
struct rqli_batch *rqli_batch_take(struct rqli_conn *self);
void rqli_batch_give(struct rqli_batch *batch); /* NULL is fine */

/*
 * Runs a batch. Any thread; blocks until all replies are there, or until deadline_us.
 *   RQL_OK         all replies are there; each may be an error reply
 *   RQL_E_IO       could not connect; nothing was sent
 *   RQL_E_UNKNOWN  sent, at least in part, and no answer
 *   RQL_E_AUTH, RQL_E_UNAVAILABLE, RQL_E_PROTOCOL, RQL_E_NOMEM   as their names say
 */
rql_status rqli_batch_run(struct rqli_batch *batch, int64_t deadline_us, rql_error *error);

/*
 * Do the same in two steps, for a call that another thread must know of before the server can
 * answer it: the first puts it in the stream, after everything that was put there before; the
 * second sends it and waits for the answer. The call goes over the connection of this generation
 * (0: the present one) or not at all: then RQL_E_IO, and there is nothing to await.
 */
rql_status rqli_batch_put(struct rqli_batch *batch, uint64_t generation, rql_error *error);
rql_status rqli_batch_await(struct rqli_batch *batch, int64_t deadline_us, rql_error *error);

/*
 * Puts and sends a batch without waiting for the answer, which the next reader reads. The
 * batch stays its caller's: rqli_batch_await() returns its replies, at once when it is over.
 */
rql_status rqli_batch_send(struct rqli_batch *batch, uint64_t generation, rql_error *error);
/* Tell of a batch that was sent whether it is over (the replies are there, or will not come),
 * and whether the replies are there. Neither takes a mutex. */
bool rqli_batch_is_over(const struct rqli_batch *batch);
bool rqli_batch_is_answered(const struct rqli_batch *batch);

/* Connects if necessary, and renews the login if that is due, as rqli_batch_run() would do
 * first. RQL_OK at once when connected. */
rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

/* Returns true if it is connected, as far as can be seen: a call need not wait for a connection. */
bool rqli_conn_is_up(struct rqli_conn *self);

/* Copies the run id of the server to which the connection of this generation leads. False: that
 * connection has ended. */
bool rqli_conn_run_id(struct rqli_conn *self, uint64_t generation, char out[RQLI_RUN_ID_SIZE]);

/* Returns true if the server refused writes when the connection was made: a replica. */
bool rqli_conn_was_read_only(struct rqli_conn *self);

/* Copies the reading of the server's clock from the last login; false: never connected. */
bool rqli_conn_clock(struct rqli_conn *self, struct rqli_clock_reading *out);

/* Closes the connection if no thread uses it and its other end has closed it. False: it is up, as
 * far as can be seen, or in use, or there was none. */
bool rqli_conn_end_if_ended(struct rqli_conn *self);

/* Closes the connection if it was unused for this long. */
void rqli_conn_end_if_unused(struct rqli_conn *self, int64_t unused_us);

/* Caps the back-off: from now on no pause between two attempts to connect is longer. */
void rqli_conn_hurry(struct rqli_conn *self, int64_t longest_us);

/* Drops the connection of this generation: the next run resolves the address again. */
void rqli_conn_drop(struct rqli_conn *self, uint64_t generation);

/* Does as rqli_reply_fault() for a reply of this batch. An answer that makes no sense ends its
 * connection, because the next answers may belong to other callers; so does READONLY, because the
 * name may lead to the new master by now. */
rql_status rqli_batch_fault(const struct rqli_batch *batch, const struct rqli_reply *reply,
                            const char *what, const char *where, rql_error *error);

/* Returns how many commands were put in its stream so far. Any thread. */
int64_t rqli_conn_n_commands(struct rqli_conn *self);

/* Returns true once after one more connection would have been of use: two callers had batches in
 * flight at the same time, with TLS more than a record of them. Any thread; costs no mutex. */
bool rqli_conn_take_crowded(struct rqli_conn *self);

/* Returns how many callers at most had batches in flight at the same time, over the last full
 * period of about a hundred calls; 0: not known yet. Any thread; costs no mutex. */
unsigned rqli_conn_n_met(const struct rqli_conn *self);

/* Sets that number to an expected one, until a period of calls has shown it. Any thread. */
void rqli_conn_note_met(struct rqli_conn *self, unsigned n_met);

/* Adds to the number of callers that are the client itself, which needs no connection of its
 * own. */
void rqli_conn_count_internal(struct rqli_conn *self, int change);

struct rqli_leaver;

/* Threads whose requests are about to be withdrawn over the same connection:
 * lock/leaving_together.c.
 */
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

struct rqli_conn_notes *rqli_conn_notes(struct rqli_conn *self);

/*
 * The scripts that its server knows: those that it named at login, and those whose text was sent
 * over this connection since. Before the first login all scripts are assumed to be known. A server
 * that answers NOSCRIPT has forgotten all of them: SCRIPT FLUSH. Any thread.
 */
uint64_t rqli_conn_scripts(const struct rqli_conn *self);
void rqli_conn_forget_scripts(struct rqli_conn *self);

/* In a fork child: closes the socket, sends nothing on it and takes no lock. */
void rqli_conn_abandon(struct rqli_conn *self);

/* Receives the answer to one command, a single reply; or the reason why there is none:
 * RQL_E_UNKNOWN, RQL_E_IO (not sent). */
typedef void (*rqli_conn_loop_fn)(void *owner, const struct rqli_batch *answer, rql_status fault);

#endif
