#ifndef RQLI_ACQUISITION_H
#define RQLI_ACQUISITION_H

/*
 * The acquisition of one lock, or of 2 to 64 at once: one request that stands in the queue of each,
 * under a nonce of its own. The state machine rqli_request decides; an acquisition carries out its
 * decisions, as an operation that a thread or a loop drives. lock/wait.h is how it listens for
 * pushes.
 */

#include "lock/lock.h"
#include "lock/request.h"
#include "lock/withdraw.h"
#include "net/op/op.h"
#include "net/op/op_loop.h"
#include "wire/answer.h"

#include <rql/series.h>

struct rqli_pushes;
struct rqli_wait_ops;

/* The result of an acquisition. */
struct rqli_acquire_result {
    int64_t rank; /* last known; -1: never queued */
    int64_t tries;
    int64_t asked;  /* tries that were sent */
    int64_t n_over; /* grants that had ended by the time that they were known */
    int64_t waited_us;
    int64_t ended_us; /* local time */
};

/* The members that only an acquisition of several locks needs. The scripts take the locks in the
 * canonical order. */
struct rqli_acquire_several {
    const struct rqli_subject *subject;   /* the series */
    const size_t *order;                  /* indices of the locks, sorted bytewise */
    rql_series_fate fate[RQL_SERIES_MAX]; /* of each lock, in the order asked for */
    const struct rqli_keys *keys[RQL_SERIES_MAX];
    char nonces[RQL_SERIES_MAX * (RQLI_HEX_SIZE - 1) + 1]; /* of all locks, in a row */
    struct rqli_waiter_nonce waiting[RQL_SERIES_MAX];
};

/* Room for an id of any client; a longer id is treated as not known. */
enum { RQLI_OWNER_SIZE = 80 };

/* The purpose of the calls of a round. */
enum rqli_acquire_phase {
    RQLI_ACQUIRE_TRY, /* acquire.lua or acquire_series.lua; a heartbeat may come first */
    RQLI_ACQUIRE_ASK, /* before the first try: can the server's answers about fsync be trusted? */
    RQLI_ACQUIRE_SECURE, /* a try was granted; the grant counts if it is as safe as it has to be */
    RQLI_ACQUIRE_LEAVE,  /* leave.lua, for each lock */
};

struct rqli_acquire {
    struct rqli_op op; /* first */
    rql_client *client;
    struct rqli_node *node; /* where it sends its calls, and where it listens */
    const rql_lock_options *options;
    rql_lock *const *locks;               /* in the order asked for */
    struct rqli_acquire_several *several; /* NULL: one lock */
    size_t count;
    int64_t begun_us;
    struct rqli_request request;
    struct rqli_waiter waiter;
    struct rqli_waiter_nonce waiting; /* the nonce of a single lock */
    struct rqli_acquire_result *result;
    struct rqli_durability durability; /* that the grant needs */

    const struct rqli_wait_ops *wait; /* of a thread, or of a loop */
    struct rqli_pushes *pushes;       /* at `node`: what its waiter joins */
    struct rqli_conn *conn;           /* on its caller's thread: the connection for all its calls */
    struct rqli_op_driver *driver;    /* on a loop; NULL: on its caller's thread */
    uint64_t watch; /* on a loop: position of the check of Ruby's lock in the stream, or 0 */

    rql_error *error; /* room for the last fault; NULL: no fault yet, or no memory for it */
    rql_status fault; /* of the last try; RQL_OK: it was answered */
    char owner[RQLI_OWNER_SIZE]; /* id of the lock's holder, from the last answer; "": not known */
    int64_t tried_us;            /* when the last try began */
    unsigned n_changes;          /* of the leases, at that time */
    enum rqli_acquire_phase phase;
    bool holds_back;  /* tries do not enter the queue, because the client is not subscribed yet */
    bool has_refused; /* it gave back a hand-over or grant, which the server may not know yet */
    bool withdraws;   /* when the last try began, one of its locks was being withdrawn from an
                         earlier request, or released lazily, so its acquirer may still own it */
    bool had_grace;   /* a try failed after the deadline: leaving has only the rest of the grace */
    const char *fsync_lacks; /* what the server lacks for true answers about fsync; NULL: nothing */
    struct rqli_withdrawing leaving;

    int64_t late_token; /* of a grant whose push was too old to rely on; 0: none */

    /* From the last refusal: */
    struct rqli_slice watched; /* key of a lock of Ruby's; empty: none */
    const char *armed; /* the key of whose next change we are notified; a series has several */
    uint64_t watch_generation; /* of the connection for which it is armed */

    struct rqli_watch_pause {
        int64_t armed_us; /* when the watch was armed, */
        int64_t rank;     /* and what the last answer said at that time */
        int64_t lock_ends_us;
        int64_t until_us; /* the watch is not armed before that */
        int n_idle;       /* notices in a row that found nothing changed */
    } watch_pause;
};

/* Returns the acquisition that this waiter is part of. */
static inline struct rqli_acquire *rqli_acquire_of(struct rqli_waiter *waiter)
{
    return RQLI_OWNER(waiter, struct rqli_acquire, waiter);
}

/* Returns the i-th lock in the canonical order. */
static inline rql_lock *rqli_acquire_lock(const struct rqli_acquire *self, size_t i)
{
    return self->locks[self->several ? self->several->order[i] : 0];
}

#endif
