#include "admin/sweep.h"

#include "admin/rules.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/client.h"
#include "wire/answer.h"

#include <string.h>

enum {
    SCAN_COUNT_MAX = 1000, /* keeps the server busy for less than a millisecond */
    KEY_MAX = 65536, /* longer keys are not locks: a batch of them would overflow the buffers */
};

/*
 * A sweep uses SCAN in small steps, then one short script call for each key, in batches: no single
 * command holds the server up, however many keys there are. The script decides and removes in one
 * step, so nothing that has changed since the key was found is removed by mistake.
 *
 * Phases: FIND for each page of all parts; then for each batch CALL until no target goes on.
 */

/* Adds one of at most RQLI_SWEEP_PARTS_MAX rules. They are swept in the order in which they are
 * added. */
void rqli_sweep_add(struct rqli_sweep *self, const struct rqli_sweep_rule *rule, int64_t batch_size)
{
    struct rqli_sweep_part *part = &self->parts[self->n_parts++];

    part->rule = rule;
    part->batch_size = batch_size;
    rqli_walk_init(&part->walk, rule->prefix, NULL);
}

/* May also be called in the middle of a sweep: if a fault ended the round, targets are left
 * over. The result stays. */
void rqli_sweep_fini_p(struct rqli_sweep *self)
{
    for (size_t i = 0; i < self->n_parts; i++) {
        rqli_walk_fini_p(&self->parts[i].walk);
    }
    for (size_t i = 0; i < self->n_targets; i++) {
        free(self->targets[i].memory);
    }
    self->n_parts = 0;
    self->n_targets = 0;
}

static struct rqli_sweep_part *part_of(struct rqli_sweep *self)
{
    return &self->parts[self->part];
}

static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct rqli_sweep *self = (struct rqli_sweep *)op;
    const struct rqli_sweep_part *part = part_of(self);

    if (self->phase == RQLI_SWEEP_FIND) {
        rqli_walk_ask(&part->walk, rqli_call_plain(call),
                      rqli_smaller(part->batch_size, SCAN_COUNT_MAX));
    } else if (self->targets[i].is_serving) {
        rqli_serve_write(&self->targets[i].keys, call);
    } else {
        rqli_rule_write(part->rule, self, &self->targets[i], call);
    }
}

/* Keeps the first fault for the caller. Replies after it are counted all the same, because their
 * scripts have run. Faults are below 0. */
static void note_fault(struct rqli_sweep *self, const rql_error *fault)
{
    if (self->op.status >= 0) {
        self->op.status = fault->status;
        if (self->error) {
            *self->error = *fault;
        }
    }
}

/* Reports what was swept. The caller knows a lock by its key, not by that of its shares. */
static void on_swept(struct rqli_sweep *self, const struct rqli_sweep_target *target)
{
    const struct rqli_sweep_rule *rule = part_of(self)->rule;
    const char *key = rule->kind == RQLI_SWEEPS_SHARES ? target->keys.lock.data : target->key.data;

    if (self->locks && rqli_rule_ends_locks(rule)) {
        rqli_list_add(self->locks, rqli_name_in(target->keys.lock, RQLI_KEY_LOCK), 0);
    }
    if (self->options.on_swept) {
        self->options.on_swept(key, self->options.user_data);
    }
}

static bool add_target(struct rqli_sweep *self, struct rqli_slice key)
{
    struct rqli_sweep_target *target = &self->targets[self->n_targets];
    struct rqli_slice name = rqli_name_in(key, part_of(self)->rule->prefix);

    *target = (struct rqli_sweep_target){
        .key = key, .memory = malloc(rqli_keys_room(name)), .goes_on = true};
    if (!target->memory) {
        return false;
    }
    rqli_keys_init(&target->keys, target->memory,
                   rqli_key_set_of(self->client->is_partitioned, name), name);
    self->n_targets++;
    return true;
}

/* Reads a page of keys. SCAN changes nothing, so a lost reply leaves no doubt. */
static void read_page(struct rqli_sweep *self, const struct rqli_batch *answer,
                      const rql_error *fault)
{
    if (fault) {
        note_fault(self, fault);
        self->op.status = rqli_reader_status(fault->status, self->op.route.node, self->error);
    } else {
        self->op.status = rqli_walk_take(&part_of(self)->walk, answer, self->error);
    }
}

