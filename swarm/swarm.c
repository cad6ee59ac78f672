#include "swarm.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "heartbeat.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/* Start and stop of a swarm, and what its elements do in a step. */

enum { FAILURES_MAX = 3, HANGS_AFTER = 3 };

RQLI_DEFINE_AUTO(rql_swarm *, rql_swarm_free);

static rql_status probe(struct rql_swarm *self, enum rqli_hosts_who who)
{
    struct rqli_probe probe = {
        .client = self->client,
        .via = self->prober_client,
        .who = who,
        .zombie_ttl_ms = self->options.zombie_ttl_ms,
    };

    return rqli_op_run(rqli_probe_begin(&probe), probe.via->conn, NULL);
}

static void notify(void *context, enum rqli_moment moment, struct rqli_figures figures)
{
    const struct rql_swarm *self = context;
    const struct rqli_subject subject = rqli_subject_of_swarm(self->client);

    figures.at_us = rqli_server_clock_now_us(self->client);
    rqli_observe(moment, &subject, &figures);
}

static rql_status noted(struct rql_swarm *self, rql_status status)
{
    if (status < 0) {
        notify(self, RQLI_ON_STEP_FAILED, (struct rqli_figures){0});
    }
    return status;
}

/* Roused in between: only for who has just come. */
static rql_status step_of_prober(void *context, bool is_timed)
{
    struct rql_swarm *self = context;
    enum rqli_hosts_who who = (enum rqli_hosts_who)atomic_load(&self->who);

    return noted(self, probe(self, who == RQLI_HOSTS_ALL && !is_timed ? RQLI_HOSTS_NEW : who));
}

static void on_round(void *context)
{
    struct rqli_flush *flush = context;
    struct rql_swarm *self = flush->swarm;

    rqli_element_sign(&self->flusher);
    flush->op.is_cancelled = rqli_element_shall_stop(&self->flusher);
}

static void note_election(struct rql_swarm *self, bool is_elected)
{
    if (atomic_exchange(&self->is_flusher, is_elected) != is_elected) {
        notify(self, is_elected ? RQLI_ON_FLUSHER_ELECTED : RQLI_ON_FLUSHER_RETIRED,
               (struct rqli_figures){0});
    }
}

static rql_status step_of_flusher(void *context, bool is_timed)
{
    struct rql_swarm *self = context;
    __attribute__((cleanup(rqli_flush_fini_p))) struct rqli_flush flush;
    rql_status status;

    (void)is_timed;
    rqli_flush_init(&flush, self->flusher_client, &self->options);
    flush.client = self->client;
    flush.me = self->flusher_client->identity;
    flush.wait_ms = self->options.zombie_ttl_ms / 2;
    flush.lease_ms = 2 * self->flusher.period_us / 1000 + 1;
    flush.on_round = on_round;
    flush.context = &flush;
    flush.swarm = self;
    status = rqli_op_run(rqli_flush_begin(&flush), flush.via->conn, NULL);
    note_election(self, flush.is_elected);
    return noted(self, status);
}

static rql_status step_of_supervisor(void *context, bool is_timed)
{
    struct rql_swarm *self = context;

    (void)is_timed;
    rqli_element_look_after(&self->prober);
    rqli_element_look_after(&self->flusher);
    return RQL_OK;
}

static const struct rqli_element_kind prober_kind = {"rql-prober", "probe_hosts", step_of_prober,
                                                     notify};
static const struct rqli_element_kind flusher_kind = {"rql-flusher", "flush_zombies",
                                                      step_of_flusher, notify};
static const struct rqli_element_kind supervisor_kind = {"rql-supervisor", "supervisor",
                                                         step_of_supervisor, notify};

static void on_new_host(void *context)
{
    struct rql_swarm *self = context;

    rqli_element_rouse(&self->prober);
}

/* A client of its own for an element: connection, identity, time-outs. */
static rql_status connect_element(const rql_client *client, const char *url, rql_client **out,
                                  rql_error *error)
{
    rql_options options = client->options;

    options.url = url ? url : client->url;
    options.auto_swarm = false;
    options.logger = NULL;
    options.instrumenter = NULL;
    return rqli_client_make(out, &options, error);
}

static rql_status check(const rql_swarm_options *options, rql_error *error)
{
    if (options->probe_hosts && 2 * options->probe_period_ms > options->zombie_ttl_ms) {
        return rqli_fail(error, RQL_E_INVALID,
                         "probe_period_ms is %lld; it must be at most half of zombie_ttl_ms, %lld",
                         (long long)options->probe_period_ms, (long long)options->zombie_ttl_ms);
    }
    return RQL_OK;
}

