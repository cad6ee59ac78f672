#include "admin/sweep_rules.h"

#include "admin/looks.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

static bool is_text(const struct rqli_reply *reply, const char *text)
{
    return reply->type == RQLI_REPLY_TEXT && reply->text.length == strlen(text) &&
           memcmp(reply->text.data, text, reply->text.length) == 0;
}

static enum rqli_sweep_verdict judge_lock_of(const struct rqli_sweep *sweep,
                                             const struct rqli_reply *seen)
{
    const rql_sweep_owner *owner = sweep->subject;
    enum rqli_sweep_verdict verdict = rqli_look_judge_grant(sweep, seen);

    if (verdict == RQLI_SWEEP_END && (!is_text(&seen->items[RQLI_GRANT_ACQ_ID], owner->acq_id) ||
                                      !is_text(&seen->items[RQLI_GRANT_HST_ID], owner->hst_id))) {
        verdict = RQLI_SWEEP_LEAVE;
    }
    return verdict;
}

/* Of this client: whoever holds it here need not wait for its next renewal to learn of it. */
static bool is_own(const rql_client *client, const struct rqli_reply *acq_id)
{
    size_t length = strlen(client->identity);

    return acq_id->type == RQLI_REPLY_TEXT && acq_id->text.length > length &&
           memcmp(acq_id->text.data + acq_id->text.length - length, client->identity, length) == 0;
}

static bool note_lock(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                      const struct rqli_outcome *outcome)
{
    const struct rqli_reply *fields = target->seen->items;

    sweep->result.rel_key_cnt += outcome->what;
    target->served = outcome->second;
    if (outcome->what > 0 && is_own(sweep->client, &fields[RQLI_GRANT_ACQ_ID]) &&
        fields[RQLI_GRANT_NONCE].type == RQLI_REPLY_TEXT) {
        rqli_leases_on_taken(sweep->client->leases, fields[RQLI_GRANT_NONCE].text);
    }
    return false;
}

static void preview_lock(struct rqli_sweep *sweep, const struct rqli_reply *seen)
{
    (void)seen;
    sweep->result.rel_key_cnt++;
}

static void tell_nothing(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                         struct rqli_call *call)
{
    (void)sweep;
    (void)target;
    (void)call;
}

static bool note_queue(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                       const struct rqli_outcome *outcome)
{
    (void)target;
    sweep->result.rel_key_cnt += outcome->what;
    sweep->result.tch_queue_cnt += outcome->what;
    sweep->result.rem_request_cnt += outcome->second;
    return false;
}

static void preview_queue(struct rqli_sweep *sweep, const struct rqli_reply *seen)
{
    sweep->result.rel_key_cnt++;
    sweep->result.tch_queue_cnt++;
    sweep->result.rem_request_cnt += seen->integer;
}

static void ask_place(const struct rqli_sweep *sweep, struct rqli_command *command,
                      struct rqli_slice key)
{
    const rql_sweep_owner *owner = sweep->subject;

    rqli_command_begin(command, 3);
    rqli_command_text(command, "ZSCORE");
    rqli_command_slice(command, key);
    rqli_command_text(command, owner->acq_id);
}

static enum rqli_sweep_verdict judge_place(const struct rqli_sweep *sweep,
                                           const struct rqli_reply *seen)
{
    (void)sweep;
    if (seen->type == RQLI_REPLY_NIL) {
        return RQLI_SWEEP_LEAVE;
    }
    return seen->type == RQLI_REPLY_TEXT ? RQLI_SWEEP_END : RQLI_SWEEP_NONSENSE;
}

static void tell_acquirer(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                          struct rqli_call *call)
{
    const rql_sweep_owner *owner = sweep->subject;

    (void)target;
    rqli_call_text(call, owner->acq_id);
    rqli_call_chance(call);
}

static bool note_request(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                         const struct rqli_outcome *outcome)
{
    sweep->result.tch_queue_cnt += outcome->what;
    sweep->result.rem_request_cnt += outcome->what;
    target->served = outcome->second;
    return false;
}

static void preview_request(struct rqli_sweep *sweep, const struct rqli_reply *seen)
{
    (void)seen;
    sweep->result.tch_queue_cnt++;
    sweep->result.rem_request_cnt++;
}

