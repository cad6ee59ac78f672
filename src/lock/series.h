#ifndef RQLI_SERIES_H
#define RQLI_SERIES_H

/* Several locks as one: the parts that the calls of series.h share. A mode that takes all locks in
 * one step, or those of each partition, works by groups: ::RQL_SERIES_ATOMIC has one. */

#include "lock/acquisition.h"

#include <rql/series.h>

struct rql_series {
    rql_client *client;
    size_t count;     /* how many are held so far */
    int64_t begun_us; /* when the last of them was asked for with success: the time of a block
                         counts from here */
    int64_t held_us;  /* when all were held */
    int64_t acq_time_us;
    struct rqli_subject subject;      /* gets its names once the locks are made */
    const char *keys[RQL_SERIES_MAX]; /* in the given order */
    size_t places[RQL_SERIES_MAX];    /* the place in that order of each of: */
    rql_lock *locks[RQL_SERIES_MAX];  /* in the order in which they are taken */
};

/* The series that was asked for, read and checked. */
struct rqli_series_plan {
    rql_series_options options;
    rql_lock_options lock;
    bool stops_renewal;            /* renewal is on only until all are held */
    size_t places[RQL_SERIES_MAX]; /* of the names, in the order in which they are taken */
    size_t order[RQL_SERIES_MAX];  /* of the locks of a group, sorted bytewise: the canonical order,
                                      in which the scripts take them */
};

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_client *client,
                            const rql_series_options *given, rql_error *error);

/* Returns the gem's ttl of the index-th of `count` locks: the first outlives the waits for all. */
int64_t rqli_series_ttl_ms(const rql_lock_options *options, size_t count, size_t index);

/* The steps of rql_series_acquire(), for series.c (a thread) and async_series.c (a loop). */

/* Makes a series without locks. NULL: no memory. */
rql_series *rqli_series_new(rql_client *client, const struct rqli_series_plan *plan);
rql_series *rqli_series_free(rql_series *series);

/* Makes the locks of a series; not in the gem's mode. number: of the acquirer; 0: it is this
 * thread, or the task of the options. False: no memory. */
bool rqli_series_prepare(rql_series *series, const struct rqli_series_plan *plan, uint64_t number);
/* Fills in the acquisition of the next group, of which several is set and count is zero. */
void rqli_series_ask(const rql_series *series, const struct rqli_series_plan *plan,
                     struct rqli_acquire *acquire);
/* The acquisition is over. Returns RQL_OK if the group is held. Otherwise returns its status, or a
 * fault if a lock of an earlier group was lost meanwhile: the held locks have to be given back. */
rql_status rqli_series_on_acquired(rql_series *series, const struct rqli_acquire *acquire,
                                   rql_series_result *result, rql_error *error);

/* Gives a lock the listeners of the series, also one that the gem's mode acquires by a call of its
 * own. */
void rqli_series_share_listeners(const rql_series *series, rql_lock_options *options);
/* The next lock was acquired; NULL: it was not. Returns true if there is another one to acquire. */
bool rqli_series_on_part(rql_series *series, const struct rqli_series_plan *plan, rql_lock *lock,
                         rql_series_result *result);

/* Reports the result, in each mode. series: NULL if there was no memory for it. Returns the series
 * if it is held; otherwise frees it and returns NULL. */
rql_series *rqli_series_conclude(rql_series *series, const struct rqli_series_plan *plan,
                                 int64_t begun_us, rql_status status, rql_series_result *result);

/* Reports that the locks were given back, as after a failed acquisition. */
void rqli_series_on_returned(const rql_series *series, rql_status status);
/* Reports that the series was released. result: may be NULL. */
void rqli_series_on_released(rql_series *series, rql_status status, rql_series_result *result);

#endif
