#include "lock/leases_inside.h"

#include "base/clock.h"
#include "base/error.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>

static bool is_extended(struct rqli_leases *self, const char *name, const char *acquirer)
{
    bool extends;

    (void)pthread_mutex_lock(&self->shared.mutex);
    extends = rqli_renewed_has(&self->shared.renewed, name, acquirer, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return extends;
}

/* Every acquisition asks; few clients extend. Who may not see yet what was stored is no holder. */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer)
{
    return atomic_load_explicit(&self->has_extended, memory_order_relaxed) &&
           is_extended(self, name, acquirer);
}

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock)
{
    struct rqli_lease lease;

    (void)pthread_mutex_lock(&self->shared.mutex);
    lease = lock->kept.lease;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return lease;
}

/* Under the mutex. Something may be due earlier than before. */
static void rouse_for(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_schedule_update(&self->shared.schedule, lock);
        rqli_leases_rouse(self);
    }
}

bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms)
{
    bool is_gone;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    if (!is_gone) {
        rqli_lease_on_extended(&lock->kept.lease, sent_us, left_ms);
        rqli_schedule_update(&self->shared.schedule, lock);
        is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    }
    if (is_gone) {
        rqli_lease_on_gone(&lock->kept.lease);
        rouse_for(self, lock);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return !is_gone;
}

void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms)
{
    rql_lock *lock;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (lock = self->shared.first; lock; lock = lock->kept.next) {
        if (strcmp(lock->grant_nonce, ended->grant_nonce) == 0) {
            rqli_lease_on_shortened(&lock->kept.lease, sent_us, left_ms);
            rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_lease_on_gone(&lock->kept.lease);
    rouse_for(self, lock);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce)
{
    rql_lock *lock;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (lock = self->shared.first; lock; lock = lock->kept.next) {
        if (grant_nonce.length == sizeof lock->grant_nonce - 1 &&
            memcmp(lock->grant_nonce, grant_nonce.data, grant_nonce.length) == 0) {
            rqli_lease_on_gone(&lock->kept.lease);
            rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_probed(struct rqli_leases *self, int64_t sent_us, int64_t silence_ms)
{
    int64_t host_end_us = rqli_after_ms(sent_us, silence_ms);
    bool is_earlier;
    rql_lock *lock;

    if (silence_ms != RQL_FOREVER) {
        host_end_us -= rqli_lease_margin_us(silence_ms);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_earlier = host_end_us < self->host_end_us;
    self->host_end_us = host_end_us;
    for (lock = self->shared.first; lock; lock = lock->kept.next) {
        if (rqli_lease_state(&lock->kept.lease, rqli_now_us()) != RQL_GONE) {
            lock->kept.lease.host_end_us = host_end_us;
        }
        if (is_earlier) {
            rqli_schedule_update(&self->shared.schedule, lock);
        }
    }
    if (is_earlier) {
        rqli_leases_rouse(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_probing(struct rqli_leases *self, int64_t silence_ms)
{
    if (atomic_load_explicit(&self->host_end_us, memory_order_relaxed) == RQLI_NEVER_US) {
        rqli_leases_on_probed(self, rqli_now_us(), silence_ms);
    }
}

void rqli_leases_on_unwatched(struct rqli_leases *self)
{
    self->host_end_us = RQLI_NEVER_US;
}

bool rqli_leases_is_overdue(const struct rqli_leases *self, int64_t now_us)
{
    return atomic_load_explicit(&self->host_end_us, memory_order_relaxed) <= now_us;
}

rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out, rql_error *error)
{
    rql_status status = RQL_OK;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (lock->kept.lost_fd < 0) {
        lock->kept.lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (lock->kept.lost_fd < 0 || !rqli_leases_watch(self, lock)) {
        status =
            rqli_fail(error, RQL_E_NOMEM, "%s: no descriptor or no thread to be had", lock->name);
    } else {
        if (lock->kept.lease.is_told) {
            (void)eventfd_write(lock->kept.lost_fd, 1);
        }
        *out = lock->kept.lost_fd;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error)
{
    rql_status status = RQL_OK;
    int unused;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (lock->kept.lost_fd < 0) {
        lock->kept.lost_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        status = lock->kept.lost_fd < 0 ? RQL_E_NOMEM : RQL_OK;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (status) {
        return rqli_fail(error, status, "%s: no descriptor to be had", lock->name);
    }
    return rqli_leases_lost_fd(self, lock, &unused, error);
}

struct rqli_trace rqli_leases_trace(struct rqli_leases *self)
{
    struct rqli_trace trace;

    (void)pthread_mutex_lock(&self->shared.mutex);
    trace = self->shared.trace;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return trace;
}

void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context)
{
    int64_t now_us = rqli_now_us();
    const rql_lock *lock;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (lock = self->shared.first; lock; lock = lock->kept.next) {
        if (!lock->kept.is_adopted && rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE) {
            visit(lock, context);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
