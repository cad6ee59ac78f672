#ifndef RQLI_LOCK_H
#define RQLI_LOCK_H

/* The handle of a lock: of one that is asked for, and then held. */

#include "base/dlist.h"
#include "base/freelist.h"
#include "base/hash_map.h"
#include "base/random.h"
#include "base/timers.h"
#include "lock/lease.h"
#include "lock/withdraw.h"
#include "net/durability.h"
#include "net/fleet.h"
#include "observe/observe.h"
#include "wire/command.h"

#include <rql/client.h>
#include <rql/lock.h>
#include <stddef.h>

struct rql_lock {
    char acquirer[RQL_ID_SIZE]; /* the first four stay in a handle that is used again */
    char host[RQL_ID_SIZE];
    uint64_t task;   /* whose ids they are */
    uint64_t ids_of; /* the thread; 0: other ids than those of a thread and its task */
    rql_client *client;
    const char *name; /* the end of keys.lock */
    struct rqli_keys keys;
    char nonce[RQLI_HEX_SIZE];       /* of this request */
    char grant_nonce[RQLI_HEX_SIZE]; /* of the grant: the outer one's for a re-entry */
    int64_t token;
    int64_t ts_us;
    int64_t ttl_ms;
    int64_t begun_us; /* no later than the grant; for the end of a re-entry */
    int64_t held_us;  /* local time of the grant's arrival; for how long it was held */
    int64_t waited_us;
    int64_t hand_off_us; /* pushed: from the grant to its arrival, at most; else -1 */
    int64_t tries;
    struct rqli_subject subject; /* who listens; constant once the acquisition has begun */
    rql_lock_process process;
    bool handed_over;
    const void *carrier; /* the connection over which it was granted; NULL: one of several */
    uint64_t generation; /* and which one in a row that was */
    struct rqli_transfer *transfer;    /* by which it was handed over inside the client, or NULL */
    int n_chained;                     /* how often in a row; 0: by the server */
    int64_t chain_us;                  /* begin of those */
    struct rqli_durability durability; /* of its renewals and extensions; nothing: as the server
                                          does */
    struct rqli_acks acks;             /* of its grant */
    bool is_lazy;                      /* its release need not wait for its answer */
    bool is_released;                  /* and has not: the handle is the leases' */
    struct rqli_exchange *release;     /* that; NULL: it has brought nothing, and is repeated */
    int64_t released_us;
    bool may_have_ended; /* a call for that got no reply */
    bool is_repeated;
    rql_lost_fn on_lost;
    void *user_data;
    uint64_t owner_thread; /* renewal ends with it */
    bool is_of_host;       /* it counts as one, see rqli_hosts_meet() */
    uint32_t holder;       /* its acquirer, as rqli_holders counts it */

    struct {
        struct rqli_lease lease;
        struct rqli_dlink link; /* in the table of the leases, or of those released lazily */
        struct rqli_hash_entry renewed; /* of those that renew */
        struct rqli_due renewal;        /* when it is due */
        struct rqli_due loss;
        bool is_listed;
        bool is_renewed;             /* is among those */
        bool is_watched;             /* the background thread has to look after it */
        bool is_adopted;             /* is the leases' own: its holder has forgotten it */
        int lost_fd;                 /* -1: not asked for */
        struct rqli_retries retries; /* of its renewal, since that was last answered */
    } kept;                          /* everything in here under the mutex of the leases */

    size_t room; /* of memory */
    char memory[];
};

enum { RQLI_LOCK_KEEPS = offsetof(struct rql_lock, client) };

rql_lock *rqli_lock_new(rql_client *client, const char *name, uint64_t task);
/* In as little memory as that takes. */
rql_lock *rqli_lock_new_of_many(rql_client *client, const char *name, uint64_t task);
rql_lock *rqli_lock_free(rql_lock *lock);

/* Raises RQL_NOT_HELD for a lock of this name. when: " before this release", or "". */
rql_status rqli_lock_fail_ended(const char *name, const char *when, rql_error *error);

/* Its acquirer is a request of its own, the number-th of the client, and no thread or task. */
void rqli_lock_be(rql_lock *lock, uint64_t number);

/* What it has asked for, or was granted. */
static inline struct rqli_withdrawal_of rqli_lock_withdrawal(const rql_lock *lock)
{
    return (struct rqli_withdrawal_of){lock->keys.set, lock->name, lock->acquirer, lock->nonce};
}

/* Of one that is held: what its events say. */
static inline struct rqli_figures rqli_lock_figures(const rql_lock *lock)
{
    return (struct rqli_figures){
        .ts_us = lock->ts_us,
        .acq_time_us = lock->waited_us,
        .hand_off_us = lock->hand_off_us,
        .token = lock->token,
        .is_handed_over = lock->handed_over,
        .is_local = lock->transfer != NULL,
    };
}

#endif
