#ifndef RQLI_LOOKS_H
#define RQLI_LOOKS_H

/* How sweeps look at a key, for the rules of the public calls and for those of the swarm. Pure. */

#include "admin/sweep_run.h"

/* What tells one grant from all others; the nonce is of ours only. As items of the reply. */
enum rqli_grant_field {
    RQLI_GRANT_ACQ_ID,
    RQLI_GRANT_HST_ID,
    RQLI_GRANT_TS,
    RQLI_GRANT_NONCE,
    RQLI_GRANT_FIELDS
};

/* As rqli_sweep_rule::ask, judge and tell: a lock's grant. Judged by its shape alone. */
void rqli_look_ask_grant(const struct rqli_sweep *sweep, struct rqli_command *command,
                         struct rqli_slice key);
enum rqli_sweep_verdict rqli_look_judge_grant(const struct rqli_sweep *sweep,
                                              const struct rqli_reply *seen);
void rqli_look_tell_grant(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                          struct rqli_call *call);

/* The length of a queue, and whether anything was counted. */
void rqli_look_ask_length(const struct rqli_sweep *sweep, struct rqli_command *command,
                          struct rqli_slice key);
enum rqli_sweep_verdict rqli_look_judge_count(const struct rqli_sweep *sweep,
                                              const struct rqli_reply *seen);

#endif
