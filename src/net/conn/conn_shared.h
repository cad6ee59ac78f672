#ifndef RQLI_CONN_SHARED_H
#define RQLI_CONN_SHARED_H

/* The command connection of threads as conn_threads.c, which opens it, and batch_threads.c, which
 * carries batches over it until it ends, share it. No other file looks into it. */

#include "base/freelist.h"
#include "base/futex.h"
#include "net/conn/conn.h"
#include "net/conn/stream.h"
#include "net/login/login.h"
#include "net/sock/socket.h"

#include <pthread.h>

/* The wait word, on which the owner of a batch sleeps. */
enum {
    AWAKE,    /* running, or reading */
    ASLEEP,   /* has to be woken */
    FINISHED, /* the result is there; it needs no mutex to take it */
    READER,   /* has to read, and has not begun */
};

/* CONNECTING: one caller connects, without the mutex, and other callers wait for the end of its
 * attempt. BROKEN: as long as a thread still reads or writes. The descriptor must not be closed
 * while it does, because the number may be another file's a moment later. */
enum state { DOWN, CONNECTING, UP, BROKEN };

enum {
    /* If an answer takes longer than this, all batches go out at once: waiting for the answers of
     * other callers would cost a caller its time. */
    FAR_US = 10000,
    /* After this idle time a connection is checked before use: servers and proxies end unused
     * ones. */
    UNUSED_US = 1000000,
};

/* All but IDLE are in flight. */
enum phase {
    IDLE,    /* not in the stream yet, or over */
    AWAITED, /* its caller waits for the replies */
    LEFT,    /* its caller has stopped waiting: the replies are read and dropped */
    GIVEN,   /* its caller has given it back, too: it is recycled when the replies are there */
};

struct batch {
    struct rqli_batch visible; /* first: the caller's part */
    struct rqli_in_flight in_flight;
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_replies; /* to its commands, and to WAIT and WAITAOF at the end of its write */
    int n_done;
    struct rqli_durability wanted; /* a copy: its caller may have left */
    struct rqli_durability asked;  /* by WAIT and WAITAOF, for the whole write */
    enum phase phase;
    rql_status status;
    rqli_signal wait_word;
};

struct rqli_conn {
    struct rqli_socket sock; /* fd: used by the thread that connects, reads or writes; see below */
    struct rqli_freelist freelist; /* batches */
    rqli_signal n_attempts; /* attempts to connect that are over; their waiters sleep on it */
    struct rqli_conn_notes notes;
    atomic_bool is_crowded;   /* another connection would be of use to callers */
    atomic_bool is_failing;   /* the last attempt to connect has failed */
    atomic_uint n_met;        /* the most callers at the same time, in the last period */
    _Atomic uint64_t scripts; /* that the server knows */

    struct {
        pthread_mutex_t mutex;
        enum state state;
        bool has_ended; /* since rqli_conn_end_if_ended() was called, and is not up again */
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
        int64_t n_commands;           /* put in the stream so far */
        struct rqli_seat predecessor; /* if it had calls without an answer */
        rql_error last_fault;         /* of the last attempt to connect */
        int64_t longest_us;           /* largest pause between attempts; 0: the usual one */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

static inline struct batch *batch_of(struct rqli_in_flight *entry)
{
    return entry ? RQLI_OWNER(entry, struct batch, in_flight) : NULL;
}

/* Unlocks the mutex, then wakes the owners in the wake list: the next reader first, because the
 * other callers depend on it; it was called last. */
static inline void rqli_conn_unlock(struct rqli_conn *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* Wakes the threads that wait for the end of an attempt to connect, or for the end of a broken
 * connection: they check whether it is up now. Caller holds the mutex. */
static inline void rqli_conn_wake_connecting(struct rqli_conn *self)
{
    (void)atomic_fetch_add_explicit(&self->n_attempts, 1, memory_order_relaxed);
    rqli_signal_wake(&self->n_attempts);
}

/* Sets the wait word of the batch's owner, and notes the owner for being woken. Caller holds the
 * mutex.
 *
 * The word before was READER: the owner was called to read and has not begun; it finds the new word
 * in its place. AWAKE: the owner looks at the word before it sleeps. FINISHED is the last word: its
 * owner returns without the mutex and may give the batch back, so nothing in it is touched
 * afterwards. */
static inline void rqli_conn_call_owner(struct rqli_conn *self, struct batch *batch, int32_t word)
{
    int32_t before = atomic_exchange_explicit(&batch->wait_word, word, memory_order_acq_rel);

    if (before == READER) {
        self->shared.reader = NULL; /* it has not begun, and will not */
    }
    if (before == ASLEEP) {
        rqli_wake_list_add(&self->shared.wake_list, &batch->wait_word);
    }
}

/* Returns true if it is up and idle for this long. Caller holds the mutex. */
static inline bool rqli_conn_is_unused(const struct rqli_conn *self, int64_t unused_us)
{
    return self->shared.state == UP && !self->shared.stream.first && !self->shared.reader &&
           !self->shared.writing && rqli_now_us() - self->shared.stream.heard_us >= unused_us;
}

/* Resets the count of the most callers at the same time. Caller holds the mutex. */
static inline void rqli_conn_begin_period(struct rqli_conn *self, unsigned n_met)
{
    self->shared.most_callers = 0;
    self->shared.n_calls = 0;
    atomic_store_explicit(&self->n_met, n_met, memory_order_relaxed);
}

#endif
