#ifndef RQLI_RULES_H
#define RQLI_RULES_H

/* The rules of the sweeps: which keys they want, and what they do with them. No I/O here. */

#include "admin/sweep_state.h"
#include "wire/answer.h"
#include "wire/command.h"

/* No key has a larger count; a reply with a larger number is malformed. */
#define RQLI_SWEEP_COUNT_MAX (INT64_C(1) << 40)

/* The command that inspects a key. */
enum rqli_inspection {
    RQLI_INSPECT_GRANT,  /* the fields that distinguish a grant of a lock */
    RQLI_INSPECT_LENGTH, /* the length of a queue */
    RQLI_INSPECT_SCORE,  /* the score of the owner's request in a queue */
    RQLI_INSPECT_OLD,    /* how many requests of a queue are that old */
};

/* Items of the reply about a grant; only our own grants have the nonce. */
enum rqli_grant_field {
    RQLI_GRANT_ACQ_ID,
    RQLI_GRANT_HST_ID,
    RQLI_GRANT_TS,
    RQLI_GRANT_NONCE,
    RQLI_GRANT_FIELDS
};

/* Arguments of the script of a rule. */
enum rqli_rule_argument {
    RQLI_ARGUMENT_NONE,
    RQLI_ARGUMENT_GRANT,  /* the fields of the grant */
    RQLI_ARGUMENT_OWNER,  /* acq_id */
    RQLI_ARGUMENT_OLDEST, /* the oldest_us of the sweep's age */
    RQLI_ARGUMENT_FROM,   /* where in a queue this call begins */
    RQLI_ARGUMENT_DRY_RUN,
    RQLI_ARGUMENT_RANDOM, /* random number for a hand-over at random */
};

/* Selects one of the numbers in a script's reply. */
enum rqli_rule_number {
    RQLI_NUMBER_NONE,
    RQLI_NUMBER_FIRST,
    RQLI_NUMBER_SECOND,
    RQLI_NUMBER_THIRD
};

enum { RQLI_RULE_ARGUMENTS = 4 };

void rqli_sweep_age_init(struct rqli_sweep_age *self, int64_t server_us, int64_t dead_ttl_ms);

struct rqli_sweep_rule {
    const char *prefix;  /* of the keys */
    const char *pattern; /* the same keys, for messages */
    enum rqli_inspection inspection;
    /* For locks, whose grant was inspected; NULL: the rule wants all. */
    bool (*wants)(const struct rqli_sweep *sweep, const struct rqli_reply *grant);
    enum rqli_script_id script;
    enum rqli_rule_argument arguments[RQLI_RULE_ARGUMENTS]; /* ends with NONE */

    /* How the reply is counted. Its first number says how many keys or requests were removed. */
    bool counts_keys;   /* the first number counts keys */
    bool counts_queues; /* counts each queue that lost a request */
    enum rqli_rule_number requests;
    enum rqli_rule_number served; /* enum rqli_served */
    enum rqli_rule_number next;   /* for a script that goes through a queue in steps: where the next
                                     step begins, or -1. A dry run calls such a script as well */
};

enum rqli_sweep_verdict {
    RQLI_SWEEP_KEEP,
    RQLI_SWEEP_REMOVE,
    RQLI_SWEEP_MALFORMED, /* the reply is malformed */
};

/* Writes the one command that inspects a key. The command's name is for messages. */
void rqli_rule_inspect(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                       struct rqli_command *command, struct rqli_slice key);
const char *rqli_inspection_name(enum rqli_inspection inspection);

enum rqli_sweep_verdict rqli_rule_judge(const struct rqli_sweep_rule *self,
                                        const struct rqli_sweep *sweep,
                                        const struct rqli_reply *seen);

void rqli_rule_write(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                     const struct rqli_sweep_target *target, struct rqli_call *call);

/* Counts the result of the script. True: the script has to be called again. */
bool rqli_rule_count(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                     struct rqli_sweep_target *target, const struct rqli_outcome *outcome);

extern const struct rqli_sweep_rule rqli_rule_all_queues;
extern const struct rqli_sweep_rule rqli_rule_all_locks;
extern const struct rqli_sweep_rule rqli_rule_locks_of;      /* the owner */
extern const struct rqli_sweep_rule rqli_rule_requests_of;   /* the owner */
extern const struct rqli_sweep_rule rqli_rule_dead_requests; /* of the age */
extern const struct rqli_sweep_rule rqli_rule_zombie_locks;  /* of dead hosts */
extern const struct rqli_sweep_rule rqli_rule_zombie_requests;

#endif
