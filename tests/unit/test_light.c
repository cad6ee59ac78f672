#include "check.h"

#include <rql/admin.h>

/* A light build says that it cannot tell, instead of being silent. */

static rql_options options;
static rql_client *client;
static rql_error error;

BEFORE_EACH(set_up)
{
    rql_options_init(&options);
    options.url = "unix:///nowhere";
    CHECK_OK(rql_client_new(&options, &client, &error));
}

AFTER_EACH(tear_down)
{
    client = rql_client_free(client);
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

TEST(a_listener_is_refused)
{
    rql_lock_options of_call;
    rql_client *made = NULL;
    rql_lock *lock = NULL;

    options.logger = rql_log_to_file;
    check_unsupported(rql_client_new(&options, &made, &error));
    options.logger = NULL;
    options.instrumenter = take_event;
    check_unsupported(rql_client_new(&options, &made, &error));
    rql_lock_options_init(client, &of_call);
    of_call.logger = rql_log_json_to_file;
    check_unsupported(rql_lock_acquire(client, "x", &of_call, &lock, &error));
    of_call.logger = NULL;
    of_call.instrumenter = take_event;
    check_unsupported(rql_lock_try(client, "x", &of_call, &lock, &error));
    assert_null(made);
    assert_null(lock);
}

TEST(there_are_no_statistics)
{
    rql_stats stats = {.size = 7};

    assert_int_equal(rql_client_stats(client, &stats), RQL_E_UNSUPPORTED);
    assert_int_equal(stats.size, 7);
}
