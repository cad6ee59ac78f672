#include "check.h"

#include "base/text.h"

#include <rql/base.h>

enum { UNREAD = 42 };

#define SLICE(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct {
    struct rqli_slice text;
    int64_t value; /* UNREAD: none */
} numbers[] = {
    {SLICE("0"), 0},
    {SLICE("-0"), 0},
    {SLICE("7"), 7},
    {SLICE("-7"), -7},
    {SLICE("007"), 7},
    {SLICE("9223372036854775807"), INT64_MAX},
    {SLICE("-9223372036854775808"), INT64_MIN},
    {{"1234", 2}, 12}, /* only the bytes of the slice */
    {{"1\0002", 3}, UNREAD},
    {{NULL, 0}, UNREAD},
    {SLICE(""), UNREAD},
    {SLICE("-"), UNREAD},
    {SLICE("+1"), UNREAD},
    {SLICE(" 1"), UNREAD},
    {SLICE("1 "), UNREAD},
    {SLICE("1.0"), UNREAD},
    {SLICE("1e3"), UNREAD},
    {SLICE("0x1"), UNREAD},
    {SLICE("--1"), UNREAD},
    {SLICE("1-1"), UNREAD},
    {SLICE("nan"), UNREAD},
    {SLICE("9223372036854775808"), UNREAD},
    {SLICE("1\n"), UNREAD},
    {SLICE("a"), UNREAD},
    {SLICE("/"), UNREAD},
    {SLICE(":"), UNREAD},
    {SLICE("1,000"), UNREAD},
    {SLICE("-9223372036854775809"), UNREAD},
    {SLICE("99999999999999999999999"), UNREAD},
};

static void whole_numbers_are_read_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS(numbers); i++) {
        int64_t value = UNREAD;

        print_message("# row %zu\n", i);
        assert_int_equal(rqli_parse_int(numbers[i].text, &value), numbers[i].value != UNREAD);
        assert_true(value == numbers[i].value);
    }
}

static void numbers_are_written_without_terminator(void **state)
{
    static const int64_t cases[] = {0, 1, -1, 9, 10, 99, 100, -1000, INT64_MAX, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < N_ROWS(cases); i++) {
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
    char longest[RQL_NAME_MAX + 1] = {0};
    char longer[RQL_NAME_MAX + 2] = {0};

    const struct {
        const char *name;
        bool is_valid;
    } rows[] = {
        {NULL, false},    {"", false},     {"a\nb", false},      {"\x1f", false},
        {"a\x7f", false}, {"a", true},     {" *?[]{}:%s", true}, {"\xc3\xa4\xff\x80", true},
        {longest, true},  {longer, false},
    };

    (void)state;
    memset(longest, 'n', sizeof longest - 1);
    memset(longer, 'n', sizeof longer - 1);
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        print_message("# row %zu\n", i);
        assert_int_equal(rqli_name_is_valid(rows[i].name), rows[i].is_valid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_and_nothing_else),
        cmocka_unit_test(numbers_are_written_without_terminator),
        cmocka_unit_test(names_have_1_to_512_bytes_and_no_control_bytes),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
