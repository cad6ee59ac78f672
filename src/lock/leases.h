#ifndef RQLI_LEASES_H
#define RQLI_LEASES_H

/*
 * Keeps the leases of a client: the list of what is held, and one background thread, started at the
 * first need, that renews, claims what was handed over, tells losses, and withdraws requests whose
 * end was never confirmed. The thread has its own connection (protocol.md 18) and a libuv loop.
 */

#include "base/text.h"
#include "lock/lease.h"
#include "lock/trace.h"

#include <rql/client.h>

struct rqli_leases;
struct rqli_conn;
struct rqli_withdrawal_of;

struct rqli_leases *rqli_leases_new(rql_client *client);
struct rqli_leases *rqli_leases_free(struct rqli_leases *self); /* ends the thread */
void rqli_leases_abandon(struct rqli_leases *self);             /* as rqli_conn_abandon() */

/* The background thread's connection, to see what it has counted. */
struct rqli_conn *rqli_leases_link(const struct rqli_leases *self);

/* What that thread did last: a copy. */
struct rqli_trace rqli_leases_trace(struct rqli_leases *self);

/* Before a lock is taken that is to be renewed: starts the thread, and waits until until_us at most
 * for it to run. The system keeps a new thread from running for longer than others, on a busy
 * machine for longer than a short lease lasts. That it cannot be started rqli_leases_add() tells.
 */
void rqli_leases_prepare(struct rqli_leases *self, int64_t until_us);

/* Lists a lock that was granted. RQL_E_NOMEM: it needs watching, and the thread could not be
 * started. */
rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error);

/* Unlists it. Afterwards no callback of it runs or will run, unless this is called from it. */
void rqli_leases_remove(struct rqli_leases *self, rql_lock *lock);

/* Takes a lock whose holder has left it to its ttl, and of which only a part is claimed: claims the
 * rest until that is confirmed or must have ended, tells nobody, and frees it. Without memory or
 * thread for that it is freed at once. */
void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock);

/* Goes on giving back a request or grant until the server has confirmed, or until what it may have
 * been granted for ttl_ms must have ended (F-14). Without memory for it, that end is the only one.
 */
void rqli_leases_withdraw(struct rqli_leases *self, const struct rqli_withdrawal_of *what,
                          int64_t ttl_ms);

/* The clock of the server jumped: everything held is doubtful and verified (protocol.md 15). */
void rqli_leases_doubt(struct rqli_leases *self);

/* The swarm was told at sent_us that this client's hosts live: silent for silence_ms from then on
 * they count as dead, so no lease is relied on for as long as that (protocol.md 16). RQL_FOREVER:
 * nobody watches them. */
void rqli_leases_on_probed(struct rqli_leases *self, int64_t sent_us, int64_t silence_ms);
/* Nobody speaks for the hosts any more, and the server may not know: new leases are not bound. */
void rqli_leases_on_unwatched(struct rqli_leases *self);
/* What is acquired now may be flushed at once: the last sign of life is too old. */
bool rqli_leases_is_overdue(const struct rqli_leases *self, int64_t now_us);

/* A first sign of life is about to be sent: from now on silence may kill, also if no answer comes.
 */
void rqli_leases_on_probing(struct rqli_leases *self, int64_t silence_ms);

/* Does this client keep extending this lock for this acquirer? (protocol.md 10) */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer);

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock); /* a copy */
/* False: nothing changes, the lease was gone by then and stays so. */
bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms);
/* An extension of this grant ended at sent_us: those who share the grant have left_ms at most. */
void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms);
void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock);
/* This grant was taken away: whoever shares it has lost its lock. */
void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce);

/* The descriptor that becomes readable at a loss; made at the first call. */
rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out,
                               rql_error *error);

/* The same descriptor under another number: readable when either lock is lost. Before
 * rqli_leases_lost_fd() of this lock. */
rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error);

/* Calls visit for every lock held and not lost, under the keeper's mutex. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context);

#endif
