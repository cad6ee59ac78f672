#include "check.h"

#include "base/random.h"
#include "json.h"

#include <rql/observe.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20000, BYTES = 24 };

TEST(every_kind_of_field_has_its_form)
{
    static const char *const keys[] = {"rql:lock:a", "rql:lock:\"b\""};
    const rql_log_field fields[] = {
        {.name = "lock_keys", .kind = RQL_LOG_LIST, .items = keys, .n_items = 2},
        {.name = "none", .kind = RQL_LOG_LIST},
        {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 15000},
        {.name = "other_ttl", .kind = RQL_LOG_SECONDS, .number = 1500},
        {.name = "no_ttl", .kind = RQL_LOG_SECONDS, .number = RQL_FOREVER},
        {.name = "acq_id", .kind = RQL_LOG_QUOTED, .text = "rql:acq:1/2/3/4/5"},
        {.name = "absent", .kind = RQL_LOG_QUOTED},
        {.name = "raw", .kind = RQL_LOG_RAW, .text = "a\tb"},
        {.name = "last_ext_ttl", .kind = RQL_LOG_INTEGER, .number = INT64_MIN},
        {.name = "last_ext_ts", .kind = RQL_LOG_TIME, .number = INT64_C(1795255161080990)},
        {.name = "acq_time", .kind = RQL_LOG_MS, .number = 1951},
    };
    const rql_log_record record = {"lock_obtained", N_ROWS(fields), fields};
    static const char expected[] =
        "{\"name\":\"lock_obtained\",\"lock_keys\":[\"rql:lock:a\",\"rql:lock:\\\"b\\\"\"],"
        "\"none\":[],\"queue_ttl\":15,\"other_ttl\":1.5,\"no_ttl\":null,"
        "\"acq_id\":\"rql:acq:1/2/3/4/5\",\"absent\":null,\"raw\":\"a\\u0009b\","
        "\"last_ext_ttl\":-9223372036854775808,\"last_ext_ts\":1795255161.08099,"
        "\"acq_time\":1.96}";
    char text[1024];

    assert_int_equal(rql_log_json(&record, text, sizeof text), sizeof expected - 1);
    assert_string_equal(text, expected);
    assert_true(is_json(text));
    assert_int_equal(rql_log_json(&record, NULL, 0), sizeof expected - 1);
}

static void write_bytes(const char *bytes, char *text, size_t size)
{
    const rql_log_field field = {.name = "n", .kind = RQL_LOG_QUOTED, .text = bytes};
    const rql_log_record record = {"a", 1, &field};

    assert_true(rql_log_json(&record, text, size) < size);
}

TEST(what_is_utf8_stays_and_what_is_not_is_replaced)
{
    static const struct {
        const char *bytes;
        const char *text;
    } cases[] = {
        {"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x94\x92", "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x94\x92"},
        {"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF", "\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"},
        {"a\xFFz", "a\\ufffdz"},
        {"\xC0\x80", "\\ufffd\\ufffd"},            /* overlong */
        {"\xE0\x9F\xBF", "\\ufffd\\ufffd\\ufffd"}, /* overlong */
        {"\xF0\x8F\xBF\xBF", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xED\xA0\x80", "\\ufffd\\ufffd\\ufffd"}, /* a surrogate */
        {"\xF4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xE2\x82", "\\ufffd\\ufffd"}, /* cut off */
        {"\"\\\x01\x7F", "\\\"\\\\\\u0001\\u007f"},
    };

    char text[128];
    char expected[128];

    EACH (row, cases) {
        write_bytes(row->bytes, text, sizeof text);
        (void)snprintf(expected, sizeof expected, "{\"name\":\"a\",\"n\":\"%s\"}", row->text);
        assert_string_equal(text, expected);
        assert_true(is_json(text));
    }
}

TEST(any_bytes_give_one_json_object)
{
    char bytes[BYTES + 1] = {0};
    char text[1024];

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BYTES; i++) {
            bytes[i] = (char)(rqli_random_below(255) + 1);
        }
        write_bytes(bytes, text, sizeof text);
        if (!is_json(text)) {
            fail_msg("no JSON: %s", text);
        }
    }
}

TEST(a_file_gets_one_object_a_line)
{
    const rql_log_record record = {.name = "a"};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    assert_non_null(file);
    rql_log_json_to_file(&record, file);
    rql_log_json_to_file(&record, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "{\"name\":\"a\"}\n{\"name\":\"a\"}\n");
    free(text);
}
