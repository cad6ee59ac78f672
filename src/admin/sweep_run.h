#ifndef RQLI_SWEEP_RUN_H
#define RQLI_SWEEP_RUN_H

/* The engine of all sweeps: find keys by SCAN, look at them in batches, call one script for each
 * that meets a rule's condition, count. The script repeats the condition where it matters, so what
 * changed since the look is left alone. A rule says what is looked at, what is wanted and what the
 * script is told; rules.c has those of the public calls. Runs on its caller's thread. */

#include "admin/scan.h"
#include "wire/answer.h"
#include "wire/call.h"

#include <rql/sweep.h>

enum { RQLI_SWEEP_TEXTS = 4 }; /* that one look brings at most */

/* More than that is counted under no key; what a server says beyond is nonsense. */
#define RQLI_SWEEP_COUNT_MAX (INT64_C(1) << 40)

struct rqli_sweep;

/* One key that is to be swept. */
struct rqli_sweep_target {
    struct rqli_slice key;
    const struct rqli_reply *seen; /* the reply to the look */
    int64_t from;                  /* for rules that go through a key in steps: where this begins */
    int64_t removed;               /* by earlier steps */
    int64_t served;                /* enum rqli_served, by all steps, as note() has found */
};

enum rqli_sweep_verdict {
    RQLI_SWEEP_LEAVE,
    RQLI_SWEEP_END,
    RQLI_SWEEP_NONSENSE, /* no such reply exists */
};

struct rqli_sweep_rule {
    const char *prefix;     /* of the keys */
    const char *where;      /* the same as a pattern, for messages */
    const char *look;       /* name of the looking command, for messages */
    bool reads_texts;       /* the look brings texts of any size: sizes are asked for first */
    bool previews_by_calls; /* a dry run calls the script, which then changes nothing */
    enum rqli_script_id script;

    /* Writes the one command that looks. */
    void (*ask)(const struct rqli_sweep *sweep, struct rqli_command *command,
                struct rqli_slice key);
    enum rqli_sweep_verdict (*judge)(const struct rqli_sweep *sweep, const struct rqli_reply *seen);
    /* The words of the script call. */
    void (*tell)(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target,
                 struct rqli_call *call);
    /* Counts what the script did. True: call it again, from target->from. */
    bool (*note)(struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                 const struct rqli_outcome *outcome);
    /* Counts what the script would do; NULL with previews_by_calls. */
    void (*preview)(struct rqli_sweep *sweep, const struct rqli_reply *seen);
};

/* All keys of one rule. */
struct rqli_sweep_part {
    const struct rqli_sweep_rule *rule;
    int64_t batch_size; /* COUNT of SCAN, and keys in a batch as far as that allows */
    struct rqli_scan scan;
    bool is_taught; /* the server knows the script */
};

struct rqli_sweep {
    rql_client *client;
    const rql_sweep_options *options;
    rql_error *error;
    const void *subject; /* whom or what the rules are about, as they know it */
    void *notes;         /* what they keep of it, or NULL */
    rql_sweep_result result;
    int64_t done; /* keys looked at */
    int64_t found;
    char *memory; /* for the names of one lock's keys */
    size_t room;
};

void rqli_sweep_fini_p(struct rqli_sweep *self);

/* Any thread. Finds the keys of all parts, then sweeps part after part. RQL_STOPPED, or a fault
 * where it ended; the result has what was done by then. Scans are the caller's to end. */
rql_status rqli_sweep_run(struct rqli_sweep *self, struct rqli_sweep_part *parts, size_t count);

#endif
