#ifndef RQLI_CONN_H
#define RQLI_CONN_H

/*
 * The command connection of a client, shared by all its threads and driven by them.
 *
 * A caller takes an exchange, writes commands into it, runs it, reads the replies and gives it
 * back. Callers write at once; one waiting caller at a time reads for all and then hands the
 * reading on, so no thread of ours is needed and a reply wakes its owner straight from the kernel.
 * An exchange whose caller's deadline passed is given back while its reply is still to come: the
 * reply is read and dropped.
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

struct rqli_exchange {
    struct rqli_command command;    /* fill before rqli_exchange_run() */
    const struct rqli_reply *reply; /* command.n_commands of them, after RQL_OK */
    int64_t sent_us;                /* just before the bytes were handed to the system */
    int64_t received_us;            /* when the last reply was there */
    uint64_t generation;            /* of the connection that carried it */
    void (*drop)(const struct rqli_exchange *self); /* ends that connection */
    void *carrier;                                  /* it, for drop */
    /* How safe it shall be made; NULL: as the server does. Borrowed until the replies are there,
     * and then acks says what came of it. */
    const struct rqli_durability *durability;
    struct rqli_acks acks;
    struct rqli_joint joint; /* of the call; of one that is put, see below */
};

/* So many batches are unanswered at most. */
enum { RQLI_CONN_BATCHES = 2 };

/* What calls that want this may take for it: they stand behind as many as may be under way. */
static inline int64_t rqli_conn_longest_us(const struct rqli_durability *wanted)
{
    return (RQLI_CONN_BATCHES + 1) * rqli_durability_longest_ms(wanted) * 1000;
}

/* endpoint is borrowed and must outlive the connection. Connects at the first run. */
struct rqli_conn *rqli_conn_new(const struct rqli_endpoint *endpoint);
struct rqli_conn *rqli_conn_free(struct rqli_conn *self);

/* Any thread. NULL: out of memory. The command is empty. */
struct rqli_exchange *rqli_exchange_take(struct rqli_conn *self);
void rqli_exchange_give(struct rqli_exchange *exchange); /* NULL is fine */

/*
 * Any thread; blocks until all replies are there, or deadline_us.
 *   RQL_OK         all replies are there; each may be an error reply
 *   RQL_E_IO       could not connect; nothing was sent
 *   RQL_E_UNKNOWN  sent, at least in part, and no answer
 *   RQL_E_AUTH, RQL_E_UNAVAILABLE, RQL_E_PROTOCOL, RQL_E_NOMEM   as their names say
 */
rql_status rqli_exchange_run(struct rqli_exchange *exchange, int64_t deadline_us, rql_error *error);

/*
 * The same in two steps, for what must be told to somebody before the server can answer it: first
 * into the stream, behind all that was put there before, then sent and answered. It goes over the
 * connection of this generation (0: the present one) or not at all: RQL_E_IO, and there is nothing
 * to await. One with a joint may become part of what stands in front of it.
 */
rql_status rqli_exchange_put(struct rqli_exchange *exchange, uint64_t generation, rql_error *error);
rql_status rqli_exchange_await(struct rqli_exchange *exchange, int64_t deadline_us,
                               rql_error *error);

/*
 * What is put and sent without waiting for the answer, which is read by whoever reads next. It
 * stays its caller's: rqli_exchange_await() has its replies, at once when it is over.
 */
rql_status rqli_exchange_send(struct rqli_exchange *exchange, uint64_t generation,
                              rql_error *error);
/* Of one that was sent: the replies are there, or will not come; they are there. Without a mutex.
 */
bool rqli_exchange_is_over(const struct rqli_exchange *exchange);
bool rqli_exchange_is_answered(const struct rqli_exchange *exchange);

/* Connects if need be, and logs in anew where that is due; what rqli_exchange_run() would do first.
 * RQL_OK at once when connected. */
rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

/* It is connected, as far as can be seen: what is asked over it need not wait for that. */
bool rqli_conn_is_up(struct rqli_conn *self);

