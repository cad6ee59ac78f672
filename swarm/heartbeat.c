#include "swarm.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "net/op.h"
#include "wire/answer.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/*
 * The heartbeat of a client's hosts: its threads, under the names that locks bear. One probe asks
 * lock/hosts.c for a plan (who is new, known, leaving), sends it in calls of 100 hosts, and applies
 * it when the server has confirmed all of it.
 *
 * Leases depend on it: silent for zombie_ttl_ms a host counts as dead and what it holds is given to
 * others. So no lease is relied on for longer than that from the sending of the last confirmed
 * probe.
 */

enum {
    CALL_HOSTS = 100, /* in one call: no script holds the server up for long */
    ROUND_CALLS = 64, /* in one round: each has a time budget of its own */
    AGAIN_US = 1000,  /* while another probe of this client is under way */
};

/* A thread that may not be signalled is there, too. */
static bool lives(pid_t thread)
{
    return tgkill(getpid(), thread, 0) == 0 || errno != ESRCH;
}

/* A thread may have ended while a lock that it took is still held by others of its process: as long
 * as that is so, it stays a host. */
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

/* A call may have hosts of all three kinds: it says how many are new and how many are known, those
 * behind them leave. One behind all of them says what the client is called. */
static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct rqli_probe *self = (struct rqli_probe *)op;
    const struct rqli_hosts_plan *plan = &self->plan;
    size_t at = self->at + i * CALL_HOSTS;
    size_t n = self->count - at < CALL_HOSTS ? self->count - at : CALL_HOSTS;

    if (at >= self->count) {
        rqli_client_name_call(&self->client->name, call);
        return;
    }
    rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_PROBE, &rqli_key_sets[RQLI_WHOLE]);
    rqli_call_int(call, (int64_t)share(at, n, 0, plan->n_new));
    rqli_call_int(call, (int64_t)share(at, n, plan->n_new, plan->n_new + plan->n_known));
    for (size_t k = at; k < at + n; k++) {
        rqli_call_text(call, self->names[k]);
    }
}

/* Hosts that were declared dead while they were away learn it here. The earliest call of all counts
 * as the sending: what it told is the oldest that the server knows. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_probe *self = (struct rqli_probe *)op;
    struct rqli_outcome outcome;

    self->n_open--;
    if (self->at + i * CALL_HOSTS >= self->count) {
        if (fault) {
            rqli_client_name_on_lost(&self->client->name);
        }
        return; /* nothing depends on it */
    }
    if (fault) {
        self->fault = *fault;
        op->status = fault->status;
    } else if (!rqli_outcome_read(reply, &outcome) || outcome.what < 0 ||
               outcome.what > RQLI_SERVER_US_MAX) {
        op->status =
            rqli_exchange_fault(answer, reply, "swarm_probe", RQLI_KEY_HOSTS, &self->fault);
    } else {
        self->server_us = outcome.what;
        self->n_dead += outcome.second;
        self->sent_us = self->sent_us < answer->sent_us ? self->sent_us : answer->sent_us;
    }
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
    const struct rqli_subject subject = rqli_subject_of_client(self->client);
    const struct rqli_figures figures = {
        .host_cnt = self->n_dead,
        .at_us = rqli_server_clock_now_us(self->client),
    };

    rqli_observe(moment, &subject, &figures);
}

/* The names of this round live to the end of the probe: calls are written again if the server has
 * lost the script. */
static bool name_all(struct rqli_probe *self)
{
    size_t n_staying = self->plan.n_new + self->plan.n_known;

    self->count = n_staying + self->plan.n_leaving;
    self->names = calloc(self->count + 1, sizeof *self->names);
    for (size_t i = 0; self->names && i < self->count; i++) {
        rqli_host_id(self->names[i], self->plan.threads[i], self->client->identity);
        if (self->told && i < n_staying) {
            rqli_list_add(self->told, rqli_slice_of(self->names[i]), 0);
        }
    }
    return self->names != NULL;
}

/* False: another probe of this client is under way. One probe at a time for a client: two plans
 * under way would confirm each other's hosts. The leases are bound before the first heartbeat is
 * sent, for from then on silence may kill. */
static bool begin(struct rqli_probe *self)
{
    struct rqli_hosts *hosts = self->client->hosts;

    if (atomic_exchange(&hosts->is_probing, true)) {
        return false;
    }
    self->has_begun = true;
    rqli_leases_each(self->client->leases, add_holder, hosts);
    if (!rqli_hosts_plan(hosts, self->who, lives, &self->plan) || !name_all(self)) {
        self->op.status = rqli_fail_nomem(&self->fault);
    } else if (self->zombie_ttl_ms > 0 && self->plan.n_new + self->plan.n_known > 0) {
        rqli_leases_on_probing(self->client->leases, self->zombie_ttl_ms);
    }
    return true;
}

