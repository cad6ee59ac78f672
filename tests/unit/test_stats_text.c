#include "check.h"

#include "json.h"
#include "observe/histogram.h"

#include <rql/stats.h>
#include <stdlib.h>

static char text[RQL_STATS_TEXT_SIZE];

static rql_stats make_stats(void)
{
    rql_stats stats = {.size = sizeof stats, .acquisitions = 42, .timed_out = 7};

    stats.faults[-RQL_E_IO] = 3;
    stats.wait.bucket[rqli_histogram_bucket(15)] = 1;
    stats.wait.bucket[rqli_histogram_bucket(16)] = 2;
    stats.wait.bucket[rqli_histogram_bucket(INT64_MAX)] = 4;
    stats.wait.count = 7;
    stats.wait.sum_us = 1234567;
    return stats;
}

/* What each format says of the statistics above. */
static const struct said {
    size_t (*write)(const rql_stats *stats, char *out, size_t size);
    const char *begin;
    const char *parts[8];
} saids[] = {
    {rql_stats_openmetrics,
     "# TYPE rql_acquisitions counter\n# HELP rql_acquisitions Locks obtained.\n"
     "rql_acquisitions_total 42\n",
     {"\nrql_refusals_total{reason=\"timed_out\"} 7\n",
      "\nrql_refusals_total{reason=\"conflict\"} 0\n", "\nrql_faults_total{status=\"io\"} 3\n",
      "\nrql_wait_seconds_bucket{le=\"0.000016\"} 1\n",
      "\nrql_wait_seconds_bucket{le=\"0.000032\"} 3\n",
      "\nrql_wait_seconds_bucket{le=\"1073.741824\"} 3\n",
      "\nrql_wait_seconds_bucket{le=\"+Inf\"} 7\n",
      "\nrql_wait_seconds_count 7\nrql_wait_seconds_sum 1.234567\n"}},
    {rql_stats_json,
     "{\"acquisitions\":42,\"hand_overs\":0,",
     {"\"refusals\":{\"timed_out\":7,\"retry_limit\":0,\"fail_fast_no_try\":0,"
      "\"fail_fast_after_try\":0,\"conflict\":0,\"cancelled\":0,\"queue_full\":0},"
      "\"faults\":{",
      "\"wait\":{\"count\":7,\"sum_us\":1234567,\"p50_us\":4398046511103,",
      "\"hand_off\":{\"count\":0,\"sum_us\":0,\"p50_us\":0,\"p90_us\":0,\"p99_us\":0,"
      "\"max_us\":0}}"}},
};

TEST(each_format_says_what_was_counted_and_is_cut_to_size)
{
    rql_stats stats = make_stats();

    for (const struct said *said = saids; said < saids + N_ROWS(saids); said++) {
        size_t length = said->write(&stats, NULL, 0);
        char few[10];

        print_message("# format %d\n", (int)(said - saids));
        assert_int_equal(said->write(&stats, text, sizeof text), length);
        assert_int_equal(strlen(text), length);
        assert_int_equal(is_json(text), said->write == rql_stats_json);
        assert_memory_equal(text, said->begin, strlen(said->begin));
        for (size_t i = 0; i < N_ROWS(said->parts) && said->parts[i]; i++) {
            if (!strstr(text, said->parts[i])) {
                fail_msg("%s is not in\n%s", said->parts[i], text);
            }
        }
        assert_int_equal(said->write(&stats, few, sizeof few), length);
        assert_memory_equal(few, text, sizeof few - 1);
        assert_int_equal(few[sizeof few - 1], '\0');
    }
}

/* A program that was built with an earlier version has a shorter struct. */
TEST(what_the_struct_of_a_program_lacks_is_0)
{
    rql_stats stats = make_stats();

    stats.size = offsetof(rql_stats, history_dropped);
    stats.history_dropped = 9; /* of whatever follows the struct */
    (void)rql_stats_openmetrics(&stats, text, sizeof text);
    assert_non_null(strstr(text, "rql_history_dropped_total 0\n"));
    (void)rql_stats_json(&stats, text, sizeof text);
    assert_non_null(strstr(text, "\"history_dropped\":0"));
    assert_non_null(strstr(text, "\"acquisitions\":42"));
}

/* Numbers as long as they get. */
TEST(there_is_room_for_all)
{
    rql_stats stats = {.size = sizeof stats};
    rql_histogram histogram = {.count = INT64_MAX, .sum_us = INT64_MAX};

    memset((char *)&stats + sizeof stats.size, 0x7F, sizeof stats - sizeof stats.size);
    for (size_t i = 0; i < RQL_HISTOGRAM_BUCKETS; i++) {
        histogram.bucket[i] = INT64_MAX / RQL_HISTOGRAM_BUCKETS;
    }
#define TIMES(constant, field, help) stats.field = histogram;
#include "observe/counters.def"
    assert_true(rql_stats_openmetrics(&stats, text, sizeof text) < sizeof text);
    assert_true(rql_stats_json(&stats, text, sizeof text) < sizeof text);
    assert_true(is_json(text));
}
