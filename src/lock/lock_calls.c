#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "base/scope.h"
#include "lock/acquire.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/hand_over.h"
#include "lock/late.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/transfer.h"
#include "net/conn/batch_threads.h"
#include "options/options.h"

#include <rql/share.h>
#include <stdio.h>
#include <string.h>

/* The calls of rql/lock.h, which run on the thread of their caller. */

RQLI_DEFINE_AUTO(rql_lock *, rqli_lock_free);

void rql_lock_options_init_sized(const rql_client *client, rql_lock_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_LOCK, options, size, client ? &client->options : NULL);
}

size_t rql_lock_options_size(void)
{
    return sizeof(rql_lock_options);
}

static rql_status check_lock(const rql_lock *lock, rql_error *error)
{
    if (!lock) {
        return rqli_fail(error, RQL_E_INVALID, "lock is NULL");
    }
    return rqli_client_check(lock->client, error);
}

/* Acquires a lock. The handle belongs to the acquisition until the lock is granted; if the lock is
 * refused, the handle is given back here. *out is written on RQL_OK only. */
static rql_status acquire_lock(rql_client *client, const char *name,
                               const rql_lock_options *options, rql_lock **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_lock_free) rql_lock *lock = rqli_lock_new(client, name, options->task);
    struct rqli_acquire_result result;
    struct rqli_acquire acquire = {
        .locks = &lock,
        .count = 1,
        .options = options,
        .result = &result,
    };
    rql_status status;

    if (!lock) {
        return rqli_fail_nomem(error);
    }
    rqli_subject_listen(&lock->subject, &client->options, options);
    rqli_observe(RQLI_ON_STARTED, &lock->subject, NULL);
    /* timeout_ms counts from here: the time that a logger took for the line above is not
     * included. */
    acquire.begun_us = rqli_now_us();
    rqli_acquire_init(&acquire);
    status = rqli_acquire_run(&acquire, error);
    if (!status) {
        *out = RQLI_GIVE(lock);
    }
    return status;
}

/* If several are wrong the caller learns of the first. */
static rql_status check_arguments(rql_client *client, const char *name, const void *out,
                                  rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "%s: out is NULL", name);
    }
    return status;
}

rql_status rql_lock_acquire(rql_client *client, const char *name, const rql_lock_options *options,
                            rql_lock **out, rql_error *error)
{
    rql_lock_options read;
    rql_status status = check_arguments(client, name, out, error);

    if (!status) {
        status = rqli_call_options_read(client, &read, options, error);
    }
    return status ? status : acquire_lock(client, name, &read, out, error);
}

rql_status rql_lock_try(rql_client *client, const char *name, const rql_lock_options *options,
                        rql_lock **out, rql_error *error)
{
    rql_lock_options read;
    rql_status status = check_arguments(client, name, out, error);

    if (!status) {
        status = rqli_call_options_read(client, &read, options, error);
    }
    read.fail_fast = true;
    return status ? status : acquire_lock(client, name, &read, out, error);
}

/* The handle is gone afterwards, whatever the result: a release that could not be confirmed goes on
 * in the background. In a child of the lock's process the call touches nothing: lost_fd may be a
 * descriptor of the child's own by now, and a thread of the parent may have held any mutex, or the
 * allocator's, when the child was made. */
rql_status rql_lock_release(rql_lock *lock, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_batch *release = NULL;
    rql_loop *loop;
    rql_status status;

    if (!lock) {
        return RQL_OK;
    }
    status = rqli_client_check(lock->client, error);
    if (status) {
        return status;
    }
    if (lock->is_released) { /* its on_lost releases it once more */
        return rqli_fail(error, RQL_NOT_HELD, "%s: released before", lock->name);
    }
    loop = rqli_hand_over_loop_here(lock);
    if (loop && rqli_release_begin(loop, lock, NULL)) {
        return RQL_OK;
    }
    rqli_notify_ending(lock);
    /* This takes the lock off the leases first: none of its callbacks runs when the handle is
     * freed. */
    status = rqli_give_back_lazily(lock, &release, error);
    rqli_notify_ended(lock, status);
    if (release) {
        rqli_release_settle_later(lock, release);
    } else {
        rqli_lock_free(lock);
    }
    return status;
}

