#include "admin/force.h"

#include "admin/ended.h"
#include "admin/info.h"
#include "base/cancel.h"
#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/random.h"
#include "base/result.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/held_calls.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "net/op/op.h"
#include "net/op/op_threads.h"
#include "options/options.h"
#include "wire/answer.h"

#include <ctype.h>
#include <rql/lock.h>
#include <rql/sweep.h>
#include <stdio.h>

/*
 * Calls about locks that the caller has no handle of: they release or extend one with the secret of
 * its grant, unlock or extend it by force without the secret, or wait until a name is free.
 */

/* Time to wait after the end that PTTL reported, because PTTL counts whole milliseconds. */
enum {
    AFTER_EXPIRY_US = 2000,
    FREE = -2,  /* PTTL of a key that does not exist */
    NO_TTL = -1 /* and of one that does not end, or has not been seen */
};

/* What the scripts answer: extend and extend_shared; leave_shared. */
enum { EXTENDED = 1, GIVEN_BACK = 2 };

/* Checks the nonce of a grant, which only its holder knows. A secret of another form is refused
 * before it is sent, because "-" makes release.lua only serve. */
static bool is_secret(const char *secret)
{
    size_t length = 0;

    while (secret && isxdigit((unsigned char)secret[length])) {
        length++;
    }
    return length == RQL_SECRET_SIZE - 1 && secret[length] == '\0';
}

static rql_status check_secret(const char *secret, rql_error *error)
{
    return is_secret(secret)
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID, "secret: must be %d hexadecimal digits",
                           RQL_SECRET_SIZE - 1);
}

static const char *name_of(const struct rqli_named *lock)
{
    return rqli_name_in(lock->keys.lock, RQLI_KEY_LOCK).data;
}

static rql_status fail_not_held(const char *name, rql_error *error)
{
    return rqli_fail(error, RQL_NOT_HELD, "%s: no grant with this secret is in force", name);
}

/* Reads from the server whether it is a lock of several, which has no nonce of its own. A lost
 * answer costs one more try. */
static rql_status read_is_of_several(rql_client *client, const struct rqli_keys *keys, bool *out,
                                     rql_error *error)
{
    rql_error fault = {0};
    const char *key = keys->lock.data;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query_about(client, keys, &batch, &fault, "HGET", key, "acq_id", NULL);

    if (status == RQL_E_UNKNOWN) {
        status = rqli_query_about(client, keys, &batch, &fault, "HGET", key, "acq_id", NULL);
    }
    if (status) {
        status = rqli_reader_status(status, rqli_client_node(client, keys), &fault);
        return rqli_pass(error, status, &fault);
    }
    *out = batch->reply->type == RQLI_REPLY_TEXT &&
           rqli_slice_is(batch->reply->text, RQLI_SHARED_ACQUIRER);
    return RQL_OK;
}

/* COUNT of one HSCAN: a field has up to 16 KB of metadata. */
enum { SHARERS_PAGE = 100 };

static void take_sharer(struct rqli_walk *walk, struct rqli_slice name, struct rqli_slice value)
{
    struct rqli_sharer_search *self = (struct rqli_sharer_search *)walk;
    struct rqli_sharer sharer;

    if (rqli_sharer_read(name, value, &sharer) &&
        (self->wanted ? rqli_slice_is(sharer.nonce, self->wanted) : sharer.token == self->token) &&
        sharer.nonce.length == RQL_SECRET_SIZE - 1 && sharer.acquirer.length < RQL_ID_SIZE) {
        char *nonce = self->nonce;
        char *acquirer = self->acquirer;

        (void)rqli_pack(&nonce, sharer.nonce);
        (void)rqli_pack(&acquirer, sharer.acquirer);
        self->share = sharer.share;
    }
}

/* Reads all fields at once. `context` is the search. */
static rql_status read_fields(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                              size_t first, size_t n)
{
    const char *key = self->keys[first].text.data;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = rqli_reader_take(reader);
    rql_status status;

    (void)n;
    if (batch) {
        rqli_command_words(&batch->command, "HGETALL", key, NULL);
    }
    status = rqli_reader_run(reader, batch);
    if (!status && batch->reply->type != RQLI_REPLY_ARRAY) {
        status = rqli_batch_fault(batch, batch->reply, "HGETALL", key, reader->error);
    }
    for (size_t i = 0; !status && i + 1 < batch->reply->count; i += 2) {
        take_sharer(self->context, batch->reply->items[i].text, batch->reply->items[i + 1].text);
    }
    return status;
}

