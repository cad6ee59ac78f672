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
 * A sweep uses SCAN in small steps, one round that inspects a batch, then a script call for each
 * key that is wanted: no single command holds the server up, however many keys there are. A lock
 * may change hands between inspection and call. The script gets the grant that was seen and keeps
 * any other.
 *
 * Phases: FIND for each page of all parts; then for each batch MEASURE (of locks), INSPECT and CALL
 * until no target goes on. The last two are repeated if not all of the batch went into one
 * batch.
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

/* Returns the i-th key of this round. */
static struct rqli_slice key_of(const struct rqli_sweep *self, size_t i)
{
    return self->parts[self->part].walk.found.item[self->first + self->at + i].text;
}

/* Writes a command that depends on the phase; measuring takes two commands for each key. */
static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct rqli_sweep *self = (struct rqli_sweep *)op;
    const struct rqli_sweep_part *part = part_of(self);

    if (self->phase == RQLI_SWEEP_FIND) {
        rqli_walk_ask(&part->walk, rqli_call_plain(call),
                      rqli_smaller(part->batch_size, SCAN_COUNT_MAX));
    } else if (self->phase == RQLI_SWEEP_MEASURE && i % 2 == 0) {
        rqli_cost_ask_count(rqli_call_plain(call), "HLEN", key_of(self, i / 2));
    } else if (self->phase == RQLI_SWEEP_MEASURE) {
        rqli_cost_ask_memory(rqli_call_plain(call), key_of(self, i / 2));
    } else if (self->phase == RQLI_SWEEP_INSPECT) {
        rqli_rule_inspect(part->rule, self, rqli_call_plain(call), key_of(self, i));
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

static void on_swept(const struct rqli_sweep *self, struct rqli_slice key)
{
    if (self->options.on_swept) {
        self->options.on_swept(key.data, self->options.user_data);
    }
}

/* Keys, the copy of the inspection's reply, and its texts are one allocation, because the reply
 * does not outlive its round. */
static bool add_target(struct rqli_sweep *self, struct rqli_slice key,
                       const struct rqli_reply *seen)
{
    struct rqli_sweep_target *target = &self->targets[self->n_targets];
    struct rqli_slice name = rqli_name_in(key, part_of(self)->rule->prefix);
    size_t size = (1 + seen->count) * sizeof *seen + rqli_keys_room(name);
    struct rqli_reply *copy;
    char *cursor;

    for (size_t i = 0; i < seen->count; i++) {
        size += seen->items[i].text.length + 1;
    }
    copy = malloc(size);
    if (!copy) {
        return false;
    }
    *target = (struct rqli_sweep_target){
        .key = key, .seen = copy, .memory = (char *)copy, .goes_on = true};
    *copy = *seen;
    copy->items = copy + 1;
    cursor = (char *)(copy + 1 + seen->count);
    rqli_keys_init(&target->keys, cursor, rqli_key_set_of(self->client->is_partitioned, name),
                   name);
    cursor += rqli_keys_room(name);
    for (size_t i = 0; i < seen->count; i++) {
        copy[1 + i] = seen->items[i];
        if (seen->items[i].type == RQLI_REPLY_TEXT) {
            copy[1 + i].text.data = rqli_pack(&cursor, seen->items[i].text);
        }
    }
    self->n_targets++;
    return true;
}

/* Counts a key in a dry run, if the script does all of it in one call. That call is not made; it
 * would remove one more key or request. For a whole queue the second number is the number of its
 * requests. */
static void preview(struct rqli_sweep *self, struct rqli_slice key, const struct rqli_reply *seen)
{
    const struct rqli_sweep_rule *rule = part_of(self)->rule;
    struct rqli_sweep_target target = {.key = key, .seen = seen};
    const struct rqli_outcome outcome = {
        .what = 1,
        .second = rule->inspection == RQLI_INSPECT_LENGTH ? seen->integer : 0,
    };

    (void)rqli_rule_count(rule, self, &target, &outcome);
    on_swept(self, key);
}

/* Reads one inspection: the key becomes a target if the rule wants it. A key of another type is
 * not a lock: it is counted, and left alone. */
static rql_status consider(struct rqli_sweep *self, struct rqli_slice key,
                           const struct rqli_batch *answer, const struct rqli_reply *seen)
{
    const struct rqli_sweep_rule *rule = part_of(self)->rule;
    enum rqli_sweep_verdict verdict = RQLI_SWEEP_MALFORMED;

    if (seen->type == RQLI_REPLY_ERROR && rqli_reply_class(seen) == RQL_E_WRONG_TYPE) {
        self->result.foreign++;
        return RQL_OK;
    }
    if (seen->type != RQLI_REPLY_ERROR) {
        verdict = rqli_rule_judge(rule, self, seen);
    }
    if (verdict == RQLI_SWEEP_MALFORMED) {
        return rqli_batch_fault(answer, seen, rqli_inspection_name(rule->inspection), key.data,
                                self->error);
    }
    if (verdict == RQLI_SWEEP_REMOVE && self->options.dry_run && rule->next == RQLI_NUMBER_NONE) {
        preview(self, key, seen);
    } else if (verdict == RQLI_SWEEP_REMOVE && !add_target(self, key, seen)) {
        return rqli_fail_nomem(self->error);
    }
    return RQL_OK;
}

/* Reads the reply to a plain command, which changes nothing, so a lost reply leaves no doubt. Of
 * the two replies that measure a key the count comes first, and is kept in item_count for the
 * second: replies come in order. */
static void read_plain(struct rqli_sweep *self, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_sweep_part *part = part_of(self);
    const struct rqli_reader reader = {
        .client = self->client, .where = part->rule->pattern, .error = self->error};

    if (self->op.status < 0 || self->has_moved) {
        return;
    }
    if (reply && self->phase != RQLI_SWEEP_FIND &&
        rqli_client_follows(self->client, self->set, reply, &self->retries)) {
        self->has_moved = true;
        self->n_at = self->phase == RQLI_SWEEP_INSPECT ? i : self->n_at;
        return;
    }
    if (!reply) {
        note_fault(self, fault);
        self->op.status = rqli_reader_status(&reader, fault->status);
    } else if (self->phase == RQLI_SWEEP_FIND) {
        self->op.status = rqli_walk_take(&part->walk, answer, self->error);
    } else if (self->phase == RQLI_SWEEP_INSPECT) {
        self->op.status = consider(self, key_of(self, i), answer, reply);
    } else if (i % 2 == 1) {
        self->costs[i / 2] = rqli_cost_of(self->item_count, reply, RQLI_GRANT_FIELDS);
    } else if (!rqli_cost_read_count(reply, &self->item_count)) {
        self->op.status = rqli_reply_fault(reply, "HLEN", reader.where, self->error);
    }
}

/* The second number is an enum rqli_served, a number of requests, or where a script goes on: -1
 * is the end. */
static bool is_plausible(const struct rqli_outcome *outcome)
{
    return outcome->what >= 0 && outcome->what <= RQLI_SWEEP_COUNT_MAX && outcome->second >= -1 &&
           outcome->second <= RQLI_SWEEP_COUNT_MAX && outcome->third >= 0 &&
           outcome->third <= RQLI_SWEEP_COUNT_MAX;
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

    if (self->phase != RQLI_SWEEP_CALL) {
        read_plain(self, i, answer, reply, fault);
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
            on_swept(self, target->key);
        }
        target->goes_on = rqli_rule_count(rule, self, target, &outcome);
        if (!target->goes_on) {
            note_served(self, target, target->served);
        }
    }
}

