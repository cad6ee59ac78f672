#ifndef RQLI_HISTORY_H
#define RQLI_HISTORY_H

/* The holds that a client has ended, as it tells the server of them for people who ask later who
 * has used a lock, and for how long others have waited (lua/optional.md 73, 74). No decision
 * depends on it. */

#include "lock/client.h"
#include "lock/lock.h"

/* How a hold has ended. */
enum rqli_ending {
    RQLI_ENDED_RELEASED,
    RQLI_ENDED_EXPIRED, /* by its TTL, and its release found that out */
    RQLI_ENDED_LOST,    /* its loss was reported, or another has ended it */
    RQLI_ENDED_KILLED,  /* released for a process that was killed */
    RQLI_ENDED_FLUSHED, /* its host is dead */
    RQLI_ENDED_FORCED,  /* an operator has ended it */
    RQLI_ENDED_UNKNOWN, /* no answer to its release */
};

/* A hold that has ended. Texts are borrowed. */
struct rqli_ended_hold {
    struct rqli_slice name;
    struct rqli_slice user; /* who held it; empty if that is not known */
    struct rqli_slice host;
    struct rqli_slice client; /* as in "web-3 worker[814]" */
    struct rqli_slice reason;
    int64_t at_us;     /* when it ended, by the server's clock */
    int64_t waited_us; /* -1: not known */
    int64_t held_us;   /* -1: not known */
    int64_t token;     /* -1: a lock of the gem */
    int64_t units;     /* of a share; 0: it was held alone */
    enum rqli_ending ending;
    bool is_counted; /* in the usage; false: the party that has ended it counts it */
};

enum {
    RQLI_REASON_MAX = 512, /* longer reasons are cut */
    RQLI_HOLD_CLIENT_SIZE = 192,
};

/* Returns the metadata `reason`; NULL: there is none. */
const char *rqli_reason_in(const rql_meta *meta, size_t count);

/* NULL: no memory. To be made after the background, and freed after its thread has ended. */
struct rqli_history *rqli_history_new(rql_client *client);
struct rqli_history *rqli_history_free(struct rqli_history *self);

/* The client ends: what has not been sent is due at once. */
void rqli_history_hurry(struct rqli_history *self);

/* Notes a hold that has ended, to be sent within a second. Any thread; the caller does not hold the
 * mutex of the background. */
void rqli_history_add(struct rqli_history *self, const struct rqli_ended_hold *hold);

/* Adds a hold to the usage alone, as that of an unknown user and host, because there is no room to
 * keep it one by one. The caller holds that mutex. */
void rqli_history_add_use(struct rqli_history *self, const struct rqli_ended_hold *hold);

/* The other functions do nothing for a client without a history. */

/* Keeps the reason that the options of a request give, until its hold has ended. */
void rqli_history_keep_reason(rql_lock *lock, const rql_lock_options *options);

/* Note that the hold of a handle has ended: by its release, which had this status; or by a loss
 * that is being reported, when the caller holds the mutex of the background. A re-entry is no hold.
 * A release after a reported loss notes nothing more. */
void rqli_history_note_release(const rql_lock *lock, rql_status status);
void rqli_history_note_loss(const rql_lock *lock);

#endif
