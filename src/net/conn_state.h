#ifndef RQLI_CONN_STATE_H
#define RQLI_CONN_STATE_H

/* The state that conn_threads.c and batch_threads.c share: the first opens and ends the connection,
 * the second carries batches over it. The caller of each function holds the connection's mutex. */

#include "base/freelist.h"
#include "base/futex.h"
#include "net/conn.h"
#include "net/login.h"
#include "net/socket.h"
#include "net/stream.h"

#include <pthread.h>

/* The wait word, on which the owner of a batch sleeps. */
enum {
    AWAKE,    /* running, or reading */
    ASLEEP,   /* has to be woken */
    FINISHED, /* the result is there; it needs no mutex to take it */
    READER,   /* has to read, and has not begun */
};

enum state { DOWN, CONNECTING, UP, BROKEN };

struct batch {
    struct rqli_batch visible; /* first: the caller's part */
    struct rqli_conn *conn;
    struct rqli_stream_call call;
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_replies; /* to its commands, and to WAIT and WAITAOF at the end of its write */
    int n_done;
    struct rqli_durability wanted; /* a copy: its caller may have left */
    struct rqli_durability asked;  /* by WAIT and WAITAOF, for the whole write */
    bool in_flight;
    bool left;  /* its caller has stopped waiting: the replies are read and dropped */
    bool given; /* and has given it back: it is recycled when they are there */
    rql_status status;
    rqli_signal wait_word;
};

struct rqli_conn {
    struct rqli_socket sock; /* fd: used by the thread that connects, reads or writes; see below */
    struct rqli_freelist freelist; /* batches */
    rqli_signal n_attempts; /* attempts to connect that are over; their waiters sleep on it */
    struct rqli_conn_notes notes;
    atomic_bool is_crowded;   /* another connection would be of use to callers */
    atomic_uint n_met;        /* the most callers at the same time, in the last period */
    _Atomic uint64_t scripts; /* that the server knows */

    struct {
        pthread_mutex_t mutex;
        enum state state;
        struct rqli_stream stream;
        struct batch *reader; /* the leader, which reads for all, or NULL */
        bool writing;
        uint64_t write_ends[RQLI_CONN_WRITES]; /* positions at the end of unanswered writes */
        size_t n_writes;
        struct rqli_wake_list wake_list; /* of called owners */
        struct rqli_durability wanted;   /* by the calls in stream.out */
        struct batch *unacked;           /* have their replies, but not yet their acks */
        struct batch *unacked_last;
        unsigned callers;      /* that wait for a batch in flight */
        unsigned most_callers; /* in this period */
        unsigned n_calls;      /* in this period */
        unsigned n_internal; /* callers: the client itself, which needs no connection of its own */
        unsigned n_unsent;   /* batches in stream.out */
        bool is_far;         /* the last answer took longer than FAR_US */
        uint64_t generation;
        int64_t n_commands;      /* put in the stream so far */
        struct rqli_seat silent; /* the predecessor, if it fell silent and may still be served */
        rql_error last_fault;    /* of the last attempt to connect */
        int64_t longest_us;      /* largest pause between attempts; 0: the usual one */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

static inline struct batch *batch_of(struct rqli_stream_call *call)
{
    return call ? RQLI_OWNER(call, struct batch, call) : NULL;
}

/* Unlocks the mutex, then wakes the owners in the wake list: the next reader first, because the
 * other callers depend on it; it was called last. */
void rqli_conn_unlock(struct rqli_conn *self);

/* Sets the wait word of the batch's owner, and notes the owner for being woken. Caller holds the
 * mutex. */
void rqli_conn_call_owner(struct rqli_conn *self, struct batch *batch, int32_t word);

/* Takes the oldest batch off the stream with its result, and removes the writes that are
 * answered with it. Caller holds the mutex. */
void rqli_conn_finish_first(struct rqli_conn *self, rql_status status, int64_t now_us);

/* Ends the use of the connection: a thread that still uses the socket finds it shut down. Caller
 * holds the mutex. */
void rqli_conn_break_off(struct rqli_conn *self, bool is_silent);

/* Closes a broken connection when no thread uses its socket. Caller holds the mutex. */
void rqli_conn_close_if_broken(struct rqli_conn *self);

/* Waits for another thread's attempt and shares its failure, or makes an attempt as soon as that is
 * allowed again. Caller holds the mutex; it is released meanwhile. */
rql_status rqli_conn_connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

/* Counts one more caller, whose batch is in the stream. Caller holds the mutex. */
void rqli_conn_count_caller(struct rqli_conn *self);

/* Returns true if the connection is up, as far as can be seen. Caller holds the mutex. */
bool rqli_conn_is_up_locked(struct rqli_conn *self);

#endif
