#include "admin/sweep_run.h"

#include "admin/batch.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"
#include "net/serving.h"
#include "wire/pack.h"

enum {
    SCAN_COUNT_MAX = 1000, /* keeps the server busy for less than a millisecond */
    KEY_MAX = 65536, /* longer ones are nobody's locks: a batch of them would burst the buffers */
};

/* The keys of one batch, and what is to be done with them. */
struct batch {
    struct rqli_sweep *sweep;
    struct rqli_sweep_part *part;
    rql_error *error; /* NULL once a fault was raised */
    bool has_text;    /* the first call under way carries the script */
    size_t n;
    struct rqli_sweep_target targets[RQLI_BATCH_KEYS];
};

void rqli_sweep_fini_p(struct rqli_sweep *self)
{
    free(self->memory);
    self->memory = NULL;
}

static rql_status report(const struct rqli_sweep *self)
{
    rql_sweep_progress_fn on_progress = self->options->on_progress;
    bool goes_on = !on_progress || on_progress(self->done, self->found, self->options->user_data);

    return goes_on ? RQL_OK : RQL_STOPPED;
}

static bool is_wanted(const struct rqli_sweep *self, struct rqli_slice key, const char *prefix)
{
    const rql_sweep_options *options = self->options;

    return !options->wants || options->wants(key.data + strlen(prefix), options->user_data);
}

static void skip_keys(struct rqli_sweep *self, struct rqli_scan *scan, const char *prefix)
{
    size_t kept = 0;

    for (size_t i = 0; i < scan->count; i++) {
        if (!is_wanted(self, scan->keys[i], prefix)) {
            continue;
        }
        if (scan->keys[i].length <= KEY_MAX) {
            scan->keys[kept++] = scan->keys[i];
        } else {
            self->result.foreign_key_cnt++;
        }
    }
    scan->count = kept;
}

static void tell_swept(const struct rqli_sweep *self, struct rqli_slice key)
{
    if (self->options->on_swept) {
        self->options->on_swept(key.data, self->options->user_data);
    }
}

static rql_status find(struct rqli_sweep *self, struct rqli_sweep_part *part)
{
    const struct rqli_reader reader = {self->client, part->rule->where, self->error};
    int64_t count = rqli_smaller(part->batch_size, SCAN_COUNT_MAX);
    int64_t found_before = self->found;
    rql_status status = RQL_OK;

    while (!status && !part->scan.is_done) {
        status = rqli_read_page(&reader, &part->scan, count);
        if (part->scan.is_done) {
            skip_keys(self, &part->scan, part->rule->prefix);
        }
        self->found = found_before + (int64_t)part->scan.count;
        status = status ? status : report(self);
    }
    return status;
}

/* The slices are good until the next call: each call is written at once. */
static bool name_keys(struct rqli_sweep *self, struct rqli_slice name, struct rqli_keys *keys)
{
    size_t needed = rqli_keys_room(name);

    if (self->room < needed) {
        char *memory = realloc(self->memory, needed);

        if (!memory) {
            return false;
        }
        self->memory = memory;
        self->room = needed;
    }
    rqli_keys_init(keys, self->memory, name);
    return true;
}

static bool name_target(const struct batch *batch, const struct rqli_sweep_target *target,
                        struct rqli_keys *keys)
{
    return name_keys(batch->sweep, rqli_name_in(target->key, batch->part->rule->prefix), keys);
}

static bool write_call(const struct batch *batch, size_t i, struct rqli_command *command)
{
    const struct rqli_sweep_rule *rule = batch->part->rule;
    const struct rqli_sweep_target *target = &batch->targets[i];
    struct rqli_keys keys;
    struct rqli_call call;

    if (!name_target(batch, target, &keys)) {
        return false;
    }
    rqli_call_init(&call, rule->script, &keys);
    rule->tell(batch->sweep, target, &call);
    rqli_call_write(&call, command, i == 0 && batch->has_text);
    return true;
}