static bool is_plausible(const struct rqli_outcome *outcome)
{
    return rqli_is_count(outcome->what) && rqli_is_count(outcome->second) &&
           (outcome->third == -1 || rqli_is_count(outcome->third)) &&
           rqli_is_count(outcome->fourth);
}

/* If the script was cut short while it served a queue, calls of release.lua go on, until one of
 * them is not cut short. */
static void note_served(struct rqli_sweep *self, struct rqli_sweep_target *target, int64_t served)
{
    self->result.handed_over += served == RQLI_SERVED_ONE;
    target->is_serving = served == RQLI_SERVED_PARTLY;
    target->goes_on = target->is_serving;
}

/* A script that goes on keeps its target for the next round; the queue is served after its last
 * call. on_swept is called once for a key, after the first call that removed something. */
static void read_reply(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_sweep *self = (struct rqli_sweep *)op;
    const struct rqli_sweep_rule *rule = part_of(self)->rule;
    struct rqli_sweep_target *target;
    struct rqli_outcome outcome;
    rql_error malformed = {0};

    if (self->phase == RQLI_SWEEP_FIND) {
        read_page(self, answer, fault);
        return;
    }
    target = &self->targets[i];
    target->goes_on = false;
    if (target->is_serving) { /* a fault ends the serving: the next poll serves the first waiter */
        bool is_read = reply && rqli_outcome_read(reply, &outcome);

        note_served(self, target, is_read ? outcome.second : RQLI_SERVED_NOBODY);
    } else if (fault && fault->status == RQL_E_WRONG_TYPE) {
        self->result.foreign++;
    } else if (fault) {
        note_fault(self, fault);
    } else if (!rqli_outcome_read(reply, &outcome) || !is_plausible(&outcome)) {
        (void)rqli_batch_fault(answer, reply, rqli_scripts[rule->script].name, target->key.data,
                               &malformed);
        note_fault(self, &malformed);
    } else {
        if (outcome.what > 0 && target->removed == 0) {
            on_swept(self, target);
        }
        if (outcome.what > 0 && rqli_rule_ends_locks(rule)) {
            rqli_rule_note_owners(rule, self, target, reply);
        }
        target->goes_on = rqli_rule_count(rule, self, target, &outcome);
        if (!target->goes_on) {
            note_served(self, target, target->served);
        }
    }
}

/* Returns the node of the route: the node that is walked, or has the first of the keys. */
static struct rqli_node *node_of_round(struct rqli_sweep *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;
    struct rqli_node *walked = part_of(self)->walk.node;

    if (self->phase == RQLI_SWEEP_FIND) {
        return walked ? walked : &fleet->first;
    }
    return rqli_fleet_node(fleet, rqli_key_set_in(self->targets[0].key));
}

/* Each round has the time of a single command: a sweep as a whole has no limit except its
 * on_progress. */
static enum rqli_op_next go_on(struct rqli_sweep *self, enum rqli_sweep_phase phase, size_t n_calls)
{
    self->phase = phase;
    self->op.route.node = node_of_round(self);
    self->op.n_calls = n_calls;
    self->op.until_us = rqli_client_until_us(self->client, rqli_now_us());
    return RQLI_OP_AGAIN;
}

/* Reports the progress. False: the caller has stopped the sweep. */
static bool report(struct rqli_sweep *self)
{
    rql_sweep_progress_fn on_progress = self->options.on_progress;

    if (on_progress && !on_progress(self->done, self->found, self->options.user_data)) {
        self->op.status = rqli_fail(self->error, RQL_STOPPED,
                                    "stopped by the progress callback when %lld keys were done",
                                    (long long)self->done);
        return false;
    }
    return true;
}

/* Begins a batch of the next keys of this part, or of the part after it. */
static enum rqli_op_next begin_batch(struct rqli_sweep *self)
{
    const struct rqli_list *found;
    int64_t most;

