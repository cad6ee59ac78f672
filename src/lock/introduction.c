#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "lock/leases.h"
#include "wire/answer.h"

/*
 * Where there are partitions a host is known in those alone in which it holds a lock or asks for
 * one, by the heartbeats of its swarm. Until the first of them nobody would find it dead. So who
 * asks for a lock that lives longer than the silent do introduces its host: by a heartbeat in front
 * of the try, in the same write.
 *
 * If the server refuses that the grant counts all the same: it is a server at which no host can be
 * known, as the swarm reports.
 */

bool rqli_introduce_begin(const struct rqli_acquire *self)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    struct rqli_hosts *hosts = self->client->hosts;

    if (!rqli_hosts_must_tell(hosts, lock->keys.set, lock->owner_thread, self->options->ttl_ms)) {
        return false;
    }
    rqli_leases_on_probing(self->client->leases, lock->keys.set,
                           atomic_load(&hosts->zombie_ttl_ms));
    return true;
}

/* With the text: a server that knew the script of the try alone would do that first. */
void rqli_introduce_write(const struct rqli_acquire *self, struct rqli_call *call)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);

    rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_PROBE, lock->keys.set);
    rqli_call_int(call, 1); /* it is new, */
    rqli_call_int(call, 0); /* and nobody is known */
    rqli_call_text(call, lock->host);
    call->brings_text = true;
}

void rqli_introduce_read(const struct rqli_acquire *self, const struct rqli_reply *reply)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    struct rqli_outcome outcome;

    if (reply && rqli_outcome_read(reply, &outcome)) {
        rqli_hosts_on_told(self->client->hosts, lock->keys.set, lock->owner_thread);
    }
}
