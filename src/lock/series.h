#ifndef RQLI_SERIES_H
#define RQLI_SERIES_H

/* Several locks as one: what the calls of series.h share. A mode that takes all locks in one step,
 * or those of each partition, works by groups: ::RQL_SERIES_ATOMIC has one. */

#include "base/result.h"
#include "lock/acquisition.h"

#include <rql/series.h>

/* Of rql_series_result in its first version. */
#define RQLI_SERIES_RESULT_SIZE RQLI_UP_TO(rql_series_result, fate)

struct rql_series {
    rql_client *client;
    size_t count;     /* how many are held so far */
    int64_t begun_us; /* when the last of them was asked for with success: the time of a block
                         counts from here */
    int64_t held_us;  /* when all were held */
    int64_t acq_time_us;
    struct rqli_subject subject;
    const char *keys[RQL_SERIES_MAX]; /* in the given order */
    size_t places[RQL_SERIES_MAX];    /* the place in that order of each of: */
    rql_lock *locks[RQL_SERIES_MAX];  /* in the order in which they are taken */
};

rql_series *rqli_series_free(rql_series *series);

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

/* The acquisition of a series decides which locks are acquired next, and when they are given back.
 * A thread or a loop takes the steps, which are those of series_calls.c. */

enum rqli_series_step {
    RQLI_SERIES_ACQUIRE,   /* acquire what rqli_series_ask() says, then rqli_series_on_acquired() */
    RQLI_SERIES_GIVE_BACK, /* give back what is held, then rqli_series_on_returned() */
    RQLI_SERIES_CONCLUDE   /* call rqli_series_conclude() */
};

struct rqli_series_acquire {
    struct rqli_series_plan plan;
    rql_series *series; /* NULL: there was no memory for it */
    rql_series_result result;
    int64_t begun_us;         /* when the series was asked for */
    int64_t asked_us;         /* when the locks were: their deadline counts from here */
    rql_lock_options options; /* of the locks that are acquired next */
    struct rqli_acquire_several several;
    rql_status status;
};

/* Makes the series, with its locks, and reports its start. Caller has set plan and begun_us, and
 * sets asked_us before the first rqli_series_ask(). number: of the acquirer; 0: it is this thread,
 * or the task of the options. */
enum rqli_series_step rqli_series_begin(struct rqli_series_acquire *self, rql_client *client,
                                        uint64_t number, rql_error *error);

/* Fills in the acquisition of the next locks, which may be one. */
void rqli_series_ask(struct rqli_series_acquire *self, struct rqli_acquire *acquire);

/* The acquisition is over; if it failed, the caller has raised that in `error`. is_cancelled: the
 * series was cancelled meanwhile. Raises a fault here if the locks cannot be kept all the same. */
enum rqli_series_step rqli_series_on_acquired(struct rqli_series_acquire *self,
                                              const struct rqli_acquire *acquire, bool is_cancelled,
                                              rql_error *error);

/* Reports that the held locks were given back, as after a failed acquisition. */
void rqli_series_on_returned(const rql_series *series, rql_status status);

/* Reports the result, which is self->status. Returns the series if it is held; otherwise frees it
 * and returns NULL. */
rql_series *rqli_series_conclude(struct rqli_series_acquire *self);

/* Fills in what the result says about a release with this status. result: may be NULL. */
void rqli_series_note_ended(const rql_series *series, rql_status status, rql_series_result *result);

/* Reports that the series was released, and notes it in the result, which may be NULL. */
void rqli_series_on_released(const rql_series *series, rql_status status,
                             rql_series_result *result);

#endif
