#ifndef RQLI_CONN_THREADS_INSIDE_H
#define RQLI_CONN_THREADS_INSIDE_H

/* What link.c (exchanges) and lifeline.c (connecting and breaking off) share. Everything below the
 * structs is called under the link's mutex. */

#include "base/freelist.h"
#include "base/signal.h"
#include "base/wakes.h"
#include "net/conn_threads.h"
#include "net/socket.h"

#include <pthread.h>

/* What the owner of an exchange sleeps on. */
enum mark {
    AWAKE,    /* on its way, or reading */
    ASLEEP,   /* has to be woken */
    FINISHED, /* the result is there; it needs no mutex to take it */
    READER,   /* shall read, and has not begun */
};

/* The commands of so many callers go out at once. Those of more go out together, for that takes us
 * and the server fewer system calls: while a batch is unanswered a second one grows, until it is
 * that of half of the callers. Then the server has work while they have, and both do all the time;
 * a second one that did not wait would be that of the first who was woken. Where an answer takes
 * longer than RQLI_CONN_FAR_US all go out at once: waiting for others' would cost a caller its
 * time. */
enum { RQLI_CONN_AT_ONCE = 8, RQLI_CONN_BATCHES = 2, RQLI_CONN_FAR_US = 10000 };

struct exchange {
    struct rqli_exchange visible; /* first: the caller's part */
    struct rqli_conn *conn;
    struct exchange *next; /* in flight, or free */
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_done;
    bool in_flight;
    bool left;          /* its caller waits no more: the replies are read and dropped */
    bool given;         /* and has given it back: to be recycled when they are there */
    uint64_t begins_at; /* place of its first byte in the stream */
    rql_status status;
    rqli_signal mark;
};

enum state { DOWN, CONNECTING, UP, BROKEN };

struct rqli_conn {
    struct rqli_socket sock;       /* fd: by whoever connects, reads or writes, as below */
    struct rqli_freelist freelist; /* exchanges */

    struct {
        pthread_mutex_t mutex;
        pthread_cond_t connected; /* CLOCK_MONOTONIC; the attempt is over */
        enum state state;
        struct exchange *reader; /* reads for all, or NULL */
        bool writing;
        struct rqli_command out;     /* bytes to send */
        struct rqli_command sending; /* before them: bytes being sent */
        size_t n_sent;               /* of them */
        uint64_t queued_at;          /* stream place behind `out` */
        uint64_t sending_ends;       /* the same behind `sending` */
        uint64_t sent_at; /* the same behind what was, or is being, handed to the system */
        uint64_t batch_ends[RQLI_CONN_BATCHES]; /* stream places behind what is unanswered */
        size_t n_batches;
        struct exchange *first; /* in flight, in the order of the stream */
        struct exchange *last;
        struct rqli_wake_list wake_list; /* of called owners */
        unsigned callers;                /* that wait for an exchange in flight */
        unsigned n_unsent;               /* exchanges in `out` */
        bool is_far;                     /* the last answer took longer than RQLI_CONN_FAR_US */
        int64_t heard_us;                /* last byte, or begin of the silence */
        uint64_t generation;
        int64_t n_commands;      /* put in the stream so far */
        struct rqli_seat silent; /* the predecessor, if it fell silent and may still be served */
        int64_t backoff_ms;
        int64_t next_attempt_us;
        rql_error last_fault; /* of connecting */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

void rqli_conn_free_exchange(struct exchange *exchange);

/* Its memory may be used again. Needs no mutex. */
void rqli_conn_recycle(struct rqli_conn *self, struct exchange *exchange);

/* Sets the mark, and notes its owner for being woken. */
void rqli_conn_call(struct rqli_conn *self, struct exchange *exchange, enum mark mark);

/* Unlocks the mutex and wakes whom was called: the next reader first, on whom the others will
 * depend, for it was called last. */
void rqli_conn_unlock(struct rqli_conn *self);

/* Takes the first exchange off the stream with its result. */
void rqli_conn_finish_first(struct rqli_conn *self, rql_status status, int64_t now_us);

/* The connection is of no use any more. What was handed to the system may have been done; what was
 * not, was not. Whoever still uses the socket finds it shut down. */
void rqli_conn_break_off(struct rqli_conn *self, bool silent);

/* Closes a broken connection when nobody uses its socket. */
void rqli_conn_bury(struct rqli_conn *self);

/* Waits for another's attempt and shares its failure, or makes one; releases the mutex meanwhile.
 */
rql_status rqli_conn_connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

#endif