/* Reads a lock page by page that is too large for one reply. */
static rql_status read_pages(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                             size_t i)
{
    (void)i;
    return rqli_walk_read_all(reader, self->context, SHARERS_PAGE);
}

rql_status rqli_sharer_find(rql_client *client, const struct rqli_keys *keys,
                            struct rqli_sharer_search *search, rql_error *error)
{
    static const struct rqli_key_batch_ops ops = {"HLEN", RQLI_BATCH_ELEMENTS, read_fields,
                                                  read_pages};
    const struct rqli_reader reader = {.client = client, .where = keys->lock.data, .error = error};
    const struct rqli_item key = {.text = keys->lock};
    rql_status status;

    rqli_walk_init(&search->walk, NULL, keys->lock.data);
    search->walk.take_field = take_sharer;
    status = rqli_key_batch_read(&reader, &ops, &key, 1, search);
    rqli_walk_fini_p(&search->walk);
    return status;
}

/* Asks the server for the sharer with this secret. RQL_NOT_HELD: there is none, or the lock is not
 * one of several. */
static rql_status read_sharer(rql_client *client, const struct rqli_named *lock, const char *secret,
                              struct rqli_sharer_search *out, rql_error *error)
{
    rql_status status;

    *out = (struct rqli_sharer_search){.wanted = secret};
    status = rqli_sharer_find(client, &lock->keys, out, error);
    if (!status && out->nonce[0] == '\0') {
        status = fail_not_held(name_of(lock), error);
    }
    return status;
}

/* Runs a call that the library does not repeat, and reads the numbers of its answer. */
static rql_status run_call(rql_client *client, const struct rqli_call *call,
                           struct rqli_outcome *out, rql_error *error)
{
    const struct rqli_op_route route = rqli_client_route(client, call->keys);
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status =
        rqli_call_run(&route, call, rqli_client_until_us(client, rqli_now_us()), &batch, error);

    if (!status && !rqli_outcome_read(batch->reply, out)) {
        status = rqli_batch_fault(batch, batch->reply, rqli_call_name(call), call->keys->lock.data,
                                  error);
    }
    return status;
}

rql_status rqli_run_end(rql_client *client, const struct rqli_call *call, struct rqli_outcome *out,
                        rql_error *error)
{
    const struct rqli_op_route route = rqli_client_route(client, call->keys);
    rql_status status = run_call(client, call, out, error);

    if (!status && out->second == RQLI_SERVED_PARTLY) {
        (void)rqli_serve(&route, call->keys, rqli_client_until_us(client, rqli_now_us()));
    }
    return status;
}

/* Ends the share of this secret in a lock of several. *who: its acquirer. */
static rql_status release_share(rql_client *client, const struct rqli_named *lock,
                                const char *secret, char who[RQL_ID_SIZE], rql_error *error)
{
    struct rqli_sharer_search sharer;
    const struct rqli_withdrawn share = {&lock->keys, sharer.acquirer, secret, .may_share = true};
    rql_status status = read_sharer(client, lock, secret, &sharer, error);
    struct rqli_outcome outcome;
    struct rqli_call call;

    if (status) {
        return status;
    }
    (void)snprintf(who, RQL_ID_SIZE, "%s", sharer.acquirer);
    rqli_held_write_withdrawal(&share, &call);
    status = rqli_run_end(client, &call, &outcome, error);
    if (!status && outcome.what != GIVEN_BACK) {
        status = fail_not_held(name_of(lock), error);
    }
    return status;
}

/* A release that is repeated after a lost answer, and finds nothing, counts as done. It never ends
 * a share of several, so that is found out first. If the lock becomes one of several in between, it
 * is not released, and its share is looked for. If this client holds the lock, its handle is not
 * notified: it finds out as any holder does. */
rql_status rqli_end_by_secret(rql_client *client, const char *name, const char *secret,
                              enum rqli_ending ending, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_free) rql_holder_list *holders = NULL;
    struct rqli_named lock;
    char who[RQL_ID_SIZE] = "";
    bool is_of_several = false;
    rql_error fault = {0};
    rql_status status = rqli_named_init(&lock, client, name, &fault);

    status = status ? status : read_is_of_several(client, &lock.keys, &is_of_several, &fault);
    if (!status) {
        holders = rqli_ended_read(client, &lock.keys);
    }
    if (!status && !is_of_several) {
        status = rqli_release(client, &lock.keys, secret, &fault);
        is_of_several = status == RQL_NOT_HELD;
    }
    if (is_of_several) {
        status = release_share(client, &lock, secret, who, &fault);
    }
    if (!status) {
        rqli_ended_note(client, &lock.keys, holders, is_of_several ? who : NULL, ending);
    }
    return rqli_pass(error, status, &fault);
}

