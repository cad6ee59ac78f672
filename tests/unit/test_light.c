#include "check.h"

#include <rql/rql.h>

/* A light build says that it cannot tell, instead of being silent. */

static rql_options options;
static rql_client *client;
static rql_error error;

static int set_up(void **state)
{
    (void)state;
    rql_options_init(&options);
    options.url = "unix:///nowhere";
    return rql_client_new(&client, &options, &error);
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static void check_unsupported(rql_status status)
{
    assert_int_equal(status, RQL_E_UNSUPPORTED);
    assert_int_equal(error.status, RQL_E_UNSUPPORTED);
    error.status = RQL_OK;
}

static void take_event(const rql_event *event, void *user_data)
{
    (void)event;
    (void)user_data;
}

static void a_listener_is_refused(void **state)
{
    rql_lock_options of_call;
    rql_client *made = NULL;
    rql_lock *lock = NULL;

    (void)state;
    options.logger = rql_log_to_file;
    check_unsupported(rql_client_new(&made, &options, &error));
    options.logger = NULL;
    options.instrumenter = take_event;
    check_unsupported(rql_client_new(&made, &options, &error));
    rql_lock_options_init(client, &of_call);
    of_call.logger = rql_log_json_to_file;
    check_unsupported(rql_lock_acquire(client, "x", &of_call, &lock, &error));
    of_call.logger = NULL;
    of_call.instrumenter = take_event;
    check_unsupported(rql_lock_try(client, "x", &of_call, &lock, &error));
    assert_null(made);
    assert_null(lock);
}

static void there_are_no_statistics(void **state)
{
    rql_stats stats = {.size = 7};

    (void)state;
    assert_int_equal(rql_client_stats(client, &stats), RQL_E_UNSUPPORTED);
    assert_int_equal(stats.size, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_listener_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_no_statistics, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("light", tests, NULL, NULL);
}