/* Claims a lock that was handed over: such a lock lives for a second unless it is claimed, though
 * the grant was for its ttl. Returns false if it still has to be claimed; true also if there is
 * nothing to claim, because the lock was claimed before or is gone. */
static bool claim_lock(rql_lock *lock)
{
    struct rqli_lease lease = rqli_leases_lease(lock->client->leases, lock);
    int64_t now_us = rqli_now_us();
    int64_t left_ms = lock->ttl_ms - (now_us - lease.begun_us) / 1000;

    if (lease.claim == RQLI_LEASE_UNCLAIMED && left_ms > 0 &&
        rqli_lease_state(&lease, now_us) != RQL_GONE) {
        return rql_lock_extend(lock, left_ms, NULL) >= 0;
    }
    return true;
}

/* Leaves a lock to its ttl. A lock that was handed over and is not claimed yet would end after a
 * second: if the claim fails now, the leases go on with it. In a child of the lock's process the
 * call touches nothing, as in rql_lock_release(). */
rql_lock *rql_lock_forget(rql_lock *lock)
{
    RQLI_DEFER_CANCEL;
    bool is_claimed;
    int64_t left_ms;

    if (check_lock(lock, NULL) || lock->is_released) { /* called by its on_lost */
        return NULL;
    }
    atomic_store_explicit(&lock->client->has_left_locks, true, memory_order_relaxed);
    is_claimed = claim_lock(lock);
    /* The leases repeat a failed claim, which may still get the whole ttl. */
    left_ms = is_claimed ? rql_lock_remaining_ms(lock) : lock->ttl_ms;
    /* This comes before the lock leaves the list: at no time may its acquirer look as if it held
     * nothing. */
    rqli_holders_leave(&lock->client->holders, lock->holder, rqli_after_ms(rqli_now_us(), left_ms));
    if (!is_claimed) {
        rqli_leases_adopt(lock->client->leases, lock);
        return NULL;
    }
    /* Waits for its on_lost if that is running, because the handle is freed next. */
    rqli_leases_remove(lock->client->leases, &lock, 1);
    return rqli_lock_free(lock);
}

/* Checks a lock about which the server is to be asked. Refuses it if asking would keep this
 * thread's loop from reading the server's last word about the lock. */
static rql_status check_asked(const rql_lock *lock, rql_error *error)
{
    rql_status status = check_lock(lock, error);

    return status ? status : rqli_hand_over_check_here(lock, error);
}

rql_status rql_lock_extend(rql_lock *lock, int64_t ttl_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_asked(lock, error);

    if (!status) {
        status = rqli_extend_check(lock->client, ttl_ms, error);
    }
    return status ? status : rqli_extend(&lock, 1, ttl_ms, error);
}

/* Returns whether the reply is the nonce of this grant, or the field of a share that begins with
 * it. */
static bool begins_with_nonce(const struct rqli_reply *reply, const rql_lock *lock)
{
    return reply->type == RQLI_REPLY_TEXT &&
           rqli_has_prefix(reply->text, rqli_slice_of(lock->grant_nonce));
}

/* Asks the server who holds the lock, as no other call about a held lock does. A lock that is held
 * by another acquirer or is free is reported lost, too; one that Ruby holds has no nonce, and so
 * reads as free. A match leaves the lease as it is, because the reply does not say for how long the
 * lock is held. */