rql_status rql_lock_release_by_secret(rql_client *client, const char *name, const char *secret,
                                      rql_error *error)
{
    rql_status status = check_secret(secret, error);

    return status ? status : rqli_end_by_secret(client, name, secret, RQLI_ENDED_RELEASED, error);
}

rql_status rql_lock_release_of_killed(rql_client *client, const char *name, const char *secret,
                                      rql_error *error)
{
    rql_status status = check_secret(secret, error);

    return status ? status : rqli_end_by_secret(client, name, secret, RQLI_ENDED_KILLED, error);
}

/* Extends the share of this secret in a lock of several. */
static rql_status extend_share(rql_client *client, const struct rqli_named *lock,
                               const char *secret, int64_t ttl_ms, rql_error *error)
{
    struct rqli_sharer_search sharer;
    const struct rqli_withdrawn grant = {&lock->keys, sharer.acquirer, secret, .may_share = true};
    rql_status status = read_sharer(client, lock, secret, &sharer, error);
    struct rqli_outcome outcome;
    struct rqli_call call;

    if (status) {
        return status;
    }
    rqli_held_write_shared_extension(&grant, &sharer.share, ttl_ms, &call);
    status = run_call(client, &call, &outcome, error);
    if (!status && outcome.what != EXTENDED) {
        status = fail_not_held(name_of(lock), error);
    }
    return status;
}

/* Sends calls that the library does not repeat. The scripts never shorten a lease, so the caller
 * may repeat them. If the grant has ended and the lock is free, the same call serves its queue. */
rql_status rql_lock_extend_by_secret(rql_client *client, const char *name, const char *secret,
                                     int64_t ttl_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_named lock;
    struct rqli_call call;
    struct rqli_outcome outcome;
    rql_status status = rqli_named_init(&lock, client, name, error);

    status = status ? status : check_secret(secret, error);
    if (!status && (ttl_ms < 1 || ttl_ms > RQL_TTL_MAX_MS)) {
        status = rqli_fail(error, RQL_E_INVALID, "ttl_ms is %lld; it must be 1 to %lld",
                           (long long)ttl_ms, (long long)RQL_TTL_MAX_MS);
    }
    if (status) {
        return status;
    }
    rqli_call_init(&call, RQLI_SCRIPT_EXTEND, &lock.keys);
    rqli_call_text(&call, secret);
    rqli_call_int(&call, ttl_ms);
    rqli_call_random(&call);
    status = run_call(client, &call, &outcome, error);
    if (status || outcome.what == EXTENDED) {
        return status;
    }
    return extend_share(client, &lock, secret, ttl_ms, error);
}

/* Returns why there was no transaction: the first command that the server refused. EXEC only
 * says that it did. */
static const struct rqli_reply *refused_part(const struct rqli_batch *batch)
{
    size_t last = batch->command.n_commands - 1;
    size_t i = 0;

    while (i < last && batch->reply[i].type != RQLI_REPLY_ERROR) {
        i++;
    }
    return &batch->reply[i];
}

/* Reads the last reply, that of EXEC: {requests removed, 1 if there was a lock}. A server undoes
 * nothing: if the queue is of another type, which is a fault, the lock has ended all the same. */
static rql_status read_unlock(const struct rqli_batch *batch, const char *key,
                              rql_unlock_result *out, rql_error *error)
{
    const struct rqli_reply *done = &batch->reply[batch->command.n_commands - 1];

    if (done->type != RQLI_REPLY_ARRAY || done->count != 2) {
        return rqli_batch_fault(batch, refused_part(batch), "unlock", key, error);
    }
    if (done->items[0].type == RQLI_REPLY_ERROR) {
        return rqli_batch_fault(batch, &done->items[0], "unlock", key, error);
    }
    *out = (rql_unlock_result){
        .lock_released = done->items[1].integer > 0,
        .queue_released = done->items[0].integer > 0,
        .duration_us = batch->received_us - batch->sent_us,
    };
    return RQL_OK;
}

/* Checks that the key is a lock, because the transaction would delete a key of any type. Any
 * other key is left alone, as by rql_locks_clear(). If the key changes its type between the two
 * round trips, it is deleted. */
