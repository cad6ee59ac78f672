#ifndef RQLI_WITHDRAW_H
#define RQLI_WITHDRAW_H

/* Requests and grants whose end the server has not confirmed. In the background they are withdrawn
 * again and again until it does, or until they must have ended by themselves. Once more they are
 * withdrawn when the server refuses what was sent of them. */

#include "lock/held_calls.h"
#include "lock/lock.h"
#include "wire/keys.h"
#include "wire/reply.h"

#include <rql/client.h>
#include <stdbool.h>

/* Repeats the withdrawal of a request or grant until the server has confirmed it, or until what it
 * may have been granted for ttl_ms must have ended. Without memory for that, only the ttl ends it.
 * The keys and texts are copied. */
void rqli_withdraw_later(rql_client *client, const struct rqli_withdrawn *request, int64_t ttl_ms);

/* Does the same for the request or the grant of this lock, whose handle may be freed at once. */
void rqli_withdraw_lock_later(const rql_lock *lock, int64_t ttl_ms);

/* Returns whether a request of this acquirer for this lock is being withdrawn: the server may still
 * say that this acquirer holds the lock. A request does not count any more when the server has
 * answered twice that nothing of it is there. */
bool rqli_withdraw_is_open(rql_client *client, const char *name, const char *acquirer);

/* A grant with this nonce is about to be given back, or was: all that its acquirer has entered
 * again of it is lost. Caller holds the mutex of the background, which is released meanwhile. */
void rqli_withdraw_from_reentries(rql_client *client, const char *nonce);

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

#endif
