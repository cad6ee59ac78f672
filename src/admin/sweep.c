#include "admin/sweep.h"

#include "admin/rules.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/client.h"
#include "lock/notify.h"
#include "net/op.h"
#include "net/serving.h"
#include "options/options.h"

#include <string.h>

enum {
    SCAN_COUNT_MAX = 1000, /* keeps the server busy for less than a millisecond */
    KEY_MAX = 65536, /* longer ones are nobody's locks: a batch of them would burst the buffers */
    ID_MAX = 512,
};

/* SCAN in small steps, one exchange that inspects a batch, then a script call for each key that is
 * wanted: no single command holds the server up, however many keys there are. Between inspection
 * and call a lock may change hands. The script is told which grant was seen and keeps any other. */

/* The targets of one batch: an operation that calls the script of the rule for each. */
struct batch {
    struct rqli_op op; /* first */
    struct rqli_sweep *sweep;
    const struct rqli_sweep_rule *rule;
    size_t n;
    struct rqli_sweep_target targets[RQLI_BATCH_KEYS]; /* the first op.n_calls are called */
};

void rqli_sweep_add(struct rqli_sweep *self, const struct rqli_sweep_rule *rule, int64_t batch_size)
{
    struct rqli_sweep_part *part = &self->parts[self->n_parts++];

    part->rule = rule;
    part->batch_size = batch_size;
    rqli_walk_init(&part->walk, rule->prefix, NULL);
}

void rqli_sweep_fini_p(struct rqli_sweep *self)
{
    for (size_t i = 0; i < self->n_parts; i++) {
        rqli_walk_fini_p(&self->parts[i].walk);
    }
    self->n_parts = 0;
}

static rql_status report(const struct rqli_sweep *self)
{
    rql_sweep_progress_fn on_progress = self->options.on_progress;
    bool goes_on = !on_progress || on_progress(self->done, self->found, self->options.user_data);

    return goes_on ? RQL_OK : RQL_STOPPED;
}

static void skip_keys(struct rqli_sweep *self, struct rqli_list *keys, const char *prefix)
{
    const rql_sweep_options *options = &self->options;
    size_t kept = 0;

    for (size_t i = 0; i < keys->count; i++) {
        const char *name = keys->item[i].text.data + strlen(prefix);

        if (options->wants && !options->wants(name, options->user_data)) {
            continue;
        }
        if (keys->item[i].text.length <= KEY_MAX) {
            keys->item[kept++] = keys->item[i];
        } else {
            self->result.foreign_key_cnt++;
        }
    }
    keys->count = kept;
}

/* All keys are found before the first is swept: what a sweep itself makes (a lock that it hands
 * over) is not swept again, and the caller is told of how many the progress is. */
static rql_status find(struct rqli_sweep *self, struct rqli_sweep_part *part)
{
    const struct rqli_reader reader = {self->client, part->rule->pattern, self->error};
    int64_t count = rqli_smaller(part->batch_size, SCAN_COUNT_MAX);
    int64_t found_before = self->found;
    rql_status status = RQL_OK;

    while (!status && !part->walk.is_done) {
        status = rqli_walk_read(&reader, &part->walk, count);
        if (part->walk.is_done) {
            skip_keys(self, &part->walk.found, part->rule->prefix);
        }
        self->found = found_before + (int64_t)part->walk.found.count;
        status = status ? status : report(self);
    }
    return status;
}

static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct batch *self = (struct batch *)op;
    const struct rqli_sweep_target *target = &self->targets[i];

    if (target->is_serving) {
        rqli_serve_write(&target->keys, call);
    } else {
        rqli_rule_write(self->rule, self->sweep, target, call);
    }
}

/* The first fault is told. Those behind it are counted all the same: their scripts have run. */
static void note_fault(struct batch *self, const rql_error *fault)
{
    if (self->op.status >= 0) {
        self->op.status = fault->status;
        if (self->sweep->error) {
            *self->sweep->error = *fault;
        }
    }
}

static bool is_plausible(const struct rqli_outcome *outcome)
{
    return outcome->what >= 0 && outcome->what <= RQLI_SWEEP_COUNT_MAX && outcome->second >= -1 &&
           outcome->second <= RQLI_SWEEP_COUNT_MAX && outcome->third >= 0 &&
           outcome->third <= RQLI_SWEEP_COUNT_MAX;
}

