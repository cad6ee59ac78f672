#include "ways.h"

/* A server that takes no writes: who does not wait is told at once, in each way to acquire. */

static rql_client *client;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ask("REPLICAOF NO ONE");
    ask("CONFIG SET maxmemory 0");
    client = rql_client_free(client);
    return 0;
}

/* One question, and once more with the script's text where it was not known. */
static void check_told_at_once(const struct way *way, const rql_lock_options *options,
                               rql_status expected)
{
    int64_t begun = calls_of("evalsha");
    struct outcome outcome = acquire_in(way, client, options);

    assert_int_equal(outcome.status, expected);
    assert_int_equal(outcome.error.status, expected);
    assert_in_range(calls_of("evalsha") - begun, 1, 2);
}

static void check_each_way(rql_status expected)
{
    rql_lock_options options = patient(client);

    options.fail_fast = true;
    options.timeout_ms = RQL_FOREVER;
    for (size_t i = 0; i < WAYS; i++) {
        check_told_at_once(&ways[i], &options, expected);
    }
}

static void a_replica_is_told_at_once(void **state)
{
    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    ask("REPLICAOF 127.0.0.1 1");
    check_each_way(RQL_E_READ_ONLY);
}

static void a_full_server_is_told_at_once(void **state)
{
    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    ask("CONFIG SET maxmemory 1");
    check_each_way(RQL_E_UNAVAILABLE);
}

static void rql_lock_try_does_not_wait_for_a_master(void **state)
{
    rql_lock_options options = patient(client);
    rql_error error = {0};
    rql_lock *lock = NULL;

    (void)state;
    options.timeout_ms = RQL_FOREVER;
    ask("REPLICAOF 127.0.0.1 1");
    assert_int_equal(rql_lock_try(client, "x", &options, &lock, &error), RQL_E_READ_ONLY);
    assert_non_null(strstr(error.message, "x: READONLY"));
    ask("REPLICAOF NO ONE");
    CHECK_OK(rql_lock_try(client, "x", &options, &lock, &error));
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void connecting_reports_a_replica(void **state)
{
    rql_error error = {0};
    bool is_locked = true;

    (void)state;
    ask("REPLICAOF 127.0.0.1 1");
    assert_int_equal(rql_client_connect(client, &error), RQL_E_READ_ONLY);
    assert_non_null(strstr(error.message, "READONLY"));
    CHECK_OK(rql_is_locked(client, "x", &is_locked, NULL));
    assert_false(is_locked);
    assert_int_equal(rql_client_connect(client, NULL), RQL_E_READ_ONLY);
    CHECK_OK(rql_is_locked(client, "x", &is_locked, NULL));
    ask("REPLICAOF NO ONE");
    CHECK_OK(rql_client_connect(client, NULL));
}

/* Of the answers that it needs not have, one that is refused does not hide another. */
static void a_replica_is_reported_without_the_right_to_ask_for_more(void **state)
{
    rql_client *own;

    (void)state;
    ask("REPLICAOF 127.0.0.1 1");
    ask("ACL SETUSER default -client|info -info");
    own = new_client();
    assert_int_equal(rql_client_connect(own, NULL), RQL_E_READ_ONLY);
    rql_client_free(own);
    ask("ACL SETUSER default +@all");
    ask("REPLICAOF NO ONE");
}

/* What login asks for beyond need may be forbidden. */
static void connecting_needs_no_rights_but_those_to_lock(void **state)
{
    char url[sizeof server.url + 16];
    rql_options options = client_options();
    rql_client *limited;

    (void)state;
    ask("ACL SETUSER limited reset on >pw ~* &* +@all -info -client|info -client|kill -zrem");
    (void)snprintf(url, sizeof url, "unix://limited:pw@%s", server.socket_path);
    options.url = url;
    limited = new_client_with(&options);
    CHECK_OK(rql_client_connect(limited, NULL));
    rql_client_free(limited);
    ask("ACL DELUSER limited");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_replica_is_told_at_once),
        TEST(a_full_server_is_told_at_once),
        TEST(rql_lock_try_does_not_wait_for_a_master),
        TEST(connecting_reports_a_replica),
        TEST(a_replica_is_reported_without_the_right_to_ask_for_more),
        TEST(connecting_needs_no_rights_but_those_to_lock),
    };
#undef TEST

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
