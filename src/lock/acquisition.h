#ifndef RQLI_ACQUISITION_H
#define RQLI_ACQUISITION_H

/*
 * The acquisition of one lock, or of 2 to 64 at once: one request that stands in the queue of each,
 * under a nonce of its own. rqli_request decides, this does it, as an operation that a thread or a
 * loop drives; rqli_wait_*() are how either listens for pushes.
 */

#include "lock/lock.h"
#include "lock/request.h"
#include "lock/withdraw.h"
#include "net/op.h"
#include "wire/answer.h"

#include <rql/series.h>

struct rql_loop;
struct rqli_loop_node;

/* What it came to. */
struct rqli_acquire_result {
    int64_t rank; /* last known, -1: never queued */
    int64_t tries;
    int64_t asked;  /* how often the server was */
    int64_t n_over; /* grants that were over by the time that they were known */
    int64_t waited_us;
    int64_t ended_us; /* local time */
};

/* What only one for several locks needs. The scripts take them in the canonical order. */
struct rqli_acquire_several {
    const struct rqli_subject *subject;   /* the series */
    const size_t *order;                  /* of the locks, sorted bytewise */
    rql_series_fate fate[RQL_SERIES_MAX]; /* of each, in the order asked for */
    const struct rqli_keys *keys[RQL_SERIES_MAX];
    char nonces[RQL_SERIES_MAX * (RQLI_HEX_SIZE - 1) + 1]; /* all in a row */
    struct rqli_waiter_nonce waiting[RQL_SERIES_MAX];
};

/* Room for an id of any client; one that is longer is treated as not known. */
enum { RQLI_OWNER_SIZE = 80 };

/* What the calls of a round are. */
enum rqli_acquire_phase {
    RQLI_ACQUIRE_TRY,    /* acquire.lua; where there are two, a heartbeat comes first */
    RQLI_ACQUIRE_ASK,    /* before the first try: does the server say the truth about fsync? */
    RQLI_ACQUIRE_SECURE, /* a try was granted, which counts if it is as safe as it has to be */
    RQLI_ACQUIRE_LEAVE,  /* leave.lua, for each lock */
};

struct rqli_acquire {
    struct rqli_op op; /* first */
    rql_client *client;
    struct rqli_node *node; /* whom it asks, and where it listens */
    const rql_lock_options *options;
    rql_lock *const *locks;               /* in the order asked for */
    struct rqli_acquire_several *several; /* NULL: one lock */
    size_t count;
    int64_t begun_us;
    struct rqli_request request;
    struct rqli_waiter waiter;
    struct rqli_waiter_nonce waiting; /* of one lock */
    struct rqli_acquire_result *result;
    struct rqli_durability durability; /* of the grant */

    struct rqli_conn *conn;    /* on the thread of its caller: all its calls go over this one */
    struct rqli_op_task *task; /* on a loop; NULL: on the thread of its caller */
    struct rql_loop *loop;
    struct rqli_loop_node *at; /* there: what it has for `node` */
    uint64_t watch;            /* there: position in its stream of the check of Ruby's lock, or 0 */

    rql_error *error;            /* room for the last fault; NULL: none yet, or no memory for it */
    rql_status fault;            /* of the last try; RQL_OK: it was answered */
    char owner[RQLI_OWNER_SIZE]; /* the id of the lock's holder, from the last answer; "": not known
                                  */
    int64_t tried_us;            /* when the last try began */
    enum rqli_acquire_phase phase;
    bool holds_back;  /* tries do not enter the queue: its client is not subscribed yet */
    bool has_refused; /* a hand-over, which the server may know of yet */
    bool withdraws;   /* when the last try began, an earlier request for one of its locks was being
                         withdrawn: its acquirer may own the lock by that */
    bool had_grace;   /* a try failed after the deadline: leaving has only the rest */
    const char *fsync_lacks; /* what the server lacks for a true answer, in words; NULL: nothing */
    struct rqli_withdrawing leaving;

    int64_t late_token; /* of a grant whose push was too old to be relied on; 0: none */

    /* Of the last refusal: */
    struct rqli_slice watched; /* key of a lock of Ruby's; empty: none */
    const char *armed;         /* the key whose next change is notified; a series has several */
    uint64_t watch_generation; /* of the connection that it is armed for */

    struct rqli_watch_pause {
        int64_t armed_us; /* when the watch was armed, */
        int64_t rank;     /* and what the last answer said then */
        int64_t lock_ends_us;
        int64_t until_us; /* not armed before that */
        int n_idle;       /* notices in a row after which all was as before */
    } watch_pause;
};

/* locks, count, several (with subject and order, and fate zero), options, result and begun_us are
 * set, and outlive it; on a loop also task and loop. All else is zero. */
void rqli_acquire_init(struct rqli_acquire *self);

/* Drives it on the caller's thread to its end. Any status of rql_lock_acquire(): on RQL_OK the
 * leases look after the locks, else nothing is held. It is reported; options->refusal is filled. */
rql_status rqli_acquire_run(struct rqli_acquire *self, rql_error *error);

/* The steps of rqli_acquire_run(), for a loop, where each may take its time. op.status says how it
 * stands. */

/* Registers it with those who wait. False: it is over, and not to be driven. */
bool rqli_acquire_begin(struct rqli_acquire *self);
/* It was begun, and cannot be driven for lack of memory. */
void rqli_acquire_abandon(struct rqli_acquire *self);
/* It was granted: the leases look after its locks. False: they cannot, and it is to be given back.
 */
bool rqli_acquire_keep(struct rqli_acquire *self);
/* The last step: reports the result to those who listen. */
void rqli_acquire_report(const struct rqli_acquire *self);

/* That which waits as this one. */
static inline struct rqli_acquire *rqli_acquire_of(struct rqli_waiter *waiter)
{
    return (struct rqli_acquire *)((char *)waiter - offsetof(struct rqli_acquire, waiter));
}

/* The i-th lock in the canonical order. */
static inline rql_lock *rqli_acquire_lock(const struct rqli_acquire *self, size_t i)
{
    return self->locks[self->several ? self->several->order[i] : 0];
}

/* Gives back what it was granted, and goes on under other nonces, in its place in the queue. */
void rqli_acquire_begin_anew(struct rqli_acquire *self);
/* The server says that its acquirer owns a lock already. */
void rqli_acquire_on_conflict(struct rqli_acquire *self);

/* A try had no answer. */
void rqli_acquire_on_failed(struct rqli_acquire *self, const rql_error *fault);
/* Keeps it for rqli_acquire_raise(). */
void rqli_acquire_note_fault(struct rqli_acquire *self, const rql_error *fault);

#endif
