#include "check.h"

#include "base/text.h"

TEST(whole_numbers_are_read_and_nothing_else)
{
    const char *texts = "0=0|-0=0|7=7|-7=-7|007=7|9223372036854775807=9223372036854775807"
                        "|-9223372036854775808=-9223372036854775808|=42|-=42|+1=42| 1=42|1 =42"
                        "|1.0=42|1e3=42|0x1=42|--1=42|1-1=42|nan=42|9223372036854775808=42|1\n=42"
                        "|a=42|/=42|:=42|1,000=42|-9223372036854775809=42"
                        "|99999999999999999999999=42"; /* 42: none */
    static const struct rqli_slice odd[] = {{NULL, 0}, {"1\0002", 3}};
    char text[PART_SIZE];
    int64_t expected;
    int64_t value;

    while (next_part(&texts, text, &expected)) {
        value = 42;
        assert_int_equal(rqli_parse_int(rqli_slice_of(text), &value), expected != 42);
        assert_int_equal(value, expected);
    }
    EACH (row, odd) {
        assert_false(rqli_parse_int(*row, &value));
    }
    assert_true(rqli_parse_int((struct rqli_slice){"1234", 2}, &value)); /* only its bytes */
    assert_int_equal(value, 12);
}
