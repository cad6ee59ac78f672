#ifndef RQLI_SWEEP_STATE_H
#define RQLI_SWEEP_STATE_H

/* The state of a sweep: its arguments, its progress, and its result. */

#include "admin/pages.h"
#include "net/op/op.h"

#include <rql/sweep.h>

enum { RQLI_SWEEP_PARTS_MAX = 3, RQLI_SWEEP_KEYS = 100 /* of a batch */ };

struct rqli_sweep_rule;

/* The keys of one rule. */
struct rqli_sweep_part {
    const struct rqli_sweep_rule *rule;
    int64_t batch_size; /* COUNT of SCAN, and keys in a batch as far as that allows */
    struct rqli_walk walk;
};

/* A key that is being swept. */
struct rqli_sweep_target {
    struct rqli_slice key;
    struct rqli_keys keys; /* of its lock, in `memory` */
    char *memory;
    int64_t length;  /* of the queue, when its first step began */
    int64_t pages;   /* of shares that have been read */
    int64_t from;    /* where the next step begins: a place in the queue, or a cursor of shares */
    int64_t removed; /* requests, shares or keys that earlier steps removed */
    int64_t served;  /* the last enum rqli_served but 0 of all steps */
    bool goes_on;    /* another step follows, or the queue is still to be served */
    bool is_serving;
};

/* The kinds of calls in a round. */
enum rqli_sweep_phase {
    RQLI_SWEEP_BEGIN,
    RQLI_SWEEP_FIND, /* a page of SCAN */
    RQLI_SWEEP_CALL, /* the rule's script, for each key of a batch */
};

struct rqli_sweep {
    struct rqli_op op; /* first */
    rql_client *client;
    rql_sweep_options options;
    rql_error *error; /* gets the fault; or NULL */

    const rql_sweep_owner *owner; /* whose locks and requests are swept; NULL: those of all */
    int64_t oldest_us;            /* requests up to this time, by the server's clock, may be dead */
    const bool *partitions;       /* only their servers are swept; NULL: all */

    struct rqli_list *locks;     /* gets the keys of the locks that were removed; or NULL */
    struct rqli_list *acquirers; /* gets the ids of their holders; or NULL */
    rql_sweep_result result;
    int64_t done; /* keys that were swept */
    int64_t found;
    struct rqli_sweep_part parts[RQLI_SWEEP_PARTS_MAX];
    size_t n_parts;

    enum rqli_sweep_phase phase;
    size_t part;  /* the part that is being swept, or found */
    size_t first; /* of its keys: the next batch begins there */
    struct rqli_sweep_target targets[RQLI_SWEEP_KEYS];
    size_t n_targets; /* those that go on */
    size_t n_batch;   /* the keys of the batch */
};

#endif