static bool is_plausible(const struct rqli_outcome *outcome)
{
    return outcome->what >= 0 && outcome->what <= RQLI_SWEEP_COUNT_MAX && outcome->second >= -1 &&
           outcome->second <= RQLI_SWEEP_COUNT_MAX && outcome->third >= 0 &&
           outcome->third <= RQLI_SWEEP_COUNT_MAX;
}

/* Counts what was served, after serving what the script has left. */
static void serve_rest(const struct batch *batch, struct rqli_sweep_target *target)
{
    struct rqli_sweep *sweep = batch->sweep;
    int64_t until_us = rqli_client_budget_us(sweep->client, rqli_now_us());
    bool is_served = target->served == RQLI_SERVED_ONE;
    struct rqli_keys keys;

    if (target->served == RQLI_SERVED_PARTLY && name_target(batch, target, &keys)) {
        is_served = rqli_serve(sweep->client->conn, &keys, until_us);
    }
    target->served = RQLI_SERVED_NOBODY;
    sweep->result.handed_over_cnt += is_served;
}

/* Sets *again when the call is to be made once more. */
static rql_status take_answer(struct batch *batch, size_t i, const struct rqli_exchange *exchange,
                              bool *again)
{
    const struct rqli_sweep_rule *rule = batch->part->rule;
    const struct rqli_reply *reply = &exchange->reply[i];
    struct rqli_outcome outcome;

    if (reply->type == RQLI_REPLY_ERROR && rqli_reply_says(reply, "NOSCRIPT") &&
        !(i == 0 && batch->has_text)) {
        batch->part->is_taught = false;
        *again = true;
        return RQL_OK;
    }
    if (reply->type == RQLI_REPLY_ERROR && rqli_reply_class(reply) == RQL_E_WRONG_TYPE) {
        batch->sweep->result.foreign_key_cnt++;
        return RQL_OK;
    }
    if (!rqli_outcome_read(reply, &outcome) || !is_plausible(&outcome)) {
        return rqli_exchange_fault(exchange, reply, rqli_scripts[rule->script].name,
                                   batch->targets[i].key.data, batch->error);
    }
    if (outcome.what > 0 && batch->targets[i].removed == 0) {
        tell_swept(batch->sweep, batch->targets[i].key);
    }
    *again = rule->note(batch->sweep, &batch->targets[i], &outcome);
    if (!*again) {
        serve_rest(batch, &batch->targets[i]);
    }
    return RQL_OK;
}

/* Counts every answer, also behind one that is a fault: the scripts have run. What is to be called
 * again stays in the batch. */
static rql_status take_answers(struct batch *batch, const struct rqli_exchange *exchange)
{
    rql_status first = RQL_OK;
    size_t kept = 0;

    batch->part->is_taught = true;
    for (size_t i = 0; i < batch->n; i++) {
        bool again = false;
        rql_status status = take_answer(batch, i, exchange, &again);

        if (status && !first) {
            first = status;
            batch->error = NULL;
        }
        if (again) {
            batch->targets[kept++] = batch->targets[i];
        }
    }
    batch->n = kept;
    return first;
}

/* One script call for each target, in one exchange. */
static rql_status call_all(struct batch *batch)
{
    rql_client *client = batch->sweep->client;
    RQLI_AUTO(rqli_give_back) struct rqli_exchange *exchange = rqli_exchange_take(client->conn);
    rql_status status;

    batch->has_text = !batch->part->is_taught;
    for (size_t i = 0; exchange && i < batch->n; i++) {
        if (!write_call(batch, i, &exchange->command)) {
            return rqli_fail_nomem(batch->sweep->error);
        }
    }
    if (!exchange || exchange->command.failed) {
        return rqli_fail_nomem(batch->sweep->error);
    }
    status = rqli_exchange_run(exchange, rqli_client_budget_us(client, rqli_now_us()),
                               batch->sweep->error);
    return status ? status : take_answers(batch, exchange);
}

