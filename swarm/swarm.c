#include "swarm.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/must.h"
#include "base/scope.h"
#include "base/uv_start.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/* Start and stop of a swarm. */

/* After three failures in a row the breaker opens; a step hangs after three times what one command
 * may take. */
enum { FAILURES_MAX = 3, HANGS_AFTER = 3 };

void rqli_swarm_notify(struct rql_swarm *self, enum rqli_moment moment, struct rqli_figures figures)
{
    const struct rqli_subject subject = rqli_subject_of_swarm(self->client);

    figures.at_us = rqli_server_clock_now_us(self->client);
    rqli_observe(moment, &subject, &figures);
}

/* Asks no server: it looks at clocks and states only. */
static struct rqli_op *supervise(struct rql_swarm *self, bool is_timed)
{
    (void)is_timed;
    rqli_element_look_after(&self->prober);
    rqli_element_look_after(&self->flusher);
    return NULL;
}

/* Nothing runs any more: the loops are closed, and no thread is left but this one. */
static void destroy(struct rql_swarm *self)
{
    rqli_client_free(self->prober_client);
    rqli_client_free(self->flusher_client);
    rqli_element_fini(&self->supervisor);
    rqli_element_fini(&self->prober);
    rqli_element_fini(&self->flusher);
    free(self);
}

/* The last of its loops is closed. With a thread of its own whoever joins that frees it. */
static void on_closed(void *context)
{
    struct rql_swarm *self = context;
    rql_closed_fn closed = self->options.closed;
    void *user_data = self->options.closed_data;

    if (--self->n_open > 0 || self->own.is_used) {
        return;
    }
    destroy(self);
    if (closed) {
        closed(user_data);
    }
}

/* Asynchronous: on_closed() is called when the last handle is closed. It cannot fail for a loop
 * that is open, and closed once. */
static void close_loop(struct rql_swarm *self, rql_loop *loop)
{
    self->n_open++;
    RQLI_MUST(rql_loop_close(loop, on_closed, self, NULL) == RQL_OK);
}

/* The job that kept the loop alive ends with it. The loop of the prober is always there, that of
 * the flusher only if it flushes. */
static void close_loops(struct rql_swarm *self)
{
    rqli_loop_finish(&self->job);
    close_loop(self, self->home);
    if (self->away) {
        close_loop(self, self->away);
    }
}

/* Stopping waits for one more step of the prober, which says who still holds something; leaving
 * waits for all. */
void rqli_swarm_on_step(struct rql_swarm *self)
{
    struct rql_swarm *me = self;
    const struct rqli_element *prober = &self->prober;
    bool has_probed = !prober->is_begun || prober->shall_restart || prober->tried >= self->awaited;
    bool has_stopped = !self->supervisor.is_begun && !self->flusher.is_begun && has_probed;

    if (self->is_stopping && has_stopped && atomic_exchange(&self->stopped, 1) == 0) {
        rqli_signal_wake(&self->stopped);
    }
    if (self->is_leaving && has_stopped && !prober->is_begun) {
        self->is_leaving = false;
        (void)atomic_compare_exchange_strong(&self->client->running_swarm, &me, NULL);
        close_loops(self);
    }
}

/* Holders stay alive to the others until their locks are released: the prober goes on for them
 * alone. */
static void begin_stopping(struct rqli_post *post)
{
    struct rql_swarm *self =
        (struct rql_swarm *)((char *)post - offsetof(struct rql_swarm, stopping));

    self->is_stopping = true;
    self->who = RQLI_HOSTS_HOLDERS;
    self->awaited = self->prober.tried + 1 + self->prober.is_busy;
    rqli_element_rouse(&self->prober);
    rqli_element_stop(&self->supervisor);
    rqli_element_stop(&self->flusher);
}

/* Behind begin_stopping(), for both are posted in order. rqli_swarm_on_step() ends it at once where
 * the prober has never begun. */
static void begin_leaving(struct rqli_post *post)
{
    struct rql_swarm *self =
        (struct rql_swarm *)((char *)post - offsetof(struct rql_swarm, leaving));

    self->is_leaving = true;
    rqli_element_stop(&self->prober);
    rqli_swarm_on_step(self);
}