/* Returns the node of the route for plain commands: the node that is walked, or has the keys. */
static struct rqli_node *node_of_round(struct rqli_sweep *self, enum rqli_sweep_phase phase)
{
    struct rqli_fleet *fleet = &self->client->fleet;
    struct rqli_node *walked = part_of(self)->walk.node;

    if (phase == RQLI_SWEEP_FIND) {
        return walked ? walked : &fleet->first;
    }
    return rqli_fleet_node(fleet, self->set);
}

/* Each round has the time of a single command: a sweep as a whole has no limit except its
 * on_progress. */
static enum rqli_op_next go_on(struct rqli_sweep *self, enum rqli_sweep_phase phase, size_t n_calls)
{
    self->phase = phase;
    self->op.route.node = node_of_round(self, phase);
    self->op.again_us = self->has_moved ? self->retries.again_us : 0;
    self->has_moved = false;
    self->retries.again_us = 0;
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

/* Returns how many of the remaining keys, from the first one on, have the same set: they are
 * sorted. */
static size_t n_of_one_set(struct rqli_sweep *self, size_t most)
{
    const struct rqli_list *found = &part_of(self)->walk.found;
    const struct rqli_item *item = &found->item[self->first];
    size_t n_left = found->count - self->first;
    size_t i = 1;

    self->set = rqli_key_set_in(item->text);
    while (i < n_left && i < most && rqli_key_set_in(item[i].text) == self->set) {
        i++;
    }
    return i;
}

/* Begins a batch of the next keys of this part, or of the part after it. A grant has texts of
 * any size, so its size is asked for first. Measuring takes two calls for each key, so a batch has
 * at most RQLI_BATCH_KEYS. */
static enum rqli_op_next begin_batch(struct rqli_sweep *self)
{
    const struct rqli_sweep_part *part;
    size_t most;