void rqli_sweep_age_init(struct rqli_sweep_age *self, int64_t server_us, int64_t dead_ttl_ms)
{
    int64_t oldest_us = server_us - dead_ttl_ms * 1000;

    self->oldest_us = oldest_us > 0 ? oldest_us : 0;
    (void)snprintf(self->seconds, sizeof self->seconds, "%lld.%06lld",
                   (long long)(self->oldest_us / 1000000), (long long)(self->oldest_us % 1000000));
}

static void ask_old(const struct rqli_sweep *sweep, struct rqli_command *command,
                    struct rqli_slice key)
{
    const struct rqli_sweep_age *age = sweep->subject;

    rqli_command_begin(command, 4);
    rqli_command_text(command, "ZCOUNT");
    rqli_command_slice(command, key);
    rqli_command_text(command, "-inf");
    rqli_command_text(command, age->seconds);
}

static void tell_age(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                     struct rqli_call *call)
{
    const struct rqli_sweep_age *age = sweep->subject;

    rqli_call_int(call, age->oldest_us);
    rqli_call_int(call, target->from);
    rqli_call_int(call, sweep->options->dry_run);
}

/* Places of the queue that were looked at: what was removed has none any more. */
static int64_t places_seen(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target)
{
    return target->from + (sweep->options->dry_run ? 0 : target->removed);
}

/* Goes on to the end, where the lock is served if it is free; but not farther than what the look
 * has counted: others may put themselves back all the while. */
static bool note_dead(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                      const struct rqli_outcome *outcome)
{
    int64_t seen_before = places_seen(sweep, target);

    sweep->result.tch_queue_cnt += outcome->what > 0 && target->removed == 0;
    sweep->result.rem_request_cnt += outcome->what;
    target->served = outcome->third;
    target->from = outcome->second;
    target->removed += outcome->what;
    return outcome->second >= 0 && places_seen(sweep, target) > seen_before &&
           places_seen(sweep, target) <= target->seen->integer;
}

const struct rqli_sweep_rule rqli_sweep_all_queues = {
    .prefix = RQLI_KEY_QUEUE,
    .where = RQLI_KEY_QUEUE "*",
    .look = "ZCARD",
    .script = RQLI_SCRIPT_SWEEP_QUEUE,
    .ask = rqli_look_ask_length,
    .judge = rqli_look_judge_count,
    .tell = tell_nothing,
    .note = note_queue,
    .preview = preview_queue,
};

const struct rqli_sweep_rule rqli_sweep_all_locks = {
    .prefix = RQLI_KEY_LOCK,
    .where = RQLI_KEY_LOCK "*",
    .look = "HMGET",
    .reads_texts = true,
    .script = RQLI_SCRIPT_SWEEP_LOCK,
    .ask = rqli_look_ask_grant,
    .judge = rqli_look_judge_grant,
    .tell = rqli_look_tell_grant,
    .note = note_lock,
    .preview = preview_lock,
};

const struct rqli_sweep_rule rqli_sweep_locks_of = {
    .prefix = RQLI_KEY_LOCK,
    .where = RQLI_KEY_LOCK "*",
    .look = "HMGET",
    .reads_texts = true,
    .script = RQLI_SCRIPT_SWEEP_LOCK,
    .ask = rqli_look_ask_grant,
    .judge = judge_lock_of,
    .tell = rqli_look_tell_grant,
    .note = note_lock,
    .preview = preview_lock,
};

const struct rqli_sweep_rule rqli_sweep_requests_of = {
    .prefix = RQLI_KEY_QUEUE,
    .where = RQLI_KEY_QUEUE "*",
    .look = "ZSCORE",
    .script = RQLI_SCRIPT_SWEEP_REQUEST,
    .ask = ask_place,
    .judge = judge_place,
    .tell = tell_acquirer,
    .note = note_request,
    .preview = preview_request,
};

const struct rqli_sweep_rule rqli_sweep_dead = {
    .prefix = RQLI_KEY_QUEUE,
    .where = RQLI_KEY_QUEUE "*",
    .look = "ZCOUNT",
    .previews_by_calls = true,
    .script = RQLI_SCRIPT_SWEEP_DEAD,
    .ask = ask_old,
    .judge = rqli_look_judge_count,
    .tell = tell_age,
    .note = note_dead,
};