static void on_swept(const struct rqli_sweep *sweep, struct rqli_slice key)
{
    if (sweep->options.on_swept) {
        sweep->options.on_swept(key.data, sweep->options.user_data);
    }
}

/* What the script has left to its caller is served next. */
static void note_served(struct batch *self, struct rqli_sweep_target *target, int64_t served)
{
    self->sweep->result.handed_over_cnt += served == RQLI_SERVED_ONE;
    target->is_serving = served == RQLI_SERVED_PARTLY;
    target->goes_on = target->is_serving;
}

static void read_reply(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct batch *self = (struct batch *)op;
    struct rqli_sweep_target *target = &self->targets[i];
    struct rqli_outcome outcome;
    rql_error malformed = {0};

    target->goes_on = false;
    if (target->is_serving) { /* a fault ends that: the next poll serves who is next */
        bool is_read = reply && rqli_outcome_read(reply, &outcome);

        note_served(self, target, is_read ? outcome.second : RQLI_SERVED_NOBODY);
    } else if (fault && fault->status == RQL_E_WRONG_TYPE) {
        self->sweep->result.foreign_key_cnt++;
    } else if (fault) {
        note_fault(self, fault);
    } else if (!rqli_outcome_read(reply, &outcome) || !is_plausible(&outcome)) {
        (void)rqli_exchange_fault(answer, reply, rqli_scripts[self->rule->script].name,
                                  target->key.data, &malformed);
        note_fault(self, &malformed);
    } else {
        if (outcome.what > 0 && target->removed == 0) {
            on_swept(self->sweep, target->key);
        }
        target->goes_on = rqli_rule_count(self->rule, self->sweep, target, &outcome);
        if (!target->goes_on) {
            note_served(self, target, target->served);
        }
    }
}

/* After a fault only what has begun to be served goes on. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct batch *self = (struct batch *)op;
    size_t kept = 0;

    for (size_t i = 0; i < self->n; i++) {
        struct rqli_sweep_target *target = &self->targets[i];
        bool was_called = i < op->n_calls;

        if ((was_called && !target->goes_on) || (op->status < 0 && !target->is_serving)) {
            free(target->memory);
        } else {
            self->targets[kept++] = *target;
        }
    }
    self->n = kept;
    op->n_calls = kept < RQLI_OP_CALLS_MAX ? kept : RQLI_OP_CALLS_MAX;
    op->until_us = rqli_client_budget_us(self->sweep->client, rqli_now_us());
    return kept == 0 ? RQLI_OP_OVER : RQLI_OP_AGAIN;
}

static void free_targets_p(struct batch *self)
{
    for (size_t i = 0; i < self->n; i++) {
        free(self->targets[i].memory);
    }
}

static bool add_target(struct batch *self, struct rqli_slice key, const struct rqli_reply *seen)
{
    struct rqli_sweep_target *target = &self->targets[self->n];
    struct rqli_slice name = rqli_name_in(key, self->rule->prefix);

    *target = (struct rqli_sweep_target){.key = key, .seen = seen};
    target->memory = malloc(rqli_keys_room(name));
    if (!target->memory) {
        return false;
    }
    rqli_keys_init(&target->keys, target->memory, name);
    self->n++;
    return true;
}

/* In a dry run of a script that does it all in one call: one more would be removed. */
static void preview(struct batch *self, struct rqli_slice key, const struct rqli_reply *seen)
{
    struct rqli_sweep_target target = {.key = key, .seen = seen};
    const struct rqli_outcome outcome = {
        .what = 1,
        .second = self->rule->inspection == RQLI_INSPECT_LENGTH ? seen->integer : 0,
    };

    (void)rqli_rule_count(self->rule, self->sweep, &target, &outcome);
    on_swept(self->sweep, key);
}

