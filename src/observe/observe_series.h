#ifndef RQLI_OBSERVE_SERIES_H
#define RQLI_OBSERVE_SERIES_H

/* What there is to hear of a series; as observe.h. */

#include "lock/series.h"

/* Asks the samplers. */
void rqli_observe_series_init(rql_series *series, const struct rqli_series_plan *plan);

void rqli_observe_series_started(const rql_series *series, const struct rqli_series_plan *plan);

/* One that is acquired by a call of its own is heard by whoever hears the series. */
void rqli_observe_series_member(const rql_series *series, rql_lock_options *options);

/* The same for those of an atomic series, once they are made. */
void rqli_observe_series_members(rql_series *series);

/* Those of an atomic series are all held. */
void rqli_observe_series_taken(const rql_series *series);
void rqli_observe_series_obtained(const rql_series *series);

/* An atomic one was not acquired. */
void rqli_observe_series_refused(const rql_series *series, const struct rqli_acquire_result *result,
                                 rql_status status);

/* One that failed gave back what it had: its first `count` locks. */
void rqli_observe_series_returned(const rql_series *series, rql_status status);

void rqli_observe_series_ending(const rql_series *series);
void rqli_observe_series_ended(const rql_series *series, rql_status status);

#endif
