#ifndef RQLI_RULES_H
#define RQLI_RULES_H

/* The rules of the sweeps: which keys they are about, and what they do with them. No I/O here. */

#include "admin/sweep_state.h"
#include "wire/answer.h"
#include "wire/command.h"

/* What a rule removes, which decides how the reply of its script is counted. */
enum rqli_sweep_kind {
    RQLI_SWEEPS_LOCKS,
    RQLI_SWEEPS_SHARES, /* of locks of several; each such lock counts as one */
    RQLI_SWEEPS_QUEUES,
    RQLI_SWEEPS_REQUESTS,
};

/* Arguments of the script of a rule. */
enum rqli_rule_argument {
    RQLI_ARGUMENT_NONE,
    RQLI_ARGUMENT_ACQUIRER, /* of the owner; "": of any */
    RQLI_ARGUMENT_HOST,     /* of the owner */
    RQLI_ARGUMENT_OLDEST,   /* the sweep's oldest_us */
    RQLI_ARGUMENT_FROM,     /* where in a queue, or at which cursor of shares, it begins */
    RQLI_ARGUMENT_DRY_RUN,
    RQLI_ARGUMENT_RANDOM, /* random number for a hand-over at random */
};

enum { RQLI_RULE_ARGUMENTS = 4 };

struct rqli_sweep_rule {
    enum rqli_sweep_kind kind;
    const char *prefix;  /* of the keys */
    const char *pattern; /* the same keys, for messages */
    enum rqli_script_id script;
    enum rqli_rule_argument arguments[RQLI_RULE_ARGUMENTS]; /* ends with NONE */
    bool is_paged; /* the script goes through a key page by page, one call for each */
};

/* Returns whether the rule ends locks, or shares of them. */
static inline bool rqli_rule_ends_locks(const struct rqli_sweep_rule *self)
{
    return self->kind == RQLI_SWEEPS_LOCKS || self->kind == RQLI_SWEEPS_SHARES;
}

void rqli_rule_write(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                     const struct rqli_sweep_target *target, struct rqli_call *call);

/* Counts the answer of the script. True: the script has to be called again. */
bool rqli_rule_count(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                     struct rqli_sweep_target *target, const struct rqli_outcome *outcome);

/* Lists those who held the lock that was removed, or had a share of it, adds their holds to the
 * history, and reports the loss to the leases of this client. */
void rqli_rule_note_owners(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                           const struct rqli_sweep_target *target, const struct rqli_reply *reply);

extern const struct rqli_sweep_rule rqli_rule_queues;
extern const struct rqli_sweep_rule rqli_rule_locks;         /* of the owner, or all */
extern const struct rqli_sweep_rule rqli_rule_shares;        /* of the owner */
extern const struct rqli_sweep_rule rqli_rule_requests;      /* of the owner */
extern const struct rqli_sweep_rule rqli_rule_dead_requests; /* of oldest_us */
extern const struct rqli_sweep_rule rqli_rule_zombie_locks;  /* of dead hosts */
extern const struct rqli_sweep_rule rqli_rule_zombie_shares;
extern const struct rqli_sweep_rule rqli_rule_zombie_requests;

#endif