/* From the thread that has just become a host, with the mutex of the hosts held: it only posts. */
static void on_new_host(void *context)
{
    struct rql_swarm *self = context;

    rqli_element_call(&self->prober);
}

/* A client of its own for an element: connection, identity, time-outs. Without listeners: what its
 * commands do is reported by the swarm, not as a client's. */
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

/* That of the prober is always there: the supervisor uses its loop. */
static rql_status make_clients(struct rql_swarm *self, rql_error *error)
{
    const char *probe_url = self->options.probe_hosts ? self->options.probe_url : NULL;
    rql_status status = connect_element(self->client, probe_url, &self->prober_client, error);

    if (!status && self->options.flush_zombies) {
        status =
            connect_element(self->client, self->options.flush_url, &self->flusher_client, error);
    }
    /* They belong to the caller, whose call ends: each client has a copy of its own. */
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

/* The job is never done by what it does, only by rqli_loop_finish() in close_loops(). */
static void begin_nothing(struct rqli_job *job)
{
    (void)job;
}

/* A job that never ends keeps the caller's loop alive as long as the swarm lives. */
static bool open_loops(struct rql_swarm *self)
{
    uv_loop_t *uv = self->options.loop;

    if (!uv) {
        uv = &self->own.uv;
        self->own.is_used = rqli_uv_loop_init(uv);
        if (!self->own.is_used) {
            return false;
        }
    }
    if (rql_loop_open(&self->home, self->prober_client, uv, NULL) != RQL_OK) {
        return false;
    }
    self->job.begin = begin_nothing;
    rqli_loop_begin(self->home, &self->job);
    rqli_loop_hold_open(self->home, true);
    return !self->flusher_client ||
           rql_loop_open(&self->away, self->flusher_client, uv, NULL) == RQL_OK;
}

/* The supervisor last: it looks after the other two. */
static bool begin_elements(struct rql_swarm *self)
{
    const struct rqli_watch_terms terms = terms_of(self);
    const rql_swarm_options *options = &self->options;
    int64_t look_ms = rqli_flush_look_ms(options->zombie_ttl_ms, options->zombie_flush_period_ms);

    if (options->probe_hosts &&
        !rqli_element_begin(&self->prober, self->home, options->probe_period_ms * 1000, &terms)) {
        return false;
    }
    if (self->away && !rqli_element_begin(&self->flusher, self->away, look_ms * 1000, &terms)) {
        return false;
    }
    return rqli_element_begin(&self->supervisor, self->home,
                              options->liveness_probing_period_ms * 1000, &terms);
}

/* Until the last handle is closed. Its end is a clean loop, or a handle was forgotten. */
static void run_here(struct rql_swarm *self)
{
    (void)uv_run(&self->own.uv, UV_RUN_DEFAULT);
    RQLI_MUST(uv_loop_close(&self->own.uv) == 0);
}

static void run(void *argument)
{
    (void)pthread_setname_np(pthread_self(), "rql-swarm");
    run_here(argument);
}

/* The loops were opened here, before the thread was there; from now on they are its own. */
static bool start_thread(struct rql_swarm *self)
{
    sigset_t before = rqli_mask_all();
    bool has_started = uv_thread_create(&self->own.thread, run, self) == 0;

    rqli_mask_restore(&before);
    if (has_started) {
        /* Before its first callback, so that whoever asks where it is gets the right answer. */
        self->home->uv_thread = self->own.thread;
        if (self->away) {
            self->away->uv_thread = self->own.thread;
        }
    }
    return has_started;
}

/* Before its loop has run. On a loop of the caller the rest ends when that runs. */
static void give_up(struct rql_swarm *self)
{
    struct rql_swarm *me = self;

    if (atomic_load(&self->is_running) && self->options.probe_hosts) {
        rqli_hosts_close(self->client->hosts);
    }
    (void)atomic_compare_exchange_strong(&self->client->running_swarm, &me, NULL);
    rqli_element_drop(&self->supervisor);
    rqli_element_drop(&self->prober);
    rqli_element_drop(&self->flusher);
    self->options.closed = NULL;
    if (self->home) {
        close_loops(self);
    }
    if (self->own.is_used) {
        run_here(self);
    }
    if (self->own.is_used || !self->home) {
        destroy(self);
    }
}

/* A client has one swarm: two would send each other's heartbeats. */
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
    if (!open_loops(self) || !begin_elements(self)) {
        return rqli_fail(error, RQL_E_NOMEM, "swarm: no memory, or no descriptor");
    }
    atomic_store(&self->is_running, true);
    if (self->options.probe_hosts) {
        rqli_hosts_open(self->client->hosts, on_new_host, self);
    }
    if (self->own.is_used && !start_thread(self)) {
        return rqli_fail(error, RQL_E_NOMEM, "swarm: no thread to be had");
    }
    return RQL_OK;
}