/* Reads one inspection: the key becomes a target if the rule wants it. */
static rql_status consider(struct batch *self, struct rqli_slice key,
                           const struct rqli_exchange *exchange, const struct rqli_reply *seen)
{
    struct rqli_sweep *sweep = self->sweep;
    enum rqli_sweep_verdict verdict = RQLI_SWEEP_MALFORMED;

    if (seen->type == RQLI_REPLY_ERROR && rqli_reply_class(seen) == RQL_E_WRONG_TYPE) {
        sweep->result.foreign_key_cnt++;
        return RQL_OK;
    }
    if (seen->type != RQLI_REPLY_ERROR) {
        verdict = rqli_rule_judge(self->rule, sweep, seen);
    }
    if (verdict == RQLI_SWEEP_MALFORMED) {
        return rqli_exchange_fault(exchange, seen, rqli_inspection_name(self->rule->inspection),
                                   key.data, sweep->error);
    }
    if (verdict == RQLI_SWEEP_REMOVE && sweep->options.dry_run &&
        self->rule->next == RQLI_NUMBER_NONE) {
        preview(self, key, seen);
    } else if (verdict == RQLI_SWEEP_REMOVE && !add_target(self, key, seen)) {
        return rqli_fail_nomem(sweep->error);
    }
    return RQL_OK;
}

/* At most RQLI_BATCH_KEYS. */
static rql_status sweep_keys(const struct rqli_reader *reader, const struct rqli_sweep_rule *rule,
                             struct rqli_sweep *sweep, const struct rqli_item *keys, size_t n)
{
    static const struct rqli_op_ops ops = {write_call, read_reply, next, NULL};
    RQLI_AUTO(rqli_exchange_give)
    struct rqli_exchange *exchange = rqli_exchange_take(reader->client->conn);
    RQLI_AUTO(free_targets) struct batch batch = {.op.ops = &ops, .sweep = sweep, .rule = rule};
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(reader->error);
    }
    for (size_t i = 0; i < n; i++) {
        rqli_rule_inspect(rule, sweep, &exchange->command, keys[i].text);
    }
    status = rqli_reader_run(reader, exchange);
    for (size_t i = 0; !status && i < n; i++) {
        status = consider(&batch, keys[i].text, exchange, &exchange->reply[i]);
    }
    if (!status) {
        status = rqli_op_run(&batch.op, reader->client->conn, NULL);
    }
    sweep->done += status ? 0 : (int64_t)n;
    return status;
}

static rql_status sweep_measured(const struct rqli_reader *reader, const struct rqli_batch *batch,
                                 size_t first, size_t n)
{
    const struct rqli_sweep_part *part = batch->context;

    return sweep_keys(reader, part->rule, part->sweep, batch->keys + first, n);
}

static rql_status skip_large(const struct rqli_reader *reader, const struct rqli_batch *batch,
                             size_t i)
{
    const struct rqli_sweep_part *part = batch->context;

    (void)reader;
    (void)i;
    part->sweep->result.foreign_key_cnt++;
    part->sweep->done++;
    return RQL_OK;
}

/* A grant has texts of any size, so its size is asked for first. */
static rql_status sweep_part(struct rqli_sweep *self, struct rqli_sweep_part *part)
{
    static const struct rqli_batch_ops measured = {"HLEN", RQLI_GRANT_FIELDS, sweep_measured,
                                                   skip_large};
    const struct rqli_reader reader = {self->client, part->rule->pattern, self->error};
    const struct rqli_list *keys = &part->walk.found;
    size_t most = (size_t)rqli_smaller(part->batch_size, RQLI_BATCH_KEYS);
    rql_status status = RQL_OK;

    for (size_t at = 0; !status && at < keys->count; at += most) {
        size_t n = keys->count - at < most ? keys->count - at : most;

        if (part->rule->inspection == RQLI_INSPECT_GRANT) {
            status = rqli_batch_read(&reader, &measured, keys->item + at, n, part);
        } else {
            status = sweep_keys(&reader, part->rule, self, keys->item + at, n);
        }
        status = status ? status : report(self);
    }
    return status;
}

rql_status rqli_sweep_run(struct rqli_sweep *self)
{
    int64_t begun_us = rqli_now_us();
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && i < self->n_parts; i++) {
        self->parts[i].sweep = self;
        status = find(self, &self->parts[i]);
    }
    for (size_t i = 0; !status && i < self->n_parts; i++) {
        status = sweep_part(self, &self->parts[i]);
    }
    self->result.rel_time_us = rqli_now_us() - begun_us;
    return status;
}

void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SWEEP, options, size, client ? &client->options : NULL);
}

static rql_status begin(struct rqli_sweep *self, rql_client *client, const rql_sweep_options *given,
                        rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    *self = (struct rqli_sweep){.client = client, .error = error};
    if (!status) {
        status = rqli_options_read(RQLI_OF_SWEEP, &self->options, &client->options, given, error);
    }
    return status;
}