/* Which run of its server the connection of this generation leads to. False: it has ended. */
bool rqli_conn_run_id(struct rqli_conn *self, uint64_t generation, char out[RQLI_RUN_ID_SIZE]);

/* The server took no write when it was connected to: a replica. */
bool rqli_conn_was_read_only(struct rqli_conn *self);

/* The reading of the server's clock from the last login; false: never connected. */
bool rqli_conn_clock(struct rqli_conn *self, struct rqli_clock_reading *out);

/* Nobody uses it, and its other end has ended it: then it is closed here too. False: it is there,
 * as far as can be seen, or there was none. */
bool rqli_conn_end_if_ended(struct rqli_conn *self);

/* Nobody has used it for so long: it is closed. */
void rqli_conn_end_if_unused(struct rqli_conn *self, int64_t unused_us);

/* From now on no pause between two attempts to connect is longer. */
void rqli_conn_hurry(struct rqli_conn *self, int64_t longest_us);

/* Drops the connection: the next run resolves the address afresh. */
void rqli_conn_drop(struct rqli_conn *self, uint64_t generation);

/* rqli_reply_fault() for a reply of this exchange. An answer that makes no sense ends its
 * connection, for the next ones may be those of others; so does READONLY, for the name may lead to
 * the new master by now. */
rql_status rqli_exchange_fault(const struct rqli_exchange *exchange, const struct rqli_reply *reply,
                               const char *what, const char *where, rql_error *error);

/* Commands that were put in its stream so far. Any thread. */
int64_t rqli_conn_n_commands(struct rqli_conn *self);

/* True, once: two callers had exchanges in flight at a time, since it was last asked. Any thread;
 * costs no mutex. */
bool rqli_conn_take_crowded(struct rqli_conn *self);

/* How many callers had exchanges in flight at a time, at most, over about a hundred calls of late;
 * 0: it is not known yet. Any thread; costs no mutex. */
unsigned rqli_conn_n_met(const struct rqli_conn *self);

/* It is expected to be so many, until as many calls have shown it. Any thread. */
void rqli_conn_note_met(struct rqli_conn *self, unsigned n_met);

/* One more, or one less, of the callers is the client itself, which needs no connection of its own.
 */
void rqli_conn_count_internal(struct rqli_conn *self, int change);

struct rqli_leaver;

/* Threads whose requests are about to be withdrawn over the same connection:
 * lock/leaving_together.c.
 */
struct rqli_leavers {
    struct rqli_leaver *first; /* not asked for yet */
    struct rqli_leaver *last;
    bool is_led;    /* a thread asks for those before them */
    bool is_silent; /* the last ones that were asked for got no answer */
};

/* What those who use it note about it, by its generation; it does not touch that itself. */
struct rqli_conn_notes {
    atomic_bool was_up;       /* there was one, and its clock was learned from */
    uint64_t tracking;        /* CLIENT TRACKING was set up; from here on under their mutex */
    uint64_t tracking_pushes; /* for the subscriber of that generation */
    struct rqli_leavers leavers;
};

struct rqli_conn_notes *rqli_conn_notes(struct rqli_conn *self);

/*
 * Which scripts its server knows: those that it named at login, and those whose text has gone over
 * this connection since. Before the first login all of them are believed to be known. A server that
 * answers NOSCRIPT has forgotten all: SCRIPT FLUSH. Any thread.
 */
uint64_t rqli_conn_scripts(const struct rqli_conn *self);
void rqli_conn_forget_scripts(struct rqli_conn *self);

/* In a fork child: closes the socket without a word and takes no lock. */
void rqli_conn_abandon(struct rqli_conn *self);

/* The answer to one command, one reply; or why there is none: RQL_E_UNKNOWN, RQL_E_IO (not sent).
 */
typedef void (*rqli_conn_loop_fn)(void *owner, const struct rqli_exchange *answer,
                                  rql_status fault);

#endif
