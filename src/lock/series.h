#ifndef RQLI_SERIES_H
#define RQLI_SERIES_H

/* Several locks as one: what the calls of series.h share. */

#include "lock/acquire.h"

#include <rql/series.h>

struct rql_series {
    rql_client *client;
    size_t count;
    int64_t begun_us; /* when the last of them was asked for with success: a block's time runs */
    int64_t held_us;  /* when all were there */
    int64_t acq_time_us;
    struct rqli_subject subject; /* named once its locks are made */
    const char *keys[RQL_SERIES_MAX];
    rql_lock *locks[RQL_SERIES_MAX]; /* in the given order */
};

/* What was asked for, read and checked. */
struct rqli_series_plan {
    rql_series_options options;
    rql_lock_options lock;
    size_t order[RQL_SERIES_MAX]; /* of the names, sorted bytewise: the canonical order */
};

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_lock_options *defaults,
                            const rql_series_options *given, rql_error *error);

/* The gem's ttl of the index-th of `count` locks: the first outlives the waits for all. */
int64_t rqli_series_ttl_ms(const rql_lock_options *options, size_t count, size_t index);

/* rql_series_acquire() in steps: for series.c (a thread) and async/series.c (a loop). NULL: no
 * memory. */
rql_series *rqli_series_new(rql_client *client, const struct rqli_series_plan *plan);
rql_series *rqli_series_free(rql_series *series);
bool rqli_series_make_locks(rql_series *series, const struct rqli_series_plan *plan);
/* One that is acquired by a call of its own is heard by whoever hears the series. */
void rqli_series_share_listeners(const rql_series *series, rql_lock_options *options);
/* The same for those of an atomic series, once they are made. */
void rqli_series_share_with_all(rql_series *series, const struct rqli_series_plan *plan);
/* An atomic one: what the options want to know of its refusal, with questions to the server. */
void rqli_series_fill_refusal(rql_series *series, const struct rqli_series_plan *plan,
                              const struct rqli_acquire_result *acquired, rql_status status,
                              const rql_series_result *result);
/* An atomic one: refused; or granted, and now kept. On a fault it is still to be given back. */
void rqli_series_on_refused(rql_series *series, const struct rqli_series_plan *plan,
                            const struct rqli_acquire_result *acquired, rql_status status,
                            rql_series_result *result);
rql_status rqli_series_on_granted(rql_series *series, const struct rqli_series_plan *plan,
                                  const struct rqli_acquire_result *acquired,
                                  rql_series_result *result, rql_error *error);
/* Either mode: what it came to. */
void rqli_series_on_end(rql_series *series, int64_t begun_us, rql_status status,
                        rql_series_result *result);

/* Takes the first `count` locks from the keeper's list. */
void rqli_series_unlist(rql_series *series, size_t count);
/* result: or NULL. */
void rqli_series_on_released(rql_series *series, rql_status status, rql_series_result *result);

#endif
