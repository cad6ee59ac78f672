/* Against the shared library: what the public headers promise can be linked and called. */

#include "check.h"

#include <rql/rql.h>

static void client_round_trip(void **state)
{
    rql_client *client = NULL;

    (void)state;
    CHECK_OK(rql_client_new(&client, NULL, NULL));
    assert_non_null(client);
    client = rql_client_free(client);
    assert_null(client);
}

static void the_version_is_told_as_text(void **state)
{
    char numbers[32];

    (void)state;
    (void)snprintf(numbers, sizeof numbers, "%d.%d.%d", RQL_VERSION_MAJOR, RQL_VERSION_MINOR,
                   RQL_VERSION_PATCH);
    assert_string_equal(RQL_VERSION, numbers);
    assert_string_equal(rql_version(), RQL_VERSION);
}

static void every_status_has_a_text_of_its_own(void **state)
{
    const char *unknown = rql_status_text((rql_status)12345);
    int status;

    (void)state;
    for (status = RQL_E_UNSUPPORTED; status <= RQL_CANCELLED; status++) {
        assert_string_not_equal(rql_status_text((rql_status)status), unknown);
    }
}

static void the_options_table_ends(void **state)
{
    size_t count = 0;

    (void)state;
    while (rql_option_row_at(count)) {
        count++;
    }
    assert_true(count > 0);
    assert_null(rql_option_row_at(count + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_round_trip),
        cmocka_unit_test(the_version_is_told_as_text),
        cmocka_unit_test(every_status_has_a_text_of_its_own),
        cmocka_unit_test(the_options_table_ends),
    };

    return cmocka_run_group_tests_name("linkage", tests, NULL, NULL);
}
