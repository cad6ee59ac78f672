#include "admin/looks.h"

_Static_assert((int)RQLI_GRANT_FIELDS <= (int)RQLI_SWEEP_TEXTS, "sizes are asked for so many");

void rqli_look_ask_grant(const struct rqli_sweep *sweep, struct rqli_command *command,
                         struct rqli_slice key)
{
    (void)sweep;
    rqli_command_begin(command, 2 + RQLI_GRANT_FIELDS);
    rqli_command_text(command, "HMGET");
    rqli_command_slice(command, key);
    rqli_command_text(command, "acq_id");
    rqli_command_text(command, "hst_id");
    rqli_command_text(command, "ts");
    rqli_command_text(command, "rql_nonce");
}

enum rqli_sweep_verdict rqli_look_judge_grant(const struct rqli_sweep *sweep,
                                              const struct rqli_reply *seen)
{
    (void)sweep;
    if (seen->type != RQLI_REPLY_ARRAY || seen->count != RQLI_GRANT_FIELDS) {
        return RQLI_SWEEP_NONSENSE;
    }
    for (size_t i = 0; i < RQLI_GRANT_FIELDS; i++) {
        if (seen->items[i].type != RQLI_REPLY_TEXT && seen->items[i].type != RQLI_REPLY_NIL) {
            return RQLI_SWEEP_NONSENSE;
        }
    }
    return RQLI_SWEEP_END;
}

void rqli_look_tell_grant(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                          struct rqli_call *call)
{
    static const struct rqli_slice nothing = {"", 0};

    (void)sweep;
    for (size_t i = 0; i < RQLI_GRANT_FIELDS; i++) {
        const struct rqli_reply *field = &target->seen->items[i];

        rqli_call_slice(call, field->type == RQLI_REPLY_TEXT ? field->text : nothing);
    }
    rqli_call_chance(call);
}

void rqli_look_ask_length(const struct rqli_sweep *sweep, struct rqli_command *command,
                          struct rqli_slice key)
{
    (void)sweep;
    rqli_command_begin(command, 2);
    rqli_command_text(command, "ZCARD");
    rqli_command_slice(command, key);
}

enum rqli_sweep_verdict rqli_look_judge_count(const struct rqli_sweep *sweep,
                                              const struct rqli_reply *seen)
{
    (void)sweep;
    if (seen->type != RQLI_REPLY_INTEGER || seen->integer > RQLI_SWEEP_COUNT_MAX) {
        return RQLI_SWEEP_NONSENSE;
    }
    return seen->integer > 0 ? RQLI_SWEEP_END : RQLI_SWEEP_LEAVE;
}
