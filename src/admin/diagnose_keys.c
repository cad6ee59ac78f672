#include "admin/diagnosis.h"

#include "admin/pages.h"
#include "base/clock.h"
#include "base/random.h"
#include "net/conn/batch_threads.h"
#include "wire/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Checks the locks and queues that are stored. */

enum {
    BATCH = 500, /* keys in one batch, with two commands each */
    US_PER_MS = 1000,
};

static const int64_t old_lock_us = INT64_C(3600000000);

/* ---- keys ---- */

struct stored {
    struct rqli_examples damaged; /* keys of another type, and hashes that are no lock */
    struct rqli_examples endless; /* locks without a TTL */
    struct rqli_examples old_locks;
    struct rqli_examples old_queues; /* queues whose first request is old */
    int64_t now_us;                  /* the server's time; 0: not known */
    int64_t dead_us;                 /* the age from which a request counts as old */
};

static bool is_queue(struct rqli_slice key)
{
    return rqli_name_in(key, RQLI_KEY_QUEUE).length > 0;
}

/* Writes two commands for each key. */
static void ask(struct rqli_command *command, struct rqli_slice key)
{
    rqli_command_begin(command, 2);
    rqli_command_text(command, "PTTL");
    rqli_command_slice(command, key);
    rqli_command_begin(command, is_queue(key) ? 5 : 4);
    rqli_command_text(command, is_queue(key) ? "ZRANGE" : "HMGET");
    rqli_command_slice(command, key);
    rqli_command_text(command, is_queue(key) ? "0" : "ts");
    rqli_command_text(command, is_queue(key) ? "0" : "acq_id");
    if (is_queue(key)) {
        rqli_command_text(command, "WITHSCORES");
    }
}

static int64_t age_us(const struct stored *self, const struct rqli_reply *seconds)
{
    int64_t at_us = 0;

    if (self->now_us == 0 || seconds->type != RQLI_REPLY_TEXT ||
        !rqli_gem_seconds(seconds->text, &at_us)) {
        return -1;
    }
    return self->now_us - at_us;
}

/* Judges one key. A key that is gone meanwhile has no TTL either, but its PTTL is -2. A key that
 * has moved is skipped, because nothing is known about it. */
static void take(struct rqli_diagnosis *diagnosis, struct stored *self, struct rqli_slice key,
                 const struct rqli_reply *replies)
{
    const struct rqli_reply *left = &replies[0];
    const struct rqli_reply *fields = &replies[1];
    const bool is_whole = fields->type == RQLI_REPLY_ARRAY && fields->count == 2;
    const struct rqli_reply *time;
    const struct rqli_reply *who;

    if (left->type != RQLI_REPLY_INTEGER || left->integer == -2) {
        return;
    }
    time = is_whole ? &fields->items[is_queue(key) ? 1 : 0] : fields;
    who = is_whole ? &fields->items[is_queue(key) ? 0 : 1] : fields;
    if (!is_whole || time->type != RQLI_REPLY_TEXT || who->type != RQLI_REPLY_TEXT) {
        rqli_examples_add(&self->damaged, key);
        return;
    }
    diagnosis->n_ruby += rqli_is_of_ruby(who->text);
    if (!is_queue(key) && left->integer == -1) {
        rqli_examples_add(&self->endless, key);
    } else if (!is_queue(key) && age_us(self, time) > old_lock_us) {
        rqli_examples_add(&self->old_locks, key);
    } else if (is_queue(key) && age_us(self, time) > self->dead_us) {
        rqli_examples_add(&self->old_queues, key);
    }
}

static bool is_at(const struct rqli_diagnosis *self, const struct rqli_node *node,
                  struct rqli_slice key)
{
    const struct rqli_key_set *set = rqli_key_set_in(key);

    return set && rqli_fleet_node(&self->client->fleet, set) == node;
}

/* Reads those of the keys that this server has. False: stop reading. */
static bool read_from(struct rqli_diagnosis *self, struct stored *stored, struct rqli_node *node,
                      const struct rqli_item *keys, size_t count)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_batch_take(rqli_conns_choose(&node->conns));
    struct rqli_slice asked[BATCH];
    size_t n_asked = 0;

    for (size_t i = 0; batch && i < count; i++) {
        if (is_at(self, node, keys[i].text)) {
            asked[n_asked++] = keys[i].text;
            ask(&batch->command, keys[i].text);
        }
    }
    if (batch && n_asked == 0) {
        return true;
    }
    if (!rqli_diagnosis_run(self, "keys.old", batch)) {
        return false;
    }
    for (size_t i = 0; i < n_asked; i++) {
        take(self, stored, asked[i], &batch->reply[2 * i]);
    }
    return true;
}

