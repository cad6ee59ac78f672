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

TEST(a_text_has_the_hash_that_fnv_gives_it)
{
    assert_true(rqli_hash_text(RQLI_HASH_START, "") == RQLI_HASH_START);
    assert_true(rqli_hash_text(RQLI_HASH_START, "a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(rqli_hash_text(RQLI_HASH_START, "foobar") == UINT64_C(0x85944171f73967e8));
    assert_true(rqli_hash_text(rqli_hash_text(RQLI_HASH_START, "foo"), "bar") ==
                UINT64_C(0x85944171f73967e8));
}

TEST(numbers_are_written_without_terminator)
{
    static const int64_t cases[] = {0, 1, -1, 9, 10, 99, 100, -1000, INT64_MAX, INT64_MIN};

    EACH (row, cases) {
        char expected[32];
        char written[21];
        size_t length;

        memset(written, '#', sizeof written);
        length = rqli_format_int(written, *row);
        (void)snprintf(expected, sizeof expected, "%lld#", (long long)*row);
        assert_int_equal(length, strlen(expected) - 1);
        assert_memory_equal(written, expected, length + 1);
    }
}
