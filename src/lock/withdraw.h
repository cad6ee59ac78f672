#ifndef RQLI_WITHDRAW_H
#define RQLI_WITHDRAW_H

/* Requests and grants whose end the server has not confirmed: withdrawn again and again until it
 * does, or until they must have ended by themselves. Many in one round trip. */

#include "base/timers.h"
#include "net/op.h"

#include <stdatomic.h>

struct rqli_call;
struct rqli_key_set;
struct rqli_keys;
struct rqli_withdrawal;

struct rqli_withdrawal_of {
    const struct rqli_key_set *set;
    const char *name;
    const char *acquirer; /* "": only a grant, by its nonce */
    const char *nonce;
};

/* The next one to be tried first. Zeroed: none. */
struct rqli_withdrawals {
    struct rqli_timers timers;
    struct rqli_withdrawal *all; /* also those that are being tried */
    atomic_size_t count;         /* of all of them: each acquisition reads it, without the mutex */
};

enum { RQLI_WITHDRAWALS_MAX = 64 /* bits of what is left of them */ };

struct rqli_withdrawal_batch {
    size_t count;
    bool took_back; /* a re-entry was undone: the lock ends earlier than later ones were told */
    struct rqli_withdrawal *item[RQLI_WITHDRAWALS_MAX];
};

/* Copies. NULL: no memory. */
struct rqli_withdrawal *rqli_withdrawal_new(const struct rqli_withdrawal_of *what,
                                            int64_t until_us);
struct rqli_withdrawal *rqli_withdrawal_free(struct rqli_withdrawal *self);

/* Takes it over, to be tried at once. False: no memory; it stays the caller's. */
bool rqli_withdrawals_add(struct rqli_withdrawals *self, struct rqli_withdrawal *one);
void rqli_withdrawals_fini(struct rqli_withdrawals *self);

/* Whether a request of this acquirer for this lock is among them. */
bool rqli_withdrawals_have(const struct rqli_withdrawals *self, const char *name,
                           const char *acquirer);

/* When the next one has to be tried; RQLI_NEVER_US: there is none. */
int64_t rqli_withdrawals_due_us(const struct rqli_withdrawals *self);

/* Takes out some whose time has come. Those past their end are dropped. */
void rqli_withdrawals_take(struct rqli_withdrawals *self, struct rqli_withdrawal_batch *batch,
                           int64_t now_us);

/* Asks the server once for all of them, in one round. Blocks. */
void rqli_withdrawal_batch_run(struct rqli_withdrawal_batch *self,
                               const struct rqli_op_route *route, int64_t until_us);

/* Drops what the server has confirmed; the others are tried again, after a pause. */
void rqli_withdrawals_put_back(struct rqli_withdrawals *self,
                               const struct rqli_withdrawal_batch *batch);

/* The call that asks the server for it. */
void rqli_withdraw_write(const struct rqli_withdrawal_of *what, const struct rqli_keys *keys,
                         struct rqli_call *call);

#endif
