#include "lock/schedule.h"

#include "base/clock.h"

static rql_lock *of_renewal(struct rqli_due *due)
{
    return (rql_lock *)((char *)due - offsetof(rql_lock, kept.renewal));
}

static rql_lock *of_loss(struct rqli_due *due)
{
    return (rql_lock *)((char *)due - offsetof(rql_lock, kept.loss));
}

void rqli_schedule_fini(struct rqli_schedule *self)
{
    rqli_timers_fini(&self->renewals);
    rqli_timers_fini(&self->losses);
}

static bool make_room(struct rqli_schedule *self, rql_lock *lock)
{
    if (!rqli_timers_reserve(&self->renewals)) {
        return false;
    }
    if (!rqli_timers_reserve(&self->losses)) {
        rqli_timers_unreserve(&self->renewals, &lock->kept.renewal);
        return false;
    }
    return true;
}

bool rqli_schedule_enter(struct rqli_schedule *self, rql_lock *lock)
{
    lock->kept.is_watched = lock->kept.is_watched || make_room(self, lock);
    rqli_schedule_update(self, lock);
    return lock->kept.is_watched;
}

void rqli_schedule_leave(struct rqli_schedule *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_timers_unreserve(&self->renewals, &lock->kept.renewal);
        rqli_timers_unreserve(&self->losses, &lock->kept.loss);
        lock->kept.is_watched = false;
    }
}

void rqli_schedule_update(struct rqli_schedule *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_timers_set(&self->renewals, &lock->kept.renewal,
                        rqli_lease_renewal_us(&lock->kept.lease));
        rqli_timers_set(&self->losses, &lock->kept.loss, rqli_lease_loss_us(&lock->kept.lease));
    }
}

int64_t rqli_schedule_renewal_us(const struct rqli_schedule *self)
{
    return rqli_timers_first_us(&self->renewals);
}

/* A host that is spoken for moves the ends of all leases at once, without a word here. */
int64_t rqli_schedule_loss_us(struct rqli_schedule *self)
{
    struct rqli_due *first = rqli_timers_first(&self->losses);

    while (first && rqli_lease_loss_us(&of_loss(first)->kept.lease) > first->at_us) {
        rqli_timers_set(&self->losses, first, rqli_lease_loss_us(&of_loss(first)->kept.lease));
        first = rqli_timers_first(&self->losses);
    }
    return first ? first->at_us : RQLI_NEVER_US;
}

rql_lock *rqli_schedule_take_renewal(struct rqli_schedule *self, int64_t now_us)
{
    struct rqli_due *due = rqli_timers_take_due(&self->renewals, now_us);

    return due ? of_renewal(due) : NULL;
}

rql_lock *rqli_schedule_lost(struct rqli_schedule *self, int64_t now_us)
{
    return rqli_schedule_loss_us(self) <= now_us ? of_loss(rqli_timers_first(&self->losses)) : NULL;
}
