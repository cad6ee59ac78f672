#include "ways.h"

#include "proxy.h"

/* A ttl that is over before its grant is known of, in each way to acquire. */

enum {
    TTL_MS = 10,
    WAY_MS = 10, /* to the server, and back */
    TRIES = 3,
    DELAY_MS = 100,
    ALL_MS = 1000,
};

static struct proxy *proxy;
static rql_client *client;
static rql_refusal refusal;

static int set_up(void **state)
{
    rql_options options = client_options();

    (void)state;
    ask("FLUSHALL");
    proxy = proxy_start(server.socket_path);
    proxy_delay(proxy, PROXY_BOTH, WAY_MS);
    options.url = proxy_url(proxy);
    client = new_client_with(&options);
    CHECK_OK(rql_client_connect(client, NULL));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    proxy = proxy_stop(proxy);
    rql_refusal_clear(&refusal);
    return 0;
}

static rql_lock_options of_short_ttl(void)
{
    rql_lock_options options = patient(client);

    options.ttl_ms = TTL_MS;
    options.retry_delay_ms = DELAY_MS;
    options.retry_jitter_ms = 0;
    options.refusal = &refusal;
    return options;
}

/* The gem's way is one lock after the other, and gives each a ttl that allows for the tries. */
static struct outcome acquire_all_at_once(size_t i, const rql_lock_options *options)
{
    static const struct way *const all[] = {&ways[0], &ways[1], &ways[3], &ways[4]};

    return acquire_in(all[i], client, options);
}

static void each_such_grant_is_a_try(void **state)
{
    rql_lock_options options = of_short_ttl();

    (void)state;
    options.retry_count = TRIES;
    for (size_t i = 0; i < 4; i++) {
        struct outcome outcome = acquire_all_at_once(i, &options);

        assert_int_equal(outcome.status, RQL_RETRY_LIMIT);
        assert_int_equal(refusal.reason, RQL_RETRY_LIMIT);
        assert_int_equal(refusal.tries, TRIES);
        assert_int_equal(refusal.n_over, TRIES);
        assert_non_null(strstr(refusal.message, "3 grants were over"));
        expect_nothing_left("x");
        expect_nothing_left("y");
    }
}

static void the_tries_are_a_delay_apart(void **state)
{
    rql_lock_options options = of_short_ttl();

    (void)state;
    options.timeout_ms = ALL_MS;
    for (size_t i = 0; i < 4; i++) {
        int64_t begun = calls_of("hset");
        struct outcome outcome = acquire_all_at_once(i, &options);

        assert_true(has_timed_out(outcome.status));
        assert_non_null(strstr(refusal.message, "a ttl of 10 ms"));
        assert_in_range(calls_of("hset") - begun, 1, 2 * (ALL_MS / DELAY_MS + 1));
    }
}

static void who_does_not_wait_tries_once(void **state)
{
    rql_lock_options options = of_short_ttl();

    (void)state;
    options.fail_fast = true;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(acquire_all_at_once(i, &options).status, RQL_RETRY_LIMIT);
        assert_int_equal(refusal.tries, 1);
        assert_int_equal(refusal.n_over, 1);
        assert_non_null(strstr(refusal.message, "1 grant was over"));
        assert_non_null(strstr(refusal.message, "a ttl of 10 ms"));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_such_grant_is_a_try),
        TEST(the_tries_are_a_delay_apart),
        TEST(who_does_not_wait_tries_once),
    };
#undef TEST

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
