#ifndef RQLI_ROWS_H
#define RQLI_ROWS_H

/* The counters and times of rql_stats for output: one table for JSON and OpenMetrics. */

#include <rql/stats.h>

struct rqli_stats_row {
    const char *family; /* rows of one family follow each other */
    const char *help;   /* of the family; NULL: not its first row */
    const char *label;  /* NULL: the family's only row */
    const char *value;  /* of the label */
    size_t offset;      /* in rql_stats */
};

/* Returns the index-th counter, or NULL past the last one. */
const struct rqli_stats_row *rqli_stats_counter_at(size_t index);

/* Returns the same for times; offset is that of a rql_histogram. */
const struct rqli_stats_row *rqli_stats_times_at(size_t index);

int64_t rqli_stats_counter_of(const rql_stats *stats, const struct rqli_stats_row *row);
const rql_histogram *rqli_stats_times_of(const rql_stats *stats, const struct rqli_stats_row *row);

#endif