static rql_status make_clients(struct rql_swarm *self, rql_error *error)
{
    rql_status status = RQL_OK;

    if (self->options.probe_hosts) {
        status =
            connect_element(self->client, self->options.probe_url, &self->prober_client, error);
    }
    if (!status && self->options.flush_zombies) {
        status =
            connect_element(self->client, self->options.flush_url, &self->flusher_client, error);
    }
    self->options.probe_url = NULL;
    self->options.flush_url = NULL;
    return status;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A breaker must not keep hosts silent for long. */
static struct rqli_watch_terms terms_of(const struct rql_swarm *self)
{
    int64_t budget_us = rqli_client_budget_us(self->client, 0);
    int64_t most_us = larger(self->options.zombie_ttl_ms * 1000 / 4, 1000);
    int64_t least_us = self->options.liveness_probing_period_ms * 1000;

    return (struct rqli_watch_terms){
        .hang_us = HANGS_AFTER * budget_us,
        .failures_max = FAILURES_MAX,
        .open_least_us = least_us < most_us ? least_us : most_us,
        .open_most_us = most_us,
    };
}

static rql_status start_elements(struct rql_swarm *self, rql_error *error)
{
    const struct rqli_watch_terms terms = terms_of(self);
    const rql_swarm_options *options = &self->options;
    int64_t look_ms = rqli_flush_look_ms(options->zombie_ttl_ms, options->zombie_flush_period_ms);
    rql_status status = RQL_OK;

    if (self->prober_client) {
        status = rqli_element_start(&self->prober, options->probe_period_ms * 1000, &terms, error);
    }
    if (!status && self->flusher_client) {
        status = rqli_element_start(&self->flusher, look_ms * 1000, &terms, error);
    }
    if (!status) {
        status = rqli_element_start(&self->supervisor, options->liveness_probing_period_ms * 1000,
                                    &terms, error);
    }
    return status;
}

static rql_status start(struct rql_swarm *self, rql_error *error)
{
    struct rql_swarm *none = NULL;
    rql_status status = check(&self->options, error);

    if (!status && !atomic_compare_exchange_strong(&self->client->running_swarm, &none, self)) {
        status = rqli_fail(error, RQL_E_BUSY, "this client has a swarm already");
    }
    status = status ? status : make_clients(self, error);
    if (status) {
        return status;
    }
    atomic_store(&self->is_running, true);
    if (self->prober_client) {
        rqli_hosts_open(self->client->hosts, on_new_host, self);
    }
    return start_elements(self, error);
}

void rql_swarm_options_init_sized(const rql_client *client, rql_swarm_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SWARM, options, size, client ? &client->options : NULL);
}

rql_status rql_swarm_start(rql_client *client, const rql_swarm_options *options, rql_swarm **out,
                           rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_swarm_free) rql_swarm *self = NULL;
    rql_swarm_options read;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    status = rqli_options_read(RQLI_OF_SWARM, &read, &client->options, options, error);
    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    self->client = client;
    self->options = read;
    rqli_element_init(&self->supervisor, &supervisor_kind, self);
    rqli_element_init(&self->prober, &prober_kind, self);
    rqli_element_init(&self->flusher, &flusher_kind, self);
    status = start(self, error);
    if (!status) {
        *out = RQLI_GIVE(self);
    }
    return status;
}

static void resign(struct rql_swarm *self)
{
    __attribute__((cleanup(rqli_flush_fini_p))) struct rqli_flush flush;

    rqli_flush_init(&flush, self->flusher_client, &self->options);
    flush.me = self->flusher_client->identity;
    if (atomic_load(&self->is_flusher)) {
        (void)rqli_op_run(rqli_flush_resign(&flush), flush.via->conn, NULL);
    }
    note_election(self, false);
}

static void stop(struct rql_swarm *self)
{
    if (!atomic_exchange(&self->is_running, false)) {
        return;
    }
    rqli_element_stop(&self->supervisor);
    rqli_element_stop(&self->flusher);
    if (self->flusher_client) {
        resign(self);
    }
    if (self->prober_client) {
        rqli_hosts_close(self->client->hosts);
        atomic_store(&self->who, RQLI_HOSTS_HOLDERS);
        rqli_element_await_step(&self->prober, rqli_client_budget_us(self->client, 0));
    }
}

void rql_swarm_stop(rql_swarm *swarm)
{
    RQLI_DEFER_CANCEL;

    if (swarm && rqli_client_check(swarm->client, NULL) == RQL_OK) {
        stop(swarm);
    }
}

rql_swarm *rql_swarm_free(rql_swarm *swarm)
{
    RQLI_DEFER_CANCEL;
    struct rql_swarm *me = swarm;

    if (!swarm || rqli_client_check(swarm->client, NULL) != RQL_OK) {
        return NULL;
    }
    stop(swarm);
    rqli_element_stop(&swarm->prober);
    if (swarm->prober_client && probe(swarm, RQLI_HOSTS_NONE) < 0) {
        /* Without a reply the hosts are still there, and may be taken for dead. */
        rqli_leases_on_unwatched(swarm->client->leases);
    }
    (void)atomic_compare_exchange_strong(&swarm->client->running_swarm, &me, NULL);
    rqli_client_free(swarm->prober_client);
    rqli_client_free(swarm->flusher_client);
    rqli_element_fini(&swarm->supervisor);
    rqli_element_fini(&swarm->prober);
    rqli_element_fini(&swarm->flusher);
    free(swarm);
    return NULL;
}
