#include "check.h"

#include "wire/number.h"

struct number_row {
    const char *text;
    bool is_good;
    int64_t value;
};

/* What Ruby's Float() takes in the forms that the gem and servers write. */
static const struct number_row seconds_table[] = {
    {"1795254268.4681", true, 1795254268468100},
    {"1795254268.4157422", true, 1795254268415742},
    {"1795254268.4681001", true, 1795254268468100},
    {"1795254268.4680998", true, 1795254268468100},
    {"1795254268", true, 1795254268000000},
    {"1795254268.0", true, 1795254268000000},
    {"1795254268.5", true, 1795254268500000},
    {"+5.25", true, 5250000},
    {"0", true, 0},
    {"0.0000005", true, 1},
    {"0.0000004", true, 0},
    {"0.9999999", true, 1000000},
    {"0.000001", true, 1},
    {"1.9999999", true, 2000000},
    {"1795254268.4157426", true, 1795254268415743},
    {"1795254268.4680998325", true, 1795254268468100},
    {"9223372036853.999999", true, 9223372036853999999},
    {"-1.5", true, -1500000},
    {"-0.5", true, -500000},
    {"1.79e9", true, 1790000000000000},
    {"1.79E+09", true, 1790000000000000},
    {"1.7952542684681e9", true, 1795254268468100},
    {"1.7952542684681123e+9", true, 1795254268468112},
    {"17952542684681e-4", true, 1795254268468100},
    {"-2e-3", true, -2000},
    {"1.0000000000000001e-05", true, 10},
    {"25e-7", true, 3},
    {"1e-40", true, 0},
    {"0e0", true, 0},
    {"1e12", true, 1000000000000000000},
    {"1e13", false, 0},
    {"1e21", false, 0},
    {"1.7976931348623157e+308", false, 0},
    {"1e99999999999999999999", false, 0},
    {"1e-41", false, 0},
    {"99999999999999999999", false, 0},
    {"9223372036855", false, 0},
    {"9223372036854", false, 0},
    {".5", false, 0},
    {"-.5", false, 0},
    {"1..5", false, 0},
    {"1.-5", false, 0},
    {"0x1p", false, 0},
    {"", false, 0},
    {"+", false, 0},
    {"-", false, 0},
    {".", false, 0},
    {"+-1", false, 0},
    {"-+1", false, 0},
    {"--1", false, 0},
    {"1795254268.", false, 0},
    {"1.e5", false, 0},
    {"1e", false, 0},
    {"1e+", false, 0},
    {"1e+-5", false, 0},
    {"1e5.5", false, 0},
    {"e5", false, 0},
    {"1.5.5", false, 0},
    {"1,5", false, 0},
    {"inf", false, 0},
    {"-inf", false, 0},
    {"nan", false, 0},
    {"Infinity", false, 0},
    {"0x10", false, 0},
    {"1 ", false, 0},
    {"12abc", false, 0},
    {"1.0000000000000000000000000000000000000000000000e3", false, 0},
};

static void check_row(const struct number_row *row, bool (*parse)(struct rqli_slice, int64_t *))
{
    int64_t value = 77;
    bool is_good = parse(rqli_slice_of(row->text), &value);

    if (is_good != row->is_good || (is_good && value != row->value)) {
        fail_msg("\"%s\": %d, %lld", row->text, is_good, (long long)value);
    }
}

static void seconds_are_read_as_ruby_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof seconds_table / sizeof seconds_table[0]; i++) {
        check_row(&seconds_table[i], rqli_gem_seconds);
    }
}

static const struct number_row integer_table[] = {
    {"5000", true, 5000},
    {"+5000", true, 5000},
    {"-5", true, -5},
    {"0", true, 0},
    {"-0", true, 0},
    {"9223372036854775807", true, INT64_MAX},
    {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0},
    {"99999999999999999999999", false, 0},
    {"05000", false, 0},
    {"08", false, 0},
    {"-08", false, 0},
    {"+08", false, 0},
    {"00", false, 0},
    {"", false, 0},
    {"+", false, 0},
    {"-", false, 0},
    {"+-5", false, 0},
    {"1500.5", false, 0},
    {"1500.0", false, 0},
    {"5e3", false, 0},
    {"0x10", false, 0},
    {" 5", false, 0},
    {"5\n", false, 0},
    {"five", false, 0},
};

static void integers_are_read_as_ruby_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof integer_table / sizeof integer_table[0]; i++) {
        check_row(&integer_table[i], rqli_gem_integer);
    }
}

static void nothing_behind_the_end_is_read(void **state)
{
    static const char text[] = "1795e9999";
    int64_t value;

    (void)state;
    assert_true(rqli_gem_seconds((struct rqli_slice){text, 4}, &value));
    assert_int_equal(value, 1795000000);
    assert_false(rqli_gem_seconds((struct rqli_slice){text, 5}, &value));
    assert_true(rqli_gem_seconds((struct rqli_slice){"1.5999", 3}, &value));
    assert_int_equal(value, 1500000);
    assert_true(rqli_gem_integer((struct rqli_slice){text, 4}, &value));
    assert_int_equal(value, 1795);
    assert_false(rqli_gem_seconds((struct rqli_slice){NULL, 0}, &value));
    assert_false(rqli_gem_integer((struct rqli_slice){NULL, 0}, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_are_read_as_ruby_reads_them),
        cmocka_unit_test(integers_are_read_as_ruby_reads_them),
        cmocka_unit_test(nothing_behind_the_end_is_read),
    };

    return cmocka_run_group_tests_name("gem_number", tests, NULL, NULL);
}
