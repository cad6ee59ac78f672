#ifndef RQLI_HISTOGRAM_H
#define RQLI_HISTOGRAM_H

/* The buckets of rql_histogram. */

#include <rql/stats.h>

/* Returns the bucket in which this time is counted. */
size_t rqli_histogram_bucket(int64_t time_us);

/* Returns the longest time that is counted in this bucket, or in the last one. */
int64_t rqli_histogram_upper(size_t bucket);

#endif
