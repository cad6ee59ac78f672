#ifndef RQLI_LOCK_H
#define RQLI_LOCK_H

/* The handle of a lock, which is first asked for and then held. */

#include "base/dlist.h"
#include "base/freelist.h"
#include "base/hash_map.h"
#include "base/random.h"
#include "base/timers.h"
#include "lock/background.h"
#include "lock/lease.h"
#include "lock/transfer.h"
#include "net/conn/durability.h"
#include "net/fleet/fleet.h"
#include "observe/observe.h"
#include "wire/command.h"

#include <rql/client.h>
#include <rql/lock.h>
#include <stddef.h>
#include <string.h>

/* Whether the leases look after a lock, and whose it is. */
enum rqli_lock_listing {
    RQLI_LOCK_UNLISTED,
    RQLI_LOCK_LISTED,  /* its holder's */
    RQLI_LOCK_ADOPTED, /* the leases' own: its holder has forgotten it */
};

struct rql_lock {
    char acquirer[RQL_ID_SIZE]; /* the first four members stay in a handle that is used again */
    char host[RQL_ID_SIZE];
    uint64_t task;   /* the task that the ids belong to; 0: none */
    uint64_t ids_of; /* their thread; 0: they are not the ids of a thread and its task */
    rql_client *client;
    const char *name; /* points to the end part of keys.lock */
    struct rqli_keys keys;
    char nonce[RQLI_HEX_SIZE];       /* of this request */
    char grant_nonce[RQLI_HEX_SIZE]; /* of the grant: that of the outer hold for a re-entry */
    int64_t token;
    int64_t ts_us;
    int64_t ttl_ms;
    int64_t begun_us; /* no later than the grant; needed at the end of a re-entry */
    int64_t held_us;  /* local time of the grant's arrival; the hold time counts from it */
    int64_t waited_us;
    int64_t hand_off_us; /* for a pushed grant: the time to its arrival, at most; else -1 */
    int64_t tries;
    struct rqli_subject subject; /* its listeners; constant once the acquisition has begun */
    rql_lock_process process;
    struct rqli_share share; /* that it has, or asks for; changed under the background's mutex */
    int *slots;              /* of the share, as many as units; or NULL */
    char *reason;            /* for the history, see rqli_history_keep_reason(); or NULL */
    bool handed_over;
    struct rqli_origin origin;
    struct rqli_transfer *transfer;    /* handed it over inside the client; or NULL */
    struct rqli_durability durability; /* of its renewals and extensions; zero: as the server
                                          does */
    struct rqli_acks acks;             /* as reported for its grant */
    bool is_lazy;                      /* its release need not wait for the answer */
    int64_t hold_at_least_ms;          /* a release within this time of the grant keeps the lock */
    bool is_released;                  /* released without waiting: the handle is the library's */
    struct rqli_batch *release; /* of that release; NULL: it got no answer, and is repeated */
    int64_t released_us;
    bool may_have_ended; /* a call that ends the lock got no reply */
    rql_lost_fn on_lost;
    void *user_data;
    rql_wanted_fn on_wanted;
    void *on_wanted_data;
    uint64_t owner_thread; /* renewal stops when this thread ends */
    bool is_of_host;       /* it counts as a handle of its host, see rqli_hosts_meet() */
    uint32_t holder;       /* its acquirer, as rqli_holders counts it */

    struct {
        struct rqli_lease lease;
        struct rqli_dlink link;         /* in the list of the leases, or of lazy releases */
        struct rqli_hash_entry renewed; /* in the map of the locks that are renewed */
        struct rqli_duty duty;          /* to renew or claim it, or to repeat its release */
        int64_t asks_ms;                /* the ttl that the renewal asks for */
        struct rqli_due loss;           /* when the loss is to be reported */
        bool is_lowering;               /* a call that shares the lock is under way */
        bool asked_alone;               /* the last renewal was that of a lock held alone */
        bool was_wanted;                /* others waited at the last renewal */
        bool was_asked;                 /* to release it, because the client is drained */
        int64_t asked_us;               /* until when, by the server's clock, it was asked to
                                           release it for its host; 0: never */
        enum rqli_lock_listing listing;
        bool is_renewed; /* it is in that map */
        bool is_watched; /* the background thread looks after it */
        int lost_fd;     /* -1: it was not asked for */
    } kept;              /* guarded by the mutex of the background */

    size_t room; /* size of `memory` in bytes */
    char memory[];
};

enum { RQLI_LOCK_KEEPS = offsetof(struct rql_lock, client) };

/* Return the lock that has this part; NULL for no link. */

static inline rql_lock *rqli_lock_of_link(struct rqli_dlink *link)
{
    return link ? RQLI_OWNER(link, rql_lock, kept.link) : NULL;
}

static inline rql_lock *rqli_lock_of_duty(struct rqli_duty *duty)
{
    return RQLI_OWNER(duty, rql_lock, kept.duty);
}

rql_lock *rqli_lock_new(rql_client *client, const char *name, uint64_t task);
/* As rqli_lock_new(), but allocates no more memory than the name needs. */
rql_lock *rqli_lock_new_of_many(rql_client *client, const char *name, uint64_t task);
rql_lock *rqli_lock_free(rql_lock *lock);

/* Raises RQL_NOT_HELD for a lock of this name. when: " before this release", or "". */
rql_status rqli_lock_fail_ended(const char *name, const char *when, rql_error *error);

/* Makes the request itself the acquirer, the number-th such one of the client, in place of a thread
 * or task. */
void rqli_lock_be(rql_lock *lock, uint64_t number);

/* Returns whether this is a lock of this name, and of this acquirer. */
static inline bool rqli_lock_is_of(const rql_lock *lock, const char *name, const char *acquirer)
{
    return strcmp(lock->name, name) == 0 && strcmp(lock->acquirer, acquirer) == 0;
}

/* Returns the hash of a name and an acquirer, for a map of what an acquirer has of a lock. */
static inline uint64_t rqli_lock_hash(const char *name, const char *acquirer)
{
    return rqli_hash_bytes(rqli_hash_bytes(0, rqli_slice_of(name)), rqli_slice_of(acquirer));
}

/* Returns the share that a request with these options asks for. */
static inline struct rqli_share rqli_share_of(const rql_lock_options *options)
{
    return (struct rqli_share){.units = (int)options->share_units,
                               .limit = (int)options->share_limit,
                               .has_slots = options->share_units > 0 && options->share_slots};
}

/* Returns the figures that the events of a held lock report. */
static inline struct rqli_figures rqli_lock_figures(const rql_lock *lock)
{
    return (struct rqli_figures){
        .ts_us = lock->ts_us,
        .acq_time_us = lock->waited_us,
        .hand_off_us = lock->hand_off_us,
        .token = lock->token,
        .share_units = lock->share.units,
        .is_handed_over = lock->handed_over,
        .is_local = lock->transfer != NULL,
    };
}

#endif
