#ifndef RQLI_DURABLE_H
#define RQLI_DURABLE_H

/*
 * Grants that count only when replicas, or the disk, have them: the durability that an acquisition
 * asks for, whether the server can confirm it, and the fate of a grant.
 */

#include "lock/acquisition.h"

/* Returns the durability that the options of a call ask for. Zeroed: it is left to the server. */
struct rqli_durability rqli_durability_of(const rql_lock_options *options);

/* Limits the durability of a try that begins now: it waits no longer than its caller does. */
void rqli_durable_limit(struct rqli_acquire *self, int64_t now_us);

/* Returns whether this server must first be asked whether it answers fsync truthfully. Each server
 * is asked once. */
bool rqli_durable_must_ask(const struct rqli_acquire *self);

/* The calls for that: their number, their commands, their replies. */
enum { RQLI_DURABLE_CALLS = 3 };

void rqli_durable_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call);
void rqli_durable_read(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault);

/* All replies are read: the server answers truthfully, or the request ends with
 * RQL_E_UNSUPPORTED. */
void rqli_durable_take_answer(struct rqli_acquire *self);

/* Checks whether a lock is as safe as it has to be. Returns RQL_OK; or, raised, RQL_E_NOT_DURABLE
 * or RQL_E_AUTH. fate: what becomes of the lock otherwise, for the message. */
rql_status rqli_durable_check(const struct rqli_durability *wanted, const struct rqli_acks *acks,
                              const char *name, const char *fate, rql_error *error);

/* Handles the answer how safe the grant is: the grant counts, or the request goes on. */
void rqli_durable_take_grant(struct rqli_acquire *self);

#endif
