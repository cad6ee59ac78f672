#ifndef RQLI_SWEEP_STATE_H
#define RQLI_SWEEP_STATE_H

/* The state of a sweep: its arguments, its progress, and its result. */

#include "admin/pages.h"
#include "net/op/op.h"

#include <rql/sweep.h>

enum { RQLI_SWEEP_PARTS_MAX = 2, RQLI_SWEEP_SECONDS_SIZE = 32 };

struct rqli_sweep_rule;

/* The age of requests: those with a time up to oldest_us (server time) may be dead. */
struct rqli_sweep_age {
    int64_t oldest_us;
    char seconds[RQLI_SWEEP_SECONDS_SIZE]; /* the same time in the form of a score */
};

/* The keys of one rule. */
struct rqli_sweep_part {
    const struct rqli_sweep_rule *rule;
    int64_t batch_size; /* COUNT of SCAN, and keys in a batch as far as that allows */
    struct rqli_walk walk;
};

/* A key that is to be swept. */
struct rqli_sweep_target {
    struct rqli_slice key;
    const struct rqli_reply *seen; /* the reply of the inspection, copied into memory */
    char *memory;                  /* the allocation of seen and of keys */
    struct rqli_keys keys;
    int64_t from;    /* where the next step begins */
    int64_t removed; /* requests or keys that earlier steps removed */
    int64_t served;  /* the last enum rqli_served but 0 of all steps */
    bool goes_on;    /* another step follows, or the queue is still to be served */
    bool is_serving;
};

/* The kinds of calls in a round. */
enum rqli_sweep_phase {
    RQLI_SWEEP_BEGIN,
    RQLI_SWEEP_FIND,    /* a page of SCAN */
    RQLI_SWEEP_MEASURE, /* how large the keys of a batch are */
    RQLI_SWEEP_INSPECT, /* the keys that go into a round together */
    RQLI_SWEEP_CALL,    /* scripts, for those keys that the rule wants */
};

struct rqli_sweep {
    struct rqli_op op; /* first */
    rql_client *client;
    rql_sweep_options options;
    rql_error *error; /* gets the fault; or NULL */

    /* The owner, the age or the hosts that the rules are about; each rule needs one of them at
     * most. */
    const rql_sweep_owner *owner;
    struct rqli_sweep_age age;
    const struct rqli_list *dead_hosts; /* sorted */
    const bool *partitions;             /* only their servers are swept; NULL: all */

    struct rqli_list *locks;     /* gets the keys of the locks that were removed; or NULL */
    struct rqli_list *acquirers; /* gets the ids of their holders; or NULL */
    rql_sweep_result result;
    int64_t done; /* keys that were inspected */
    int64_t found;
    struct rqli_sweep_part parts[RQLI_SWEEP_PARTS_MAX];
    size_t n_parts;

    enum rqli_sweep_phase phase;
    size_t part;                    /* the part that is being swept, or found */
    size_t first;                   /* of its keys: the batch under way begins there, */
    size_t n_batch;                 /* and has so many */
    size_t at;                      /* in the batch: the round begins there, */
    size_t n_at;                    /* and has so many */
    const struct rqli_key_set *set; /* the set of all keys of the batch */
    struct rqli_retries retries;    /* of these keys, */
    bool has_moved;                 /* which have moved, and are asked for at another node */
    int64_t item_count;             /* items of the key whose memory comes next */
    struct rqli_cost costs[RQLI_BATCH_KEYS]; /* of the batch */
    struct rqli_sweep_target targets[RQLI_BATCH_KEYS];
    size_t n_targets;
};

#endif
