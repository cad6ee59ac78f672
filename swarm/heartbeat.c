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
#include "net/op/op.h"
#include "net/op/op_threads.h"
#include "wire/answer.h"

/*
 * The heartbeat of a client's hosts: its threads, under the names that locks bear. A probe gets a
 * plan from lock/hosts.c (for each set of keys: which hosts are new, known, leaving), sends it in
 * calls of 100 hosts, and applies the parts that servers have confirmed, set by set. A server that
 * cannot be reached does not affect what the other servers know.
 *
 * Leases depend on it: a host that is silent for zombie_ttl_ms counts as dead, and its locks are
 * given to other hosts. So no lease is relied on for longer than zombie_ttl_ms after the sending of
 * the last confirmed probe of its set of keys.
 */

enum {
    CALL_HOSTS = 100,              /* in one call: no script blocks the server for long */
    ROUND_CALLS = RQLI_PARTITIONS, /* in one round: each round has a time budget of its own */
    AGAIN_US = 1000,               /* pause while another probe of this client is under way */
    RESERVED_US = 100000,          /* much longer than that, because the loop may be late */
};

/* Adds the owner of a held lock. Its thread may have ended while other threads of its process still
 * hold the lock. As long as they do, the ended thread stays a host. */
static void add_holder(const rql_lock *lock, void *context)
{
    rqli_hosts_add(context, lock->keys.set, lock->owner_thread, true);
}

/* Returns how many of [at, at + n) lie in [begin, end), which are the hosts of one kind. */
static size_t share(size_t at, size_t n, size_t begin, size_t end)
{
    size_t low = at > begin ? at : begin;
    size_t high = at + n < end ? at + n : end;

    return low < high ? high - low : 0;
}

/* Writes a call, which may have hosts of all three kinds. It says how many are new and how many are
 * known; the hosts after those leave. A call after all of these writes the client's name. */
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

/* Takes a reply, which also reports hosts that were declared dead while they were away. The
 * earliest call of a group counts as its sending, because its heartbeats are the oldest that the
 * server knows. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
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
        return; /* nothing depends on the name */
    }
    group = &self->groups[self->calls[self->at + i].group];
    if (fault) {
        self->fault = *fault;
        group->has_failed = true;
    } else if (!rqli_outcome_read(reply, &outcome) || outcome.what < 0 ||
               outcome.what > RQLI_SERVER_US_MAX) {
        (void)rqli_batch_fault(answer, reply, "swarm_probe", RQLI_KEY_HOSTS, &self->fault);
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
        .at_us = rqli_swarm_clock_us(self->client, self->via),
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

/* Prepares the calls of one group. The names live to the end of the probe, because calls are
 * written again if a server has lost the script, or if the keys have moved. */
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

/* Returns whether it is this probe's turn. Probes by hand, one after the other, must not keep the
 * swarm from probing, on which leases depend. So a probe of the swarm that has to wait is next. The
 * reservation ends by itself, because the loop of the swarm may stand still. */
static bool may_begin(const struct rqli_probe *self)
{
    struct rqli_hosts *hosts = self->client->hosts;
    bool is_by_hand = self->zombie_ttl_ms == 0;
    int64_t now_us = rqli_now_us();
    bool is_free;

    if (is_by_hand && now_us < atomic_load(&hosts->reserved_until_us)) {
        return false;
    }
    is_free = !atomic_exchange(&hosts->is_probing, true);
    if (!is_by_hand) {
        atomic_store(&hosts->reserved_until_us, is_free ? 0 : now_us + RESERVED_US);
    }
    return is_free;
}

/* Begins a probe. False: another probe of this client is under way, or is next. A client runs one
 * at most, because two plans under way would confirm each other's hosts. The leases are bound
 * before the first heartbeat is sent, because from then on a silent host can be declared dead. */
static bool begin(struct rqli_probe *self)
{
    struct rqli_hosts *hosts = self->client->hosts;

    if (!may_begin(self)) {
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

/* Has the locks of a group verified: a host that was declared dead, or may have been in between,
 * may have lost its locks. */
static void verify_group(const struct rqli_probe *self, size_t g)
{
    const struct rqli_probe_group *group = &self->groups[g];

    if (group->n_dead > 0 || (!group->has_failed && self->plan.groups[g].n_retried > 0)) {
        rqli_leases_doubt(self->client->leases, self->plan.groups[g].set, NULL);
    }
}

/* Applies a group that the server with these keys has confirmed. A probe of only some hosts says
 * nothing of the other hosts. Where no host is left, silence can have no host declared dead. */
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

/* Applies the confirmed groups. A probe with any confirmed group has not failed: a server that does
 * not answer must not keep the probe from being repeated in time. */
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

/* Returns when the replies have to be there. If one of several servers is silent, heartbeats are
 * still due at the other servers. */
static int64_t until_us(const struct rqli_probe *self)
{
    int64_t now_us = rqli_now_us();
    int64_t budget_us = rqli_client_until_us(self->via, now_us);
    int64_t due_us = rqli_after_ms(now_us, self->zombie_ttl_ms / 4);

    return self->client->is_partitioned && self->zombie_ttl_ms > 0 && due_us < budget_us
               ? due_us
               : budget_us;
}

/* Returns the next step. If a probe is cancelled in the middle, the next probe sends again what the
 * server has received already. */
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

/* Does nothing, because `next` tries again. */
static void woken(struct rqli_op *op, enum rqli_wake wake)
{
    (void)op;
    (void)wake;
}

/* Prepares the operation. The caller has set the members down to `told`. RQL_OK: the server knows
 * the hosts. The operation frees its memory at its end. */
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

/* Begins a probe. If it was roused within a period, it is only for hosts that have just been
 * added. */
static struct rqli_op *begin_step(struct rql_swarm *swarm, bool is_timed)
{
    bool is_for_new = swarm->who == RQLI_HOSTS_ALL && !is_timed;

    return begin_probe(swarm, is_for_new ? RQLI_HOSTS_NEW : swarm->who);
}

static void end_step(struct rql_swarm *swarm, rql_status status)
{
    if (status < 0 || swarm->probe.fault.status) {
        rqli_swarm_notify(swarm, swarm->prober_client, RQLI_ON_STEP_FAILED,
                          (struct rqli_figures){0});
    }
}

/* Reports that the hosts leave, because the swarm ends, so that they do not count as dead later. */
static struct rqli_op *begin_leaving(struct rql_swarm *swarm)
{
    return begin_probe(swarm, RQLI_HOSTS_NONE);
}

/* Ends the leaving. Without a reply the server still has the hosts, and may declare them dead. */
static void end_leaving(struct rql_swarm *swarm, rql_status status)
{
    if (status < 0 || swarm->probe.fault.status) {
        rqli_leases_on_unwatched(swarm->client->leases);
    }
}

const struct rqli_element_ops rqli_prober_ops = {"probe_hosts", begin_step, end_step, begin_leaving,
                                                 end_leaving};

/* Sends a heartbeat by hand. The caller's thread is a host, whether a swarm runs or not; in
 * partitions only where it holds a lock, like all other threads. The heartbeat does not bind
 * leases, because nothing promises the next one. */
rql_status rql_swarm_probe(rql_client *client, rql_text_list **hosts, int64_t *at_us,
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