    while (self->part < self->n_parts && self->first == part_of(self)->walk.found.count) {
        self->part++;
        self->first = 0;
    }
    if (self->part == self->n_parts) {
        return RQLI_OP_OVER;
    }
    part = part_of(self);
    most = (size_t)rqli_smaller(part->batch_size, RQLI_BATCH_KEYS);
    self->n_batch = n_of_one_set(self, most);
    self->retries =
        (struct rqli_retries){.until_us = rqli_client_until_us(self->client, rqli_now_us())};
    self->at = 0;
    self->n_at = self->n_batch;
    return part->rule->inspection == RQLI_INSPECT_GRANT
               ? go_on(self, RQLI_SWEEP_MEASURE, 2 * self->n_batch)
               : go_on(self, RQLI_SWEEP_INSPECT, self->n_at);
}

/* Asks the caller's filter once for each key, before any key is inspected. A key that the filter
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

/* Inspects as many keys as a connection carries at once; larger keys are left alone. At the end
 * of the batch the progress is reported to the caller, and the next batch begins. */
static enum rqli_op_next inspect_on(struct rqli_sweep *self)
{
    if (part_of(self)->rule->inspection == RQLI_INSPECT_GRANT) {
        self->n_at = rqli_cost_fit(&self->costs[self->at], self->n_batch - self->at);
    } else {
        self->n_at = self->n_batch - self->at;
    }
    while (self->n_at == 0 && self->at < self->n_batch) {
        self->at++;
        self->result.foreign++;
        self->done++;
        self->n_at = rqli_cost_fit(&self->costs[self->at], self->n_batch - self->at);
    }
    if (self->at < self->n_batch) {
        return go_on(self, RQLI_SWEEP_INSPECT, self->n_at);
    }
    self->first += self->n_batch;
    return report(self) ? begin_batch(self) : RQLI_OP_OVER;
}

/* After a fault only the targets whose queues are being served go on. */
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
    self->done += (int64_t)self->n_at;
    self->at += self->n_at;
    return inspect_on(self);
}

/* A fault ends the sweep; only scripts that have begun to serve a queue go on to its end. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_sweep *self = (struct rqli_sweep *)op;

    if (op->status < 0 && self->phase != RQLI_SWEEP_CALL) {
        return RQLI_OP_OVER;
    }
    switch (self->phase) {
    case RQLI_SWEEP_BEGIN:
        return go_on(self, RQLI_SWEEP_FIND, 1);
    case RQLI_SWEEP_FIND:
        return find_on(self);
    case RQLI_SWEEP_MEASURE:
        return self->has_moved ? go_on(self, RQLI_SWEEP_MEASURE, 2 * self->n_batch)
                               : inspect_on(self);
    case RQLI_SWEEP_INSPECT:
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
