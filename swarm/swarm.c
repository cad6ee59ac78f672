#include "swarm.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/must.h"
#include "base/result.h"
#include "base/scope.h"
#include "base/uv_start.h"
#include "lock/client.h"
#include "lock/client_new.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Start and stop of a swarm. A stop is a post: `stopping` ends supervisor and flusher and leaves
 * the prober to the hosts that hold locks, `leaving` (of rql_swarm_free()) ends the prober, too.
 * When the last element is over the loops are closed, and when these are closed the swarm is freed:
 * by the caller that joins its thread, or on the caller's loop.
 */

/* Failures in a row that open a breaker; and how many time budgets of a command a step may take
 * without a sign. */
enum { FAILURES_MAX = 3, HANGS_AFTER = 3 };

int64_t rqli_swarm_clock_us(rql_client *client, rql_client *via)
{
    int64_t at_us = rqli_server_clock_now_us(via);

    return at_us < 0 ? rqli_server_clock_now_us(client) : at_us;
}

/* Notifies the listeners of the client that started the swarm: the clients of its elements have
 * none. */
void rqli_swarm_notify(struct rql_swarm *self, rql_client *via, enum rqli_moment moment,
                       struct rqli_figures figures)
{
    const struct rqli_subject subject = rqli_subject_of_client(self->client);

    figures.at_us = rqli_swarm_clock_us(self->client, via);
    rqli_observe(moment, &subject, &figures);
}

/* Takes the supervisor's step. It asks no server, but looks at clocks and states only. */
static struct rqli_op *supervise(struct rql_swarm *self, bool is_timed)
{
    (void)is_timed;
    rqli_element_look_after(&self->prober);
    rqli_element_look_after(&self->flusher);
    return NULL;
}

/* Frees the swarm. Its loops must be closed by now, or never opened, because they use the
 * clients. */
static void destroy(struct rql_swarm *self)
{
    rqli_client_free(self->prober_client);
    rqli_client_free(self->flusher_client);
    rqli_element_fini(&self->supervisor);
    rqli_element_fini(&self->prober);
    rqli_element_fini(&self->flusher);
    free(self);
}

/* Frees the swarm when the last of its loops is closed. If it has a thread of its own, the caller
 * that joins this thread frees it. */
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

static void close_loop(struct rql_swarm *self, rql_loop *loop)
{
    self->n_open++;
    RQLI_MUST(rql_loop_close(loop, on_closed, self, NULL) == RQL_OK);
}

/* Closes the loops. It ends the job first, because a loop with a job under way does not end. */
static void close_loops(struct rql_swarm *self)
{
    rqli_loop_finish(&self->job);
    close_loop(self, self->home);
    if (self->away) {
        close_loop(self, self->away);
    }
}

/* Checks whether a stop is complete. Stopping waits for one more step of the prober, which reports
 * the hosts that still hold a lock; leaving waits for all elements. A prober that was cut off in a
 * step is not waited for. */
static void check_stop(struct rql_swarm *self)
{
    struct rql_swarm *me = self;
    const struct rqli_element *prober = &self->prober;
    bool has_probed = !prober->is_begun || prober->shall_restart || prober->tried >= self->awaited;
    bool has_stopped = !self->supervisor.is_begun && !self->flusher.is_begun && has_probed;

    if (self->is_stopping && has_stopped && atomic_exchange(&self->stopped, 1) == 0) {
        rqli_signal_wake(&self->stopped);
    }
    if (self->is_leaving && has_stopped && !prober->is_begun) {
        /* This happens once. From here on another swarm of the client may be started. */
        self->is_leaving = false;
        (void)atomic_compare_exchange_strong(&self->client->running_swarm, &me, NULL);
        close_loops(self);
    }
}

/* From the end of the supervisor on, a prober that has ended to be restarted is started here,
 * because it has to go on for the holders. */
void rqli_swarm_on_step(struct rql_swarm *self)
{
    if (self->is_stopping) {
        rqli_element_look_after(&self->prober);
    }
    check_stop(self);
}

/* Begins the stop. Holders must stay alive for other clients until their locks are released, so the
 * prober goes on for them alone. A step under way was begun for all hosts, so the step after it is
 * awaited. The number is set first: stopping an element may end it within the call, and
 * check_stop() reads the number. */
