#ifndef RQLI_SWEEP_H
#define RQLI_SWEEP_H

/* A sweep finds keys by SCAN, inspects them in batches, calls one script for each that its rule
 * wants and counts. The script repeats the condition where it matters, so what has changed since
 * the inspection is kept. It is an operation: a thread or a loop drives it. */

#include "admin/sweep_state.h"

/* Before the run. The options say how large a batch is. */
void rqli_sweep_add(struct rqli_sweep *self, const struct rqli_sweep_rule *rule,
                    int64_t batch_size);

/* The operation, to be driven. It finds the keys of all parts, then sweeps part after part.
 * RQL_STOPPED, or a fault where it ended; the result has what was done by then. */
struct rqli_op *rqli_sweep_begin(struct rqli_sweep *self);
void rqli_sweep_fini_p(struct rqli_sweep *self);

#endif
