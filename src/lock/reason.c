#include "lock/reason.h"

#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "net/conn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The text of rql_error for an acquisition that did not succeed: the fault, or for an outcome which
 * lock was not acquired, why, and who holds it. Without detailed_acq_timeout_error the server is
 * not asked: the holder is named only if the last answer named it.
 */

enum { NAME_SIZE = 192 };

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

/* Returns the client's identity, which ends an acquirer's or a host's id. */
static const char *identity_of(const char *id)
{
    const char *slash = strrchr(id, '/');

    return slash ? slash + 1 : "";
}

/* Writes the name in a client's entry. Returns false if the entry is empty, or another program has
 * written it. */
static bool write_client(struct rqli_writer *out, struct rqli_slice entry)
{
    const struct rqli_slice host = rqli_client_entry_text(entry, "\"host\":");
    const struct rqli_slice program = rqli_client_entry_text(entry, "\"program\":");
    const int64_t pid = rqli_client_entry_number(entry, "\"pid\":");

    if (host.length == 0 || program.length == 0 || pid < 0) {
        return false;
    }
    rqli_write_bytes(out, host.data, host.length);
    rqli_write_text(out, " ");
    rqli_write_bytes(out, program.data, program.length);
    rqli_write_text(out, "[");
    rqli_write_int(out, pid);
    rqli_write_text(out, "]");
    return true;
}

/* Writes the process of a Ruby acquirer, whose id is "rql:acq:<pid>/...". */
static void write_ruby(struct rqli_writer *out, const char *id)
{
    const char *colon = strrchr(id, ':');
    const char *pid = colon ? colon + 1 : id;

    rqli_write_text(out, "ruby[");
    rqli_write_bytes(out, pid, strcspn(pid, "/"));
    rqli_write_text(out, "]");
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
           batch->reply->type == RQLI_REPLY_TEXT && write_client(out, batch->reply->text);
}

/* Writes the owner's name, as in "web-3 worker[814]", or the id if no name is known. */
static void name_owner(rql_client *client, const char *owner, bool asks, char out[NAME_SIZE])
{
    const char *identity = identity_of(owner);
    struct rqli_writer writer;
    bool is_named;

    rqli_writer_init(&writer, out, NAME_SIZE);
    if (strcmp(identity, client->identity) == 0) {
        is_named = write_client(&writer, rqli_slice_of(client->name.entry));
    } else {
        is_named = asks && write_asked(&writer, client, identity);
    }
    if (!is_named && rqli_is_of_ruby(rqli_slice_of(owner))) {
        write_ruby(&writer, owner);
    } else if (!is_named) {
        rqli_write_text(&writer, owner);
    }
    (void)rqli_writer_end(&writer);
}

static void write_tries(struct rqli_writer *out, int64_t tries)
{
    rqli_write_text(out, "not acquired in ");
    rqli_write_int(out, tries);
    rqli_write_text(out, tries == 1 ? " try" : " tries");
}

/* Rounds a timeout as people give it: a caller that has spent a part of 10 s on connecting asks for
 * 9.998 s. */
static int64_t rounded_ms(int64_t ms)
{
    const int64_t step = ms >= 1000 ? 100 : ms >= 100 ? 10 : 1;

    return (ms + step / 2) / step * step;
}

static void write_why(struct rqli_writer *out, const struct rqli_acquire *self)
{
    const rql_status status = self->op.status;

    if (status == RQL_TIMED_OUT) {
        rqli_write_text(out, "not acquired within ");
        rqli_write_seconds(out, rounded_ms(self->options->timeout_ms), "");
        rqli_write_text(out, " s");
    } else if (status == RQL_RETRY_LIMIT) {
        write_tries(out, self->result->tries);
    } else if (status == RQL_FAIL_FAST_NO_TRY) {
        rqli_write_text(out, "not acquired: it is held");
    } else if (status == RQL_FAIL_FAST_AFTER_TRY) {
        rqli_write_text(out, "not acquired: it is free, but other requests are in front");
    } else if (status == RQL_CONFLICT) {
        rqli_write_text(out, "not acquired: this acquirer holds it already");
    } else {
        rqli_write_text(out, "not acquired: ");
        rqli_write_text(out, rql_status_text(status));
    }
}

/* A ttl that is shorter than the round trip lets every grant expire before its reply arrives. */
static void write_over(struct rqli_writer *out, const struct rqli_acquire *self)
{
    const int64_t n_over = self->result->n_over;

    if (n_over > 0) {
        rqli_write_text(out, "; ");
        rqli_write_int(out, n_over);
        rqli_write_text(out, n_over == 1 ? " grant" : " grants");
        rqli_write_text(out, " had expired when the reply arrived: a ttl of ");
        rqli_write_int(out, self->options->ttl_ms);
        rqli_write_text(out, " ms must be longer than the round trip");
    }
}

