#ifndef RQLI_LEASES_H
#define RQLI_LEASES_H

/*
 * Keeps the leases of a client: the table of what is held, and one background thread, started at
 * the first need, that renews, claims what was handed over, reports losses, and withdraws requests
 * whose end was never confirmed. The thread has a connection of its own, so that no call of the
 * caller's delays a renewal.
 */

#include "base/text.h"
#include "base/worker.h"
#include "lock/lease_table.h"
#include "lock/withdraw.h"

#include <pthread.h>
#include <rql/client.h>
#include <stdatomic.h>

/* What the background thread did last, and when: for whoever asks why a lock was lost. A ring of
 * plain data; read by tests, and in a core file. */
enum rqli_trace_what {
    RQLI_TRACE_ROUSED,    /* by another; value: for when */
    RQLI_TRACE_LOOKS,     /* value: when that was planned by itself */
    RQLI_TRACE_RENEWS,    /* value: how many */
    RQLI_TRACE_RENEWED,   /* value: the status of the exchange */
    RQLI_TRACE_WITHDRAWS, /* value: how many */
    RQLI_TRACE_WITHDREW,  /* value: when that was to end at the latest */
    RQLI_TRACE_LOST,      /* value: the token */
    RQLI_TRACE_PLANNED,   /* value: when it looks again by itself */
};

enum { RQLI_TRACE_SIZE = 64 };

struct rqli_trace {
    unsigned n; /* added in all; those at the end of them are there */

    struct {
        int64_t at_us;
        int64_t value;
        enum rqli_trace_what what;
    } item[RQLI_TRACE_SIZE];
};

enum { RQLI_RENEWALS_MAX = 64 };

/* While leases are looked after the thread looks so often whether connections have ended that
 * nobody uses, and at least so often it tries to make a new one: who has lost a grant by a failover
 * learns of it within half a second. */
enum { RQLI_SERVER_LOOK_US = 200000 };

/* Renewals and claims that are due at one node, many in one round trip. Everything but the round
 * trip happens under the mutex of the leases: a lock that is removed meanwhile is forgotten. It is
 * no operation of net/op.h, whose calls are written without that mutex, from keys that have to
 * stay. */
struct rqli_renewals {
    struct rqli_renewals *next; /* of another node, or the other kind */
    struct rqli_node *node;
    bool is_durable;                /* of locks that ask for more than the server's word */
    struct rqli_durability wanted;  /* by any of them */
    struct rqli_exchange *exchange; /* under way, or NULL */
    size_t count;

    struct {
        rql_lock *lock; /* NULL: forgotten */
        int64_t ttl_ms;
        int reply_at; /* index of its reply */
    } item[RQLI_RENEWALS_MAX];
};

/* Until when the client's hosts live for who has a set of keys; see rqli_leases_on_probed(). */
struct rqli_host_end {
    _Atomic int64_t at_us;
};

struct rqli_leases {
    struct rqli_worker worker; /* first; started under the mutex */
    rql_client *client;
    struct rqli_host_end *host_ends; /* of new leases, by set of keys */
    atomic_bool has_extended;        /* a lease that renews was added, once */
    atomic_bool shall_arrive;   /* a connection of the client has ended, and no new one was made */
    rqli_signal callback_ended; /* counts */
    int64_t looked_us;          /* the thread's: when it looked whether connections have ended */
    atomic_uint n_unsettled;    /* and the one that the thread works on; under the mutex */
    struct rqli_node **seen_at; /* the thread's, of a cluster: who had the keys, by partition */

