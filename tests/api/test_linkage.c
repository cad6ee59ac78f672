/* Against the shared library: what the public headers promise can be linked and called. */

#include "check.h"

#include <rql/rql.h>

TEST(client_round_trip)
{
    rql_client *client = NULL;

    CHECK_OK(rql_client_new(&client, NULL, NULL));
    assert_non_null(client);
    client = rql_client_free(client);
    assert_null(client);
}

TEST(the_version_is_told_as_text)
{
    char numbers[32];

    (void)snprintf(numbers, sizeof numbers, "%d.%d.%d", RQL_VERSION_MAJOR, RQL_VERSION_MINOR,
                   RQL_VERSION_PATCH);
    assert_string_equal(RQL_VERSION, numbers);
    assert_string_equal(rql_version(), RQL_VERSION);
}

TEST(every_status_has_a_text_of_its_own)
{
    const char *unknown = rql_status_text((rql_status)12345);
    int status;

    for (status = RQL_E_UNSUPPORTED; status <= RQL_CANCELLED; status++) {
        assert_string_not_equal(rql_status_text((rql_status)status), unknown);
    }
}

TEST(the_options_table_ends)
{
    size_t count = 0;

    while (rql_option_row_at(count)) {
        count++;
    }
    assert_true(count > 0);
    assert_null(rql_option_row_at(count + 1));
}
