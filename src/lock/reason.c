#include "lock/reason.h"

#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/conn/batch_threads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 1024 };

/*
 * The text of rql_error for an acquisition that did not succeed: the fault, or for an outcome which
 * lock was not acquired, why, and who holds it. Without detailed_acq_timeout_error the server is
 * not asked: the holder is named only if the last answer named it.
 */

/* Finds the obstacle of an acquisition with `several`. A lock that was free, or never looked at, is
 * no obstacle. */
size_t rqli_reason_obstacle(const struct rqli_acquire *acquire)
{
    const struct rqli_acquire_several *several = acquire->several;

    for (size_t i = 0; i < acquire->count; i++) {
        size_t at = several->order[i];

        if (several->fate[at] == RQL_SERIES_HELD || several->fate[at] == RQL_SERIES_BEHIND ||
            several->fate[at] == RQL_SERIES_OWN) {
            return at;
        }
    }
    return acquire->count;
}

/* Writes the name that the list of clients has, for which it asks the server. A fault is no matter:
 * then the id stands for the name. */
static bool write_asked(struct rqli_writer *out, rql_client *client, const char *identity)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    const struct rqli_keys *keys = &client->name.keys;

    return client->options.client_names &&
           rqli_query_about(client, keys, &batch, NULL, "HGET", keys->lock.data, identity, NULL) ==
               RQL_OK &&
           batch->reply->type == RQLI_REPLY_TEXT &&
           rqli_client_entry_write(out, batch->reply->text);
}

/* Writes the owner's name, as in "web-3 worker[814]", or the id if no name is known. The identity
 * of its client ends the id; that of a Ruby acquirer is "rql:acq:<pid>/...". */
static void write_owner(struct rqli_writer *out, rql_client *client, const char *owner, bool asks)
{
    const char *slash = strrchr(owner, '/');
    const char *identity = slash ? slash + 1 : "";
    const char *colon = strrchr(owner, ':');
    const char *pid = colon ? colon + 1 : owner;
    bool is_named;

    if (strcmp(identity, client->identity) == 0) {
        is_named = rqli_client_entry_write(out, rqli_slice_of(client->name.entry));
    } else {
        is_named = asks && write_asked(out, client, identity);
    }
    if (!is_named && rqli_is_of_ruby(rqli_slice_of(owner))) {
        rqli_write_format(out, "ruby[%.*s]", (int)strcspn(pid, "/"), pid);
    } else if (!is_named) {
        rqli_write_text(out, owner);
    }
}

static void write_full(struct rqli_writer *out, int64_t max_waiters)
{
    if (max_waiters == 0) {
        rqli_write_text(out, "not acquired at once, and no request may wait for it");
    } else {
        rqli_write_format(out, "not acquired: %" PRId64 " or more requests wait for it already",
                          max_waiters);
    }
}

static void write_why(struct rqli_writer *out, const struct rqli_acquire *self)
{
    const rql_status status = self->op.status;
    const int64_t tries = self->result->tries;
    const int64_t ms = self->options->timeout_ms;
    const int64_t step = ms >= 1000 ? 100 : ms >= 100 ? 10 : 1;

    if (status == RQL_TIMED_OUT) {
        /* Rounded to what people give: a caller that has spent a part of 10 s on connecting asks
         * for 9.998 s. */
        rqli_write_text(out, "not acquired within ");
        rqli_write_seconds(out, (ms + step / 2) / step * step, "");
        rqli_write_text(out, " s");
    } else if (status == RQL_RETRY_LIMIT) {
        rqli_write_format(out, "not acquired in %" PRId64 " %s", tries,
                          tries == 1 ? "try" : "tries");
    } else if (status == RQL_FAIL_FAST_NO_TRY) {
        rqli_write_text(out, "not acquired: it is held");
    } else if (status == RQL_FAIL_FAST_AFTER_TRY) {
        rqli_write_text(out, "not acquired: it is free, but other requests are in front");
    } else if (status == RQL_QUEUE_FULL) {
        write_full(out, self->options->max_waiters);
    } else if (status == RQL_CONFLICT) {
        rqli_write_text(out, "not acquired: this acquirer holds it already");
    } else {
        rqli_write_format(out, "not acquired: %s", rql_status_text(status));
    }
}

/* Returns whether lock `at` of a series belongs to an earlier request of the same acquirer. */
static bool is_of_earlier_request(const struct rqli_acquire *self, size_t at)
{
    return self->several && at < self->count && self->withdraws &&
           self->several->fate[at] == RQL_SERIES_OWN;
}

/* Writes the line for an outcome. For a series it is about the lock that was not available. owner:
 * the id of the acquirer that holds the lock, NULL if it is not known. asks: the server, for the
 * name of its client. */
