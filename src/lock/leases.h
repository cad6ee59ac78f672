#ifndef RQLI_LEASES_H
#define RQLI_LEASES_H

/*
 * Keeps the leases of a client: the table of what is held, and one background thread. The thread is
 * started at the first need. It renews, claims what was handed over, reports losses, and withdraws
 * requests whose end was never confirmed. It has a connection of its own, so that no call of the
 * caller's delays a renewal.
 */

#include "base/text.h"
#include "base/worker.h"
#include "lock/lease_table.h"
#include "lock/withdraw.h"

#include <pthread.h>
#include <rql/client.h>
#include <stdatomic.h>

/* The last actions of the background thread, with their times; they show why a lock was lost. A
 * ring of plain data, read by tests and in a core file. */
enum rqli_trace_what {
    RQLI_TRACE_ROUSED,    /* by another thread; value: the time */
    RQLI_TRACE_LOOKS,     /* value: for when the thread had planned it */
    RQLI_TRACE_RENEWS,    /* value: how many */
    RQLI_TRACE_RENEWED,   /* value: the status of the exchange */
    RQLI_TRACE_WITHDRAWS, /* value: how many */
    RQLI_TRACE_WITHDREW,  /* value: when the withdrawal had to end at the latest */
    RQLI_TRACE_LOST,      /* value: the token */
    RQLI_TRACE_PLANNED,   /* value: when the thread looks again by itself */
};

enum { RQLI_TRACE_SIZE = 64 };

struct rqli_trace {
    unsigned n; /* added in all; the ring has the last of them */

    struct {
        int64_t at_us;
        int64_t value;
        enum rqli_trace_what what;
    } item[RQLI_TRACE_SIZE];
};

enum { RQLI_RENEWALS_MAX = 64 };

/* While leases are looked after, the thread checks this often whether unused connections have
 * ended, and tries at least this often to reconnect. So a holder that has lost a grant in a
 * failover learns of the loss within half a second. */
enum { RQLI_SERVER_LOOK_US = 200000 };

/* Renewals and claims that are due at one node, many in one round trip. Everything but the round
 * trip happens under the mutex of the leases, and a lock that is removed meanwhile is forgotten.
 * This is no operation of net/op.h, because the calls of an operation are written without that
 * mutex, from keys that have to stay. */
struct rqli_renewals {
    struct rqli_renewals *next; /* of another node, or the other kind */
    struct rqli_node *node;
    bool is_durable;                /* of locks that need replicas or fsync to confirm */
    struct rqli_durability wanted;  /* the strictest of all its locks */
    struct rqli_exchange *exchange; /* under way, or NULL */
    size_t count;

    struct {
        rql_lock *lock; /* NULL: forgotten */
        int64_t ttl_ms;
        int reply_at; /* index of its reply */
    } item[RQLI_RENEWALS_MAX];
};

/* Until when the client's hosts count as living on the server that has a set of keys; see
 * rqli_leases_on_probed(). */
struct rqli_host_end {
    _Atomic int64_t at_us;
};

struct rqli_leases {
    struct rqli_worker worker; /* first; started under the mutex */
    rql_client *client;
    struct rqli_host_end *host_ends; /* of new leases, by set of keys */
    atomic_bool has_extended;        /* a lease that renews was added, once */
    atomic_bool shall_arrive;   /* a connection of the client has ended, and no new one was made */
    rqli_signal callback_ended; /* number of callbacks that have ended */
    int64_t looked_us;          /* of the thread: when it last checked for ended connections */
    atomic_uint n_unsettled;    /* with the one that the thread works on; written under the mutex */
    struct rqli_node **seen_at; /* of the thread, in a cluster: the node of each partition */

    struct {
        pthread_mutex_t mutex;
        const rql_lock *in_callback; /* lock whose on_lost runs, or NULL */
        struct rqli_lease_table table;
        struct rqli_renewals batch;   /* of the first node; those of other nodes follow */
        struct rqli_renewals durable; /* second in the list: of the first node */
        unsigned n_cut_short; /* attempts to connect in a row; each has four times the time */
        struct rqli_withdrawals withdrawals;
        struct rqli_dlist unsettled; /* released, and not confirmed; the oldest first */
        bool settles_on;             /* more of them may need something done at once */
        int64_t planned_us;          /* when the thread looks again by itself */
        unsigned added;              /* leases added since its last look */
        size_t n_adopted;            /* of those in the table */
        struct rqli_trace trace;
        bool shall_stop;
        int64_t stop_us; /* latest end: withdrawals still open then are left to the ttl */
    } shared;            /* everything in here under shared.mutex */
};

