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
    assert_false(rqli_parse_int((struct rqli_slice){"1\0002", 3}, &value));
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
        cmocka_unit_test(numbers_are_written_without_terminator),
        cmocka_unit_test(names_have_1_to_512_bytes_and_no_control_bytes),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
