#include "lock/lock.h"

#include "base/error.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "lock/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The handle of a lock. From the request on it has the ids of its acquirer and host, its keys and
 * the nonce of this request; the grant adds token and lease. The client keeps freed handles for the
 * next acquisition, so that an uncontended acquire and release allocate nothing.
 */

RQLI_DEFINE_AUTO(rql_lock *, rqli_lock_free);

enum {
    ROOM = 512, /* memory of a handle that the client keeps: enough for names of up to 160 bytes */
    NO_THREAD = 0, /* in ids_of: the ids are not those of a thread */
};

/* Writes the ids unless the handle has them already, because an id takes longer to write than all
 * else that a handle begins with. A thread that takes its own lock again most likely gets the
 * handle that it had before, with the ids in it. */
static void write_ids(rql_lock *lock, rql_client *client, uint64_t task)
{
    uint64_t thread = rqli_thread_number();

    if (lock->ids_of != thread || lock->task != task) {
        rqli_acquirer_id(lock->acquirer, task, client->identity);
        rqli_host_id(lock->host, thread, client->identity);
        lock->ids_of = thread;
        lock->task = task;
    }
    lock->owner_thread = thread;
    lock->holder = rqli_holder_of(thread, task);
}

void rqli_lock_be(rql_lock *lock, uint64_t number)
{
    rqli_own_acquirer_id(lock->acquirer, number, lock->client->identity);
    lock->ids_of = NO_THREAD;
    lock->holder = RQLI_HOLDER_ANY;
}

/* Fills in a new handle. The nonce is fresh for each request: the server, pushes and releases use
 * it to tell this request from all others of the same acquirer. Returns NULL if there is no memory,
 * also if there is none to give this thread a number. */
static rql_lock *set_up_handle(rql_lock *made, rql_client *client, struct rqli_slice word,
                               uint64_t task)
{
    RQLI_AUTO(rqli_lock_free) rql_lock *lock = made;

    if (!lock) {
        return NULL;
    }
    /* Set before anything can fail, because rqli_lock_free() gives the handle back to the client
     * and closes its descriptor, if it has one. */
    lock->client = client;
    lock->kept.lost_fd = -1;
    lock->hand_off_us = -1;
    write_ids(lock, client, task);
    rqli_keys_init(&lock->keys, lock->memory, rqli_key_set_of(client->is_partitioned, word), word);
    lock->name = lock->keys.lock.data + lock->keys.lock.length - word.length;
    lock->subject.stats = client->stats;
    lock->subject.keys = &lock->keys.lock.data;
    lock->subject.n_keys = 1;
    lock->subject.acquirer = lock->acquirer;
    lock->subject.host = lock->host;
    lock->subject.shard = (rqli_stats_shard)lock->owner_thread;
    lock->is_of_host = rqli_hosts_meet(client->hosts, lock->keys.set, lock->owner_thread);
    return lock->owner_thread != NO_THREAD && rqli_random_hex(lock->nonce) ? RQLI_GIVE(lock) : NULL;
}

/* Allocates a new handle, in which nothing is filled in. */
static rql_lock *make_handle(size_t room)
{
    rql_lock *lock = malloc(sizeof *lock + room);

    if (lock) {
        *lock = (rql_lock){.ids_of = NO_THREAD, .room = room};
    }
    return lock;
}

/* Returns a handle that was given back, so that an acquisition costs no allocation; if there is
 * none, a new one. */
static rql_lock *take_handle(rql_client *client, size_t room)
{
    rql_lock *lock = room <= ROOM ? rqli_freelist_take(&client->handles) : NULL;

    if (lock) {
        memset((char *)lock + RQLI_LOCK_KEEPS, 0, sizeof *lock - RQLI_LOCK_KEEPS);
        /* The ids in front of RQLI_LOCK_KEEPS stay; write_ids() checks whose they are. */
        lock->room = ROOM;
        return lock;
    }
    return make_handle(room <= ROOM ? ROOM : room);
}

rql_lock *rqli_lock_new(rql_client *client, const char *name, uint64_t task)
{
    struct rqli_slice word = rqli_slice_of(name);

    return set_up_handle(take_handle(client, rqli_keys_room(word)), client, word, task);
}

/* Allocates the handle. It does not come from the free list, whose blocks have room for names of
 * usual length. */
rql_lock *rqli_lock_new_of_many(rql_client *client, const char *name, uint64_t task)
{
    struct rqli_slice word = rqli_slice_of(name);

    return set_up_handle(make_handle(rqli_keys_room(word)), client, word, task);
}

/* Frees a handle and closes its descriptor. A handle of usual size goes back to its client. */
rql_lock *rqli_lock_free(rql_lock *lock)
{
    if (lock) {
        if (lock->kept.lost_fd >= 0) {
            (void)close(lock->kept.lost_fd);
        }
        if (lock->is_of_host) {
            rqli_hosts_let_go(lock->client->hosts, lock->keys.set, lock->owner_thread);
        }
        rqli_transfer_give(lock->client, lock->transfer);
        if (lock->slots) { /* rare, and a call to free() costs more than to look */
            free(lock->slots);
        }
        if (lock->reason) {
            free(lock->reason);
        }
        if (lock->room != ROOM || !rqli_freelist_keep(&lock->client->handles, lock)) {
            free(lock);
        }
    }
    return NULL;
}

rql_status rqli_lock_fail_ended(const char *name, const char *when, rql_error *error)
{
    return rqli_fail(error, RQL_NOT_HELD,
                     "%s: not held any more: the lock expired, was taken away, or was lost with "
                     "the server's data%s",
                     name, when);
}
