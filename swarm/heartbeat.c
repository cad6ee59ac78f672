#include "swarm.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "net/op.h"
#include "wire/answer.h"

/*
 * The heartbeat of a client's hosts: its threads, under the names that locks bear. One probe asks
 * lock/hosts.c for a plan (for each set of keys, who is new, known, leaving), sends it in calls of
 * 100 hosts, and applies of it what the servers have confirmed, set by set: where one cannot be
 * reached, what others know does not suffer.
 *
 * Leases depend on it: silent for zombie_ttl_ms a host counts as dead and what it holds is given to
 * others. So no lease is relied on for longer than that from the sending of the last confirmed
 * probe of its set of keys.
 */

enum {
    CALL_HOSTS = 100,              /* in one call: no script holds the server up for long */
    ROUND_CALLS = RQLI_PARTITIONS, /* in one round: each has a time budget of its own */
    AGAIN_US = 1000,               /* while another probe of this client is under way */
};

/* A thread may have ended while a lock that it took is still held by others of its process: as long
 * as that is so, it stays a host. */
static void add_holder(const rql_lock *lock, void *context)
{
    rqli_hosts_add(context, lock->keys.set, lock->owner_thread, true);
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
    const struct rqli_probe_call *of = &self->calls[self->at + i];
    const struct rqli_hosts_group *group;

    if (self->at + i >= self->count) {
        rqli_client_name_call(&self->client->name, call);
        return;
    }
    group = &self->plan.groups[of->group];
    rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_PROBE, group->set);
    rqli_call_int(call, (int64_t)share(of->at, of->n, 0, group->n_new));
    rqli_call_int(call, (int64_t)share(of->at, of->n, group->n_new, rqli_hosts_group_stays(group)));
    for (size_t k = of->at; k < of->at + of->n; k++) {
        rqli_call_text(call, self->names[group->first + k]);
    }
}

