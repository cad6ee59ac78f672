#include "check.h"

#include <rql/observe.h>
#include <stdlib.h>

/* How fields are written. The lines of locks are in scenario/observe. */

TEST(a_field_is_written_as_its_kind_has_it)
{
    static const char *const names[] = {"a\"b", "c\\d", "#{e} #$f #@g # h #", "\xC3\xA4\n"};

    static const struct {
        const char *text;
        rql_log_field field;
    } rows[] = {
        {"queue_ttl => 15", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 15000}},
        {"queue_ttl => 0", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 0}},
        {"queue_ttl => 1.5", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 1500}},
        {"queue_ttl => 0.001", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 1}},
        {"queue_ttl => forever",
         {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = RQL_FOREVER}},
        {"acq_time => 102.5 (ms)", {.name = "acq_time", .kind = RQL_LOG_MS, .number = 102495}},
        {"acq_time => 2.33 (ms)", {.name = "acq_time", .kind = RQL_LOG_MS, .number = 2330}},
        {"acq_time => 3.0 (ms)", {.name = "acq_time", .kind = RQL_LOG_MS, .number = 3000}},
        {"last_spc_ts => '1795255160.49976'",
         {.name = "last_spc_ts", .kind = RQL_LOG_TIME, .number = INT64_C(1795255160499760)}},
        {"lock_keys => '[\"a\\\"b\", \"c\\\\d\", \"\\#{e} \\#$f \\#@g # h #\", \"\xC3\xA4?\"]'",
         {.name = "lock_keys", .kind = RQL_LOG_LIST, .items = names, .n_items = 4}},
    };

    EACH_BY (row, rows, row->text) {
        const rql_log_record record = {"a", 1, &row->field};
        char expected[128];
        char line[128];

        (void)snprintf(expected, sizeof expected, "[redis_queued_locks.a] %s", row->text);
        assert_int_equal(rql_log_text(&record, line, sizeof line), strlen(expected));
        assert_string_equal(line, expected);
    }
}

TEST(a_line_is_cut_to_size_and_stays_one_line)
{
    const rql_log_field fields[] = {{.name = "raw", .kind = RQL_LOG_RAW, .text = "a\nb\x7F"},
                                    {.name = "none", .kind = RQL_LOG_QUOTED}};
    const rql_log_record record = {"a", 2, fields};
    static const char whole[] = "[redis_queued_locks.a] raw => a?b? none => ''";
    char line[64];

    assert_int_equal(rql_log_text(&record, NULL, 0), sizeof whole - 1);
    for (size_t size = 1; size <= sizeof line; size++) {
        memset(line, '~', sizeof line);
        assert_int_equal(rql_log_text(&record, line, size), sizeof whole - 1);
        assert_true(strlen(line) == (size < sizeof whole ? size : sizeof whole) - 1);
        assert_memory_equal(line, whole, strlen(line));
    }
}

TEST(a_file_gets_one_line_each)
{
    static char name[3000]; /* longer than any buffer on the stack */
    const rql_log_field field = {.name = "n", .kind = RQL_LOG_QUOTED, .text = name};
    const rql_log_record record = {"a", 1, &field};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    assert_non_null(file);
    memset(name, 'n', sizeof name - 1);
    rql_log_to_file(&record, file);
    name[1] = '\0';
    rql_log_to_file(&record, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(size, strlen("[redis_queued_locks.a] n => ''\n") * 2 + sizeof name - 1 + 1);
    assert_string_equal(strchr(text, '\n'), "\n[redis_queued_locks.a] n => 'n'\n");
    free(text);
}