static const struct rqli_element_ops supervisor_ops = {.label = "supervisor", .begin = supervise};

void rql_swarm_options_init_sized(const rql_client *client, rql_swarm_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SWARM, options, size, client ? &client->options : NULL);
}

rql_status rql_swarm_start(rql_client *client, const rql_swarm_options *options, rql_swarm **out,
                           rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rql_swarm *self;
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
    self->stopping.take = begin_stopping;
    self->leaving.take = begin_leaving;
    rqli_element_init(&self->supervisor, &supervisor_ops, self);
    rqli_element_init(&self->prober, &rqli_prober_ops, self);
    rqli_element_init(&self->flusher, &rqli_flusher_ops, self);
    status = start(self, error);
    if (status) {
        give_up(self);
        return status;
    }
    *out = self;
    return RQL_OK;
}

/* Whoever calls from a callback of its loop does not wait for it; nor for a loop of the caller. */
static void stop(struct rql_swarm *self)
{
    if (!atomic_exchange(&self->is_running, false)) {
        return;
    }
    if (self->options.probe_hosts) {
        rqli_hosts_close(self->client->hosts);
    }
    rqli_loop_post(self->home, &self->stopping);
    while (self->own.is_used && !rqli_loop_is_here(self->home) &&
           atomic_load(&self->stopped) == 0) {
        rqli_signal_wait(&self->stopped, 0, RQLI_NEVER_US);
    }
}

/* The client must be ours: in a fork child neither the loop nor its thread is there. */
void rql_swarm_stop(rql_swarm *swarm)
{
    RQLI_DEFER_CANCEL;

    if (swarm && rqli_client_check(swarm->client, NULL) == RQL_OK) {
        stop(swarm);
    }
}

/* On a loop of the caller it returns at once, and on_closed() frees the swarm later. With a thread
 * of its own it is freed here, when that has ended. */
rql_swarm *rql_swarm_free(rql_swarm *swarm)
{
    RQLI_DEFER_CANCEL;
    bool is_own;

    if (!swarm || rqli_client_check(swarm->client, NULL) != RQL_OK) {
        return NULL;
    }
    is_own = swarm->own.is_used;
    stop(swarm);
    rqli_loop_post(swarm->home, &swarm->leaving);
    if (is_own) {
        (void)uv_thread_join(&swarm->own.thread);
        destroy(swarm);
    }
    return NULL;
}

/* From any thread. The swarm must not be freed meanwhile, as swarm.h says; a client without one
 * tells of an empty one. */
rql_status rql_get_swarm_status(rql_client *client, rql_swarm_status *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, error);
    rql_swarm_status filled = {.is_running = false};
    struct rql_swarm *swarm;

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    filled.auto_swarm = client->options.auto_swarm;
    swarm = atomic_load(&client->running_swarm);
    if (swarm) {
        filled.is_running = atomic_load(&swarm->is_running);
        filled.is_flusher = atomic_load(&swarm->is_flusher);
        filled.hosts = (int64_t)rqli_hosts_known(client->hosts);
        rqli_element_describe(&swarm->supervisor, &filled.supervisor);
        rqli_element_describe(&swarm->prober, &filled.probe_hosts);
        rqli_element_describe(&swarm->flusher, &filled.flush_zombies);
    }
    *out = filled;
    return RQL_OK;
}
