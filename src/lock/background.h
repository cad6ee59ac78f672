#ifndef RQLI_BACKGROUND_H
#define RQLI_BACKGROUND_H

/*
 * What a client does without a caller that waits for it: one thread, and the queue of its duties.
 *
 * A duty is one call of a script that is sent when it is due, and again until it is confirmed: the
 * renewal of a held lock (lock/leases.c), its claim after a hand-over (the same), the withdrawal of
 * a request (lock/withdraw.c), a release that was sent without waiting and has to be repeated
 * (lock/late.c), and a record of ended holds (lock/history.c). Up to 64 duties at one node are sent
 * together. The thread is started at the first need. It has connections of its own, so that no call
 * of the caller's delays a renewal. While none can be opened, renewals go over a caller's
 * connection.
 */

#include "base/clock.h"
#include "base/dlist.h"
#include "base/hash_map.h"
#include "base/timers.h"
#include "base/worker.h"
#include "net/op/op.h"

#include <pthread.h>
#include <rql/client.h>

struct rqli_duty;

/* All three are called on the thread, with the mutex, which they may release meanwhile. A call that
 * has done nothing, and that the server asks to repeat, is begun and written again without a `read`
 * in between. Its subject may have changed by then, and nothing may count twice. */
struct rqli_duty_ops {
    /* The duty is due. Returns true if its call is to be sent. False: it is over, and perhaps
     * freed, or it was set to another time. At the end of the client now_us is RQLI_NEVER_US. */
    bool (*begin)(struct rqli_duty *self, int64_t now_us);
    /* Writes the call; its keys and texts stay until this duty is dropped. */
    void (*write)(struct rqli_duty *self, struct rqli_call *call);
    /* The call was answered; or not (NULL), because of this fault. The duty sets its next time, or
     * it is over. An answer that makes no sense may be any reply. */
    void (*read)(struct rqli_duty *self, const struct rqli_batch *answer,
                 const struct rqli_reply *reply, rql_status fault);
    bool is_urgent; /* a lock may be lost if it is late: it goes first */
};

/* The caller sets the first three. Everything is guarded by the mutex of the background. */
struct rqli_duty {
    struct rqli_due due; /* first */
    const struct rqli_duty_ops *ops;
    const struct rqli_key_set *set;           /* its keys */
    const struct rqli_durability *durability; /* NULL: none is asked for */
    struct rqli_retries retries;              /* since the last answer */
    struct rqli_duty_batch *batch;            /* its call is there; or NULL */
};

enum { RQLI_DUTIES_MAX = 64 };

/* The calls that are due at one node, many in one round trip. Everything but the round trip happens
 * under the mutex, and a duty that is dropped meanwhile is forgotten: the reply to its call is not
 * read. This is no operation of net/op/op.h, which waits for its slowest node. */
struct rqli_duty_batch {
    struct rqli_duty_batch *next; /* of another node, or the other kind */
    struct rqli_node *node;
    bool is_durable;               /* of locks that need replicas or fsync to confirm */
    bool is_urgent;                /* one of its duties is */
    struct rqli_durability wanted; /* the strictest of all its duties */
    struct rqli_batch *sent;       /* under way, or NULL */
    size_t count;

    struct {
        struct rqli_duty *duty; /* NULL: forgotten */
        int reply_at;           /* index of its reply */
    } item[RQLI_DUTIES_MAX];
};

/* While leases are looked after, the thread checks this often whether unused connections have
 * ended, and tries at least this often to reconnect. So a holder that has lost a grant in a
 * failover learns of the loss within half a second. */
enum { RQLI_SERVER_LOOK_US = 200000 };

struct rqli_background {
    struct rqli_worker worker; /* first; started under the mutex */
    rql_client *client;
    atomic_uint n_late;           /* releases that are not confirmed; written under the mutex */
    atomic_size_t n_withdrawals;  /* open ones; written under the mutex, read by acquisitions */
    struct rqli_due *server_look; /* lock/lost_writes.c; constant */

    struct {
        pthread_mutex_t mutex;          /* also of the leases, and of all that is about duties */
        struct rqli_timers losses;      /* of leases: each reports one when it fires */
        struct rqli_timers looks;       /* each looks for something when it fires */
        struct rqli_timers urgent;      /* duties */
        struct rqli_timers others;      /* duties */
        struct rqli_duty_batch batch;   /* of the first node; those of other nodes follow */
        struct rqli_duty_batch durable; /* second in the list: of the first node */
        unsigned n_cut_short; /* attempts to connect in a row; each has four times the time */
        struct rqli_hash_map withdrawals; /* lock/withdraw.c: the open ones */
        struct rqli_dlist late;     /* lock/late.c: releases without an answer, the oldest first */
        struct rqli_dlist settling; /* in place of that: the thread awaits or repeats them */
        struct rqli_due late_look;
        size_t n_adopted;   /* leases whose holder has forgotten them (lock/leases.c) */
        unsigned n_records; /* of ended holds, which are not sent yet (lock/history.c) */
        unsigned n_added;   /* leases added since the last step */
        /* When the client ends, what is still open at this time is left to the ttl. RQLI_NEVER_US:
         * the client does not end. */
        int64_t stop_us;
    } shared; /* everything in here under shared.mutex */
};

/* NULL: no memory. The thread is not started yet. */
struct rqli_background *rqli_background_new(rql_client *client);

/* Ends the thread, when nothing is owed any more or io_timeout_ms have passed. To be freed
 * afterwards; between the two calls what it still has can be taken out. */
void rqli_background_stop(struct rqli_background *self);
struct rqli_background *rqli_background_free(struct rqli_background *self);

static inline void rqli_background_lock(struct rqli_background *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
}

static inline void rqli_background_unlock(struct rqli_background *self)
{
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Starts the thread, and waits until until_us at most for it to run. The system delays the start of
 * a new thread, on a busy machine for longer than a short lease lasts. */
void rqli_background_start(struct rqli_background *self, int64_t until_us);

/* The rest is for callers that hold the mutex, except where a comment says otherwise. */

/* Starts the thread if necessary, and makes room for one more duty. False: no memory or thread. */
bool rqli_background_reserve(struct rqli_background *self, const struct rqli_duty *duty);

/* Has the duty begun at at_us, and wakes the thread in time; RQLI_NEVER_US: not, for now. If its
 * call is under way, the answer is read first. */
void rqli_background_set(struct rqli_background *self, struct rqli_duty *duty, int64_t at_us);

/* Does the same for a loss or a look. Room for it was reserved. */
void rqli_background_fire_at(struct rqli_background *self, struct rqli_timers *timers,
                             struct rqli_due *due, int64_t at_us);

/* Forgets the duty, and gives up its room. */
void rqli_background_drop(struct rqli_background *self, struct rqli_duty *duty);

/* Brings a look forward to at_us. No-op if it is due by then. */
void rqli_background_look(struct rqli_background *self, struct rqli_due *look, int64_t at_us);

/* True: the client ends. */
static inline bool rqli_background_is_ending(const struct rqli_background *self)
{
    return self->shared.stop_us != RQLI_NEVER_US;
}

/* Returns until when one node may keep the thread while another node's renewal may be due next: no
 * longer than to the next loss that has to be reported, or the end. */
int64_t rqli_background_wait_until_us(struct rqli_background *self);

/* The worker's step: does all that is due, and returns when to call it again. */
int64_t rqli_background_step(struct rqli_worker *worker);

#endif