    while (self->part < self->n_parts && self->first == part_of(self)->walk.found.count) {
        self->part++;
        self->first = 0;
    }
    if (self->part == self->n_parts) {
        return RQLI_OP_OVER;
    }
    found = &part_of(self)->walk.found;
    most = rqli_smaller(part_of(self)->batch_size, RQLI_SWEEP_KEYS);
    while (self->first < found->count && (int64_t)self->n_targets < most) {
        if (!add_target(self, found->item[self->first++].text)) {
            self->op.status = rqli_fail_nomem(self->error);
            return RQLI_OP_OVER;
        }
    }
    self->n_batch = self->n_targets;
    return go_on(self, RQLI_SWEEP_CALL, self->n_targets);
}

/* Asks the caller's filter once for each key, before any key is swept. A key that the filter
 * refuses is not counted. Nor is a key with a NUL, because the filter would judge it by the part
 * before the NUL. A key that is too long counts as foreign. */
static void skip_keys(struct rqli_sweep *self, struct rqli_list *keys, const char *prefix)
{
    const rql_sweep_options *options = &self->options;
    size_t kept = 0;

    for (size_t i = 0; i < keys->count; i++) {
        struct rqli_slice key = keys->item[i].text;
        const char *name = rqli_name_in(key, prefix).data;

        if (options->wants && !(rqli_is_plain(key) && options->wants(name, options->user_data))) {
            continue;
        }
        if (key.length <= KEY_MAX) {
            keys->item[kept++] = keys->item[i];
        } else {
            self->result.foreign++;
        }
    }
    keys->count = kept;
}

/* Finds all keys before the first is swept. So a key that the sweep itself makes (a lock that it
 * hands over) is not swept again, and the caller learns how many keys there are in all. */
static enum rqli_op_next find_on(struct rqli_sweep *self)
{
    struct rqli_sweep_part *part = part_of(self);

    if (part->walk.is_done) {
        skip_keys(self, &part->walk.found, part->rule->prefix);
    }
    self->found = 0;
    for (size_t i = 0; i <= self->part; i++) {
        self->found += (int64_t)self->parts[i].walk.found.count;
    }
    if (!report(self)) {
        return RQLI_OP_OVER;
    }
    if (part->walk.is_done && ++self->part == self->n_parts) {
        self->part = 0;
        return begin_batch(self);
    }
    return go_on(self, RQLI_SWEEP_FIND, 1);
}

/* After a fault only the targets whose queues are being served go on. At the end of the batch the
 * progress is reported to the caller, and the next batch begins. */
static enum rqli_op_next call_on(struct rqli_sweep *self)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->n_targets; i++) {
        struct rqli_sweep_target *target = &self->targets[i];

        if (!target->goes_on || (self->op.status < 0 && !target->is_serving)) {
            free(target->memory);
        } else {
            self->targets[kept++] = *target;
        }
    }
    self->n_targets = kept;
    if (kept > 0) {
        return go_on(self, RQLI_SWEEP_CALL, kept);
    }
    if (self->op.status < 0) {
        return RQLI_OP_OVER;
    }
    self->done += (int64_t)self->n_batch;
    return report(self) ? begin_batch(self) : RQLI_OP_OVER;
}

static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_sweep *self = (struct rqli_sweep *)op;

    switch (self->phase) {
    case RQLI_SWEEP_BEGIN:
        return go_on(self, RQLI_SWEEP_FIND, 1);
    case RQLI_SWEEP_FIND:
        return op->status < 0 ? RQLI_OP_OVER : find_on(self);
    case RQLI_SWEEP_CALL:
        break;
    }
    return call_on(self);
}

/* Returns the operation of a sweep whose client, options and parts are set. It is driven once: a
 * second sweep needs another struct. */
struct rqli_op *rqli_sweep_begin(struct rqli_sweep *self)
{
    static const struct rqli_op_ops ops = {.write = write_call, .read = read_reply, .next = next};

    self->op = (struct rqli_op){.ops = &ops, .route = rqli_client_route_of_all(self->client)};
    self->phase = RQLI_SWEEP_BEGIN;
    for (size_t i = 0; i < self->n_parts; i++) {
        rqli_walk_use(&self->parts[i].walk, self->client, self->partitions);
    }
    return &self->op;
}
