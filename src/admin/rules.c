#include "admin/rules.h"

#include "lock/client.h"
#include "lock/leases.h"
#include "wire/command.h"

#include <stdio.h>
#include <string.h>

/*
 * The rules of the sweeps, as data: the prefix of the keys, the command that inspects a key, which
 * keys the rule wants, the script that sweeps a key, with its arguments, and how the numbers of its
 * reply are counted. The rules are at the end of the file.
 */

const char *rqli_inspection_name(enum rqli_inspection inspection)
{
    static const char *const names[] = {
        [RQLI_INSPECT_GRANT] = "HMGET",
        [RQLI_INSPECT_LENGTH] = "ZCARD",
        [RQLI_INSPECT_SCORE] = "ZSCORE",
        [RQLI_INSPECT_OLD] = "ZCOUNT",
    };

    return names[inspection];
}

/* oldest_us is for the script, the seconds are for ZCOUNT: both are the same limit. A limit
 * before 1970 becomes 1970, because no request is that old. */
void rqli_sweep_age_init(struct rqli_sweep_age *self, int64_t server_us, int64_t dead_ttl_ms)
{
    int64_t oldest_us = server_us - dead_ttl_ms * 1000;

    self->oldest_us = oldest_us > 0 ? oldest_us : 0;
    (void)snprintf(self->seconds, sizeof self->seconds, "%lld.%06lld",
                   (long long)(self->oldest_us / 1000000), (long long)(self->oldest_us % 1000000));
}

/* Asks for the fewest fields that tell whether the rule may want the key. The fields of a grant
 * are in the order of enum rqli_grant_field. */
void rqli_rule_inspect(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                       struct rqli_command *command, struct rqli_slice key)
{
    const char *more[RQLI_GRANT_FIELDS] = {NULL};
    size_t n_more = 0;

    if (self->inspection == RQLI_INSPECT_GRANT) {
        more[n_more++] = "acq_id";
        more[n_more++] = "hst_id";
        more[n_more++] = "ts";
        more[n_more++] = "rql_nonce";
    } else if (self->inspection == RQLI_INSPECT_SCORE) {
        more[n_more++] = sweep->owner->acquirer_id;
    } else if (self->inspection == RQLI_INSPECT_OLD) {
        more[n_more++] = "-inf";
        more[n_more++] = sweep->age.seconds;
    }
    rqli_command_begin(command, 2 + n_more);
    rqli_command_text(command, rqli_inspection_name(self->inspection));
    rqli_command_slice(command, key);
    for (size_t i = 0; i < n_more; i++) {
        rqli_command_text(command, more[i]);
    }
}

/* HMGET answers with as many items as were asked for; if the lock is gone, all of them are nil. */
static bool is_grant(const struct rqli_reply *seen)
{
    if (seen->type != RQLI_REPLY_ARRAY || seen->count != RQLI_GRANT_FIELDS) {
        return false;
    }
    for (size_t i = 0; i < RQLI_GRANT_FIELDS; i++) {
        if (seen->items[i].type != RQLI_REPLY_TEXT && seen->items[i].type != RQLI_REPLY_NIL) {
            return false;
        }
    }
    return true;
}

/* The script judges again, by the state at that time: this only saves calls for keys that stay.
 * ZSCORE answers nil if the acquirer does not wait; a count is 0 if there is no queue. */
enum rqli_sweep_verdict rqli_rule_judge(const struct rqli_sweep_rule *self,
                                        const struct rqli_sweep *sweep,
                                        const struct rqli_reply *seen)
{
    bool is_wanted = false;
    bool is_good = false;

    switch (self->inspection) {
    case RQLI_INSPECT_GRANT:
        is_good = is_grant(seen);
        is_wanted = is_good && (!self->wants || self->wants(sweep, seen));
        break;
    case RQLI_INSPECT_SCORE:
        is_wanted = seen->type == RQLI_REPLY_TEXT;
        is_good = is_wanted || seen->type == RQLI_REPLY_NIL;
        break;
    case RQLI_INSPECT_LENGTH:
    case RQLI_INSPECT_OLD:
        is_good = seen->type == RQLI_REPLY_INTEGER && seen->integer <= RQLI_SWEEP_COUNT_MAX;
        is_wanted = seen->integer > 0;
        break;
    }
    if (!is_good) {
        return RQLI_SWEEP_MALFORMED;
    }
    return is_wanted ? RQLI_SWEEP_REMOVE : RQLI_SWEEP_KEEP;
}

/* Writes the fields that distinguish this grant from all others, for the script to compare. A
 * missing field is "". */
