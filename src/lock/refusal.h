#ifndef RQLI_REFUSAL_H
#define RQLI_REFUSAL_H

/* Describes a refused acquisition as data and in the gem's words. */

#include "lock/acquire.h"

#include <rql/inspect.h>

/* Fills options->refusal for this outcome. Asks the server for holder and queue if that is wanted;
 * what cannot be had then is left out. */
void rqli_refusal_fill(const rql_lock *lock, const rql_lock_options *options, rql_status reason,
                       const struct rqli_acquire_result *result);

#endif
