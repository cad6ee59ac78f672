#include "probe.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/ident.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "talk.h"
#include "wire/answer.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

enum { CALL_HOSTS = 100 };

/* The hosts of one plan, as the script is told of them. */
struct message {
    const struct rqli_hosts_plan *plan;
    size_t count;
    char (*names)[RQL_ID_SIZE];
};

static bool lives(pid_t thread)
{
    return tgkill(getpid(), thread, 0) == 0 || errno != ESRCH;
}

static void unlock_p(pthread_mutex_t **mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

static void add_holder(const rql_lock *lock, void *context)
{
    rqli_hosts_add(context, lock->owner_thread, true);
}

/* How many of [at, at + n) lie below `end`, the n-th of a kind being in front of the next. */
static size_t share(size_t at, size_t n, size_t begin, size_t end)
{
    size_t low = at > begin ? at : begin;
    size_t high = at + n < end ? at + n : end;

    return low < high ? high - low : 0;
}

static void write_call(const struct message *self, size_t at, struct rqli_command *command,
                       bool with_text)
{
    size_t n = self->count - at < CALL_HOSTS ? self->count - at : CALL_HOSTS;
    size_t n_staying = self->plan->n_new + self->plan->n_known;
    struct rqli_call call;

    rqli_call_init(&call, RQLI_SCRIPT_SWARM_PROBE, NULL);
    rqli_call_int(&call, (int64_t)share(at, n, 0, self->plan->n_new));
    rqli_call_int(&call, (int64_t)share(at, n, self->plan->n_new, n_staying));
    for (size_t i = at; i < at + n; i++) {
        rqli_call_text(&call, self->names[i]);
    }
    rqli_call_write(&call, command, with_text);
}

static void write_all(const void *context, struct rqli_command *command, bool with_text)
{
    const struct message *self = context;

    for (size_t at = 0; at < self->count; at += CALL_HOSTS) {
        write_call(self, at, command, at == 0 && with_text);
    }
}

/* Hosts that were declared dead while they were away learn it here. */
static rql_status take(struct rqli_probe *self, const struct rqli_exchange *exchange,
                       const struct rqli_hosts_plan *plan, rql_error *error)
{
    for (int i = 0; i < exchange->command.n_commands; i++) {
        struct rqli_outcome outcome;

        if (!rqli_outcome_read(&exchange->reply[i], &outcome) || outcome.what < 0 ||
            outcome.what > RQLI_SERVER_US_MAX) {
            return rqli_exchange_fault(exchange, &exchange->reply[i], "swarm_probe", RQLI_KEY_HOSTS,
                                       error);
        }
        self->server_us = outcome.what;
        self->n_dead += outcome.second;
    }
    if (self->n_dead > 0 || plan->n_retried > 0) {
        rqli_leases_doubt(self->client->leases);
    }
    return RQL_OK;
}

/* Nobody is left whom silence could kill. */
static bool has_left(const struct rqli_probe *self)
{
    return self->who == RQLI_HOSTS_NONE ||
           (self->who == RQLI_HOSTS_HOLDERS && rqli_hosts_count(self->client->hosts) == 0);
}

/* A probe of some vouches for none of the others. */
static void bound_leases(const struct rqli_probe *self, int64_t sent_us)
{
    if (self->zombie_ttl_ms > 0 && self->who != RQLI_HOSTS_NEW) {
        rqli_leases_on_probed(self->client->leases, sent_us,
                              has_left(self) ? RQL_FOREVER : self->zombie_ttl_ms);
    }
}

static void notify(const struct rqli_probe *self, enum rqli_moment moment)
{
    const struct rqli_subject subject = rqli_subject_of_swarm(self->client);
    const struct rqli_figures figures = {
        .host_cnt = self->n_dead,
        .at_us = rqli_server_clock_now_us(self->client),
    };

    rqli_observe(moment, &subject, &figures);
}

static rql_status tell(struct rqli_probe *self, const struct message *message, rql_error *error)
{
    const struct rqli_talk talk = {self->via, "swarm_probe", write_all, message};
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status;

    if (self->zombie_ttl_ms > 0 && message->plan->n_new + message->plan->n_known > 0) {
        rqli_leases_on_probing(self->client->leases, self->zombie_ttl_ms);
    }
    status = rqli_talk_run(&talk, &exchange, error);
    if (!status) {
        status = take(self, exchange, message->plan, error);
    }
    if (!status) {
        rqli_hosts_apply(self->client->hosts, message->plan);
        bound_leases(self, exchange->sent_us);
        notify(self, RQLI_ON_PROBED);
    }
    return status;
}

static void name_all(const struct rqli_probe *self, struct message *message)
{
    size_t n_staying = message->plan->n_new + message->plan->n_known;

    for (size_t i = 0; i < message->count; i++) {
        rqli_host_id(message->names[i], message->plan->threads[i], self->client->identity);
        if (self->told && i < n_staying) {
            rqli_list_add(self->told, rqli_slice_of(message->names[i]), 0);
        }
    }
}

static rql_status tell_plan(struct rqli_probe *self, const struct rqli_hosts_plan *plan,
                            rql_error *error)
{
    struct message message = {.plan = plan, .count = plan->n_new + plan->n_known + plan->n_leaving};
    rql_status status;

    if (message.count == 0) {
        bound_leases(self, rqli_now_us());
        return RQL_OK;
    }
    message.names = calloc(message.count, sizeof *message.names);
    if (!message.names) {
        return rqli_fail_nomem(error);
    }
    name_all(self, &message);
    status = tell(self, &message, error);
    free(message.names);
    return status;
}

/* One at a time. */
static rql_status probe_alone(struct rqli_probe *self, rql_error *error)
{
    struct rqli_hosts *hosts = self->client->hosts;
    __attribute__((cleanup(unlock_p))) pthread_mutex_t *probing = &hosts->probing;
    __attribute__((cleanup(rqli_hosts_plan_fini_p))) struct rqli_hosts_plan plan = {0};

    (void)pthread_mutex_lock(probing);
    rqli_leases_each(self->client->leases, add_holder, hosts);
    if (!rqli_hosts_plan(hosts, self->who, lives, &plan)) {
        return rqli_fail_nomem(error);
    }
    return tell_plan(self, &plan, error);
}

rql_status rqli_probe_run(struct rqli_probe *self, rql_error *error)
{
    rql_status status = probe_alone(self, error);

    if (self->n_dead > 0) {
        notify(self, RQLI_ON_HOSTS_DECLARED_DEAD);
    }
    return status;
}

rql_status rql_probe_hosts(rql_client *client, rql_text_list **hosts, int64_t *at_us,
                           rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_list_fini) struct rqli_list told = {0};
    struct rqli_probe probe = {.client = client, .via = client, .told = &told};
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    rqli_hosts_add(client->hosts, rqli_thread_id(), false);
    status = rqli_probe_run(&probe, error);
    if (!status && hosts) {
        status = rqli_list_give(&told, hosts, error);
    }
    if (!status && at_us) {
        *at_us = probe.server_us;
    }
    return status;
}