static void write_grant(const struct rqli_reply *seen, struct rqli_call *call)
{
    static const struct rqli_slice nothing = {"", 0};

    for (size_t i = 0; i < RQLI_GRANT_FIELDS; i++) {
        const struct rqli_reply *field = &seen->items[i];

        rqli_call_slice(call, field->type == RQLI_REPLY_TEXT ? field->text : nothing);
    }
}

/* Writes the arguments in the order of the script's @args. The texts are those of target->seen
 * and of the owner, which both outlive the call. */
void rqli_rule_write(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                     const struct rqli_sweep_target *target, struct rqli_call *call)
{
    rqli_call_init(call, self->script, &target->keys);
    for (size_t i = 0; i < RQLI_RULE_ARGUMENTS; i++) {
        switch (self->arguments[i]) {
        case RQLI_ARGUMENT_NONE:
            return;
        case RQLI_ARGUMENT_GRANT:
            write_grant(target->seen, call);
            break;
        case RQLI_ARGUMENT_OWNER:
            rqli_call_text(call, sweep->owner->acquirer_id);
            break;
        case RQLI_ARGUMENT_OLDEST:
            rqli_call_int(call, sweep->age.oldest_us);
            break;
        case RQLI_ARGUMENT_FROM:
            rqli_call_int(call, target->from);
            break;
        case RQLI_ARGUMENT_DRY_RUN:
            rqli_call_int(call, sweep->options.dry_run);
            break;
        case RQLI_ARGUMENT_RANDOM:
            rqli_call_random(call);
            break;
        }
    }
}

/* Says whether this client holds the lock. If so, the holder need not wait for its next renewal
 * to learn of the loss. A swarm sweeps as its flusher's client, which holds nothing: there the next
 * heartbeat detects it. */
static bool is_own(const rql_client *client, const struct rqli_reply *acq_id)
{
    size_t length = strlen(client->identity);

    return acq_id->text.length > length &&
           memcmp(acq_id->text.data + acq_id->text.length - length, client->identity, length) == 0;
}

/* Only a flush has these lists; a sweep by an operator has none. A lock without an owner is
 * listed, too, but without its acquirer. */
static void on_lock_removed(struct rqli_sweep *sweep, const struct rqli_sweep_target *target)
{
    const struct rqli_reply *acq_id = &target->seen->items[RQLI_GRANT_ACQ_ID];
    const struct rqli_reply *nonce = &target->seen->items[RQLI_GRANT_NONCE];

    if (sweep->locks) {
        rqli_list_add(sweep->locks, rqli_name_in(target->key, RQLI_KEY_LOCK), 0);
    }
    if (acq_id->type != RQLI_REPLY_TEXT) {
        return;
    }
    if (sweep->acquirers) {
        rqli_list_add(sweep->acquirers, rqli_slice_of(acq_id->text.data), 0);
    }
    if (is_own(sweep->client, acq_id) && nonce->type == RQLI_REPLY_TEXT) {
        rqli_leases_on_taken(sweep->client->leases, nonce->text);
    }
}

/* Returns how many requests of the queue were seen. `from` counts those that stay before the
 * next page, but not those that were removed. A dry run removes nothing, so `from` counts them all.
 * */
static int64_t seen_so_far(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target)
{
    return target->from + (sweep->options.dry_run ? 0 : target->removed);
}

/* Counts a reply. A script that works page by page says where its next call begins. It is called
 * several times for a queue, which counts as touched once. `served` keeps the last number that was
 * not 0, because it depends on the script which page reports it. */
bool rqli_rule_count(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                     struct rqli_sweep_target *target, const struct rqli_outcome *outcome)
{
    const int64_t numbers[] = {
        [RQLI_NUMBER_NONE] = 0,
        [RQLI_NUMBER_FIRST] = outcome->what,
        [RQLI_NUMBER_SECOND] = outcome->second,
        [RQLI_NUMBER_THIRD] = outcome->third,
    };
    int64_t seen_before = seen_so_far(sweep, target);

    if (self->counts_keys) {
        sweep->result.released += outcome->what;
    }
    if (self->counts_queues && outcome->what > 0 && target->removed == 0) {
        sweep->result.queues++;
    }
    sweep->result.requests += numbers[self->requests];
    if (self->inspection == RQLI_INSPECT_GRANT && outcome->what > 0 && !sweep->options.dry_run) {
        on_lock_removed(sweep, target);
    }
    if (numbers[self->served] > 0) {
        target->served = numbers[self->served];
    }
    target->removed += outcome->what;
    if (self->next == RQLI_NUMBER_NONE) {
        return false;
    }
    /* Goes on to the end of the queue, where a free lock is served, but not past the number that
     * the inspection counted: waiters may put themselves back all the while. */
    target->from = numbers[self->next];
    return target->from >= 0 && seen_so_far(sweep, target) > seen_before &&
           seen_so_far(sweep, target) <= target->seen->integer;
}

