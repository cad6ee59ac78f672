#include "base/result.h"
#include "base/text.h"
#include "observe/histogram.h"

#include <inttypes.h>
#include <rql/stats.h>

/*
 * Statistics as text: in the OpenMetrics format, as Prometheus scrapes it, and in JSON. Both follow
 * the table of counters.def.
 */

/* A counter or a histogram of rql_stats. The rows of a family follow each other. */
struct row {
    const char *family;
    const char *help;  /* of the family; NULL: not its first row */
    const char *label; /* NULL: the family's only row */
    const char *value; /* of the label */
    size_t offset;     /* in rql_stats */
};

#define ROW(member, name, text, tag, word)                                                         \
    {.family = (name),                                                                             \
     .help = (text),                                                                               \
     .label = (tag),                                                                               \
     .value = (word),                                                                              \
     .offset = offsetof(rql_stats, member)},

static const struct row counters[] = {
#define COUNTER(constant, field, help) ROW(field, #field, help, NULL, NULL)
#define PART(constant, field, family, help, label, value) ROW(field, family, help, label, value)
/* rql_stats::faults is indexed by the status without its sign. */
#define FAULT(status, help, value) ROW(faults[-(status)], "faults", help, "status", value)
#include "observe/counters.def"
};

static const struct row histograms[] = {
#define TIMES(constant, field, help) ROW(field, #field, help, NULL, NULL)
#include "observe/counters.def"
};

enum {
    N_COUNTERS = sizeof counters / sizeof counters[0],
    N_HISTOGRAMS = sizeof histograms / sizeof histograms[0]
};

static int64_t counter_of(const rql_stats *stats, const struct row *row)
{
    int64_t value;

    memcpy(&value, (const char *)stats + row->offset, sizeof value);
    return value;
}

static const rql_histogram *histogram_of(const rql_stats *stats, const struct row *row)
{
    const void *field = (const char *)stats + row->offset;

    return field;
}

/* ---- OpenMetrics ---- */

/* The bounds in the output: powers of two from 16 us to 1074 s, which are bounds of buckets. */
enum { FIRST_BIT = 4, LAST_BIT = 30, SECOND_DIGITS = 6 };

static void write_metric(struct rqli_writer *out, const rql_stats *stats, const struct row *row)
{
    if (row->help) {
        rqli_write_format(out, "# TYPE rql_%s counter\n", row->family);
        rqli_write_format(out, "# HELP rql_%s %s\n", row->family, row->help);
    }
    rqli_write_format(out, "rql_%s_total", row->family);
    if (row->label) {
        rqli_write_format(out, "{%s=\"%s\"}", row->label, row->value);
    }
    rqli_write_format(out, " %" PRId64 "\n", counter_of(stats, row));
}

/* Writes cumulative counts, as the format requires, from the finer buckets of the histogram. Those
 * end one microsecond before a bound, so a time of exactly the bound is counted in the next one. A
 * name with a unit has to end in that unit. */
static void write_buckets(struct rqli_writer *out, const rql_histogram *times,
                          const struct row *row)
{
    int64_t below = 0;
    size_t at = 0;

    rqli_write_format(out, "# TYPE rql_%s_seconds histogram\n", row->family);
    rqli_write_format(out, "# UNIT rql_%s_seconds seconds\n", row->family);
    rqli_write_format(out, "# HELP rql_%s_seconds %s\n", row->family, row->help);
    for (unsigned bit = FIRST_BIT; bit <= LAST_BIT; bit++) {
        int64_t bound_us = INT64_C(1) << bit;

        for (; rqli_histogram_upper(at) < bound_us; at++) {
            below += times->bucket[at];
        }
        rqli_write_format(out, "rql_%s_seconds_bucket{le=\"", row->family);
        rqli_write_decimal(out, bound_us, SECOND_DIGITS);
        rqli_write_format(out, "\"} %" PRId64 "\n", below);
    }
    /* count is the sum of all buckets, and so never less than the last line. */
    rqli_write_format(out, "rql_%s_seconds_bucket{le=\"+Inf\"} %" PRId64 "\n", row->family,
                      times->count);
    rqli_write_format(out, "rql_%s_seconds_count %" PRId64 "\n", row->family, times->count);
    rqli_write_format(out, "rql_%s_seconds_sum ", row->family);
    rqli_write_decimal(out, times->sum_us, SECOND_DIGITS);
    rqli_write_text(out, "\n");
}

/* Like snprintf(), returns the length of the whole text, whether or not there was room for it.
 * Members that the struct of an earlier program lacks are 0. */
size_t rql_stats_openmetrics(const rql_stats *stats, char *buffer, size_t size)
{
    rql_stats all;
    struct rqli_writer out;

    rqli_result_fill(&all, sizeof all, stats, stats->size);
    rqli_writer_init(&out, buffer, size);
    for (size_t i = 0; i < N_COUNTERS; i++) {
        write_metric(&out, &all, &counters[i]);
    }
    for (size_t i = 0; i < N_HISTOGRAMS; i++) {
        write_buckets(&out, histogram_of(&all, &histograms[i]), &histograms[i]);
    }
    rqli_write_text(&out, "# EOF\n");
    return rqli_writer_end(&out);
}

/* ---- JSON ---- */

/* Rows with a label become an object under the name of their family: its first row has the help,
 * and so has the row after its last one, as the first of another family. A comma always fits,
 * because the times follow. */
static void write_member(struct rqli_writer *out, const rql_stats *stats, size_t index)
{
    const struct row *row = &counters[index];
    bool is_last = index + 1 == N_COUNTERS || row[1].help;

    if (row->label && row->help) {
        rqli_write_format(out, "\"%s\":{", row->family);
    }
    rqli_write_format(out, "\"%s\":%" PRId64, row->label ? row->value : row->family,
                      counter_of(stats, row));
    rqli_write_text(out, row->label && is_last ? "}," : ",");
}

/* Writes quantiles instead of buckets, because a person reads this. */
static void write_quantiles(struct rqli_writer *out, const rql_histogram *times,
                            const struct row *row)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"max_us", 1}};

    rqli_write_format(out, "\"%s\":{\"count\":%" PRId64 ",\"sum_us\":%" PRId64, row->family,
                      times->count, times->sum_us);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        int64_t time_us = rql_stats_quantile(times, shares[i].share);

        /* -1: there are no times. */
        rqli_write_format(out, ",\"%s\":%" PRId64, shares[i].name, time_us > 0 ? time_us : 0);
    }
    rqli_write_text(out, "}");
}

size_t rql_stats_json(const rql_stats *stats, char *buffer, size_t size)
{
    rql_stats all;
    struct rqli_writer out;

    rqli_result_fill(&all, sizeof all, stats, stats->size);
    rqli_writer_init(&out, buffer, size);
    rqli_write_text(&out, "{");
    for (size_t i = 0; i < N_COUNTERS; i++) {
        write_member(&out, &all, i);
    }
    for (size_t i = 0; i < N_HISTOGRAMS; i++) {
        rqli_write_text(&out, i > 0 ? "," : "");
        write_quantiles(&out, histogram_of(&all, &histograms[i]), &histograms[i]);
    }
    rqli_write_text(&out, "}");
    return rqli_writer_end(&out);
}
