#include "lock/lock.h"

#include "base/ident.h"
#include "base/scope.h"
#include "lock/client.h"
#include "lock/handle.h"
#include "lock/hosts.h"

#include <unistd.h>

RQLI_DEFINE_AUTO(rql_lock *, rqli_lock_free);

static rql_lock *set_up(rql_lock *made, rql_client *client, struct rqli_slice word, uint64_t task)
{
    RQLI_AUTO(rqli_lock_free) rql_lock *lock = made;

    if (!lock) {
        return NULL;
    }
    lock->client = client;
    lock->kept.lost_fd = -1;
    lock->hand_off_us = -1;
    lock->owner_thread = rqli_thread_id();
    rqli_keys_init(&lock->keys, lock->memory, word);
    lock->name = lock->keys.lock.data + lock->keys.lock.length - word.length;
    rqli_acquirer_id(lock->acquirer, task, client->identity);
    lock->holder = rqli_holder_of(task > 0 ? task : (uint64_t)lock->owner_thread);
    rqli_host_id(lock->host, lock->owner_thread, client->identity);
    lock->subject = (struct rqli_subject){
        .stats = client->stats,
        .keys = &lock->keys.lock.data,
        .n_keys = 1,
        .acquirer = lock->acquirer,
        .host = lock->host,
        .shard = (rqli_stats_shard)lock->owner_thread,
    };
    rqli_hosts_meet(client->hosts, lock->owner_thread);
    return rqli_random_hex(lock->nonce) ? RQLI_GIVE(lock) : NULL;
}

rql_lock *rqli_lock_new(rql_client *client, const char *name, uint64_t task)
{
    struct rqli_slice word = rqli_slice_of(name);

    return set_up(rqli_handle_take(&client->handles, rqli_keys_room(word)), client, word, task);
}

rql_lock *rqli_lock_new_of_many(rql_client *client, const char *name, uint64_t task)
{
    struct rqli_slice word = rqli_slice_of(name);

    return set_up(rqli_handle_make(rqli_keys_room(word)), client, word, task);
}

rql_lock *rqli_lock_free(rql_lock *lock)
{
    if (lock) {
        if (lock->kept.lost_fd >= 0) {
            (void)close(lock->kept.lost_fd);
        }
        rqli_handle_give(&lock->client->handles, lock);
    }
    return NULL;
}

struct rqli_figures rqli_lock_figures(const rql_lock *lock)
{
    return (struct rqli_figures){
        .ts_us = lock->ts_us,
        .acq_time_us = lock->waited_us,
        .hand_off_us = lock->hand_off_us,
        .token = lock->token,
        .is_handed_over = lock->handed_over,
    };
}
