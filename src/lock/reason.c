#include "lock/reason.h"

#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "net/conn.h"

#include <stdlib.h>
#include <string.h>

/*
 * What rql_error says of an acquisition that did not succeed: the fault, or for an outcome which
 * lock was not acquired, why, and who holds it. Without detailed_acq_timeout_error the server is
 * not asked: the holder is named only if the last answer named it.
 */

enum { NAME_SIZE = 192 };

/* Of an acquisition with `several`. What was free, or never looked at, is no obstacle. */
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

/* What ends an acquirer's or a host's id. */
static const char *identity_of(const char *id)
{
    const char *slash = strrchr(id, '/');

    return slash ? slash + 1 : "";
}

/* False: the entry is empty, or another program has written it. */
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

/* "rql:acq:<pid>/..." */
static void write_ruby(struct rqli_writer *out, const char *id)
{
    const char *colon = strrchr(id, ':');
    const char *pid = colon ? colon + 1 : id;

    rqli_write_text(out, "ruby[");
    rqli_write_bytes(out, pid, strcspn(pid, "/"));
    rqli_write_text(out, "]");
}

/* As the list of clients has it. A fault is no matter: then the id stands for the name. */
static bool write_asked(struct rqli_writer *out, rql_client *client, const char *identity)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    const struct rqli_keys *keys = &client->name.keys;

    return client->options.client_names &&
           rqli_query_about(client, keys, &exchange, NULL, "HGET", keys->lock.data, identity,
                            NULL) == RQL_OK &&
           exchange->reply->type == RQLI_REPLY_TEXT && write_client(out, exchange->reply->text);
}

/* "web-3 worker[814]", or the id if no name is known. */
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

/* As people give it: a caller that has spent a part of 10 s on connecting asks for 9.998 s. */
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

/* Of a series the line is about the lock that was not available. */
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

/* A conflict is with the acquirer itself, and a cancellation is its caller's. */
static bool is_about_holder(rql_status status)
{
    return status == RQL_TIMED_OUT || status == RQL_RETRY_LIMIT || status == RQL_FAIL_FAST_NO_TRY;
}

/* On a loop the line needs memory of its own until the callback is called. Without that memory the
 * line is written then, without the holder's name. */
void rqli_reason_keep(struct rqli_acquire *self, const char *owner)
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

/* The status may not be that of the last fault: a withdrawal that was not confirmed makes it
 * RQL_E_UNKNOWN, and then that is what is said. */
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
