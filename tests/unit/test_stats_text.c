#include "check.h"

#include "json.h"
#include "observe/rows.h"

#include <regex.h>
#include <rql/stats.h>
#include <stdlib.h>

static char text[RQL_STATS_TEXT_SIZE];

static rql_stats make_stats(void)
{
    rql_stats stats = {.size = sizeof stats, .acquisitions = 42, .timed_out = 7};

    stats.faults[-RQL_E_IO] = 3;
    stats.wait.bucket[rql_histogram_bucket(15)] = 1;
    stats.wait.bucket[rql_histogram_bucket(16)] = 2;
    stats.wait.bucket[rql_histogram_bucket(INT64_MAX)] = 4;
    stats.wait.count = 7;
    stats.wait.sum_us = 1234567;
    return stats;
}

/* The text format of OpenMetrics 1.0, as far as counters and histograms need it: what a line of a
 * family may be, by how far the family has come. */
#define NAME "[a-zA-Z_:][a-zA-Z0-9_:]*"

enum { NAME_SIZE = 80, N_FAMILIES = 64 };

enum kind { TYPE, UNIT, HELP, COUNTER, BUCKET, COUNT, SUM, N_KINDS };

static const struct {
    const char *name; /* of the line: its first group is the family's, its second a value */
    unsigned behind;  /* bits of the lines that it may stand behind */
} grammar[N_KINDS] = {
    [TYPE] = {"^# TYPE (" NAME ") (counter|histogram)$", 1 << COUNTER | 1 << SUM},
    [UNIT] = {"^# UNIT (" NAME "_seconds) (seconds)$", 1 << TYPE},
    [HELP] = {"^# HELP (" NAME ") (.+)$", 1 << TYPE | 1 << UNIT},
    [COUNTER] = {"^(" NAME ")_total(\\{[a-z]+=\"[a-z_]+\"\\})? [0-9]+$", 1 << HELP | 1 << COUNTER},
    [BUCKET] = {"^(" NAME ")_bucket\\{le=\"([0-9.]+|\\+Inf)\"\\} [0-9]+$", 1 << HELP | 1 << BUCKET},
    [COUNT] = {"^(" NAME ")_count ([0-9]+)$", 1 << BUCKET},
    [SUM] = {"^(" NAME ")_sum ([0-9.]+)$", 1 << COUNT},
};

/* What kind of line it is, with its two groups. */
static enum kind read_line(const char *line, char name[NAME_SIZE], char value[NAME_SIZE])
{
    for (enum kind kind = TYPE; kind < N_KINDS; kind++) {
        regmatch_t groups[3];
        regex_t regex;
        bool matches;

        assert_int_equal(regcomp(&regex, grammar[kind].name, REG_EXTENDED), 0);
        matches = regexec(&regex, line, 3, groups, 0) == 0;
        regfree(&regex);
        if (matches) {
            (void)snprintf(name, NAME_SIZE, "%.*s", (int)groups[1].rm_eo - (int)groups[1].rm_so,
                           line + groups[1].rm_so);
            (void)snprintf(value, NAME_SIZE, "%.*s", (int)groups[2].rm_eo - (int)groups[2].rm_so,
                           line + (groups[2].rm_so < 0 ? 0 : groups[2].rm_so));
            return kind;
        }
    }
    return N_KINDS;
}

TEST(openmetrics_has_its_grammar)
{
    rql_stats stats = make_stats();
    size_t length = rql_stats_openmetrics(&stats, text, sizeof text);
    static char families[N_FAMILIES][NAME_SIZE];
    char type[NAME_SIZE] = "";
    enum kind last = SUM;
    double last_le = 0;
    int64_t last_bucket = 0;
    int n_histograms = 0;
    size_t n = 0;
    char *rest = text;
    char *line;

    assert_true(length < sizeof text);
    assert_int_equal(strlen(text), length);
    assert_string_equal(text + length - 6, "# EOF\n");
    text[length - 6] = '\0';
    while ((line = strtok_r(rest, "\n", &rest))) {
        char name[NAME_SIZE];
        char value[NAME_SIZE];
        enum kind kind = read_line(line, name, value);
        int64_t number = strtoll(strrchr(line, ' '), NULL, 10);

        print_message("# %s\n", line);
        assert_true(kind < N_KINDS && (grammar[kind].behind & 1U << last));
        if (kind == TYPE) {
            for (size_t i = 0; i < n; i++) { /* its lines stand together */
                assert_string_not_equal(families[i], name);
            }
            (void)snprintf(families[n++], NAME_SIZE, "%s", name);
            (void)snprintf(type, sizeof type, "%s", value);
            n_histograms += strcmp(type, "histogram") == 0;
            last_le = -1;
            last_bucket = 0;
        }
        assert_string_equal(name, families[n - 1]);
        assert_true(kind < COUNTER || (strcmp(type, "counter") == 0) == (kind == COUNTER));
        if (kind == BUCKET) {
            assert_true(strtod(value, NULL) > last_le && number >= last_bucket);
            last_le = strtod(value, NULL);
            last_bucket = number;
        }
        assert_true(kind != COUNT || (number == last_bucket && last_le > 1e300));
        last = kind;
    }
    assert_int_equal(n_histograms, 3);
    assert_true(n > 15);
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
      "\"fail_fast_after_try\":0,\"conflict\":0,\"cancelled\":0},\"faults\":{",
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

/* Numbers as long as they get. */
TEST(there_is_room_for_all)
{
    rql_stats stats = {.size = sizeof stats};
    const struct rqli_stats_row *row;

    memset((char *)&stats + sizeof stats.size, 0x7F, sizeof stats - sizeof stats.size);
    for (size_t i = 0; (row = rqli_stats_times_at(i)); i++) {
        rql_histogram histogram = {.count = INT64_MAX, .sum_us = INT64_MAX};

        for (size_t j = 0; j < RQL_HISTOGRAM_BUCKETS; j++) {
            histogram.bucket[j] = INT64_MAX / RQL_HISTOGRAM_BUCKETS;
        }
        memcpy((char *)&stats + row->offset, &histogram, sizeof histogram);
    }
    assert_true(rql_stats_openmetrics(&stats, text, sizeof text) < sizeof text);
    assert_true(rql_stats_json(&stats, text, sizeof text) < sizeof text);
    assert_true(is_json(text));
}