static void begin_stopping(struct rqli_post *post)
{
    struct rql_swarm *self = RQLI_OWNER(post, struct rql_swarm, stopping);

    self->is_stopping = true;
    self->who = RQLI_HOSTS_HOLDERS;
    self->awaited = self->prober.tried + 1 + self->prober.is_busy;
    rqli_element_rouse(&self->prober);
    rqli_element_stop(&self->supervisor);
    rqli_element_stop(&self->flusher);
}

/* Ends the prober. This runs after begin_stopping(), because it was posted later. Without a prober
 * nothing else would check whether all elements are over. */
static void begin_leaving(struct rqli_post *post)
{
    struct rql_swarm *self = RQLI_OWNER(post, struct rql_swarm, leaving);

    self->is_leaving = true;
    rqli_element_stop(&self->prober);
    rqli_swarm_on_step(self);
}

/* Any thread. Caller holds the mutex of the hosts, so this may do no more than post. */
static void on_new_host(void *context)
{
    struct rql_swarm *self = context;

    rqli_element_call(&self->prober);
}

/* Adds the settings of the swarm to the client's entry, to be compared: all swarms of a server have
 * to agree on them. */
static void tell_settings(const rql_swarm_options *options, struct rqli_client_name *name)
{
    char fields[128];

    (void)snprintf(fields, sizeof fields,
                   ",\"zombie_ttl_ms\":%lld,\"probe_period_ms\":%lld,\"flush_period_ms\":%lld",
                   (long long)options->zombie_ttl_ms,
                   options->probe_hosts ? (long long)options->probe_period_ms : 0,
                   options->flush_zombies ? (long long)options->zombie_flush_period_ms : 0);
    rqli_client_name_add(name, fields);
}

/* Makes a client for an element, with its own connection, identity and time-outs. It has no
 * listeners, because the swarm reports on its commands, not the client. */
static rql_status connect_element(const struct rql_swarm *self, const char *url, rql_client **out,
                                  rql_error *error)
{
    rql_options options = self->client->options;
    rql_status status;

    options.logger = NULL;
    options.instrumenter = NULL;
    if (url) {
        options.url = url;
        options.credentials = NULL;
    }
    status = rqli_client_make(out, &options, error);
    if (!status && options.client_names) {
        (*out)->name.of_commands = 'b';
        tell_settings(&self->options, &(*out)->name);
    }
    return status;
}

/* Checks the options together; each by itself is checked already. A suspect has half of the ttl to
 * show that it lives, so a heartbeat has to come within that time. */
static rql_status check(const rql_swarm_options *options, rql_error *error)
{
    if (options->probe_hosts && 2 * options->probe_period_ms > options->zombie_ttl_ms) {
        return rqli_fail(error, RQL_E_INVALID,
                         "swarm_probe_period_ms is %lld; it must be at most half of zombie_ttl_ms, "
                         "which is %lld",
                         (long long)options->probe_period_ms, (long long)options->zombie_ttl_ms);
    }
    return RQL_OK;
}

static bool has_other_keys(const struct rql_swarm *self, const rql_client *client)
{
    return client && client->is_partitioned != self->client->is_partitioned;
}

/* Makes the elements' clients. The prober's is always there, because the supervisor uses its loop.
 * The clients have copied the URLs, which are the caller's memory and may have a password: none is
 * kept here. */
static rql_status make_clients(struct rql_swarm *self, rql_error *error)
{
    const char *probe_url = self->options.probe_hosts ? self->options.probe_url : NULL;
    rql_status status = connect_element(self, probe_url, &self->prober_client, error);

    if (!status && self->options.flush_zombies) {
        status = connect_element(self, self->options.flush_url, &self->flusher_client, error);
    }
    if (!status &&
        (has_other_keys(self, self->prober_client) || has_other_keys(self, self->flusher_client))) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "probe_url and flush_url must lead to %s, as the client's url does; "
                           "nothing was sent",
                           self->client->is_partitioned ? "servers that share all locks"
                                                        : "a server that has all locks");
    }
    self->options.probe_url = NULL;
    self->options.flush_url = NULL;
    return status;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the terms of the elements. A breaker must not keep hosts silent for long; at first it
 * stays open for one period of the supervisor. The time budget is that of one command: to connect
 * and to get its reply. */
