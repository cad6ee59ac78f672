#ifndef RQLI_LEASES_H
#define RQLI_LEASES_H

/*
 * Keeps the leases of a client: the table of what is held, the state of each lock, and the notice
 * of its loss. Renewals and claims are duties of the thread in the background.
 */

#include "base/hash_map.h"
#include "base/text.h"
#include "lock/background.h"
#include "lock/lock.h"

#include <rql/client.h>
#include <stdatomic.h>

struct rqli_leases {
    rql_client *client;
    struct rqli_background *background;
    /* By set of keys, for new leases: until when the client's hosts count as living on the server
     * that has these keys; see rqli_leases_on_probed(). */
    _Atomic int64_t *host_ends_us;
    atomic_bool has_extended;   /* a lease that renews was added, once */
    atomic_bool has_shared;     /* a share was added, once */
    _Atomic int64_t doubted_us; /* when more than one lock was marked as doubtful last */
    atomic_uint n_reentries;    /* that are listed */
    atomic_uint n_changes;      /* of listed holds, which a hold that is not listed yet misses */
    atomic_uint n_handing_over; /* hand-overs inside the client that are not over (hand_over.c) */
    rqli_signal callback_ended; /* number of callbacks that have ended */
    rqli_signal unlisted;       /* number of locks that were unlisted while the client is drained */

    struct {
        const rql_lock *in_callback;  /* lock whose callback runs and has not ended it, or NULL */
        struct rqli_dlist all;        /* by kept.link */
        struct rqli_due drain_look;   /* when the holders are asked to release their locks */
        int64_t drained_us;           /* until when; RQLI_NEVER_US: without a limit */
        struct rqli_hash_map renewed; /* by name and acquirer */
    } shared;                         /* guarded by the mutex of the background */
};

struct rqli_transfer;

struct rqli_leases *rqli_leases_new(rql_client *client, struct rqli_background *background);
struct rqli_leases *rqli_leases_free(struct rqli_leases *self); /* the thread has ended */

/* Lists a lock that was granted. RQL_E_NOMEM: the lock needs watching, and the thread could not be
 * started. */
rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error);

/* Stops the renewal of these locks: they end by their ttl, unless the caller extends them. */
void rqli_leases_stop_renewal(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* Unlists the locks. Afterwards no callback of them runs or will run, unless this is called from
 * one. */
void rqli_leases_remove(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* Takes a lock that its holder has left to its ttl, and of which only a part is claimed. Claims the
 * rest, without a report, until the claim is confirmed or the lock must have ended, and frees the
 * handle. Without memory or a thread for that, the handle is freed at once. */
void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock);

/* The clock of a server jumped, or the server may have lost writes. Marks what is held as doubtful,
 * to be verified: of these keys, or all (NULL). one: this lock alone, unless it is NULL. */
void rqli_leases_doubt(struct rqli_leases *self, const struct rqli_key_set *set,
                       const rql_lock *one);

/* A heartbeat sent at sent_us confirmed that this client's hosts live, on the server that has these
 * keys. If they are silent for silence_ms from then on they count as dead there, so no lease is
 * relied on for longer. Leases that are held already get the new end by rqli_leases_rebind(), which
 * is called after the last of several heartbeats. */
void rqli_leases_on_probed(struct rqli_leases *self, const struct rqli_key_set *set,
                           int64_t sent_us, int64_t silence_ms);
void rqli_leases_rebind(struct rqli_leases *self);
/* A first heartbeat is about to be sent: from now on silence can cause hosts to be declared dead,
 * also if no reply comes. */
void rqli_leases_on_probing(struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t silence_ms);
/* Hosts were removed from this set. If none is left there, the swarm no longer watches this client.
 * Held leases get the new end as after rqli_leases_on_probed(). */
void rqli_leases_on_left(struct rqli_leases *self, const struct rqli_key_set *set);
/* No heartbeats are sent any more, and the server may not know: new leases are not bound. */
void rqli_leases_on_unwatched(struct rqli_leases *self);
/* Returns until when a lock acquired now may be relied on; RQLI_NEVER_US: no swarm watches the
 * hosts. */
int64_t rqli_leases_host_end_us(const struct rqli_leases *self, const struct rqli_key_set *set);
/* True: a lock acquired now may be flushed at once, because the last heartbeat is too old. */
bool rqli_leases_is_overdue(const struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t now_us);

/* Returns whether this client keeps extending this lock for this acquirer. */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer);

/* Returns whether this client holds a grant of the same name for the acquirer of `lock`, which is
 * not listed itself. A re-entry is no grant: its grant may have ended, by another thread's release.
 * Looks at all locks if the acquirer holds any. */
bool rqli_leases_has(struct rqli_leases *self, const rql_lock *lock);

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock); /* a copy */
rql_lock_state rqli_leases_state(struct rqli_leases *self, const rql_lock *lock);    /* by now */
/* False: nothing changes, because the lease was gone by then and stays so. */
bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms);
/* An extension of this grant ended at sent_us: all locks that share the grant have left_ms at
 * most. */
void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms);
void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock);
/* The transfer is put into the stream, so its new owner may be notified. from: the transfer by
 * which the releaser had got the lock, or NULL. */
void rqli_leases_on_handed_on(struct rqli_leases *self, struct rqli_transfer *from,
                              struct rqli_transfer *transfer);
/* The releaser gives the lock back, whether or not it was transferred. No lock that was handed on
 * from its new owner is relied on any more. */
void rqli_leases_on_given_up(struct rqli_leases *self, struct rqli_transfer *transfer);
/* The server has answered about this hand-over: the lock is its new owner's for left_ms from
 * sent_us on; below 0: it is not. */
void rqli_leases_on_transferred(struct rqli_leases *self, struct rqli_transfer *transfer,
                                int64_t sent_us, int64_t left_ms);
/* This grant was taken away: each lock that shares it is lost. */
void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce);

/* Returns in *out the descriptor that becomes readable at a loss. It is made at the first call. */
rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out,
                               rql_error *error);

/* Duplicates the descriptor for this lock, so that it is readable when either lock is lost. To be
 * called before rqli_leases_lost_fd() of this lock. */
rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error);

/* Has each holder with on_wanted notified that its lock should be released until until_us. The
 * client is marked as draining before. False: no thread. */
bool rqli_leases_drain(struct rqli_leases *self, int64_t until_us);
/* Waits until no lock is listed. False: until_us came first. */
bool rqli_leases_await_none(struct rqli_leases *self, int64_t until_us);

/* Calls visit for every lock that is held and not lost, under the mutex of the background. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context);

#endif
