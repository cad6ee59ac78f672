#ifndef RQLI_DURABLE_H
#define RQLI_DURABLE_H

/*
 * Grants that count when replicas, or the disk, have them: what an acquisition asks for, whether
 * the server can say so, and what becomes of a grant.
 */

#include "lock/acquisition.h"

/* What the options of a call ask for. Nothing: as the server does. */
struct rqli_durability rqli_durability_of(const rql_lock_options *options);

/* A try that begins now waits for it no longer than its caller does. */
void rqli_durable_limit(struct rqli_acquire *self, int64_t now_us);

/* Is it to be asked first whether this server answers fsync truly? Once for each that is met. */
bool rqli_durable_must_ask(const struct rqli_acquire *self);

/* Those calls: how many, their commands, their replies. */
enum { RQLI_DURABLE_CALLS = 3 };

void rqli_durable_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call);
void rqli_durable_read(struct rqli_acquire *self, size_t i, const struct rqli_exchange *answer,
                       const struct rqli_reply *reply, const rql_error *fault);

/* All are read: it does, or the request ends with RQL_E_UNSUPPORTED. */
void rqli_durable_take_answer(struct rqli_acquire *self);

/* Is it as safe as it has to be? RQL_OK; or, raised, RQL_E_NOT_DURABLE or RQL_E_AUTH. fate: what
 * becomes of it otherwise, for the message. */
rql_status rqli_durable_check(const struct rqli_durability *wanted, const struct rqli_acks *acks,
                              const char *name, const char *fate, rql_error *error);

/* A try had no answer by the deadline. */
void rqli_durable_on_unanswered(struct rqli_acquire *self);

/* The server has said how safe the grant is: it counts, or the request goes on. */
void rqli_durable_take_grant(struct rqli_acquire *self);

#endif