static struct rqli_watch_terms terms_of(const struct rql_swarm *self)
{
    int64_t budget_us = rqli_client_until_us(self->client, 0);
    int64_t most_us = larger(self->options.zombie_ttl_ms * 1000 / 4, 1000);
    int64_t least_us = self->options.liveness_probing_period_ms * 1000;

    return (struct rqli_watch_terms){
        .hang_us = HANGS_AFTER * budget_us,
        .failures_max = FAILURES_MAX,
        .open_least_us = least_us < most_us ? least_us : most_us,
        .open_most_us = most_us,
    };
}

static void begin_nothing(struct rqli_job *job)
{
    (void)job;
}

/* Opens the loops. A job that never ends keeps the caller's loop alive as long as the swarm lives.
 * False: give_up() closes the loops that are open; home is NULL if there is none. */
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
    if (rql_loop_open(self->prober_client, uv, &self->home, NULL) != RQL_OK) {
        return false;
    }
    self->job.begin = begin_nothing;
    rqli_loop_begin(self->home, &self->job);
    rqli_loop_hold_open(self->home, true);
    return !self->flusher_client ||
           rql_loop_open(self->flusher_client, uv, &self->away, NULL) == RQL_OK;
}

/* Begins the elements, the supervisor in any case. Their first steps come when the loop runs. */
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

/* Runs the swarm's own uv loop until both loops on it are closed: then nothing is left on it. */
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

/* Starts the swarm's thread. The loops were opened here, before the thread existed; from now on
 * they belong to it. */
static bool start_thread(struct rql_swarm *self)
{
    sigset_t before = rqli_mask_asynchronous();
    bool has_started = uv_thread_create(&self->own.thread, run, self) == 0;

    rqli_mask_restore(&before);
    if (has_started) {
        self->home->uv_thread = self->own.thread;
        if (self->away) {
            self->away->uv_thread = self->own.thread;
        }
    }
    return has_started;
}

/* Undoes a failed start, before the loop has run. On a loop of the caller the rest ends when that
 * loop runs; `closed` is not called, because rql_swarm_start() reports that there is no swarm. A
 * loop of the swarm's own is run here, which only closes. is_running is set by then only if the
 * thread could not be started. */
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

/* Starts the swarm. A client has one swarm, because two would send each other's heartbeats. Threads
 * may become hosts when the elements have begun, because each new host calls the prober. After a
 * fault give_up() takes back what was done. */
static rql_status start(struct rql_swarm *self, rql_error *error)
{
    struct rql_swarm *none = NULL;
    rql_status status = check(&self->options, error);

    if (!status && !atomic_compare_exchange_strong(&self->client->running_swarm, &none, self)) {
        status = rqli_fail(error, RQL_E_BUSY, "this client already has a swarm");
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
        rqli_hosts_open(self->client->hosts, self->options.zombie_ttl_ms, on_new_host, self);
    }
    if (self->own.is_used && !start_thread(self)) {
        return rqli_fail(error, RQL_E_NOMEM, "swarm: no thread is available");
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

/* Stops the swarm. A caller in a callback of the swarm's loop does not wait, nor does any caller if
 * the loop is the caller's. The hosts are closed first: after that no thread calls on_new_host(),
 * so the prober is not called after `stopping`. A second call finds the swarm stopped, and does not
 * wait. */
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

void rql_swarm_stop(rql_swarm *swarm)
{
    RQLI_DEFER_CANCEL;

    if (swarm && rqli_client_check(swarm->client, NULL) == RQL_OK) {
        stop(swarm);
    }
}

/* The swarm's own thread ends when its loops are closed, and can be joined. A loop of the caller
 * frees the swarm when it runs, so the swarm may be gone as soon as `leaving` is posted. */
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

/* Reports on a stopped swarm, too, as long as it is not freed: is_running tells them apart. */
rql_status rql_swarm_get_status_sized(rql_client *client, rql_swarm_status *out, size_t size,
                                      rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, error);
    rql_swarm_status filled = {.is_running = false};
    struct rql_swarm *swarm;

    if (status) {
        return status;
    }
    if (!out || size < sizeof out->size) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL, or too small");
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
    rqli_result_fill(out, size, &filled, sizeof filled);
    return RQL_OK;
}
