#include "heartbeat.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "net/op.h"
#include "wire/answer.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* One call tells of so many: no script holds the server up for long. */
enum { CALL_HOSTS = 100 };

/* What the server is told: an operation of a call for each hundred hosts. */
struct heartbeat {
    struct rqli_op op; /* first */
    struct rqli_probe *probe;
    struct rqli_hosts_plan plan;
    size_t count;
    char (*names)[RQL_ID_SIZE];
    size_t at;       /* the first host of this round */
    int64_t sent_us; /* the first call */
    rql_error fault;
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

static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct heartbeat *self = (struct heartbeat *)op;
    const struct rqli_hosts_plan *plan = &self->plan;
    size_t at = self->at + i * CALL_HOSTS;
    size_t n = self->count - at < CALL_HOSTS ? self->count - at : CALL_HOSTS;

    rqli_call_init(call, RQLI_SCRIPT_SWARM_PROBE, NULL);
    rqli_call_int(call, (int64_t)share(at, n, 0, plan->n_new));
    rqli_call_int(call, (int64_t)share(at, n, plan->n_new, plan->n_new + plan->n_known));
    for (size_t k = at; k < at + n; k++) {
        rqli_call_text(call, self->names[k]);
    }
}

/* Hosts that were declared dead while they were away learn it here. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct heartbeat *self = (struct heartbeat *)op;
    struct rqli_outcome outcome;

    (void)i;
    if (fault) {
        self->fault = *fault;
        op->status = fault->status;
    } else if (!rqli_outcome_read(reply, &outcome) || outcome.what < 0 ||
               outcome.what > RQLI_SERVER_US_MAX) {
        op->status =
            rqli_exchange_fault(answer, reply, "swarm_probe", RQLI_KEY_HOSTS, &self->fault);
    } else {
        self->probe->server_us = outcome.what;
        self->probe->n_dead += outcome.second;
        self->sent_us = self->sent_us < answer->sent_us ? self->sent_us : answer->sent_us;
    }
}

static enum rqli_op_next next(struct rqli_op *op)
{
    struct heartbeat *self = (struct heartbeat *)op;
    size_t left;

    self->at += op->n_calls * CALL_HOSTS;
    if (op->status || self->at >= self->count) {
        return RQLI_OP_OVER;
    }
    left = (self->count - self->at + CALL_HOSTS - 1) / CALL_HOSTS;
    op->n_calls = left < RQLI_OP_CALLS_MAX ? left : RQLI_OP_CALLS_MAX;
    op->until_us = rqli_client_budget_us(self->probe->via, rqli_now_us());
    return RQLI_OP_AGAIN;
}

/* Nobody is left whom silence could kill. */
static bool has_left(const struct rqli_probe *self)
{
    return self->who == RQLI_HOSTS_NONE ||
           (self->who == RQLI_HOSTS_HOLDERS && rqli_hosts_count(self->client->hosts) == 0);
}

/* A probe of some says nothing of the others. */
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

static bool name_all(struct heartbeat *self)
{
    const struct rqli_probe *probe = self->probe;
    size_t n_staying = self->plan.n_new + self->plan.n_known;

    self->count = n_staying + self->plan.n_leaving;
    self->names = calloc(self->count + 1, sizeof *self->names);
    for (size_t i = 0; self->names && i < self->count; i++) {
        rqli_host_id(self->names[i], self->plan.threads[i], probe->client->identity);
        if (probe->told && i < n_staying) {
            rqli_list_add(probe->told, rqli_slice_of(self->names[i]), 0);
        }
    }
    return self->names != NULL;
}

static void fini_p(struct heartbeat *self)
{
    rqli_hosts_plan_fini_p(&self->plan);
    free(self->names);
}

/* One at a time. */
static rql_status probe_alone(struct rqli_probe *self, rql_error *error)
{
    static const struct rqli_op_ops ops = {write_call, read_reply, next, NULL};
    struct rqli_hosts *hosts = self->client->hosts;
    __attribute__((cleanup(unlock_p))) pthread_mutex_t *probing = &hosts->probing;
    RQLI_AUTO(fini)
    struct heartbeat beat = {.op.ops = &ops, .probe = self, .sent_us = RQLI_NEVER_US};

    (void)pthread_mutex_lock(probing);
    rqli_leases_each(self->client->leases, add_holder, hosts);
    if (!rqli_hosts_plan(hosts, self->who, lives, &beat.plan) || !name_all(&beat)) {
        return rqli_fail_nomem(error);
    }
    if (beat.count == 0) {
        bound_leases(self, rqli_now_us()); /* NOLINT(clang-analyzer-unix.Malloc): fini() frees */
        return RQL_OK;
    }
    if (self->zombie_ttl_ms > 0 && beat.plan.n_new + beat.plan.n_known > 0) {
        rqli_leases_on_probing(self->client->leases, self->zombie_ttl_ms);
    }
    if (rqli_op_run(&beat.op, self->via->conn, NULL)) {
        if (error) {
            *error = beat.fault;
        }
        return beat.op.status;
    }
    if (self->n_dead > 0 || beat.plan.n_retried > 0) {
        rqli_leases_doubt(self->client->leases);
    }
    rqli_hosts_apply(hosts, &beat.plan);
    bound_leases(self, beat.sent_us);
    notify(self, RQLI_ON_PROBED);
    return RQL_OK;
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