static void describe(const struct rqli_acquire *self, const char *owner, bool asks,
                     rql_error *error)
{
    const size_t at = self->several ? rqli_reason_obstacle(self) : 0;
    const rql_lock *lock = self->locks[at < self->count ? at : 0];
    const rql_status status = self->op.status;
    const bool is_held =
        status == RQL_TIMED_OUT || status == RQL_RETRY_LIMIT || status == RQL_FAIL_FAST_NO_TRY;
    const int64_t n_over = self->result->n_over;
    struct rqli_writer out;
    char line[LINE_SIZE];

    rqli_writer_init(&out, line, sizeof line);
    rqli_write_text(&out, lock->name);
    if (self->several && self->several->subject->n_keys > 1) {
        rqli_write_format(&out, " (of a series of %zu)", self->several->subject->n_keys);
    }
    rqli_write_text(&out, ": ");
    write_why(&out, self);
    /* A conflict is with the acquirer itself, and a cancellation is its caller's. */
    if (is_held && rqli_leases_has(self->client->leases, lock)) {
        rqli_write_text(&out, "; this acquirer holds it already");
    } else if (is_held && is_of_earlier_request(self, at)) {
        rqli_write_text(&out,
                        "; held by an earlier request of this acquirer, which is being given back");
    } else if (is_held && owner && strcmp(owner, RQLI_KEPT_ACQUIRER) == 0) {
        rqli_write_text(&out, "; kept after its release");
    } else if (is_held && owner && strcmp(owner, RQLI_SHARED_ACQUIRER) == 0) {
        rqli_write_text(&out, "; shared by others");
    } else if (is_held && owner) {
        rqli_write_text(&out, "; held by ");
        write_owner(&out, self->client, owner, asks);
    }
    /* A ttl that is shorter than the round trip lets every grant expire before its reply
     * arrives. */
    if (n_over > 0) {
        rqli_write_format(&out,
                          "; %" PRId64 " %s had expired when the reply arrived: a ttl of %" PRId64
                          " ms must be longer than the round trip",
                          n_over, n_over == 1 ? "grant" : "grants", self->options->ttl_ms);
    }
    (void)rqli_writer_end(&out);
    (void)rqli_fail(error, status, "%s", line);
}

/* Raises the fault or the outcome. The status may not be that of the last fault: a withdrawal that
 * was not confirmed makes it RQL_E_UNKNOWN, and a grant that was given back RQL_E_NOT_DURABLE. Then
 * the line is about the withdrawal, or about the grant. */
void rqli_acquire_raise(const struct rqli_acquire *self, rql_error *error)
{
    rql_status status = self->op.status;
    const char *name = rqli_acquire_lock(self, 0)->name;
    bool is_kept = self->error && self->error->status == status;

    if (status == RQL_OK || !error) {
        return;
    }
    if (status > 0 && !is_kept) {
        describe(self, self->owner[0] ? self->owner : NULL, false, error);
    } else if (status == RQL_E_UNKNOWN && !is_kept) {
        (void)rqli_fail(error, status,
                        "%s: the server has not confirmed the withdrawal of the request, which "
                        "goes on in the background",
                        name);
    } else if (status == RQL_E_NOT_DURABLE && !is_kept) {
        (void)rqli_fail(error, status,
                        "%s: no grant is known to have been durable in time; the request is "
                        "withdrawn",
                        name);
    } else if (!self->error || self->error->status == RQL_OK) {
        (void)rqli_fail(error, status, "%s: %s; there was no memory to keep why", name,
                        rql_status_text(status));
    } else {
        *error = *self->error;
    }
}

/* ---- the refusal ---- */

/*
 * rql_refusal: why an acquisition was refused, as data and as the message that the gem's exception
 * would have, down to the way Ruby prints numbers and hashes.
 */

/* Adds a number. Below 0 the lock has no such field, and the Hash no such key. */
static void add_number(struct rqli_writer *out, const char *name, int64_t value)
{
    if (value >= 0) {
        rqli_write_format(out, ", \"%s\"=>%" PRId64, name, value);
    }
}

/* Adds the lock's data as Ruby inspects a Hash of them. */
static void add_holder(struct rqli_writer *out, const rql_lock_info *info)
{
    if (!info || info->status != RQL_KEY_ALIVE) {
        rqli_write_text(out, "<no_data>");
        return;
    }
    rqli_write_format(out, "{\"acq_id\"=>\"%s\", \"hst_id\"=>\"%s\", \"ts\"=>", info->acquirer_id,
                      info->host_id);
    rqli_write_decimal(out, info->acquired_at_us, 6);
    add_number(out, "ini_ttl", info->ttl_ms);
    for (size_t i = 0; i < info->n_meta; i++) {
        rqli_write_format(out, ", \"%s\"=>\"%s\"", info->meta[i].name, info->meta[i].value);
    }
    add_number(out, "spc_cnt", info->reentries);
    add_number(out, "spc_ext_ttl", info->extended_ms);
    rqli_write_format(out, ", \"lock_key\"=>\"%s\"", info->key);
    add_number(out, "rem_ttl", info->remaining_ms);
    rqli_write_text(out, "}");
}

