#include "base/text.h"
#include "observe/rows.h"

/*
 * Statistics in the OpenMetrics text format, as Prometheus scrapes it. Rows come from counters.def;
 * the rows of one family follow each other, and the first of them has the help text.
 */

/* The bounds in the output: powers of two from 16 us to 1074 s, which are bounds of buckets. */
enum { FIRST_BIT = 4, LAST_BIT = 30, SECOND_DIGITS = 6 };

/* Writes the head of a family. A name with a unit has to end in that unit: the suffix of times is
 * their unit, counters have neither. */
static void write_head(struct rqli_writer *writer, const struct rqli_stats_row *row,
                       const char *suffix, const char *type)
{
    const char *const parts[] = {"# TYPE rql_", row->family, suffix, " ", type, "\n"};
    const char *const unit[] = {"# UNIT rql_", row->family, suffix, " seconds\n"};
    const char *const help[] = {"# HELP rql_", row->family, suffix, " ", row->help, "\n"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        rqli_write_text(writer, parts[i]);
    }
    for (size_t i = 0; *suffix && i < sizeof unit / sizeof unit[0]; i++) {
        rqli_write_text(writer, unit[i]);
    }
    for (size_t i = 0; i < sizeof help / sizeof help[0]; i++) {
        rqli_write_text(writer, help[i]);
    }
}

static void write_counter(struct rqli_writer *writer, const rql_stats *stats,
                          const struct rqli_stats_row *row)
{
    /* This is the first row of its family. */
    if (row->help) {
        write_head(writer, row, "", "counter");
    }
    rqli_write_text(writer, "rql_");
    rqli_write_text(writer, row->family);
    rqli_write_text(writer, "_total");
    if (row->label) {
        rqli_write_text(writer, "{");
        rqli_write_text(writer, row->label);
        rqli_write_text(writer, "=\"");
        rqli_write_text(writer, row->value);
        rqli_write_text(writer, "\"}");
    }
    rqli_write_text(writer, " ");
    rqli_write_int(writer, rqli_stats_counter_of(stats, row));
    rqli_write_text(writer, "\n");
}

static void write_sample(struct rqli_writer *writer, const struct rqli_stats_row *row,
                         const char *suffix)
{
    rqli_write_text(writer, "rql_");
    rqli_write_text(writer, row->family);
    rqli_write_text(writer, "_seconds");
    rqli_write_text(writer, suffix);
}

/* Writes cumulative counts, as the format requires, from the finer buckets of the histogram. Those
 * end one microsecond before a bound, so a time of exactly the bound is counted in the next one. */
static void write_buckets(struct rqli_writer *writer, const struct rqli_stats_row *row,
                          const rql_histogram *times)
{
    int64_t below = 0;
    size_t at = 0;

    for (unsigned bit = FIRST_BIT; bit <= LAST_BIT; bit++) {
        int64_t bound_us = INT64_C(1) << bit;

        for (; rql_histogram_upper(at) < bound_us; at++) {
            below += times->bucket[at];
        }
        write_sample(writer, row, "_bucket{le=\"");
        rqli_write_decimal(writer, bound_us, SECOND_DIGITS);
        rqli_write_text(writer, "\"} ");
        rqli_write_int(writer, below);
        rqli_write_text(writer, "\n");
    }
    /* count is the sum of all buckets, and so never less than the last line. */
    write_sample(writer, row, "_bucket{le=\"+Inf\"} ");
    rqli_write_int(writer, times->count);
    rqli_write_text(writer, "\n");
}

static void write_times(struct rqli_writer *writer, const rql_stats *stats,
                        const struct rqli_stats_row *row)
{
    const rql_histogram *times = rqli_stats_times_of(stats, row);

    write_head(writer, row, "_seconds", "histogram");
    write_buckets(writer, row, times);
    write_sample(writer, row, "_count ");
    rqli_write_int(writer, times->count);
    rqli_write_text(writer, "\n");
    write_sample(writer, row, "_sum ");
    rqli_write_decimal(writer, times->sum_us, SECOND_DIGITS);
    rqli_write_text(writer, "\n");
}

/* Like snprintf(), returns the length of the whole text, whether or not there was room for it. */
size_t rql_stats_openmetrics(const rql_stats *stats, char *buffer, size_t size)
{
    const struct rqli_stats_row *row;
    struct rqli_writer writer;

    rqli_writer_init(&writer, buffer, size);
    for (size_t i = 0; (row = rqli_stats_counter_at(i)); i++) {
        write_counter(&writer, stats, row);
    }
    for (size_t i = 0; (row = rqli_stats_times_at(i)); i++) {
        write_times(&writer, stats, row);
    }
    rqli_write_text(&writer, "# EOF\n");
    return rqli_writer_end(&writer);
}
