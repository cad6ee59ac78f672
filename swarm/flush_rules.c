#include "flush.h"

#include "admin/looks.h"
#include "wire/keys.h"
#include "wire/pack.h"

static enum rqli_sweep_verdict judge_lock(const struct rqli_sweep *sweep,
                                          const struct rqli_reply *seen)
{
    const struct rqli_flush *flush = sweep->subject;
    enum rqli_sweep_verdict verdict = rqli_look_judge_grant(sweep, seen);
    const struct rqli_reply *host;

    if (verdict != RQLI_SWEEP_END) {
        return verdict;
    }
    host = &seen->items[RQLI_GRANT_HST_ID];
    return host->type == RQLI_REPLY_TEXT && rqli_is_plain(host->text) &&
                   rqli_texts_has(&flush->dead, host->text.data)
               ? RQLI_SWEEP_END
               : RQLI_SWEEP_LEAVE;
}

static bool note_lock(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                      const struct rqli_outcome *outcome)
{
    struct rqli_flush *flush = sweep->notes;
    const struct rqli_reply *acq_id = &target->seen->items[RQLI_GRANT_ACQ_ID];

    if (outcome->what > 0) {
        rqli_texts_add(&flush->locks, target->key.data);
        if (acq_id->type == RQLI_REPLY_TEXT) {
            rqli_texts_add(&flush->acquirers, acq_id->text.data);
        }
    }
    target->served = outcome->second;
    return false;
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
    .ask = rqli_look_ask_grant,
    .judge = judge_lock,
    .tell = rqli_look_tell_grant,
    .note = note_lock,
};

const struct rqli_sweep_rule rqli_flush_queues = {
    .prefix = RQLI_KEY_QUEUE,
    .where = RQLI_KEY_QUEUE "*",
    .look = "ZCARD",
    .previews_by_calls = true,
    .script = RQLI_SCRIPT_FLUSH_QUEUE,
    .ask = rqli_look_ask_length,
    .judge = rqli_look_judge_count,
    .tell = tell_place,
    .note = note_queue,
};
