#ifndef RQLI_SWEEP_STATE_H
#define RQLI_SWEEP_STATE_H

/* A sweep under way: what it is about, how far it is, and what it has found. */

#include "admin/pages.h"
#include "net/op.h"

#include <rql/sweep.h>

enum { RQLI_SWEEP_PARTS_MAX = 2, RQLI_SWEEP_SECONDS_SIZE = 32 };

struct rqli_sweep_rule;

/* Age of requests: those up to oldest_us (server time) may be dead. */
struct rqli_sweep_age {
    int64_t oldest_us;
    char seconds[RQLI_SWEEP_SECONDS_SIZE]; /* the same as scores are written */
};

/* All keys of one rule. */
struct rqli_sweep_part {
    const struct rqli_sweep_rule *rule;
    int64_t batch_size; /* COUNT of SCAN, and keys in a batch as far as that allows */
    struct rqli_walk walk;
};

/* One key that is to be swept. */
struct rqli_sweep_target {
    struct rqli_slice key;
    const struct rqli_reply *seen; /* the reply of the inspection, in memory */
    char *memory;                  /* of that, and of keys */
    struct rqli_keys keys;
    int64_t from;    /* of the next step */
    int64_t removed; /* by earlier steps */
    int64_t served;  /* by all steps */
    bool goes_on;    /* there is a step to come, or the queue is still to be served */
    bool is_serving;
};

/* What the calls of a round are. */
enum rqli_sweep_phase {
    RQLI_SWEEP_BEGIN,
    RQLI_SWEEP_FIND,    /* a page of SCAN */
    RQLI_SWEEP_MEASURE, /* how large the keys of a batch are */
    RQLI_SWEEP_INSPECT, /* those that go into a round together */
    RQLI_SWEEP_CALL,    /* scripts, for those of them that the rule wants */
};

struct rqli_sweep {
    struct rqli_op op; /* first */
    rql_client *client;
    rql_sweep_options options;
    rql_error *error; /* gets the fault; or NULL */

    /* Whom or what the rules are about; each needs one of them at most. */
    const rql_sweep_owner *owner;
    struct rqli_sweep_age age;
    const struct rqli_list *dead_hosts; /* sorted */
    const bool *partitions;             /* whose servers are swept; NULL: all */

    struct rqli_list *locks;     /* gets the keys of the locks that were removed; or NULL */
    struct rqli_list *acquirers; /* and gets who held them */
    rql_sweep_result result;
    int64_t done; /* keys that were inspected */
    int64_t found;
    struct rqli_sweep_part parts[RQLI_SWEEP_PARTS_MAX];
    size_t n_parts;

    enum rqli_sweep_phase phase;
    size_t part;                             /* that is being swept, or found */
    size_t first;                            /* of its keys: the batch under way begins there, */
    size_t n_batch;                          /* and has so many */
    size_t at;                               /* in the batch: the round begins there, */
    size_t n_at;                             /* and has so many */
    const struct rqli_key_set *set;          /* of all keys of the batch */
    struct rqli_retries retries;             /* of those, */
    bool has_moved;                          /* and they are to be asked for elsewhere */
    int64_t item_count;                      /* of the key whose memory comes next */
    struct rqli_cost costs[RQLI_BATCH_KEYS]; /* of the batch */
    struct rqli_sweep_target targets[RQLI_BATCH_KEYS];
    size_t n_targets;
};

#endif