    struct {
        pthread_mutex_t mutex;
        const rql_lock *in_callback; /* whose on_lost runs, or NULL */
        struct rqli_lease_table table;
        struct rqli_renewals batch;   /* of the first node, and of the others behind it */
        struct rqli_renewals durable; /* the second: of the first node */
        unsigned n_cut_short; /* attempts to connect in a row; each has four times the time */
        struct rqli_withdrawals withdrawals;
        struct rqli_dlist unsettled; /* released, and not confirmed; the oldest first */
        bool settles_on;             /* there may be more of them to do something about at once */
        int64_t planned_us;          /* when the thread looks again by itself */
        unsigned added;              /* leases added since its last look */
        size_t n_adopted;            /* of those in the table */
        struct rqli_trace trace;
        bool shall_stop;
        int64_t stop_us; /* then at the latest: what is still to withdraw is left to its ttl */
    } shared;            /* everything in here under shared.mutex */
};

struct rqli_transfer;

struct rqli_leases *rqli_leases_new(rql_client *client);
struct rqli_leases *rqli_leases_free(struct rqli_leases *self); /* ends the thread */

struct rqli_trace rqli_leases_trace(struct rqli_leases *self); /* a copy */

/* For the step, under the mutex: adds to the trace; frees one of rqli_leases_adopt() for which all
 * is done or in vain. */
void rqli_leases_note(struct rqli_leases *self, enum rqli_trace_what what, int64_t value);
void rqli_leases_free_adopted(struct rqli_leases *self, rql_lock *lock);

/* Under the mutex: something of this lock may be due earlier than before. */
void rqli_leases_rouse_for(struct rqli_leases *self, rql_lock *lock);
/* Under the mutex: what was settled before the new owner has listed its lock is found then. */
void rqli_leases_apply_transfer(struct rqli_leases *self, const struct rqli_transfer *transfer);

/* For the step, under the mutex: no call may last beyond the next loss that has to be reported, or
 * the end. And for how long one node may keep the thread, where what is due next may be another's.
 */
int64_t rqli_leases_budget_us(struct rqli_leases *self);
int64_t rqli_leases_wait_until_us(struct rqli_leases *self);

/* For the step, under the mutex, which is released meanwhile: whose end has come is told; what is
 * due is renewed and claimed. */
void rqli_leases_report_losses(struct rqli_leases *self);
void rqli_leases_renew(struct rqli_leases *self);
/* When an answer is looked for again that is under way; RQLI_NEVER_US: none is. */
int64_t rqli_leases_answer_us(struct rqli_leases *self);

/* Under the mutex: this lock is renewed no more; at the end, none. */
void rqli_leases_forget_renewal(struct rqli_leases *self, const rql_lock *lock);
void rqli_leases_free_renewals(struct rqli_leases *self);

/* For the step, under the mutex, which is released meanwhile: what has become of lazy releases.
 * When to ask again; RQLI_NEVER_US: all is settled. */
void rqli_leases_settle(struct rqli_leases *self);
int64_t rqli_leases_unsettled_us(const struct rqli_leases *self);

/* The worker's step, in lease_step.c: does all that is due, and says when to come again. */
int64_t rqli_leases_step(struct rqli_worker *worker);

/* Before a lock is taken that is to be renewed: starts the thread, and waits until until_us at most
 * for it to run. The system keeps a new thread from running for longer than others, on a busy
 * machine for longer than a short lease lasts. If it cannot be started rqli_leases_add() fails.
 */
void rqli_leases_prepare(struct rqli_leases *self, int64_t until_us);

/* Lists a lock that was granted. RQL_E_NOMEM: it needs watching, and the thread could not be
 * started. */
rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error);

