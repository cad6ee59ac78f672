#include "check.h"

#include "wire/number.h"

typedef bool parse_fn(struct rqli_slice text, int64_t *value);

static void check_read(parse_fn *parse, const char *texts)
{
    char text[PART_SIZE];
    int64_t expected;

    while (next_part(&texts, text, &expected)) {
        int64_t value = 77;

        assert_true(parse(rqli_slice_of(text), &value));
        assert_int_equal(value, expected);
    }
}

static void check_refused(parse_fn *parse, const char *texts)
{
    char text[PART_SIZE];
    int64_t value;

    while (next_part(&texts, text, NULL)) {
        assert_false(parse(rqli_slice_of(text), &value));
    }
}

/* What Ruby's Float() takes in the forms that the gem and servers write. */
TEST(seconds_are_read_as_ruby_reads_them)
{
    check_read(
        rqli_gem_seconds,
        "1795254268.4681=1795254268468100|1795254268.4157422=1795254268415742"
        "|1795254268.4681001=1795254268468100|1795254268.4680998=1795254268468100"
        "|1795254268=1795254268000000|1795254268.0=1795254268000000|1795254268.5=1795254268500000"
        "|+5.25=5250000|0=0|0.0000005=1|0.0000004=0|0.9999999=1000000|0.000001=1|1.9999999=2000000"
        "|1795254268.4157426=1795254268415743|1795254268.4680998325=1795254268468100"
        "|9223372036853.999999=9223372036853999999|-1.5=-1500000|-0.5=-500000"
        "|1.79e9=1790000000000000|1.79E+09=1790000000000000|1.7952542684681e9=1795254268468100"
        "|1.7952542684681123e+9=1795254268468112|17952542684681e-4=1795254268468100|-2e-3=-2000"
        "|1.0000000000000001e-05=10|25e-7=3|1e-40=0|0e0=0|1e12=1000000000000000000");
    check_refused(
        rqli_gem_seconds,
        "1e13|1e21|1.7976931348623157e+308|1e99999999999999999999|1e-41"
        "|99999999999999999999|9223372036855|9223372036854|.5|-.5|1..5|1.-5|0x1p||+|-|.|+-1"
        "|-+1|--1|1795254268.|1.e5|1e|1e+|1e+-5|1e5.5|e5|1.5.5|1,5|inf|-inf|nan|Infinity"
        "|0x10|1 |12abc|1.0000000000000000000000000000000000000000000000e3");
}

TEST(integers_are_read_as_ruby_reads_them)
{
    check_read(rqli_gem_integer,
               "5000=5000|+5000=5000|-5=-5|0=0|-0=0|9223372036854775807=9223372036854775807"
               "|-9223372036854775808=-9223372036854775808");
    check_refused(rqli_gem_integer,
                  "9223372036854775808|99999999999999999999999|05000|08|-08|+08|00||+|-|+-5|1500.5"
                  "|1500.0|5e3|0x10| 5|5\n|five");
}

TEST(nothing_behind_the_end_is_read)
{
    static const struct {
        struct rqli_slice text;
        parse_fn *parse;
        int64_t value; /* 0: none */
    } rows[] = {
        {{"1795e9999", 4}, rqli_gem_seconds, 1795000000},
        {{"1795e9999", 5}, rqli_gem_seconds, 0},
        {{"1.5999", 3}, rqli_gem_seconds, 1500000},
        {{"1795e9999", 4}, rqli_gem_integer, 1795},
        {{NULL, 0}, rqli_gem_seconds, 0},
        {{NULL, 0}, rqli_gem_integer, 0},
    };

    EACH (row, rows) {
        int64_t value = 0;

        assert_int_equal(row->parse(row->text, &value), row->value != 0);
        assert_int_equal(row->value ? value : 0, row->value);
    }
}
