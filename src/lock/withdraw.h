#ifndef RQLI_WITHDRAW_H
#define RQLI_WITHDRAW_H

/* Requests and grants whose end the server has not confirmed. They are withdrawn again and again
 * until it does, or until they must have ended by themselves; many in one round trip. */

#include "base/dlist.h"
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

/* The withdrawals of a client; the next one to be tried is first. All zero: there are none. */
struct rqli_withdrawals {
    struct rqli_timers timers;
    struct rqli_dlist all; /* also those that are being tried */
    atomic_size_t count;   /* of all of them: each acquisition reads it, without the mutex */
};

enum { RQLI_WITHDRAWALS_MAX = 64 /* bits of struct rqli_withdrawing */ };

/*
 * The withdrawal of up to 64 requests, in rounds of calls. A request is confirmed when its call is
 * answered. If the answer says that the queue is long another call serves the rest of it:
 * withdrawing once more is harmless. Pure; there is a bit for each request, in their order.
 */
struct rqli_withdrawing {
    uint64_t open;   /* requests with a call in this round; 0: not begun */
    uint64_t unsent; /* its call found no memory, and is made again */
    uint64_t due;    /* a part of its queue is still to be served */
    uint64_t confirmed;
    uint64_t undone; /* a re-entry was undone: the lock ends earlier than its other holders know */
};

void rqli_withdrawing_begin(struct rqli_withdrawing *self, size_t count);
/* Return the number of calls of this round, and which request the i-th of them is about. */
size_t rqli_withdrawing_calls(const struct rqli_withdrawing *self);
size_t rqli_withdrawing_request(const struct rqli_withdrawing *self, size_t i);
/* Reads the reply to the i-th call; NULL: none came, because of this fault. */
void rqli_withdrawing_read(struct rqli_withdrawing *self, size_t i, const struct rqli_reply *reply,
                           rql_status fault);
/* All replies of a round are read. Returns true if there is another round, at *again_us. */
bool rqli_withdrawing_next(struct rqli_withdrawing *self, int64_t now_us, int64_t until_us,
                           int64_t *again_us);

struct rqli_withdrawal_batch {
    size_t count;
    bool took_back; /* a re-entry was undone: the lock ends earlier than later ones know */
    struct rqli_withdrawal *item[RQLI_WITHDRAWALS_MAX];
};

/* Makes a withdrawal, with copies of the texts. NULL: no memory. */
struct rqli_withdrawal *rqli_withdrawal_new(const struct rqli_withdrawal_of *what,
                                            int64_t until_us);
struct rqli_withdrawal *rqli_withdrawal_free(struct rqli_withdrawal *self);

/* Takes the withdrawal over, to be tried at once. False: no memory; it stays the caller's. */
bool rqli_withdrawals_add(struct rqli_withdrawals *self, struct rqli_withdrawal *one);
void rqli_withdrawals_fini(struct rqli_withdrawals *self);

/* Returns whether a request of this acquirer for this lock is among them. */
bool rqli_withdrawals_have(const struct rqli_withdrawals *self, const char *name,
                           const char *acquirer);

/* Returns when the next one has to be tried; RQLI_NEVER_US: there is none. */
int64_t rqli_withdrawals_due_us(const struct rqli_withdrawals *self);

/* Takes out withdrawals that are due, as many as a batch has room for. Those past their end are
 * dropped. */
void rqli_withdrawals_take(struct rqli_withdrawals *self, struct rqli_withdrawal_batch *batch,
                           int64_t now_us);

/* Asks the server for all withdrawals of the batch, until until_us at most. Blocks. */
void rqli_withdrawal_batch_run(struct rqli_withdrawal_batch *self,
                               const struct rqli_op_route *route, int64_t until_us);

/* Drops the withdrawals that the server has confirmed. The others are tried again after a pause, or
 * at once if their queue is still to be served. */
void rqli_withdrawals_put_back(struct rqli_withdrawals *self,
                               const struct rqli_withdrawal_batch *batch);

/* Writes the call that asks the server for a withdrawal. */
void rqli_withdraw_write(const struct rqli_withdrawal_of *what, const struct rqli_keys *keys,
                         struct rqli_call *call);

#endif