/* They end by their ttl, unless the caller extends them. */
void rqli_leases_stop_renewal(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* Unlists it. Afterwards no callback of it runs or will run, unless this is called from it. */
void rqli_leases_remove(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* Takes a lock whose holder has left it to its ttl, and of which only a part is claimed: claims the
 * rest until that is confirmed or must have ended, without a report, and frees it. Without memory
 * or thread for that it is freed at once. */
void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock);

/* Goes on giving back a request or grant until the server has confirmed, or until what it may have
 * been granted for ttl_ms must have ended. Without memory for it, that end is the only one.
 */
void rqli_leases_withdraw(struct rqli_leases *self, const struct rqli_withdrawal_of *what,
                          int64_t ttl_ms);

/* Whether a request for one of these locks by its acquirer is being given back: the server may
 * still say that its acquirer holds the lock. */
bool rqli_leases_withdraws(struct rqli_leases *self, rql_lock *const *locks, size_t count);

/* A lazy release: it was sent, its caller has got RQL_OK, and the handle is the leases' now. The
 * thread waits for the answer, unless the next one finds it there; repeats the release where none
 * comes; and where it was not ours any more, or no answer comes in the time that a release takes
 * at most, tells that as a loss. */
void rqli_leases_settle_later(struct rqli_leases *self, rql_lock *lock,
                              struct rqli_exchange *release);
/* False: no thread to be had, or too many are open; the release has to wait for its answer. */
bool rqli_leases_may_settle(struct rqli_leases *self);

/* A connection of the client has ended: the thread makes one, if it looks after leases, and finds
 * out whether the server is the same and has lost nothing. Any thread. */
void rqli_leases_on_cut(struct rqli_leases *self);

/* The clock of a server jumped, or it may have lost writes: what is held is doubtful and verified,
 * of these keys, or all (NULL). */
void rqli_leases_doubt(struct rqli_leases *self, const struct rqli_key_set *set);

/* A heartbeat that was sent at sent_us confirmed that this client's hosts live, to who has these
 * keys: silent for silence_ms from then on they count as dead there, so no lease is relied on for
 * as long as that. Those that are held learn it by rqli_leases_rebind(), behind the last of
 * several. */
void rqli_leases_on_probed(struct rqli_leases *self, const struct rqli_key_set *set,
                           int64_t sent_us, int64_t silence_ms);
void rqli_leases_rebind(struct rqli_leases *self);
/* A first heartbeat is about to be sent: from now on silence may kill, also if no reply comes. */
void rqli_leases_on_probing(struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t silence_ms);
/* Hosts were taken out, as rqli_leases_on_probed(): if those were all, nobody watches. */
void rqli_leases_on_left(struct rqli_leases *self, const struct rqli_key_set *set);
/* Nobody speaks for the hosts any more, and the server may not know: new leases are not bound. */
void rqli_leases_on_unwatched(struct rqli_leases *self);
/* Until when what is acquired now may be relied on; RQLI_NEVER_US: nobody watches. */
int64_t rqli_leases_host_end_us(const struct rqli_leases *self, const struct rqli_key_set *set);
/* What is acquired now may be flushed at once: the last heartbeat is too old. */
bool rqli_leases_is_overdue(const struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t now_us);

/* Does this client keep extending this lock for this acquirer? */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer);

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock); /* a copy */
/* False: nothing changes, the lease was gone by then and stays so. */
bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms);
/* An extension of this grant ended at sent_us: those who share the grant have left_ms at most. */
void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms);
void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock);
/* It is put into the stream: its new owner may be told. from: by which its releaser had got the
 * lock, or NULL. */
void rqli_leases_on_handed_on(struct rqli_leases *self, struct rqli_transfer *from,
                              struct rqli_transfer *transfer);
/* Its releaser gives the lock back, whatever has become of it: all who have got the lock from its
 * new owner rely on it no more. */
void rqli_leases_on_given_up(struct rqli_leases *self, struct rqli_transfer *transfer);
/* The server has heard of this hand-over: the lock is its new owner's, for left_ms from sent_us on;
 * below 0: it is not. */
void rqli_leases_on_transferred(struct rqli_leases *self, struct rqli_transfer *transfer,
                                int64_t sent_us, int64_t left_ms);
/* This grant was taken away: whoever shares it has lost its lock. */
void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce);

/* The descriptor that becomes readable at a loss; made at the first call. */
rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out,
                               rql_error *error);

/* The same descriptor under another number: readable when either lock is lost. Before
 * rqli_leases_lost_fd() of this lock. */
rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error);

/* Calls visit for every lock held and not lost, under the mutex of the leases. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context);

#endif
