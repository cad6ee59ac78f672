#include "lock/leases_inside.h"

#include "base/clock.h"

void rqli_leases_free_one_adopted(struct rqli_leases *self, rql_lock *lock)
{
    self->shared.n_adopted--;
    rqli_leases_unlist(self, lock);
    rqli_lock_free(lock);
}

void rqli_leases_free_adopted(struct rqli_leases *self)
{
    rql_lock *lock = self->shared.first;

    while (self->shared.n_adopted > 0) {
        rql_lock *next = lock->kept.next;

        if (lock->kept.is_adopted) {
            rqli_leases_free_one_adopted(self, lock);
        }
        lock = next;
    }
}

void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock)
{
    struct rqli_lease *lease = &lock->kept.lease;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_await_callback(self, lock);
    lock->kept.is_adopted = true;
    self->shared.n_adopted++;
    rqli_renewed_remove(&self->shared.renewed, lock);
    rqli_lease_on_forgotten(lease, rqli_now_us());
    if (lease->is_claimed || !rqli_leases_watch(self, lock)) {
        rqli_leases_free_one_adopted(self, lock);
    } else {
        rqli_leases_rouse(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