struct rqli_transfer;

struct rqli_leases *rqli_leases_new(rql_client *client);
struct rqli_leases *rqli_leases_free(struct rqli_leases *self); /* ends the thread */

struct rqli_trace rqli_leases_trace(struct rqli_leases *self); /* a copy */

/* For the step; caller holds self->shared.mutex. Adds to the trace. Frees a lock of
 * rqli_leases_adopt() when its claim is done or has failed for good. */
void rqli_leases_note(struct rqli_leases *self, enum rqli_trace_what what, int64_t value);
void rqli_leases_free_adopted(struct rqli_leases *self, rql_lock *lock);

/* For the step; caller holds self->shared.mutex. Return until when a call may last: no longer than
 * to the next loss that has to be reported, or the end; and how long one node may keep the thread
 * while another node's renewal may be due next. */
int64_t rqli_leases_budget_us(struct rqli_leases *self);
int64_t rqli_leases_wait_until_us(struct rqli_leases *self);

/* For the step; caller holds self->shared.mutex, which is released meanwhile. Report the leases
 * that have ended; renew and claim what is due. */
void rqli_leases_report_losses(struct rqli_leases *self);
void rqli_leases_renew(struct rqli_leases *self);
/* Returns when to look again for the replies that are under way; RQLI_NEVER_US: there are none. */
int64_t rqli_leases_answer_us(struct rqli_leases *self);

/* Stop the renewal of this lock, or free all renewals at the end. Caller holds
 * self->shared.mutex. */
void rqli_leases_forget_renewal(struct rqli_leases *self, const rql_lock *lock);
void rqli_leases_free_renewals(struct rqli_leases *self);

/* For the step; caller holds self->shared.mutex, which is released meanwhile. Finds out the results
 * of lazy releases. The second function returns when to look again; RQLI_NEVER_US: all are
 * settled. */
void rqli_leases_settle(struct rqli_leases *self);
int64_t rqli_leases_unsettled_us(const struct rqli_leases *self);

/* The worker's step, in lease_step.c: does all that is due, and returns when to call it again. */
int64_t rqli_leases_step(struct rqli_worker *worker);

/* Starts the thread before a lock is taken that is to be renewed, and waits until until_us at most
 * for it to run. The system delays the start of a new thread, on a busy machine for longer than a
 * short lease lasts. If the thread cannot be started, rqli_leases_add() fails. */
void rqli_leases_prepare(struct rqli_leases *self, int64_t until_us);

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

/* Repeats the withdrawal of a request or grant until the server has confirmed it, or until what it
 * may have been granted for ttl_ms must have ended. Without memory for that, only the ttl ends
 * it. */
void rqli_leases_withdraw(struct rqli_leases *self, const struct rqli_withdrawal_of *what,
                          int64_t ttl_ms);

/* Returns whether a request for one of these locks by its acquirer is being withdrawn: the server
 * may still say that this acquirer holds the lock. */
bool rqli_leases_withdraws(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* Takes over the handle of a lazy release, which was sent and whose caller has got RQL_OK. The next
 * release finds the answer, or else the thread waits for it and repeats the release if no answer
 * comes. If the lock was not ours any more, or no answer comes in the longest time that a release
 * may take, this is reported as a loss. */
void rqli_leases_settle_later(struct rqli_leases *self, rql_lock *lock,
                              struct rqli_exchange *release);
/* False: there is no thread, or too many releases are unsettled; the release has to wait for its
 * answer. */
bool rqli_leases_may_settle(struct rqli_leases *self);

/* A connection of the client has ended. If the thread looks after leases, it reconnects and finds
 * out whether the server is the same and has lost nothing. Any thread. */
void rqli_leases_on_cut(struct rqli_leases *self);

/* The clock of a server jumped, or the server may have lost writes. Marks what is held as doubtful,
 * to be verified: of these keys, or all (NULL). */
void rqli_leases_doubt(struct rqli_leases *self, const struct rqli_key_set *set);

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

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock); /* a copy */
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

/* Calls visit for every lock that is held and not lost, under self->shared.mutex. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context);

#endif