/* Reads one look: the key becomes a target if it meets the condition. */
static rql_status consider(struct batch *batch, struct rqli_slice key,
                           const struct rqli_exchange *look, const struct rqli_reply *seen)
{
    const struct rqli_sweep_rule *rule = batch->part->rule;
    struct rqli_sweep *sweep = batch->sweep;
    enum rqli_sweep_verdict verdict = RQLI_SWEEP_NONSENSE;

    if (seen->type == RQLI_REPLY_ERROR && rqli_reply_class(seen) == RQL_E_WRONG_TYPE) {
        sweep->result.foreign_key_cnt++;
        return RQL_OK;
    }
    if (seen->type != RQLI_REPLY_ERROR) {
        verdict = rule->judge(sweep, seen);
    }
    if (verdict == RQLI_SWEEP_NONSENSE) {
        return rqli_exchange_fault(look, seen, rule->look, key.data, sweep->error);
    }
    if (verdict == RQLI_SWEEP_END && sweep->options->dry_run && !rule->previews_by_calls) {
        rule->preview(sweep, seen);
        tell_swept(sweep, key);
    } else if (verdict == RQLI_SWEEP_END) {
        batch->targets[batch->n++] = (struct rqli_sweep_target){.key = key, .seen = seen};
    }
    return RQL_OK;
}

static rql_status sweep_batch(const struct rqli_reader *reader, struct batch *batch,
                              const struct rqli_slice *keys, size_t n)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *look = rqli_exchange_take(reader->client->conn);
    rql_status status;

    if (!look) {
        return rqli_fail_nomem(reader->error);
    }
    for (size_t i = 0; i < n; i++) {
        batch->part->rule->ask(batch->sweep, &look->command, keys[i]);
    }
    status = rqli_reader_run(reader, look);
    for (size_t i = 0; !status && i < n; i++) {
        status = consider(batch, keys[i], look, &look->reply[i]);
    }
    while (!status && batch->n > 0) {
        status = call_all(batch);
    }
    batch->sweep->done += status ? 0 : (int64_t)n;
    return status;
}

static rql_status sweep_measured(const struct rqli_reader *reader, const struct rqli_batch *batch,
                                 size_t first, size_t n)
{
    return sweep_batch(reader, batch->out, batch->keys + first, n);
}

static rql_status skip_large(const struct rqli_reader *reader, const struct rqli_batch *batch,
                             size_t at)
{
    struct batch *self = batch->out;

    (void)reader;
    (void)at;
    self->sweep->result.foreign_key_cnt++;
    self->sweep->done++;
    return RQL_OK;
}

static rql_status sweep_keys(const struct rqli_reader *reader, struct batch *batch,
                             const struct rqli_slice *keys, size_t n)
{
    static const struct rqli_batch_kind measured = {"HLEN", RQLI_SWEEP_TEXTS, sweep_measured,
                                                    skip_large};

    if (batch->part->rule->reads_texts) {
        return rqli_batch_read(reader, &measured, keys, n, batch);
    }
    return sweep_batch(reader, batch, keys, n);
}

static rql_status sweep_part(struct rqli_sweep *self, struct rqli_sweep_part *part)
{
    const struct rqli_reader reader = {self->client, part->rule->where, self->error};
    size_t most = (size_t)rqli_smaller(part->batch_size, RQLI_BATCH_KEYS);
    rql_status status = RQL_OK;

    for (size_t at = 0; !status && at < part->scan.count; at += most) {
        struct batch batch = {.sweep = self, .part = part, .error = self->error};
        size_t left = part->scan.count - at;

        status = sweep_keys(&reader, &batch, part->scan.keys + at, left < most ? left : most);
        status = status ? status : report(self);
    }
    return status;
}

rql_status rqli_sweep_run(struct rqli_sweep *self, struct rqli_sweep_part *parts, size_t count)
{
    int64_t begun_us = rqli_now_us();
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && i < count; i++) {
        status = find(self, &parts[i]);
    }
    for (size_t i = 0; !status && i < count; i++) {
        status = sweep_part(self, &parts[i]);
    }
    self->result.rel_time_us = rqli_now_us() - begun_us;
    return status;
}
