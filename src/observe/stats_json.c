#include "base/text.h"
#include "observe/rows.h"

#include <stdbool.h>

static void write_number(struct rqli_writer *writer, const char *name, int64_t value)
{
    rqli_write_json(writer, name);
    rqli_write_text(writer, ":");
    rqli_write_int(writer, value);
}

/* Rows with a label become an object under the name of their family: its first row has the help,
 * and so has the row after its last one, as the first of another family. A comma always fits,
 * because the times follow. */
static void write_counter(struct rqli_writer *writer, const rql_stats *stats, size_t index)
{
    const struct rqli_stats_row *row = rqli_stats_counter_at(index);
    const struct rqli_stats_row *next = rqli_stats_counter_at(index + 1);
    bool is_last = !next || next->help;

    if (row->label && row->help) {
        rqli_write_json(writer, row->family);
        rqli_write_text(writer, ":{");
    }
    write_number(writer, row->label ? row->value : row->family, rqli_stats_counter_of(stats, row));
    rqli_write_text(writer, row->label && is_last ? "}," : ",");
}

/* Writes quantiles instead of buckets, because a person reads this. */
static void write_times(struct rqli_writer *writer, const rql_histogram *times)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"max_us", 1}};

    write_number(writer, "count", times->count);
    rqli_write_text(writer, ",");
    write_number(writer, "sum_us", times->sum_us);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        int64_t time_us = rql_stats_quantile(times, shares[i].share);

        rqli_write_text(writer, ",");
        /* -1: there are no times. */
        write_number(writer, shares[i].name, time_us > 0 ? time_us : 0);
    }
}

size_t rql_stats_json(const rql_stats *stats, char *buffer, size_t size)
{
    const struct rqli_stats_row *row;
    struct rqli_writer writer;

    rqli_writer_init(&writer, buffer, size);
    rqli_write_text(&writer, "{");
    for (size_t i = 0; rqli_stats_counter_at(i); i++) {
        write_counter(&writer, stats, i);
    }
    for (size_t i = 0; (row = rqli_stats_times_at(i)); i++) {
        rqli_write_text(&writer, i > 0 ? "," : "");
        rqli_write_json(&writer, row->family);
        rqli_write_text(&writer, ":{");
        write_times(&writer, rqli_stats_times_of(stats, row));
        rqli_write_text(&writer, "}");
    }
    rqli_write_text(&writer, "}");
    return rqli_writer_end(&writer);
}
