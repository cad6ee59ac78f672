#include "observe/rows.h"

#include <string.h>

/*
 * The table of counters.def for code that iterates over all counters: names, help, and their
 * offsets in rql_stats.
 */

#define ROW(member, name, text, tag, word)                                                         \
    {.family = (name),                                                                             \
     .help = (text),                                                                               \
     .label = (tag),                                                                               \
     .value = (word),                                                                              \
     .offset = offsetof(rql_stats, member)},

static const struct rqli_stats_row counters[] = {
#define COUNTER(constant, field, help) ROW(field, #field, help, NULL, NULL)
#define PART(constant, field, family, help, label, value) ROW(field, family, help, label, value)
/* rql_stats::faults is indexed by the status without its sign. */
#define FAULT(status, help, value) ROW(faults[-(status)], "faults", help, "status", value)
#include "observe/counters.def"
};

static const struct rqli_stats_row times[] = {
#define TIMES(constant, field, help) ROW(field, #field, help, NULL, NULL)
#include "observe/counters.def"
};

const struct rqli_stats_row *rqli_stats_counter_at(size_t index)
{
    return index < sizeof counters / sizeof counters[0] ? &counters[index] : NULL;
}

const struct rqli_stats_row *rqli_stats_times_at(size_t index)
{
    return index < sizeof times / sizeof times[0] ? &times[index] : NULL;
}

int64_t rqli_stats_counter_of(const rql_stats *stats, const struct rqli_stats_row *row)
{
    int64_t value;

    memcpy(&value, (const char *)stats + row->offset, sizeof value);
    return value;
}

const rql_histogram *rqli_stats_times_of(const rql_stats *stats, const struct rqli_stats_row *row)
{
    const void *field = (const char *)stats + row->offset;

    return field;
}