rql_status rql_lock_verify(rql_lock *lock, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    char field[RQL_ID_SIZE + sizeof "rql_h:"];
    rql_status status = check_asked(lock, error);

    if (!status) {
        rqli_transfer_await(lock->transfer, rqli_client_until_us(lock->client, rqli_now_us()));
        (void)snprintf(field, sizeof field, "rql_h:%s", lock->acquirer);
        status = rqli_query_about(lock->client, &lock->keys, &batch, error, "HMGET",
                                  lock->keys.lock.data, "rql_nonce", field, NULL);
    }
    if (status) {
        return status;
    }
    if (batch->reply->type != RQLI_REPLY_ARRAY || batch->reply->count != 2) {
        return rqli_batch_fault(batch, batch->reply, "HMGET", lock->keys.lock.data, error);
    }
    /* The nonce of the grant decides: a lock that another request of this acquirer holds is not
     * this one. */
    if (!begins_with_nonce(&batch->reply->items[0], lock) &&
        !begins_with_nonce(&batch->reply->items[1], lock)) {
        rqli_leases_on_gone(lock->client->leases, lock);
        return rqli_lock_fail_ended(lock->name, "", error);
    }
    return RQL_OK;
}

/* Returns the state by the local clock; nothing is sent. NULL and a lock of the parent process
 * count as gone. */
rql_lock_state rql_lock_get_state(const rql_lock *lock)
{
    RQLI_DEFER_CANCEL;

    if (check_lock(lock, NULL)) {
        return RQL_GONE;
    }
    return rqli_leases_state(lock->client->leases, lock);
}

/* Returns for how long the lock may be relied on: to the local deadline, which is earlier than the
 * server's. */
int64_t rql_lock_remaining_ms(const rql_lock *lock)
{
    RQLI_DEFER_CANCEL;
    struct rqli_lease lease;

    if (check_lock(lock, NULL)) {
        return 0;
    }
    lease = rqli_leases_lease(lock->client->leases, lock);
    return rqli_lease_remaining_ms(&lease, rqli_now_us());
}

rql_status rql_lock_lost_fd(rql_lock *lock, int *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_lock(lock, error);

    if (status) {
        return status;
    }
    return rqli_leases_lost_fd(lock->client->leases, lock, out, error);
}

int64_t rql_lock_token(const rql_lock *lock)
{
    return lock ? lock->token : 0;
}

const char *rql_lock_secret(const rql_lock *lock)
{
    return lock ? lock->grant_nonce : NULL;
}

const int *rql_lock_slots(const rql_lock *lock, size_t *count_out)
{
    const int *slots = lock ? lock->slots : NULL;

    *count_out = slots ? (size_t)lock->share.units : 0;
    return slots;
}

const char *rql_lock_name(const rql_lock *lock)
{
    return lock ? lock->name : NULL;
}

/* Returns texts that belong to the handle and end with it. None of these facts changes after the
 * grant but the share, which its owner lowers: no mutex is needed. */
static rql_lock_facts facts_of(const rql_lock *lock)
{
    return (rql_lock_facts){
        .name = lock->name,
        .key = lock->keys.lock.data,
        .acquirer_id = lock->acquirer,
        .host_id = lock->host,
        .process = lock->process,
        .acquired_at_us = lock->ts_us,
        .ttl_ms = lock->ttl_ms,
        .waited_us = lock->waited_us,
        .tries = lock->tries,
        .handed_over = lock->handed_over,
        .fsynced = lock->acks.is_synced,
        .replicas_acked = (int)lock->acks.replicas,
        .share_units = lock->share.units,
        .share_limit = lock->share.limit,
    };
}

/* A program that was compiled with another version has a shorter or longer struct: it gets the
 * members that both versions have, followed by zeros. */
void rql_lock_describe_sized(const rql_lock *lock, rql_lock_facts *out, size_t size)
{
    rql_lock_facts facts = {.name = NULL};

    if (lock) {
        facts = facts_of(lock);
    }
    rqli_result_fill(out, size, &facts, sizeof facts);
}

const char *rql_lock_node(const rql_lock *lock)
{
    return lock ? rqli_node_where(rqli_client_node(lock->client, &lock->keys)) : NULL;
}
