#include "check.h"

#include "base/text.h"

#include <rql/base.h>

static void whole_numbers_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 42;

        print_message("# case %s\n", cases[i].text);
        assert_true(rqli_parse_int(rqli_slice_of(cases[i].text), &value));
        assert_true(value == cases[i].value);
    }
}

static void what_is_no_whole_number_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x1",
        "--1",
        "1-1",
        "nan",
        "9223372036854775808",
        "1\n",
        "a",
        "/",
        ":",
        "1,000",
        "-9223372036854775809",
        "99999999999999999999999",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 42;

        print_message("# case %zu\n", i);
        assert_false(rqli_parse_int(rqli_slice_of(cases[i]), &value));
        assert_int_equal(value, 42);
    }
    assert_false(rqli_parse_int((struct rqli_slice){NULL, 0}, &(int64_t){0}));
}

static void only_the_bytes_of_the_slice_are_read(void **state)
{
    int64_t value = 0;

    (void)state;
    assert_true(rqli_parse_int((struct rqli_slice){"1234", 2}, &value));
    assert_int_equal(value, 12);
    assert_true(rqli_parse_seconds((struct rqli_slice){"1.5999", 3}, &value));
    assert_int_equal(value, 1500000);
    assert_false(rqli_parse_int((struct rqli_slice){"1\0002", 3}, &value));
}

static void seconds_are_read_as_microseconds(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } cases[] = {
        {"0", 0},
        {"1795254268", 1795254268000000},
        {"1795254268.0", 1795254268000000},
        {"1795254268.5", 1795254268500000},
        {"1795254268.4681", 1795254268468100},
        {"1795254268.4157422", 1795254268415742},
        {"1795254268.4157426", 1795254268415743},
        {"1795254268.4681001", 1795254268468100},
        {"1795254268.4680998325", 1795254268468100},
        {"1.9999999", 2000000},
        {"0.000001", 1},
        {"-0.5", -500000},
        {"-3.25", -3250000},
        {"9223372036853.999999", 9223372036853999999},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t us = 42;

        print_message("# case %s\n", cases[i].text);
        assert_true(rqli_parse_seconds(rqli_slice_of(cases[i].text), &us));
        assert_true(us == cases[i].us);
    }
}

static void what_are_no_seconds_is_refused(void **state)
{
    static const char *const cases[] = {
        "",    ".",    "1.",   ".5",   "-",    "-.5",   "1.5.5",         "1.5 ",
        "nan", "-nan", "inf",  "1e9",  "1.e9", "1.5e1", "9223372036854", "99999999999999999999",
        "+1",  "0x1p", "1..5", "1.-5",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t us = 42;

        print_message("# case '%s'\n", cases[i]);
        assert_false(rqli_parse_seconds(rqli_slice_of(cases[i]), &us));
        assert_int_equal(us, 42);
    }
}

static void numbers_are_written_without_terminator(void **state)
{
    static const int64_t cases[] = {0, 1, -1, 9, 10, 99, 100, -1000, INT64_MAX, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[32];
        char written[21];
        size_t length;

        memset(written, '#', sizeof written);
        length = rqli_format_int(written, cases[i]);
        (void)snprintf(expected, sizeof expected, "%lld", (long long)cases[i]);
        print_message("# case %s\n", expected);
        assert_int_equal(length, strlen(expected));
        assert_memory_equal(written, expected, length);
        assert_int_equal(written[length], '#');
    }
}

static void names_have_1_to_512_bytes_and_no_control_bytes(void **state)
{
    char name[RQL_NAME_MAX + 2];

    (void)state;
    assert_false(rqli_name_is_valid(NULL));
    assert_false(rqli_name_is_valid(""));
    assert_false(rqli_name_is_valid("a\nb"));
    assert_false(rqli_name_is_valid("\x1f"));
    assert_false(rqli_name_is_valid("a\x7f"));
    assert_true(rqli_name_is_valid("a"));
    assert_true(rqli_name_is_valid(" *?[]{}:%s"));
    assert_true(rqli_name_is_valid("\xc3\xa4\xff\x80"));
    memset(name, 'n', sizeof name);
    name[RQL_NAME_MAX] = '\0';
    assert_true(rqli_name_is_valid(name));
    name[RQL_NAME_MAX] = 'n';
    name[RQL_NAME_MAX + 1] = '\0';
    assert_false(rqli_name_is_valid(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(what_is_no_whole_number_is_refused),
        cmocka_unit_test(only_the_bytes_of_the_slice_are_read),
        cmocka_unit_test(seconds_are_read_as_microseconds),
        cmocka_unit_test(what_are_no_seconds_is_refused),
        cmocka_unit_test(numbers_are_written_without_terminator),
        cmocka_unit_test(names_have_1_to_512_bytes_and_no_control_bytes),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
