#include "flush.h"

#include "base/random.h"
#include "script/keys.h"
#include "script/pack.h"

/* What tells one grant from all others: acq_id, hst_id, ts and, of ours, the nonce. */
enum { ACQ_ID, HST_ID, TS, NONCE, GRANT_FIELDS };

_Static_assert((int)GRANT_FIELDS <= (int)RQLI_SWEEP_TEXTS, "sizes are asked for so many");

static void ask_grant(const struct rqli_sweep *sweep, struct rqli_command *command,
                      struct rqli_slice key)
{
    static const char *const fields[GRANT_FIELDS] = {"acq_id", "hst_id", "ts", "rql_nonce"};

    (void)sweep;
    rqli_command_begin(command, 2 + GRANT_FIELDS);
    rqli_command_text(command, "HMGET");
    rqli_command_slice(command, key);
    for (size_t i = 0; i < GRANT_FIELDS; i++) {
        rqli_command_text(command, fields[i]);
    }
}

static enum rqli_sweep_verdict judge_lock(const struct rqli_sweep *sweep,
                                          const struct rqli_reply *seen)
{
    const struct rqli_flush *flush = sweep->subject;
    const struct rqli_reply *host;

    if (seen->type != RQLI_REPLY_ARRAY || seen->count != GRANT_FIELDS) {
        return RQLI_SWEEP_NONSENSE;
    }
    for (size_t i = 0; i < GRANT_FIELDS; i++) {
        if (seen->items[i].type != RQLI_REPLY_TEXT && seen->items[i].type != RQLI_REPLY_NIL) {
            return RQLI_SWEEP_NONSENSE;
        }
    }
    host = &seen->items[HST_ID];
    return host->type == RQLI_REPLY_TEXT && rqli_is_plain(host->text) &&
                   rqli_texts_has(&flush->dead, host->text.data)
               ? RQLI_SWEEP_END
               : RQLI_SWEEP_LEAVE;
}

static void tell_grant(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                       struct rqli_call *call)
{
    static const struct rqli_slice nothing = {"", 0};

    (void)sweep;
    for (size_t i = 0; i < GRANT_FIELDS; i++) {
        const struct rqli_reply *field = &target->seen->items[i];

        rqli_call_slice(call, field->type == RQLI_REPLY_TEXT ? field->text : nothing);
    }
    rqli_call_int(call, rqli_random_below(65536));
}

static bool note_lock(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                      const struct rqli_outcome *outcome)
{
    struct rqli_flush *flush = sweep->notes;
    const struct rqli_reply *acq_id = &target->seen->items[ACQ_ID];

    if (outcome->what > 0) {
        rqli_texts_add(&flush->locks, target->key.data);
        if (acq_id->type == RQLI_REPLY_TEXT) {
            rqli_texts_add(&flush->acquirers, acq_id->text.data);
        }
    }
    target->served = outcome->second;
    return false;
}

static void ask_length(const struct rqli_sweep *sweep, struct rqli_command *command,
                       struct rqli_slice key)
{
    (void)sweep;
    rqli_command_begin(command, 2);
    rqli_command_text(command, "ZCARD");
    rqli_command_slice(command, key);
}

static enum rqli_sweep_verdict judge_queue(const struct rqli_sweep *sweep,
                                           const struct rqli_reply *seen)
{
    (void)sweep;
    if (seen->type != RQLI_REPLY_INTEGER || seen->integer > RQLI_SWEEP_COUNT_MAX) {
        return RQLI_SWEEP_NONSENSE;
    }
    return seen->integer > 0 ? RQLI_SWEEP_END : RQLI_SWEEP_LEAVE;
}

static void tell_place(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                       struct rqli_call *call)
{
    (void)sweep;
    rqli_call_int(call, target->from);
}

/* Goes on while there are places left of those that the look has counted. */
static bool note_queue(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                       const struct rqli_outcome *outcome)
{
    struct rqli_flush *flush = sweep->notes;
    int64_t seen_before = target->from + target->removed;

    flush->removed += outcome->what;
    target->served = outcome->third > 0 ? outcome->third : target->served;
    target->from = outcome->second;
    target->removed += outcome->what;
    return outcome->second >= 0 && target->from + target->removed > seen_before &&
           target->from + target->removed < target->seen->integer;
}

const struct rqli_sweep_rule rqli_flush_locks = {
    .prefix = RQLI_KEY_LOCK,
    .where = RQLI_KEY_LOCK "*",
    .look = "HMGET",
    .reads_texts = true,
    .previews_by_calls = true,
    .script = RQLI_SCRIPT_FLUSH_LOCK,
    .ask = ask_grant,
    .judge = judge_lock,
    .tell = tell_grant,
    .note = note_lock,
};

const struct rqli_sweep_rule rqli_flush_queues = {
    .prefix = RQLI_KEY_QUEUE,
    .where = RQLI_KEY_QUEUE "*",
    .look = "ZCARD",
    .previews_by_calls = true,
    .script = RQLI_SCRIPT_FLUSH_QUEUE,
    .ask = ask_length,
    .judge = judge_queue,
    .tell = tell_place,
    .note = note_queue,
};