static bool read_batch(struct rqli_diagnosis *self, struct stored *stored,
                       const struct rqli_item *keys, size_t count)
{
    struct rqli_fleet *fleet = &self->client->fleet;
    struct rqli_node *node = rqli_fleet_next(fleet, NULL, NULL);

    while (node && read_from(self, stored, node, keys, count)) {
        node = rqli_fleet_next(fleet, node, NULL);
    }
    return !node;
}

/* Walks the keys page by page, until all are found, the time is over, or max_keys keys were
 * passed. */
static bool walk(struct rqli_diagnosis *self, struct rqli_walk *keys)
{
    const int64_t size = self->client->options.key_extraction_batch_size;
    rql_error error = {.status = RQL_OK};
    int64_t passed = 0;

    while (!keys->is_done && passed < self->options.max_keys && rqli_now_us() < self->end_us) {
        RQLI_AUTO(rqli_batch_give)
        struct rqli_batch *batch =
            rqli_batch_take(rqli_conns_choose(&(keys->node ? keys->node : self->node)->conns));

        if (batch) {
            rqli_walk_ask(keys, &batch->command, size);
        }
        if (!rqli_diagnosis_run(self, "keys.damaged", batch)) {
            return false;
        }
        if (rqli_walk_take(keys, batch, &error) != RQL_OK) {
            rqli_report_add(self->report, "keys.damaged", RQL_CHECK_SKIP, "keys: %s",
                            error.message);
            return false;
        }
        passed += size;
    }
    if (!keys->is_done) {
        rqli_list_sort(&keys->found);
    }
    return true;
}

static void judge_damaged(struct rqli_report *report, const struct stored *stored, bool is_all)
{
    const bool is_other = stored->damaged.count > 0;
    const struct rqli_examples *bad = is_other ? &stored->damaged : &stored->endless;

    if (bad->count > 0) {
        rqli_report_add(report, "keys.damaged", RQL_CHECK_WARN, "%" PRId64 " keys %s: %s",
                        bad->count, is_other ? "are no locks or queues" : "are locks without a ttl",
                        bad->names);
    } else if (is_all) {
        rqli_report_add(report, "keys.damaged", RQL_CHECK_OK, "all locks and queues can be read");
    } else {
        rqli_report_add(report, "keys.damaged", RQL_CHECK_SKIP, "not all keys were looked at");
    }
    rqli_report_number(report, "damaged", stored->damaged.count);
    rqli_report_number(report, "without_ttl", stored->endless.count);
    rqli_report_say(report,
                    is_other ? "a lock of that name cannot be taken"
                             : "such a lock never ends by itself",
                    is_other ? "find out what wrote them, then: redis-cli DEL KEY"
                             : "rql info NAME, then: rql unlock NAME --force");
}

static void judge_old(struct rqli_report *report, const struct stored *stored)
{
    const bool is_lock = stored->old_locks.count > 0;
    const struct rqli_examples *old = is_lock ? &stored->old_locks : &stored->old_queues;

    if (old->count > 0) {
        rqli_report_add(report, "keys.old", RQL_CHECK_NOTE, "%" PRId64 " %s: %s", old->count,
                        is_lock ? "locks are held for more than an hour"
                                : "queues have requests that count as dead",
                        old->names);
    } else {
        rqli_report_add(report, "keys.old", RQL_CHECK_OK, "no lock or request is old");
    }
    rqli_report_number(report, "old_locks", stored->old_locks.count);
    rqli_report_number(report, "old_queues", stored->old_queues.count);
    rqli_report_say(report, "somebody may have forgotten them",
                    is_lock ? "rql who shows who holds them"
                            : "rql dead --dry-run, then: rql dead");
}

void rqli_diagnose_keys(struct rqli_diagnosis *self)
{
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk keys = {0};
    struct stored stored = {
        .now_us = self->first.server_us,
        .dead_us = self->client->options.dead_request_ttl_ms * US_PER_MS,
    };
    bool is_read = true;
    size_t next = 0;

    if (!rqli_diagnosis_has_time(self, "keys.damaged")) {
        return;
    }
    rqli_walk_init(&keys, "rql:lock", NULL);
    rqli_walk_use(&keys, self->client, NULL);
    if (!walk(self, &keys)) {
        return;
    }
    while (is_read && next < keys.found.count && rqli_now_us() < self->end_us) {
        const size_t left = keys.found.count - next;
        const size_t count = left < BATCH ? left : BATCH;

        is_read = read_batch(self, &stored, &keys.found.item[next], count);
        next += count;
    }
    judge_damaged(self->report, &stored, is_read && keys.is_done && next == keys.found.count);
    judge_old(self->report, &stored);
}