/* Writes the line for an outcome. For a series it is about the lock that was not available. */
static void describe(const struct rqli_acquire *self, const char *holder, rql_error *error)
{
    const size_t at = self->several ? rqli_reason_obstacle(self) : 0;
    struct rqli_writer out;

    error->status = self->op.status;
    error->sys_errno = 0;
    rqli_writer_init(&out, error->message, sizeof error->message);
    rqli_write_text(&out, self->locks[at < self->count ? at : 0]->name);
    if (self->several && self->several->subject->n_keys > 1) {
        rqli_write_text(&out, " (of a series of ");
        rqli_write_int(&out, (int64_t)self->several->subject->n_keys);
        rqli_write_text(&out, ")");
    }
    rqli_write_text(&out, ": ");
    write_why(&out, self);
    if (holder) {
        rqli_write_text(&out, "; held by ");
        rqli_write_text(&out, holder);
    }
    write_over(&out, self);
    (void)rqli_writer_end(&out);
}

/* Returns whether the holder is of interest: a conflict is with the acquirer itself, and a
 * cancellation is its caller's. */
static bool is_about_holder(rql_status status)
{
    return status == RQL_TIMED_OUT || status == RQL_RETRY_LIMIT || status == RQL_FAIL_FAST_NO_TRY;
}

/* Keeps the line for rqli_acquire_raise(). owner: the id of the acquirer that holds the lock, NULL
 * if it is not known; the server is asked for the name of its client. On a loop the line needs
 * memory of its own until the callback is called. Without that memory the line is written then, and
 * the server is not asked for the holder's name. */
static void keep_line(struct rqli_acquire *self, const char *owner)
{
    char holder[NAME_SIZE];

    if (!self->error) {
        self->error = malloc(sizeof *self->error);
    }
    if (!self->error) {
        return;
    }
    if (owner && is_about_holder(self->op.status)) {
        name_owner(self->client, owner, true, holder);
        describe(self, holder, self->error);
    } else {
        describe(self, NULL, self->error);
    }
}

static void raise_outcome(const struct rqli_acquire *self, rql_error *error)
{
    char holder[NAME_SIZE];

    if (self->error && self->error->status == self->op.status) {
        *error = *self->error;
    } else if (self->owner[0] && is_about_holder(self->op.status)) {
        name_owner(self->client, self->owner, false, holder);
        describe(self, holder, error);
    } else {
        describe(self, NULL, error);
    }
}

/* Raises the fault or the outcome. The status may not be that of the last fault: a withdrawal that
 * was not confirmed makes it RQL_E_UNKNOWN, and then the line is about the withdrawal. */