/* The server knows of all; or why it does not is known. */
static void end(struct rqli_probe *self)
{
    struct rqli_hosts *hosts = self->client->hosts;

    if (!self->op.status && self->count == 0) {
        bound_leases(self, rqli_now_us());
    } else if (!self->op.status) {
        if (self->n_dead > 0 || self->plan.n_retried > 0) {
            rqli_leases_doubt(self->client->leases, NULL);
        }
        rqli_hosts_apply(hosts, &self->plan);
        bound_leases(self, self->sent_us);
    }
    rqli_hosts_plan_fini_p(&self->plan);
    free(self->names);
    self->has_begun = false;
    atomic_store(&hosts->is_probing, false);
    if (!self->op.status && self->count > 0) {
        notify(self, RQLI_ON_PROBED);
    }
    if (self->n_dead > 0) {
        notify(self, RQLI_ON_HOSTS_DECLARED_DEAD);
    }
}

/* Cancelled in the middle, what the server was told already is told again next time. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_probe *self = (struct rqli_probe *)op;
    size_t left;

    if (self->has_begun) {
        self->at += op->n_calls * CALL_HOSTS;
        if (op->is_cancelled && (self->n_open > 0 || self->at < self->count)) {
            op->status = RQL_STOPPED;
        }
    } else if (op->is_cancelled) {
        op->status = RQL_STOPPED;
        return RQLI_OP_OVER;
    } else if (!begin(self)) {
        op->again_us = rqli_now_us() + AGAIN_US;
        return RQLI_OP_WAIT;
    }
    if (op->status || self->at >= self->count) {
        end(self);
        return RQLI_OP_OVER;
    }
    left = (self->count - self->at + CALL_HOSTS - 1) / CALL_HOSTS;
    op->n_calls = left < ROUND_CALLS ? left : ROUND_CALLS;
    if (op->n_calls < ROUND_CALLS && rqli_client_wants_name(self->client)) {
        op->n_calls++;
    }
    self->n_open = op->n_calls;
    op->until_us = rqli_client_budget_us(self->via, rqli_now_us());
    return RQLI_OP_AGAIN;
}

/* `next` tries again. */
static void woken(struct rqli_op *op, enum rqli_wake wake)
{
    (void)op;
    (void)wake;
}

/* The members down to `told` are set. RQL_OK: the server knows. What it takes is given back at its
 * end. */
static struct rqli_op *begin_op(struct rqli_probe *self)
{
    static const struct rqli_op_ops ops = {
        .write = write_call, .read = read_reply, .next = next, .woken = woken};

    self->op = (struct rqli_op){.ops = &ops, .route = rqli_client_route_of_all(self->via)};
    self->sent_us = RQLI_NEVER_US;
    return &self->op;
}

static struct rqli_op *begin_probe(struct rql_swarm *swarm, enum rqli_hosts_who who)
{
    swarm->probe = (struct rqli_probe){
        .client = swarm->client,
        .via = swarm->prober_client,
        .who = who,
        .zombie_ttl_ms = swarm->options.zombie_ttl_ms,
    };
    return begin_op(&swarm->probe);
}

/* Roused in between: only for who has just come. */
static struct rqli_op *begin_step(struct rql_swarm *swarm, bool is_timed)
{
    bool is_for_new = swarm->who == RQLI_HOSTS_ALL && !is_timed;

    return begin_probe(swarm, is_for_new ? RQLI_HOSTS_NEW : swarm->who);
}

static void end_step(struct rql_swarm *swarm, rql_status status)
{
    if (status < 0) {
        rqli_swarm_notify(swarm, RQLI_ON_STEP_FAILED, (struct rqli_figures){0});
    }
}

/* A swarm that ends says that its hosts leave, so that nobody takes them for dead later. */
static struct rqli_op *begin_leaving(struct rql_swarm *swarm)
{
    return begin_probe(swarm, RQLI_HOSTS_NONE);
}

/* Without a reply the hosts are still there, and may be taken for dead. */
static void end_leaving(struct rql_swarm *swarm, rql_status status)
{
    if (status < 0) {
        rqli_leases_on_unwatched(swarm->client->leases);
    }
}

const struct rqli_element_ops rqli_prober_ops = {"probe_hosts", begin_step, end_step, begin_leaving,
                                                 end_leaving};

/* By hand: the caller's thread is a host, whether a swarm runs or not. Leases are not bound by it,
 * for nothing promises the next one. */
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
    status = rqli_op_run(begin_op(&probe));
    if (status < 0 && error) {
        *error = probe.fault;
    }
    if (!status && hosts) {
        status = rqli_list_give(&told, hosts, error);
    }
    if (!status && at_us) {
        *at_us = probe.server_us;
    }
    return status;
}