/* Compares both ids, as the gem does, because one acquirer id may have come from several hosts. */
static bool is_of_owner(const struct rqli_sweep *sweep, const struct rqli_reply *grant)
{
    const struct rqli_reply *acq_id = &grant->items[RQLI_GRANT_ACQ_ID];
    const struct rqli_reply *hst_id = &grant->items[RQLI_GRANT_HST_ID];

    return acq_id->type == RQLI_REPLY_TEXT &&
           rqli_slice_is(acq_id->text, sweep->owner->acquirer_id) &&
           hst_id->type == RQLI_REPLY_TEXT && rqli_slice_is(hst_id->text, sweep->owner->host_id);
}

/* The script checks again whether the host is dead, because it may have come back meanwhile. */
static bool is_of_dead_host(const struct rqli_sweep *sweep, const struct rqli_reply *grant)
{
    const struct rqli_reply *host = &grant->items[RQLI_GRANT_HST_ID];

    return host->type == RQLI_REPLY_TEXT && rqli_list_has(sweep->dead_hosts, host->text);
}

/* Queues are inspected by their length, not by their requests: the script reads those, page by
 * page, and in one step with the removal. RQLI_NUMBER_FIRST and so on are the numbers of each
 * script's answer (lua/README.md 9). A member that a rule does not name is 0, NONE or NULL. */

#define LOCKS .prefix = RQLI_KEY_LOCK, .pattern = RQLI_KEY_LOCK "*"
#define QUEUES .prefix = RQLI_KEY_QUEUE, .pattern = RQLI_KEY_QUEUE "*"

const struct rqli_sweep_rule rqli_rule_all_queues = {
    QUEUES,
    .inspection = RQLI_INSPECT_LENGTH,
    .script = RQLI_SCRIPT_SWEEP_QUEUE,
    .counts_keys = true,
    .counts_queues = true,
    .requests = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_all_locks = {
    LOCKS,
    .inspection = RQLI_INSPECT_GRANT,
    .script = RQLI_SCRIPT_SWEEP_LOCK,
    .arguments = {RQLI_ARGUMENT_GRANT, RQLI_ARGUMENT_RANDOM},
    .counts_keys = true,
    .served = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_locks_of = {
    LOCKS,
    .inspection = RQLI_INSPECT_GRANT,
    .wants = is_of_owner,
    .script = RQLI_SCRIPT_SWEEP_LOCK,
    .arguments = {RQLI_ARGUMENT_GRANT, RQLI_ARGUMENT_RANDOM},
    .counts_keys = true,
    .served = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_requests_of = {
    QUEUES,
    .inspection = RQLI_INSPECT_SCORE,
    .script = RQLI_SCRIPT_SWEEP_REQUEST,
    .arguments = {RQLI_ARGUMENT_OWNER, RQLI_ARGUMENT_RANDOM},
    .counts_queues = true,
    .requests = RQLI_NUMBER_FIRST,
    .served = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_dead_requests = {
    QUEUES,
    .inspection = RQLI_INSPECT_OLD,
    .script = RQLI_SCRIPT_SWEEP_DEAD,
    .arguments = {RQLI_ARGUMENT_OLDEST, RQLI_ARGUMENT_FROM, RQLI_ARGUMENT_DRY_RUN},
    .counts_queues = true,
    .requests = RQLI_NUMBER_FIRST,
    .served = RQLI_NUMBER_THIRD,
    .next = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_zombie_locks = {
    LOCKS,
    .inspection = RQLI_INSPECT_GRANT,
    .wants = is_of_dead_host,
    .script = RQLI_SCRIPT_FLUSH_LOCK,
    .arguments = {RQLI_ARGUMENT_GRANT, RQLI_ARGUMENT_RANDOM},
    .counts_keys = true,
    .served = RQLI_NUMBER_SECOND,
};

const struct rqli_sweep_rule rqli_rule_zombie_requests = {
    QUEUES,
    .inspection = RQLI_INSPECT_LENGTH,
    .script = RQLI_SCRIPT_FLUSH_QUEUE,
    .arguments = {RQLI_ARGUMENT_FROM},
    .counts_queues = true,
    .requests = RQLI_NUMBER_FIRST,
    .served = RQLI_NUMBER_THIRD,
    .next = RQLI_NUMBER_SECOND,
};
