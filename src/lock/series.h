#ifndef RQLI_SERIES_H
#define RQLI_SERIES_H

/* Several locks as one: what the calls of series.h share. What takes all locks in one step, or
 * those of each partition, goes by groups: ::RQL_SERIES_ATOMIC has one. */

#include "lock/acquisition.h"

#include <rql/series.h>

struct rql_series {
    rql_client *client;
    size_t count;     /* how many are held so far */
    int64_t begun_us; /* when the last of them was asked for with success: a block's time runs */
    int64_t held_us;  /* when all were there */
    int64_t acq_time_us;
    struct rqli_subject subject;      /* named once its locks are made */
    const char *keys[RQL_SERIES_MAX]; /* in the given order */
    size_t places[RQL_SERIES_MAX];    /* in that, of each of: */
    rql_lock *locks[RQL_SERIES_MAX];  /* in the order in which they are taken */
};

/* What was asked for, read and checked. */
struct rqli_series_plan {
    rql_series_options options;
    rql_lock_options lock;
    bool stops_renewal;            /* that is on only until all are held */
    size_t places[RQL_SERIES_MAX]; /* of the names, in the order in which they are taken */
    size_t order[RQL_SERIES_MAX];  /* of the locks of a group, sorted bytewise: the canonical order,
                                      in which the scripts take them */
};

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_client *client,
                            const rql_series_options *given, rql_error *error);

/* The gem's ttl of the index-th of `count` locks: the first outlives the waits for all. */
int64_t rqli_series_ttl_ms(const rql_lock_options *options, size_t count, size_t index);

/* rql_series_acquire() in steps: for series.c (a thread) and async_series.c (a loop). */

/* NULL: no memory. */
rql_series *rqli_series_new(rql_client *client, const struct rqli_series_plan *plan);
rql_series *rqli_series_free(rql_series *series);

/* Not in the gem's mode: makes its locks. number: of the acquirer, or 0: this thread, or the task
 * of the options. False: no memory. */
bool rqli_series_prepare(rql_series *series, const struct rqli_series_plan *plan, uint64_t number);
/* Fills in the acquisition of the next group, of which several is set, and all else zero. */
void rqli_series_ask(const rql_series *series, const struct rqli_series_plan *plan,
                     struct rqli_acquire *acquire);
/* That is over. RQL_OK: the group is held. Else its status, or that one of those before was lost
 * meanwhile: what is held is to be given back. */
rql_status rqli_series_on_acquired(rql_series *series, const struct rqli_acquire *acquire,
                                   rql_series_result *result, rql_error *error);

/* The gem's mode: one that is acquired by a call of its own is heard by whoever hears the series.
 */
void rqli_series_share_listeners(const rql_series *series, rql_lock_options *options);
/* The next of its locks was acquired; NULL: it was not. True: there is another one to acquire. */
bool rqli_series_on_part(rql_series *series, const struct rqli_series_plan *plan, rql_lock *lock,
                         rql_series_result *result);

/* Either mode: reports the result. series: NULL, there was no memory for it. Returns what is
 * held; NULL: nothing, and it is freed. */
rql_series *rqli_series_conclude(rql_series *series, const struct rqli_series_plan *plan,
                                 int64_t begun_us, rql_status status, rql_series_result *result);

/* It failed and gave back what it had. */
void rqli_series_on_returned(const rql_series *series, rql_status status);
/* result: or NULL. */
void rqli_series_on_released(rql_series *series, rql_status status, rql_series_result *result);

#endif
