#include "base/clock.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "lock/leases.h"

/*
 * Leases end with their hosts: a host that is silent for too long counts as dead, and what it holds
 * is given to others. Each set of keys has hosts of its own, and an end of its own: where a server
 * cannot be reached the leases of its partitions end, and no others.
 */

static _Atomic int64_t *end_of(const struct rqli_leases *self, const struct rqli_key_set *set)
{
    return &self->host_ends[rqli_client_number_of(self->client, set)].at_us;
}

int64_t rqli_leases_host_end_us(const struct rqli_leases *self, const struct rqli_key_set *set)
{
    return atomic_load_explicit(end_of(self, set), memory_order_relaxed);
}

bool rqli_leases_is_overdue(const struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t now_us)
{
    return rqli_leases_host_end_us(self, set) <= now_us;
}

void rqli_leases_on_probed(struct rqli_leases *self, const struct rqli_key_set *set,
                           int64_t sent_us, int64_t silence_ms)
{
    *end_of(self, set) = rqli_after_ms(sent_us, silence_ms) - rqli_lease_margin_us(silence_ms);
}

/* A later end needs no rousing: the thread wakes at the old one and finds that it has moved. */
void rqli_leases_rebind(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        struct rqli_lease *lease = &lock->kept.lease;
        int64_t before_us = lease->host_end_us;

        /* What has ended, and perhaps been reported, must not come back by a later end. */
        if (rqli_lease_state(lease, now_us) != RQL_GONE) {
            lease->host_end_us = rqli_leases_host_end_us(self, lock->keys.set);
        }
        if (lease->host_end_us < before_us) {
            rqli_leases_rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Under the mutex, as rqli_leases_on_left(): of the two the later one counts. */
void rqli_leases_on_probing(struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t silence_ms)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (rqli_leases_host_end_us(self, set) == RQLI_NEVER_US) {
        rqli_leases_on_probed(self, set, rqli_now_us(), silence_ms);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Hosts are noted as told before rqli_leases_on_probing() comes for them. */
void rqli_leases_on_left(struct rqli_leases *self, const struct rqli_key_set *set)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (!rqli_hosts_are_told(self->client->hosts, set)) {
        *end_of(self, set) = RQLI_NEVER_US;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Those that are held stay bound: the server may still count their hosts as dead. */
void rqli_leases_on_unwatched(struct rqli_leases *self)
{
    for (size_t i = 0; i < rqli_client_n_sets(self->client); i++) {
        self->host_ends[i].at_us = RQLI_NEVER_US;
    }
}