static rql_status check_type(rql_client *client, const struct rqli_keys *keys,
                             struct rqli_retries *retries, rql_error *error)
{
    const int64_t until_us = rqli_client_until_us(client, rqli_now_us());
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_client_batch(client, keys->set, until_us);
    rql_status status;

    if (!batch) {
        return rqli_fail_nomem(error);
    }
    rqli_command_words(&batch->command, "HEXISTS", keys->lock.data, "acq_id", NULL);
    status = rqli_client_run(client, batch, until_us, error);
    if (!status && batch->reply->type != RQLI_REPLY_INTEGER) {
        (void)rqli_client_follows(client, keys->set, batch->reply, retries);
        status = rqli_batch_fault(batch, batch->reply, "unlock", keys->lock.data, error);
    }
    return status;
}

/* Unlocks on the node that has the keys. duration_us is the time of the round trip. The records
 * of our waiters stay, because rql:req:* is no key of the gem. retries->again_us is set if the keys
 * have moved. */
static rql_status unlock_there(rql_client *client, const struct rqli_keys *keys,
                               rql_unlock_result *out, struct rqli_retries *retries,
                               rql_error *error)
{
    const int64_t until_us = rqli_client_until_us(client, rqli_now_us());
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_client_batch(client, keys->set, until_us);
    rql_status status;

    if (!batch) {
        return rqli_fail_nomem(error);
    }
    /* These are the commands of the gem's unlock, in one transaction: first the queue, then the
     * lock. */
    rqli_command_words(&batch->command, "MULTI", NULL);
    rqli_command_words(&batch->command, "ZREMRANGEBYSCORE", keys->queue.data, "-inf", "+inf", NULL);
    rqli_command_words(&batch->command, "EXPIRE", keys->lock.data, "0", NULL);
    rqli_command_words(&batch->command, "EXEC", NULL);
    status = rqli_client_run(client, batch, until_us, error);
    if (status) {
        return status;
    }
    (void)rqli_client_follows(client, keys->set, refused_part(batch), retries);
    return read_unlock(batch, keys->lock.data, out, error);
}

static rql_status unlock(rql_client *client, const struct rqli_keys *keys, rql_unlock_result *out,
                         rql_error *error)
{
    struct rqli_retries retries = {.until_us = rqli_client_until_us(client, rqli_now_us())};
    rql_error fault = {0};
    rql_status status = RQL_OK;

    do {
        rqli_sleep_until(retries.again_us);
        retries.again_us = 0;
        status = check_type(client, keys, &retries, &fault);
        if (!status) {
            status = unlock_there(client, keys, out, &retries, &fault);
        }
    } while (status && retries.again_us > 0);
    return rqli_pass(error, status, &fault);
}

static void notify_unlocked(rql_client *client, const struct rqli_keys *keys,
                            const rql_unlock_result *result)
{
    struct rqli_subject subject = rqli_subject_of_call(client);
    const struct rqli_figures figures = {
        .lock_queue = keys->queue.data,
        .rel_key_cnt = result->lock_released + result->queue_released,
        .rel_time_us = result->duration_us,
        .at_us = rqli_server_clock_now_us(client),
    };

    subject.keys = &keys->lock.data;
    subject.n_keys = 1;
    rqli_observe(RQLI_ON_UNLOCKED, &subject, &figures);
}

rql_status rql_lock_force_unlock_sized(rql_client *client, const char *name, rql_unlock_result *out,
                                       size_t size, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_free) rql_holder_list *holders = NULL;
    struct rqli_named lock;
    struct rqli_op_route route;
    rql_unlock_result result = {0};
    rql_status status = rqli_named_init(&lock, client, name, error);

    if (!status && (!out || size < sizeof out->size)) {
        status = rqli_fail(error, RQL_E_INVALID, "out is NULL, or too small");
    }
    if (!status) {
        holders = rqli_ended_read(client, &lock.keys);
        status = unlock(client, &lock.keys, &result, error);
    }
    if (status) {
        return status;
    }
    if (result.lock_released) {
        rqli_ended_note(client, &lock.keys, holders, NULL, RQLI_ENDED_FORCED);
    }
    route = rqli_client_route(client, &lock.keys);
    /* Puts our waiters back by their records, and gives the lock to the first. A fault is
     * ignored, because the next poll does the same and the lock is already released. */
    (void)rqli_serve(&route, &lock.keys, rqli_client_until_us(client, rqli_now_us()));
    notify_unlocked(client, &lock.keys, &result);
    rqli_result_fill(out, size, &result, sizeof result);
    return RQL_OK;
}