void rqli_acquire_raise(const struct rqli_acquire *self, rql_error *error)
{
    rql_status status = self->op.status;
    const char *name = rqli_acquire_lock(self, 0)->name;
    bool is_known = self->error && self->error->status != RQL_OK;

    if (status == RQL_OK || !error) {
        return;
    }
    if (status > 0) {
        raise_outcome(self, error);
    } else if (status == RQL_E_UNKNOWN && (!is_known || self->error->status != status)) {
        (void)rqli_fail(error, status,
                        "%s: the server has not confirmed the withdrawal of the request, which "
                        "goes on in the background",
                        name);
    } else if (!is_known) {
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

/* Appends to a text of fixed size; text that does not fit is cut. */
struct writer {
    char *at;
    size_t left;
};

static void add(struct writer *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct writer *self, const char *format, ...)
{
    va_list args;
    int wanted;
    size_t written;

    va_start(args, format);
    wanted = vsnprintf(self->at, self->left, format, args);
    va_end(args);
    /* vsnprintf() returns the length that it would have needed. One byte is left for the 0 at the
     * end. */
    written = wanted < 0 ? 0 : (size_t)wanted;
    written = written < self->left ? written : self->left - 1;
    self->at += written;
    self->left -= written;
}

/* Adds microseconds as Ruby prints a Float of seconds: 1.5, and 2.0 for whole ones. */
static void add_seconds(struct writer *self, int64_t us)
{
    char digits[8];
    int last = 5;

    (void)snprintf(digits, sizeof digits, "%06lld", (long long)(us % 1000000));
    while (last > 0 && digits[last] == '0') {
        digits[last--] = '\0';
    }
    add(self, "%lld.%s", (long long)(us / 1000000), digits);
}

/* Adds milliseconds as Ruby prints seconds: as an Integer if they are whole. */
static void add_timeout(struct writer *self, int64_t ms)
{
    if (ms % 1000 == 0) {
        add(self, "%lld", (long long)(ms / 1000));
    } else {
        add_seconds(self, ms * 1000);
    }
}

/* Adds a number. Below 0 the lock has no such field, and the Hash no such key. */
static void add_number(struct writer *self, const char *name, int64_t value)
{
    if (value >= 0) {
        add(self, ", \"%s\"=>%lld", name, (long long)value);
    }
}

/* Adds the lock's data as Ruby inspects a Hash of them. */
static void add_holder(struct writer *self, const rql_lock_info *info)
{
    size_t i;

    if (!info || info->status != RQL_KEY_ALIVE) {
        add(self, "<no_data>");
        return;
    }
    add(self, "{\"acq_id\"=>\"%s\", \"hst_id\"=>\"%s\", \"ts\"=>", info->acq_id, info->hst_id);
    add_seconds(self, info->ts_us);
    add_number(self, "ini_ttl", info->ini_ttl_ms);
    for (i = 0; i < info->n_meta; i++) {
        add(self, ", \"%s\"=>\"%s\"", info->meta[i].name, info->meta[i].value);
    }
    add_number(self, "spc_cnt", info->spc_cnt);
    add_number(self, "spc_ext_ttl", info->spc_ext_ttl_ms);
    add(self, ", \"lock_key\"=>\"%s\"", info->lock_key);
    add_number(self, "rem_ttl", info->rem_ttl_ms);
    add(self, "}");
}

/* Adds the queue as Ruby inspects it. */
static void add_queue(struct writer *self, const rql_queue_info *info)
{
    size_t i;

    if (!info || info->status != RQL_KEY_ALIVE) {
        add(self, "<no_data>");
        return;
    }
    add(self, "{\"lock_queue\"=>\"%s\", \"queue\"=>[", info->lock_queue);
    for (i = 0; i < info->n_requests; i++) {
        add(self, "%s{\"acq_id\"=>\"%s\", \"score\"=>", i > 0 ? ", " : "",
            info->requests[i].acq_id);
        add_seconds(self, info->requests[i].score_us);
        add(self, "}");
    }
    add(self, "]}");
}

static void add_reason(struct writer *self, const rql_lock *lock, const rql_lock_options *options,
                       rql_status reason)
{
    const char *key = lock->keys.lock.data;

    if (reason == RQL_TIMED_OUT) {
        add(self, "Failed to acquire the lock \"%s\" for the given <", key);
        add_timeout(self, options->timeout_ms);
        add(self, " seconds> timeout.");
    } else if (reason == RQL_RETRY_LIMIT) {
        add(self, "Failed to acquire the lock \"%s\" for the given retry_count limit (%lld times).",
            key, (long long)options->retry_count);
    } else if (reason == RQL_CANCELLED) {
        add(self, "The request for the lock \"%s\" was cancelled.", key);
    } else if (reason == RQL_CONFLICT) {
        add(self,
            "Lock Conflict: trying to acquire the lock \"%s\" that is already acquired by the "
            "current acquirer (acq_id: \"%s\").",
            key, lock->acquirer);
    } else {
        add(self, "Lock \"%s\" is already obtained.", key);
    }
}

/* Adds how many grants had expired. The gem has no words for that, because it does not ask whether
 * a lock that it took still lives. */
static void add_over(struct writer *self, int64_t n_over, int64_t ttl_ms)
{
    if (n_over > 0) {
        add(self,
            " %lld %s over by the time that the answer was here: a ttl of %lld ms must outlast the "
            "round trip.",
            (long long)n_over, n_over == 1 ? "grant was" : "grants were", (long long)ttl_ms);
    }
}

/* Fills in the refusal. The server's answer about the holder goes into the refusal, and into the
 * line of rql_error. */
static void fill(const struct rqli_acquire *acquire, const rql_lock *lock, bool asks,
                 rql_lock_info *holder)
{
    const rql_lock_options *options = acquire->options;
    const struct rqli_acquire_result *result = acquire->result;
    rql_status reason = acquire->op.status;
    rql_refusal *refusal = options->refusal;
    struct writer writer = {refusal->message, sizeof refusal->message};

    /* An earlier refusal may have left something in it. */
    rql_refusal_clear(refusal);
    refusal->reason = reason;
    refusal->n_over = (uint32_t)result->n_over;
    refusal->waited_us = result->waited_us;
    refusal->tries = result->tries;
    /* Counted from 1; 0: the request was never in the queue. */
    refusal->position = result->rank + 1;
    refusal->holder = holder;
    add_reason(&writer, lock, options, reason);
    add_over(&writer, result->n_over, options->ttl_ms);
    if (asks) {
        /* After a fault the pointer stays NULL, and the text says <no_data>. */
        (void)!rql_get_queue_info(lock->client, lock->name, &refusal->queue, NULL);
        add(&writer, " Details: <Lock Data> => ");
        add_holder(&writer, refusal->holder);
        add(&writer, "; <Queue Data> => ");
        add_queue(&writer, refusal->queue);
        add(&writer, ";");
    }
}

void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks)
{
    size_t at = acquire->several ? rqli_reason_obstacle(acquire) : 0;
    /* A text names one lock: the first, if none is known to have stood in the way. */
    const rql_lock *lock = acquire->locks[at < acquire->count ? at : 0];
    rql_lock_info *holder = NULL;

    if (asks) {
        /* After a fault the pointer stays NULL. */
        (void)!rql_get_lock_info(lock->client, lock->name, &holder, NULL);
        keep_line(acquire, holder && holder->status == RQL_KEY_ALIVE ? holder->acq_id : NULL);
    }
    if (acquire->options->refusal) {
        fill(acquire, lock, asks, holder);
    } else {
        (void)rql_lock_info_free(holder);
    }
}
