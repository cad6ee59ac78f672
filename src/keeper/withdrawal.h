#ifndef RQLI_WITHDRAWAL_H
#define RQLI_WITHDRAWAL_H

/* Requests and grants whose end the server has not confirmed: given back again and again until it
 * does, or until they must have ended by themselves (F-14). */

#include "link/link.h"

struct rqli_call;
struct rqli_keys;
struct rqli_withdrawal;

struct rqli_withdrawal_of {
    const char *name;
    const char *acquirer; /* "": only a grant, by its nonce */
    const char *nonce;
};

/* NULL: no memory. Copies. */
struct rqli_withdrawal *rqli_withdrawal_new(const struct rqli_withdrawal_of *what,
                                            int64_t until_us);
void rqli_withdrawals_add(struct rqli_withdrawal **list, struct rqli_withdrawal *one);
void rqli_withdrawals_free(struct rqli_withdrawal *list);

/* When the next one has to be tried; RQLI_NEVER_US: none. */
int64_t rqli_withdrawals_due_us(const struct rqli_withdrawal *list);

/* Takes one out of the list whose time has come, or NULL. Those past their end are dropped. */
struct rqli_withdrawal *rqli_withdrawals_take_due(struct rqli_withdrawal **list, int64_t now_us);

/* The call that asks the server for it. */
void rqli_withdraw_write(const struct rqli_withdrawal_of *what, const struct rqli_keys *keys,
                         struct rqli_call *call);

/* Asks the server once, without a record. True: it has confirmed. */
bool rqli_withdraw(struct rqli_link *link, const struct rqli_keys *keys,
                   const struct rqli_withdrawal_of *what, int64_t deadline_us);

/* The same for a record. False: put it back, its next time is set. */
bool rqli_withdrawal_run(struct rqli_withdrawal *self, struct rqli_link *link, int64_t deadline_us);

#endif