/* Sends the call once: a repeated call would add the time once more, so a lost reply is
 * RQL_E_UNKNOWN. The script answers like PEXPIRE: 0 if there is no such key. */
rql_status rql_lock_force_extend(rql_client *client, const char *name, int64_t add_ms,
                                 rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    struct rqli_named lock;
    struct rqli_op_route route;
    struct rqli_call call;
    rql_status status = rqli_named_init(&lock, client, name, error);

    if (!status && (add_ms > RQL_TTL_MAX_MS || add_ms < -RQL_TTL_MAX_MS)) {
        status = rqli_fail(error, RQL_E_INVALID, "add_ms is %lld; it must be within +-%lld",
                           (long long)add_ms, (long long)RQL_TTL_MAX_MS);
    }
    if (status) {
        return status;
    }
    route = rqli_client_route(client, &lock.keys);
    rqli_call_init(&call, RQLI_SCRIPT_FORCE_EXTEND, &lock.keys);
    rqli_call_int(&call, add_ms);
    status =
        rqli_call_run(&route, &call, rqli_client_until_us(client, rqli_now_us()), &batch, error);
    if (status) {
        return status;
    }
    if (batch->reply->type != RQLI_REPLY_INTEGER) {
        return rqli_batch_fault(batch, batch->reply, "extend", lock.keys.lock.data, error);
    }
    if (batch->reply->integer == 0) {
        return rqli_fail(error, RQL_NOT_FOUND, "%s: the lock is free", name);
    }
    if (add_ms < 0) { /* the lock may have ended by a negative extension */
        (void)rqli_serve(&route, &lock.keys, rqli_client_until_us(client, rqli_now_us()));
    }
    return RQL_OK;
}

/* Waits until a lock is free, without requesting it: the call enters no queue and gets no push.
 * The deadline is by our clock; RQLI_NEVER_US: there is none. */
struct check {
    rql_client *client;
    const rql_lock_options *options;
    int64_t deadline_us;
    struct rqli_named lock;
    int64_t tries;
    int64_t answered_us; /* when a poll was last answered; 0: never */
    rql_error fault;     /* of the last poll that had one */
};

/* Ends a poll within the grace period after the deadline, however long a reply may take
 * otherwise. */
static int64_t poll_until_us(const struct check *self)
{
    int64_t until_us = rqli_client_until_us(self->client, rqli_now_us());
    int64_t grace_us = rqli_client_grace_us(self->client);

    return until_us - grace_us < self->deadline_us ? until_us : self->deadline_us + grace_us;
}

/* Reads *left_ms: PTTL, or FREE. As for the scripts, a hash without acq_id is no lock. If the
 * lock ends between the two commands, PTTL answers -2, which is FREE; -1 is a lock without a TTL.
 * retries->again_us is set if the keys have moved. */
static rql_status look_there(const struct check *self, int64_t *left_ms,
                             struct rqli_retries *retries, rql_error *error)
{
    const int64_t until_us = poll_until_us(self);
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_client_batch(self->client, self->lock.keys.set, until_us);
    const struct rqli_reply *is_held;
    const struct rqli_reply *left;
    rql_status status;

    if (!batch) {
        return rqli_fail_nomem(error);
    }
    rqli_command_words(&batch->command, "HEXISTS", self->lock.keys.lock.data, "acq_id", NULL);
    rqli_command_words(&batch->command, "PTTL", self->lock.keys.lock.data, NULL);
    status = rqli_client_run(self->client, batch, until_us, error);
    if (status) {
        return status;
    }
    is_held = &batch->reply[0];
    left = &batch->reply[1];
    (void)rqli_client_follows(self->client, self->lock.keys.set, is_held, retries);
    if (is_held->type != RQLI_REPLY_INTEGER || left->type != RQLI_REPLY_INTEGER) {
        return rqli_batch_fault(batch, is_held->type != RQLI_REPLY_INTEGER ? is_held : left,
                                "HEXISTS and PTTL", self->lock.keys.lock.data, error);
    }
    rqli_client_on_round_trip(self->client, batch->received_us - batch->sent_us);
    atomic_store_explicit(&self->client->was_connected, true, memory_order_relaxed);
    *left_ms = is_held->integer == 1 ? left->integer : FREE;
    return RQL_OK;
}

