#ifndef RQLI_SCHEDULE_H
#define RQLI_SCHEDULE_H

/* The locks that the background thread looks after: which is to be renewed next, and which is the
 * next to be lost. What happens to one of many costs the logarithm of their number. Under the
 * keeper's mutex. */

#include "base/timers.h"
#include "lock/lock.h"

/* Zeroed: empty. */
struct rqli_schedule {
    struct rqli_timers renewals;
    struct rqli_timers losses;
};

void rqli_schedule_fini(struct rqli_schedule *self);

/* There already: as rqli_schedule_update(). False: no memory. */
bool rqli_schedule_enter(struct rqli_schedule *self, rql_lock *lock);
void rqli_schedule_leave(struct rqli_schedule *self, rql_lock *lock); /* not there: is fine */

/* Its lease has changed. Not there: is fine. May be left out where it is to be lost later than
 * before, and nothing else. */
void rqli_schedule_update(struct rqli_schedule *self, rql_lock *lock);

/* RQLI_NEVER_US: none. */
int64_t rqli_schedule_renewal_us(const struct rqli_schedule *self);
int64_t rqli_schedule_loss_us(struct rqli_schedule *self);

/* One whose renewal is due, or NULL. It has none until it is updated. */
rql_lock *rqli_schedule_take_renewal(struct rqli_schedule *self, int64_t now_us);

/* One whose loss is to be told, or NULL. */
rql_lock *rqli_schedule_lost(struct rqli_schedule *self, int64_t now_us);

#endif
