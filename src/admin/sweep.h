#ifndef RQLI_SWEEP_H
#define RQLI_SWEEP_H

/* A sweep finds keys by SCAN, calls one script for each key, in batches, and counts. The script
 * decides whether the rule wants the key. A sweep is an operation: a thread or a loop drives it. */

#include "admin/sweep_state.h"

/* Adds a rule before the run. The options say how large a batch is. */
void rqli_sweep_add(struct rqli_sweep *self, const struct rqli_sweep_rule *rule,
                    int64_t batch_size);

/* Returns the operation, to be driven. It finds the keys of all parts, then sweeps part after
 * part. Its status is RQL_STOPPED, or the fault that ended it; the result counts all that was done
 * before. */
struct rqli_op *rqli_sweep_begin(struct rqli_sweep *self);
void rqli_sweep_fini_p(struct rqli_sweep *self);

#endif
