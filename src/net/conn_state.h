#ifndef RQLI_CONN_STATE_H
#define RQLI_CONN_STATE_H

/* What conn_threads.c and exchange.c share: the first opens the connection and ends it, the second
 * carries exchanges over it. The functions are called under its mutex. */

#include "base/freelist.h"
#include "base/futex.h"
#include "net/conn.h"
#include "net/login.h"
#include "net/socket.h"
#include "net/stream.h"

#include <pthread.h>
#include <stddef.h>

/* What the owner of an exchange sleeps on: its wait word. */
enum {
    AWAKE,    /* on its way, or reading */
    ASLEEP,   /* has to be woken */
    FINISHED, /* the result is there; it needs no mutex to take it */
    READER,   /* shall read, and has not begun */
};

enum state { DOWN, CONNECTING, UP, BROKEN };

struct exchange {
    struct rqli_exchange visible; /* first: the caller's part */
    struct rqli_conn *conn;
    struct rqli_stream_call call;
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_replies; /* of its commands, and of what its batch ends with */
    int n_done;
    struct rqli_durability wanted; /* a copy: its caller may have left */
    struct rqli_durability asked;  /* by what its batch ends with, for all of the batch */
    struct rqli_call_span span;    /* of one that others may be joined to */
    struct exchange *joined;       /* to it: by call.next; they are not in the stream */
    bool in_flight;
    bool left;  /* its caller waits no more: the replies are read and dropped */
    bool given; /* and has given it back: to be recycled when they are there */
    rql_status status;
    rqli_signal wait_word;
};

struct rqli_conn {
    struct rqli_socket sock;       /* fd: by whoever connects, reads or writes, as below */
    struct rqli_freelist freelist; /* exchanges */
    rqli_signal n_attempts;        /* to connect, that are over; who waits for one sleeps on it */
    struct rqli_conn_notes notes;
    atomic_bool is_crowded;   /* callers at a time for whom one more would be of use */
    atomic_uint n_met;        /* the most callers at a time in the period before this one */
    _Atomic uint64_t scripts; /* that the server knows */

    struct {
        pthread_mutex_t mutex;
        enum state state;
        struct rqli_stream stream;
        struct exchange *reader; /* reads for all, or NULL */
        bool writing;
        uint64_t batch_ends[RQLI_CONN_BATCHES]; /* positions behind what is unanswered */
        size_t n_batches;
        struct rqli_wake_list wake_list; /* of called owners */
        struct rqli_durability wanted;   /* by what is in stream.out */
        struct exchange *unacked;        /* have their replies, and not what they wanted */
        struct exchange *unacked_last;
        unsigned callers;      /* that wait for an exchange in flight */
        unsigned most_callers; /* in this period */
        unsigned n_calls;      /* likewise */
        unsigned n_internal;   /* of them, the client itself: it needs no connection of its own */
        unsigned n_unsent;     /* exchanges in stream.out */
        struct exchange *open; /* of them, to which others may be joined; NULL: none */
        const void *open_to;   /* what those have to stand behind */
        bool is_far;           /* the last answer took longer than FAR_US */
        uint64_t generation;
        int64_t n_commands;      /* put in the stream so far */
        struct rqli_seat silent; /* the predecessor, if it fell silent and may still be served */
        rql_error last_fault;    /* of connecting */
        int64_t longest_us;      /* pause between attempts to; 0: as all have */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

static inline struct exchange *exchange_of(struct rqli_stream_call *call)
{
    return call ? (struct exchange *)((char *)call - offsetof(struct exchange, call)) : NULL;
}

/* Unlocks the mutex, then wakes the owners in the wake list: the next reader first, on whom the
 * others depend, for it was called last. */
void rqli_conn_unlock(struct rqli_conn *self);

/* Under the mutex: sets the wait word of its owner, and notes it for being woken. */
void rqli_conn_call_owner(struct rqli_conn *self, struct exchange *exchange, int32_t word);

/* Under the mutex: takes the oldest exchange off the stream with its result, and the batches off
 * that are answered with it. */
void rqli_conn_finish_first(struct rqli_conn *self, rql_status status, int64_t now_us);

/* Under the mutex. The connection is of no use any more; whoever still uses the socket finds it
 * shut down. */
void rqli_conn_break_off(struct rqli_conn *self, bool is_silent);

/* Under the mutex: closes a broken connection when nobody uses its socket. */
void rqli_conn_close_if_broken(struct rqli_conn *self);

/* Under the mutex, released meanwhile: waits for another's attempt and shares its failure, or makes
 * one, as soon as that is allowed again. */
rql_status rqli_conn_connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

/* Under the mutex: it is in the stream, and others may be joined to it. */
void rqli_joined_open(struct rqli_conn *self, struct exchange *exchange);

/* Under the mutex: joins it to that. False: it has to be put in the stream. */
bool rqli_joined_put(struct rqli_conn *self, struct exchange *own);

/* One of those that were joined to what is over with this status: it has its status and reply. */
struct exchange *rqli_joined_take(struct exchange *done, rql_status status);

/* The exchange, or one that was joined to it, whose caller still waits; NULL: none does. */
struct exchange *rqli_joined_waiting(struct exchange *exchange);

/* Under the mutex: one caller more is there, with its exchange in the stream. */
void rqli_conn_count_caller(struct rqli_conn *self);

/* Under the mutex: asks behind all calls of the next batch, as part of the last of them, how safe
 * they are. */
void rqli_conn_ask_for_acks(struct rqli_conn *self, struct exchange *last);

/* Under the mutex: it is there, as far as can be seen. */
bool rqli_conn_is_up_locked(struct rqli_conn *self);

#endif