/* Hosts that were declared dead while they were away learn it here. The earliest call of all counts
 * as the sending: what it told is the oldest that the server knows. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_probe *self = (struct rqli_probe *)op;
    struct rqli_probe_group *group;
    struct rqli_outcome outcome;

    self->n_open--;
    if (self->at + i >= self->count) {
        if (fault) {
            rqli_client_name_on_lost(&self->client->name);
        }
        return; /* nothing depends on it */
    }
    group = &self->groups[self->calls[self->at + i].group];
    if (fault) {
        self->fault = *fault;
        group->has_failed = true;
    } else if (!rqli_outcome_read(reply, &outcome) || outcome.what < 0 ||
               outcome.what > RQLI_SERVER_US_MAX) {
        (void)rqli_exchange_fault(answer, reply, "swarm_probe", RQLI_KEY_HOSTS, &self->fault);
        group->has_failed = true;
    } else {
        self->server_us = outcome.what;
        self->n_dead += outcome.second;
        group->n_dead += outcome.second;
        group->sent_us = group->sent_us < answer->sent_us ? group->sent_us : answer->sent_us;
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

static bool make_room(struct rqli_probe *self)
{
    const struct rqli_hosts_plan *plan = &self->plan;
    size_t n_calls = 0;
    size_t n_names = 0;

    for (size_t g = 0; g < plan->n_groups; g++) {
        n_names += rqli_hosts_group_size(&plan->groups[g]);
        n_calls += (rqli_hosts_group_size(&plan->groups[g]) + CALL_HOSTS - 1) / CALL_HOSTS;
    }
    self->groups = calloc(plan->n_groups + 1, sizeof *self->groups);
    self->names = calloc(n_names + 1, sizeof *self->names);
    self->calls = calloc(n_calls + 1, sizeof *self->calls);
    return self->groups && self->names && self->calls;
}

/* The names live to the end of the probe: calls are written again if a server has lost the script,
 * or the keys have moved. */
static void take_group(struct rqli_probe *self, size_t g)
{
    const struct rqli_hosts_group *group = &self->plan.groups[g];
    size_t size = rqli_hosts_group_size(group);

    self->groups[g].sent_us = RQLI_NEVER_US;
    for (size_t i = 0; i < size; i++) {
        char *name = self->names[group->first + i];

        rqli_host_id(name, self->plan.threads[group->first + i], self->client->identity);
        if (self->told && i < rqli_hosts_group_stays(group)) {
            rqli_list_add(self->told, rqli_slice_of(name), 0);
        }
    }
    for (size_t at = 0; at < size; at += CALL_HOSTS) {
        size_t n = size - at < CALL_HOSTS ? size - at : CALL_HOSTS;

        self->calls[self->count++] = (struct rqli_probe_call){.group = g, .at = at, .n = n};
    }
    if (self->zombie_ttl_ms > 0 && rqli_hosts_group_stays(group) > 0) {
        rqli_leases_on_probing(self->client->leases, group->set, self->zombie_ttl_ms);
    }
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
    if (!rqli_hosts_plan(hosts, self->who, rqli_thread_lives, &self->plan) || !make_room(self)) {
        self->op.status = rqli_fail_nomem(&self->fault);
        return true;
    }
    for (size_t g = 0; g < self->plan.n_groups; g++) {
        take_group(self, g);
    }
    if (self->zombie_ttl_ms > 0) {
        rqli_leases_rebind(self->client->leases);
    }
    return true;
}

/* Who was declared dead, or may have been in between, may have lost its locks. */
static void verify_group(const struct rqli_probe *self, size_t g)
{
    const struct rqli_probe_group *group = &self->groups[g];

    if (group->n_dead > 0 || (!group->has_failed && self->plan.groups[g].n_retried > 0)) {
        rqli_leases_doubt(self->client->leases, self->plan.groups[g].set);
    }
}

/* Who has these keys knows. A probe of some says nothing of the others; and where nobody is left
 * silence cannot kill. */
static void apply_group(struct rqli_probe *self, size_t g)
{
    const struct rqli_hosts_group *group = &self->plan.groups[g];

    rqli_hosts_apply(self->client->hosts, &self->plan, group);
    if (self->zombie_ttl_ms > 0 && rqli_hosts_group_stays(group) == 0) {
        rqli_leases_on_left(self->client->leases, group->set);
    } else if (self->zombie_ttl_ms > 0 && group->tells_all) {
        rqli_leases_on_probed(self->client->leases, group->set, self->groups[g].sent_us,
                              self->zombie_ttl_ms);
    }
}

/* A probe of which anything was confirmed has not failed: nobody may keep it from being repeated in
 * time. */
static void apply(struct rqli_probe *self)
{
    size_t n_applied = 0;

    for (size_t g = 0; g < self->plan.n_groups; g++) {
        verify_group(self, g);
        if (!self->groups[g].has_failed) {
            apply_group(self, g);
            n_applied++;
        }
    }
    if (n_applied == 0) {
        self->op.status = self->fault.status;
    }
    if (self->zombie_ttl_ms > 0) {
        rqli_leases_rebind(self->client->leases);
    }
}

static void end(struct rqli_probe *self)
{
    struct rqli_hosts *hosts = self->client->hosts;

    if (!self->op.status) {
        apply(self);
    }
    rqli_hosts_plan_fini_p(&self->plan);
    free(self->groups);
    free(self->names);
    free(self->calls);
    self->has_begun = false;
    atomic_store(&hosts->is_probing, false);
    if (!self->op.status && self->count > 0) {
        notify(self, RQLI_ON_PROBED);
    }
    if (self->n_dead > 0) {
        notify(self, RQLI_ON_HOSTS_DECLARED_DEAD);
    }
}

/* When the replies have to be there: where one server of several is silent, the hosts are due at
 * the others. */
static int64_t until_us(const struct rqli_probe *self)
{
    int64_t now_us = rqli_now_us();
    int64_t budget_us = rqli_client_budget_us(self->via, now_us);
    int64_t due_us = rqli_after_ms(now_us, self->zombie_ttl_ms / 4);

    return self->client->is_partitioned && self->zombie_ttl_ms > 0 && due_us < budget_us
               ? due_us
               : budget_us;
}

/* Cancelled in the middle, what the server was told already is told again next time. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_probe *self = (struct rqli_probe *)op;
    size_t left;

    if (self->has_begun) {
        self->at += op->n_calls;
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
    left = self->count - self->at;
    op->n_calls = left < ROUND_CALLS ? left : ROUND_CALLS;
    if (op->n_calls < ROUND_CALLS && rqli_client_wants_name(self->client)) {
        op->n_calls++;
    }
    self->n_open = op->n_calls;
    op->until_us = until_us(self);
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
    if (status < 0 || swarm->probe.fault.status) {
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
    if (status < 0 || swarm->probe.fault.status) {
        rqli_leases_on_unwatched(swarm->client->leases);
    }
}

const struct rqli_element_ops rqli_prober_ops = {"probe_hosts", begin_step, end_step, begin_leaving,
                                                 end_leaving};

/* By hand: the caller's thread is a host, whether a swarm runs or not; in partitions only where it
 * holds a lock, as all others. Leases are not bound by it,
 * for nothing promises the next one. */
rql_status rql_probe_hosts(rql_client *client, rql_text_list **hosts, int64_t *at_us,
                           rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_list_fini) struct rqli_list told = {0};
    struct rqli_probe probe = {.client = client, .via = client, .told = &told};
    rql_status status = rqli_client_check(client, error);

    uint64_t thread;

    if (status) {
        return status;
    }
    thread = rqli_thread_number();
    if (thread == 0) {
        return rqli_fail_nomem(error);
    }
    if (!client->is_partitioned) {
        rqli_hosts_add(client->hosts, &rqli_key_sets[RQLI_WHOLE], thread, false);
    }
    status = rqli_op_run(begin_op(&probe));
    status = status ? status : probe.fault.status;
    if (status < 0 && error) {
        *error = probe.fault;
    }
    if (!status && hosts) {
        rqli_list_sort(&told);
        status = rqli_list_give(&told, hosts, error);
    }
    if (!status && at_us) {
        *at_us = probe.server_us;
    }
    return status;
}
