#include "check.h"

#include <rql/admin.h>

TEST(durations_are_read)
{
    const char *texts = "0=0|-0=0|0s=0|500ms=500|0.5s=500|007s=7000|1.001s=1001|1.000000000s=1000"
                        "|2s=2000|5m=300000|1h=3600000|1h30m=5400000|1.5h=5400000"
                        "|1d2h3m4s5ms=93784005|1m0.25s=60250|30d=2592000000|-5s=-5000"
                        "|-1h30m=-5400000|9223372036854775807ms=9223372036854775807";
    char text[PART_SIZE];
    int64_t expected_ms;

    while (next_part(&texts, text, &expected_ms)) {
        int64_t value_ms = 42;

        CHECK_OK(rql_duration_parse(text, &value_ms, NULL));
        assert_int_equal(value_ms, expected_ms);
    }
}

TEST(what_is_no_duration_is_refused)
{
    const char *texts =
        "|-|5|1.5|s|ms|+5s| 5s|5s |5 s|--5s|5x|5S|0x5s|.5s|5.s|1.5|1,5s|30m1h|1h1h|1s500|1hm"
        "|1.5h30m|1e3s|0.5ms|0.0001s|1h-30m|1h 30m|5sec|1w|forever|1d0.s|1\n|106751991168d"
        "|0.1234567890s|9223372036854775808ms|9223372036854775s808ms";
    char text[PART_SIZE];
    int64_t value_ms = 42;

    while (next_part(&texts, text, NULL)) {
        rql_error error = {0};

        assert_int_equal(rql_duration_parse(text, &value_ms, &error), RQL_E_INVALID);
        assert_non_null(
            strstr(error.message, "must have units, such as 500ms, 0.5s, 1h30m or 30d"));
    }
    assert_int_equal(rql_duration_parse(NULL, &value_ms, NULL), RQL_E_INVALID);
    assert_int_equal(rql_duration_parse("5s", NULL, NULL), RQL_E_INVALID);
    assert_int_equal(value_ms, 42);
}