/* Adds the queue as Ruby inspects it. */
static void add_queue(struct rqli_writer *out, const rql_queue_info *info)
{
    if (!info || info->status != RQL_KEY_ALIVE) {
        rqli_write_text(out, "<no_data>");
        return;
    }
    rqli_write_format(out, "{\"lock_queue\"=>\"%s\", \"queue\"=>[", info->key);
    for (size_t i = 0; i < info->n_requests; i++) {
        rqli_write_format(out, "%s{\"acq_id\"=>\"%s\", \"score\"=>", i > 0 ? ", " : "",
                          info->requests[i]->acquirer_id);
        rqli_write_decimal(out, info->requests[i]->score_us, 6);
        rqli_write_text(out, "}");
    }
    rqli_write_text(out, "]}");
}

static void add_reason(struct rqli_writer *out, const rql_lock *lock,
                       const rql_lock_options *options, rql_status reason)
{
    const char *key = lock->keys.lock.data;

    if (reason == RQL_TIMED_OUT) {
        rqli_write_format(out, "Failed to acquire the lock \"%s\" for the given <", key);
        rqli_write_seconds(out, options->timeout_ms, "");
        rqli_write_text(out, " seconds> timeout.");
    } else if (reason == RQL_RETRY_LIMIT) {
        rqli_write_format(
            out,
            "Failed to acquire the lock \"%s\" for the given retry_count limit (%" PRId64
            " times).",
            key, options->retry_count);
    } else if (reason == RQL_CANCELLED) {
        rqli_write_format(out, "The request for the lock \"%s\" was cancelled.", key);
    } else if (reason == RQL_QUEUE_FULL) {
        rqli_write_format(out, "The queue of the lock \"%s\" is full.", key);
    } else if (reason == RQL_CONFLICT) {
        rqli_write_format(
            out,
            "Lock Conflict: trying to acquire the lock \"%s\" that is already acquired by the "
            "current acquirer (acq_id: \"%s\").",
            key, lock->acquirer);
    } else {
        rqli_write_format(out, "Lock \"%s\" is already obtained.", key);
    }
}

/* Fills in the refusal. The server's answer about the holder goes into the refusal, and into the
 * line of rql_error. */
static void fill_in(const struct rqli_acquire *acquire, const rql_lock *lock, bool asks,
                    rql_lock_info *holder)
{
    const rql_lock_options *options = acquire->options;
    const struct rqli_acquire_result *result = acquire->result;
    rql_status reason = acquire->op.status;
    rql_refusal *refusal = options->refusal;
    struct rqli_writer out;

    /* An earlier refusal may have left something in it. */
    rql_refusal_clear(refusal);
    refusal->reason = reason;
    refusal->n_over = (uint32_t)result->n_over;
    refusal->waited_us = result->waited_us;
    refusal->tries = result->tries;
    /* Counted from 1; 0: the request was never in the queue. */
    refusal->position = result->rank + 1;
    refusal->holder = holder;
    rqli_writer_init(&out, refusal->message, sizeof refusal->message);
    add_reason(&out, lock, options, reason);
    /* The gem has no words for this, because it does not ask whether a lock that it took still
     * lives. */
    if (result->n_over > 0) {
        rqli_write_format(&out,
                          " %" PRId64 " %s over by the time that the answer was here: a ttl of "
                          "%" PRId64 " ms must outlast the round trip.",
                          result->n_over, result->n_over == 1 ? "grant was" : "grants were",
                          options->ttl_ms);
    }
    if (asks) {
        /* After a fault the pointer stays NULL, and the text says <no_data>. */
        (void)!rql_queue_inspect(lock->client, lock->name, &refusal->queue, NULL);
        rqli_write_text(&out, " Details: <Lock Data> => ");
        add_holder(&out, refusal->holder);
        rqli_write_text(&out, "; <Queue Data> => ");
        add_queue(&out, refusal->queue);
        rqli_write_text(&out, ";");
    }
    (void)rqli_writer_end(&out);
}

void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks)
{
    size_t at = acquire->several ? rqli_reason_obstacle(acquire) : 0;
    /* A text names one lock: the first, if none is known to have stood in the way. */
    const rql_lock *lock = acquire->locks[at < acquire->count ? at : 0];
    rql_lock_info *holder = NULL;

    if (asks) {
        /* After a fault the pointer stays NULL. */
        (void)!rql_lock_inspect(lock->client, lock->name, &holder, NULL);
        /* On a loop the line needs memory of its own until the callback is called. Without that
         * memory rqli_acquire_raise() writes the line, and does not ask for the holder's name. */
        if (!acquire->error) {
            acquire->error = malloc(sizeof *acquire->error);
        }
        if (acquire->error) {
            describe(acquire,
                     holder && holder->status == RQL_KEY_ALIVE ? holder->acquirer_id : NULL, true,
                     acquire->error);
        }
    }
    if (acquire->options->refusal) {
        fill_in(acquire, lock, asks, holder);
    } else {
        (void)rql_free(holder);
    }
}
