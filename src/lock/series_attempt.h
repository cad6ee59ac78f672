#ifndef RQLI_SERIES_ATTEMPT_H
#define RQLI_SERIES_ATTEMPT_H

/* The acquisition of an atomic series, in steps: for attempt.c (a thread) and async/series.c
 * (a loop). */

#include "lock/attempt_inside.h"
#include "lock/series.h"

/* An atomic series is one request that stands in several queues, in each under a nonce of its own.
 */
struct series_attempt {
    struct attempt attempt; /* first: it is handed on as one */
    const struct rqli_series_plan *plan;
    struct rqli_series_outcome *out;
    size_t count;
    rql_lock *locks[RQL_SERIES_MAX]; /* in canonical order, as all below */
    const struct rqli_keys *keys[RQL_SERIES_MAX];
    char nonces[RQL_SERIES_MAX * (RQLI_HEX_SIZE - 1) + 1]; /* all in a row */
};

void rqli_series_attempt_init(struct series_attempt *self, rql_series *series,
                              const struct rqli_series_plan *plan, struct rqli_series_outcome *out);

/* A run of acquire_series.lua, and what its answer leads to. The attempt is a series_attempt's. */
void rqli_series_attempt_write(const struct attempt *self, struct rqli_call *call, int64_t now_us);
struct rqli_try rqli_series_attempt_read(struct attempt *attempt,
                                         const struct rqli_exchange *exchange, rql_error *error);

/* A push can only tell it to look: nobody else grants to a series. */
enum rqli_wait_result rqli_series_attempt_take_push(struct attempt *self);

#endif