/* A dry run is no event. */
static rql_status run(struct rqli_sweep *sweep, enum rqli_moment moment, rql_sweep_result *out)
{
    rql_status status = rqli_sweep_run(sweep);
    struct rqli_subject subject = rqli_subject_of_call(sweep->client);
    const struct rqli_figures figures = {
        .status = status,
        .rel_key_cnt = sweep->result.rel_key_cnt,
        .tch_queue_cnt = sweep->result.tch_queue_cnt,
        .rel_time_us = sweep->result.rel_time_us,
        .at_us = rqli_server_clock_now_us(sweep->client),
    };

    subject.acquirer = sweep->owner ? sweep->owner->acq_id : NULL;
    subject.host = sweep->owner ? sweep->owner->hst_id : NULL;
    if (!sweep->options.dry_run) {
        rqli_observe(moment, &subject, &figures);
    }
    if (out) {
        *out = sweep->result;
    }
    return status;
}

rql_status rql_clear_locks(rql_client *client, const rql_sweep_options *options,
                           rql_sweep_result *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, error);

    if (status) {
        return status;
    }
    rqli_sweep_add(&sweep, &rqli_rule_all_queues, sweep.options.batch_size);
    rqli_sweep_add(&sweep, &rqli_rule_all_locks, sweep.options.batch_size);
    return run(&sweep, RQLI_ON_CLEARED, out);
}

static rql_status check_id(const char *id, const char *what, rql_error *error)
{
    size_t length = id ? strnlen(id, ID_MAX + 1) : 0;

    if (length == 0 || length > ID_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "%s: must be 1 to %d bytes; nothing was sent", what,
                         ID_MAX);
    }
    return RQL_OK;
}

static rql_status check_owner(const rql_sweep_owner *owner, rql_error *error)
{
    rql_status status = check_id(owner ? owner->acq_id : NULL, "acq_id", error);

    return status ? status : check_id(owner->hst_id, "hst_id", error);
}

rql_status rql_clear_locks_of(rql_client *client, const rql_sweep_owner *owner,
                              const rql_sweep_options *options, rql_sweep_result *out,
                              rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, error);

    if (!status) {
        status = check_owner(owner, error);
    }
    if (status) {
        return status;
    }
    sweep.owner = owner;
    rqli_sweep_add(&sweep, &rqli_rule_locks_of, sweep.options.lock_scan_size);
    rqli_sweep_add(&sweep, &rqli_rule_requests_of, sweep.options.queue_scan_size);
    return run(&sweep, RQLI_ON_CLEARED_OF, out);
}

rql_status rql_clear_current_locks(rql_client *client, uint64_t task,
                                   const rql_sweep_options *options, rql_sweep_result *out,
                                   rql_error *error)
{
    RQLI_DEFER_CANCEL;
    char acq_id[RQL_ID_SIZE];
    char hst_id[RQL_ID_SIZE];
    rql_sweep_owner owner;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    owner.acq_id = rql_current_acquirer_id(client, task, acq_id);
    owner.hst_id = rql_current_host_id(client, hst_id);
    return rql_clear_locks_of(client, &owner, options, out, error);
}

/* By the server's clock. */
static rql_status read_age(struct rqli_sweep *sweep)
{
    const struct rqli_reader reader = {sweep->client, "TIME", sweep->error};
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_query(sweep->client, &exchange, sweep->error, "TIME", NULL);
    int64_t server_us;

    if (status) {
        return rqli_reader_status(&reader, status);
    }
    if (!rqli_time_read(exchange->reply, &server_us)) {
        return rqli_exchange_fault(exchange, exchange->reply, "TIME", "server", sweep->error);
    }
    rqli_sweep_age_init(&sweep->age, server_us, sweep->options.dead_ttl_ms);
    return RQL_OK;
}

rql_status rql_clear_dead_requests(rql_client *client, const rql_sweep_options *options,
                                   rql_sweep_result *out, rql_text_list **queues, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, error);

    if (status) {
        return status;
    }
    if (out) {
        *out = sweep.result;
    }
    rqli_sweep_add(&sweep, &rqli_rule_dead_requests, sweep.options.batch_size);
    status = read_age(&sweep);
    if (!status) {
        status = run(&sweep, RQLI_ON_SWEPT, out);
    }
    if (!status && queues) {
        status = rqli_list_give(&sweep.parts[0].walk.found, queues, error);
    }
    return status;
}