/* A poll follows the keys, and waits while no node serves them, until the deadline. */
static rql_status look(const struct check *self, int64_t *left_ms, rql_error *error)
{
    struct rqli_retries retries = {.until_us = self->deadline_us};
    rql_status status = RQL_OK;

    do {
        rqli_sleep_until(retries.again_us);
        retries.again_us = 0;
        status = look_there(self, left_ms, &retries, error);
    } while (status && retries.again_us > 0 && !rqli_is_cancelled());
    return status;
}

/* Sleeps until the next poll: after the delay, or when the lock ends, or at the deadline. No
 * wake-up ends the sleep earlier. */
static void sleep_until_next(const struct check *self, int64_t left_ms)
{
    uint32_t jitter_us = (uint32_t)self->options->retry_jitter_ms * 1000U;
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_after_ms(now_us, self->options->retry_delay_ms);
    int64_t end_us = rqli_after_ms(now_us, left_ms); /* -1 (no TTL) becomes never */

    until_us += rqli_random_below(jitter_us);
    if (end_us < until_us - AFTER_EXPIRY_US) {
        until_us = end_us + AFTER_EXPIRY_US;
    }
    rqli_sleep_until(rqli_earlier(until_us, self->deadline_us));
}

/* Fails because of the last poll. */
static rql_status fail_unanswered(const struct check *self, rql_error *error)
{
    return rqli_pass(error, self->fault.status, &self->fault);
}

/* Fails because the lock is not known to be free and the caller does not wait any longer. */
static rql_status fail_held(const struct check *self, rql_status status, rql_error *error)
{
    const char *name = name_of(&self->lock);

    if (status == RQL_TIMED_OUT) {
        return rqli_fail(error, status, "%s: still held after %lld ms", name,
                         (long long)self->options->timeout_ms);
    }
    if (status == RQL_CANCELLED) {
        return rqli_fail(error, status, "%s: the wait until it is free was cancelled", name);
    }
    return rqli_fail(error, status, "%s: held, as seen %lld time%s", name, (long long)self->tries,
                     self->tries == 1 ? "" : "s");
}

/* Returns why no poll follows the last one; RQL_OK: one does. */
static rql_status refusal(const struct check *self)
{
    if (self->options->fail_fast) {
        return RQL_FAIL_FAST_NO_TRY;
    }
    if (self->options->retry_count != RQL_FOREVER && self->tries >= self->options->retry_count) {
        return RQL_RETRY_LIMIT;
    }
    return rqli_now_us() >= self->deadline_us ? RQL_TIMED_OUT : RQL_OK;
}

static bool was_seen(const struct check *self)
{
    return self->answered_us > 0 &&
           rqli_now_us() < rqli_after_ms(self->answered_us, self->client->options.io_timeout_ms);
}

/* Returns RQL_OK when the lock is free. The deadline is checked after a poll: there is at least
 * one poll, however short the time, and a last one when the time is over. A poll that had no answer
 * is repeated if an acquisition would be. The last ones may be cut short by the deadline: then the
 * lock counts as held, if a poll saw it within the last io_timeout_ms. */
static rql_status wait_until_free(struct check *self, rql_error *error)
{
    for (;;) {
        int64_t left_ms = NO_TTL;
        rql_status fault = rqli_is_cancelled() ? RQL_OK : look(self, &left_ms, &self->fault);
        rql_status status;

        if (left_ms == FREE) {
            return RQL_OK;
        }
        if (rqli_is_cancelled()) {
            return fail_held(self, RQL_CANCELLED, error);
        }
        self->tries++;
        status = refusal(self);
        self->answered_us = fault ? self->answered_us : rqli_now_us();
        if (fault &&
            ((status && !was_seen(self)) || !rqli_client_tries_again(self->client, fault))) {
            return fail_unanswered(self, error);
        }
        if (status) {
            return fail_held(self, status, error);
        }
        sleep_until_next(self, left_ms);
    }
}

rql_status rql_lock_wait_until_free(rql_client *client, const char *name,
                                    const rql_lock_options *options, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_lock_options read;
    struct rqli_cancel_fd cancel;
    struct check self = {.client = client, .options = &read};
    rql_status status = rqli_named_init(&self.lock, client, name, error);

    if (!status) {
        status = rqli_lock_options_read(&read, &client->of_calls, options, error);
    }
    if (status) {
        return status;
    }
    self.deadline_us = rqli_after_ms(rqli_now_us(), read.timeout_ms);
    rqli_cancel_fd_begin(&cancel, read.cancel_fd);
    status = wait_until_free(&self, error);
    rqli_cancel_fd_end(&cancel);
    return status;
}
