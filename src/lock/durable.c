#include "lock/durable.h"

#include "base/error.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/setback.h"
#include "lock/wait.h"

#include <stdlib.h>
#include <string.h>

/*
 * A server that writes its disk once a second should answer WAITAOF once a second; some answer at
 * once (redis#13793: before 8.0; Valkey). A server with `appendfsync always` cannot answer too
 * early.
 */

struct rqli_durability rqli_durability_of(const rql_lock_options *options)
{
    return (struct rqli_durability){
        .replicas = options->replicas,
        .fsync = options->fsync,
        .timeout_ms = options->replica_timeout_ms,
    };
}

void rqli_durable_limit(struct rqli_acquire *self, int64_t now_us)
{
    self->durability = rqli_durability_of(self->options);
    self->durability.until_us = self->request.limits.deadline_us;
    rqli_durability_limit(&self->durability, now_us);
}

/* Returns the server by its run id, which a connection learns when it is made; 0 before the first
 * one. */
static uint64_t server_of(const struct rqli_acquire *self)
{
    return atomic_load(
        &rqli_client_era(self->client, rqli_acquire_lock(self, 0)->keys.set)->server);
}

bool rqli_durable_must_ask(const struct rqli_acquire *self)
{
    uint64_t server = server_of(self);

    return self->durability.fsync &&
           (server == 0 || server != atomic_load(&self->node->syncs_truly));
}

/* Writes the i-th question. The first answer that shows that something is missing says what it
 * is. */
void rqli_durable_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call)
{
    static const char *const words[RQLI_DURABLE_CALLS][3] = {
        {"COMMAND", "INFO", "waitaof"}, {"CONFIG", "GET", "append*"}, {"INFO", "server"}};

    (void)self;
    rqli_command_words(rqli_call_plain(call), words[i][0], words[i][1], words[i][2], NULL);
}

/* Returns true for Redis 8.0 or later. Valkey reports its own name and has its own versions. */
static bool answers_in_time(const struct rqli_reply *info)
{
    char version[16] = "";
    char name[16] = "";

    if (info->type == RQLI_REPLY_TEXT) {
        rqli_reply_copy_between(version, sizeof version, info, "redis_version:", ".");
        rqli_reply_copy_between(name, sizeof name, info, "server_name:", "\r");
    }
    return strcmp(name, "valkey") != 0 && strtol(version, NULL, 10) >= 8;
}

static bool has_word(const struct rqli_reply *config, const char *name, const char *value)
{
    for (size_t i = 0; config->type == RQLI_REPLY_ARRAY && i + 1 < config->count; i += 2) {
        if (rqli_reply_is(&config->items[i], name)) {
            return rqli_reply_is(&config->items[i + 1], value);
        }
    }
    return false;
}

static bool has_command(const struct rqli_reply *info)
{
    return info->type == RQLI_REPLY_ARRAY && info->count == 1 &&
           info->items[0].type == RQLI_REPLY_ARRAY;
}

/* Reads the i-th answer. An answer that the user may not ask for counts as missing. */
static void read_answer(struct rqli_acquire *self, size_t i, const struct rqli_reply *reply)
{
    static const char command[] =
        "WAITAOF, which Redis has since 7.2 (and the right to COMMAND INFO, to ask for it)";
    static const char file[] = "appendonly yes (and the right to CONFIG GET, to ask for it)";
    static const char always[] =
        "appendfsync always, or Redis 8.0 or later: this server answers before the disk has it";

    if (i == 0) {
        self->fsync_lacks = has_command(reply) ? NULL : command;
    } else if (self->fsync_lacks == NULL && i == 1) {
        if (!has_word(reply, "appendonly", "yes")) {
            self->fsync_lacks = file;
        } else if (!has_word(reply, "appendfsync", "always")) {
            self->fsync_lacks = always;
        }
    } else if (self->fsync_lacks == always && answers_in_time(reply)) {
        self->fsync_lacks = NULL;
    }
}

/* Reads the i-th reply. Each of the questions may fail; the first fault ends the try. */
void rqli_durable_read(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    if (reply) {
        read_answer(self, i, reply);
    } else if (self->request.state == RQLI_REQUEST_TRYING) {
        rqli_acquire_on_failed(self, fault, rqli_op_was_sent(answer, fault));
    }
}

void rqli_durable_take_answer(struct rqli_acquire *self)
{
    rql_error fault;

    if (self->request.state != RQLI_REQUEST_TRYING) {
        return; /* it failed */
    }
    if (!self->fsync_lacks) {
        atomic_store(&self->node->syncs_truly, server_of(self));
        return;
    }
    (void)rqli_fail(&fault, RQL_E_UNSUPPORTED, "%s: fsync needs %s; nothing was asked for",
                    rqli_acquire_lock(self, 0)->name, self->fsync_lacks);
    rqli_acquire_note_fault(self, &fault);
    rqli_request_on_fault(&self->request, fault.status, false);
}

/* ---- the grant ---- */

rql_status rqli_durable_check(const struct rqli_durability *wanted, const struct rqli_acks *acks,
                              const char *name, const char *fate, rql_error *error)
{
    if (rqli_durability_is_met(wanted, acks)) {
        return RQL_OK;
    }
    if (acks->refused) {
        return rqli_fail(error, acks->refused == RQL_E_AUTH ? RQL_E_AUTH : RQL_E_NOT_DURABLE,
                         "%s: the server refuses %s; %s", name,
                         wanted->fsync ? "WAIT or WAITAOF" : "WAIT", fate);
    }
    return rqli_fail(error, RQL_E_NOT_DURABLE, "%s: %lld of %lld replicas%s had it in time; %s",
                     name, (long long)acks->replicas, (long long)wanted->replicas,
                     !wanted->fsync    ? ""
                     : acks->is_synced ? ", and the disk,"
                                       : ", and not the disk,",
                     fate);
}

/* Returns whether the wait was longer than the lease. */
static bool is_over(const struct rqli_acquire *self, int64_t now_us)
{
    bool is_over = false;

    for (size_t i = 0; i < self->count; i++) {
        is_over |= rqli_lease_state(&self->locks[i]->kept.lease, now_us) == RQL_GONE;
    }
    return is_over;
}

/* Gives the grant back and asks again; if the request ends here, leaving gives it back. A re-entry
 * is not asked for again, because it would wait for the outer grant that it shares. */
static void refuse(struct rqli_acquire *self, rql_status status)
{
    const struct rqli_request_input input = rqli_wait_input(self);

    if (status != RQL_E_NOT_DURABLE || self->options->fail_fast ||
        self->locks[0]->process != RQL_LOCK_OBTAINING) {
        rqli_request_on_fault(&self->request, status, true);
        return;
    }
    rqli_request_on_not_durable(&self->request, &input);
    if (self->request.state == RQLI_REQUEST_QUEUED) {
        rqli_acquire_begin_anew(self);
    }
}

void rqli_durable_take_grant(struct rqli_acquire *self)
{
    struct rqli_request_input input = rqli_wait_input(self);
    rql_error fault;
    rql_status status =
        rqli_durable_check(&self->durability, &self->op.acks, rqli_acquire_lock(self, 0)->name,
                           "the grant is given back", &fault);

    if (status && !self->options->durability_is_advice && !self->op.is_cancelled) {
        rqli_acquire_note_fault(self, &fault);
        refuse(self, status);
    } else if (is_over(self, input.now_us)) {
        self->result->n_over++;
        rqli_request_on_over(&self->request, &input);
    } else {
        rqli_acquire_on_granted(self);
    }
}
