#include "check.h"

#include "observe/rows.h"
#include "strict_json.h"

#include <rql/stats.h>
#include <stdlib.h>

/* The text format of OpenMetrics 1.0, as far as counters and histograms need it. */

enum { NAME_SIZE = 80, LINE_SIZE = 256 };

/* What the lines so far have said of the family they are in. */
struct family {
    char name[NAME_SIZE];
    char type[NAME_SIZE];
    char seen[4096]; /* names of all families, each between blanks */
    bool has_help;
    bool has_samples;
    double last_le;
    int64_t last_bucket;
    int64_t infinite; /* the +Inf bucket; -1: not yet */
    int n_families;
    int n_histograms;
};

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

static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";

    return *name != '\0' && strchr(letters, *name) &&
           strspn(name + 1, letters) + strspn(name + 1 + strspn(name + 1, letters), "0123456789") ==
               strlen(name + 1);
}

static void begin_family(struct family *self, const char *name, const char *type)
{
    char listed[NAME_SIZE + 2];

    assert_true(is_name(name));
    assert_true(strcmp(type, "counter") == 0 || strcmp(type, "histogram") == 0);
    (void)snprintf(listed, sizeof listed, " %s ", name);
    assert_null(strstr(self->seen, listed)); /* its lines stand together */
    assert_true(strlen(self->seen) + strlen(listed) < sizeof self->seen);
    (void)snprintf(self->seen + strlen(self->seen), sizeof self->seen - strlen(self->seen), "%s",
                   listed);
    (void)snprintf(self->name, sizeof self->name, "%s", name);
    (void)snprintf(self->type, sizeof self->type, "%s", type);
    self->has_help = false;
    self->has_samples = false;
    self->last_le = -1;
    self->last_bucket = 0;
    self->infinite = -1;
    self->n_families++;
    self->n_histograms += strcmp(type, "histogram") == 0;
}

static void read_metadata(struct family *self, const char *line)
{
    char word[NAME_SIZE];
    char name[NAME_SIZE];
    char rest[NAME_SIZE];

    assert_int_equal(sscanf(line, "# %79s %79s %79[^\n]", word, name, rest), 3);
    if (strcmp(word, "TYPE") == 0) {
        begin_family(self, name, rest);
        return;
    }
    assert_false(self->has_samples);
    assert_string_equal(name, self->name);
    if (strcmp(word, "UNIT") == 0) {
        assert_string_equal(rest, "seconds");
        assert_string_equal(name + strlen(name) - strlen("_seconds"), "_seconds");
    } else {
        assert_string_equal(word, "HELP");
        self->has_help = true;
    }
}

static void read_bucket(struct family *self, const char *labels, int64_t value)
{
    char *end = NULL;
    double le = strtod(labels + strlen("{le=\""), &end);

    assert_memory_equal(labels, "{le=\"", strlen("{le=\""));
    assert_memory_equal(end, "\"} ", 3);
    assert_true(le > self->last_le);
    assert_true(value >= self->last_bucket);
    self->last_le = le;
    self->last_bucket = value;
    if (strncmp(labels, "{le=\"+Inf\"}", 11) == 0) {
        self->infinite = value;
    }
}

static void read_sample(struct family *self, const char *line)
{
    size_t length = strlen(self->name);
    const char *suffix = line + length;
    const char *value = strrchr(line, ' ');
    char *end = NULL;
    double number = strtod(value + 1, &end);

    assert_true(self->has_help);
    assert_memory_equal(line, self->name, length);
    assert_true(end > value + 1 && *end == '\n');
    assert_true(number >= 0);
    self->has_samples = true;
    if (strcmp(self->type, "counter") == 0) {
        assert_memory_equal(suffix, "_total", 6);
        assert_true(suffix[6] == ' ' || suffix[6] == '{');
    } else if (strncmp(suffix, "_bucket", 7) == 0) {
        read_bucket(self, suffix + 7, (int64_t)number);
    } else if (strncmp(suffix, "_count ", 7) == 0) {
        assert_true(self->infinite == (int64_t)number);
    } else {
        assert_memory_equal(suffix, "_sum ", 5);
        assert_true(self->infinite >= 0);
    }
}

static void openmetrics_has_its_grammar(void **state)
{
    rql_stats stats = make_stats();
    size_t length = rql_stats_openmetrics(&stats, text, sizeof text);
    struct family family = {.name = ""};
    const char *line = text;

    (void)state;
    assert_true(length < sizeof text);
    assert_int_equal(strlen(text), length);
    while (strcmp(line, "# EOF\n") != 0) {
        assert_non_null(strchr(line, '\n'));
        if (*line == '#') {
            read_metadata(&family, line);
        } else {
            char one[LINE_SIZE];

            (void)snprintf(one, sizeof one, "%.*s\n", (int)strcspn(line, "\n"), line);
            read_sample(&family, one);
        }
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(family.n_histograms, 3);
    assert_true(family.n_families > 15);
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

static void each_format_says_what_was_counted_and_is_cut_to_size(void **state)
{
    rql_stats stats = make_stats();

    (void)state;
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
static void there_is_room_for_all(void **state)
{
    rql_stats stats = {.size = sizeof stats};
    const struct rqli_stats_row *row;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openmetrics_has_its_grammar),
        cmocka_unit_test(each_format_says_what_was_counted_and_is_cut_to_size),
        cmocka_unit_test(there_is_room_for_all),
    };

    return cmocka_run_group_tests_name("stats_text", tests, NULL, NULL);
}
