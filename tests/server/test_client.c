#include "check.h"
#include "redis_server.h"
#include "wait.h"

#include <rql/rql.h>

#include <hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a client knows of itself and of what it holds, and the calls around a whole hold. */

static struct redis_server server;
static redisContext *raw;
static rql_client *client;

static int set_up(void **state)
{
    rql_options options;

    (void)state;
    rql_options_init(&options);
    options.url = server.url;
    return redis_server_flush(&server) || rql_client_new(&client, &options, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static void run(const char *command)
{
    freeReplyObject(redisCommand(raw, command));
}

static bool has(const rql_text_list *list, const char *text)
{
    size_t i;

    for (i = 0; i < list->count; i++) {
        if (strcmp(list->item[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static void ids_have_the_gems_form(void **state)
{
    char acquirer[RQL_ID_SIZE];
    char other[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char expected[RQL_ID_SIZE];

    (void)state;
    assert_int_equal(strlen(rql_client_identity(client)), 32);
    (void)snprintf(expected, sizeof expected, "rql:acq:%d/%d/7/0/%s", (int)getpid(), (int)gettid(),
                   rql_client_identity(client));
    assert_string_equal(rql_current_acquirer_id(client, 7, acquirer), expected);
    assert_string_not_equal(rql_current_acquirer_id(client, 0, other), acquirer);
    (void)snprintf(expected, sizeof expected, "rql:hst:%d/%d/0/%s", (int)getpid(), (int)gettid(),
                   rql_client_identity(client));
    assert_string_equal(rql_current_host_id(client, host), expected);
}

static void this_thread_is_a_possible_host(void **state)
{
    char host[RQL_ID_SIZE];
    rql_text_list *hosts = NULL;

    (void)state;
    CHECK_OK(rql_possible_host_ids(client, &hosts, NULL));
    assert_true(has(hosts, rql_current_host_id(client, host)));
    rql_text_list_free(hosts);
}

static void acquired_locks_are_those_still_held(void **state)
{
    rql_lock *a = NULL;
    rql_lock *b = NULL;
    rql_text_list *names = NULL;

    (void)state;
    CHECK_OK(rql_lock_acquire(client, "a", NULL, &a, NULL));
    CHECK_OK(rql_lock_try(client, "b", NULL, &b, NULL));
    CHECK_OK(rql_acquired_locks(client, &names, NULL));
    assert_int_equal(names->count, 2);
    assert_true(has(names, "a") && has(names, "b"));
    rql_text_list_free(names);

    CHECK_OK(rql_lock_release(a, NULL));
    CHECK_OK(rql_acquired_locks(client, &names, NULL));
    assert_int_equal(names->count, 1);
    assert_true(has(names, "b"));
    rql_text_list_free(names);
    CHECK_OK(rql_lock_release(b, NULL));
}

static void verify_asks_the_server(void **state)
{
    rql_lock *lock = NULL;

    (void)state;
    CHECK_OK(rql_lock_acquire(client, "a", NULL, &lock, NULL));
    CHECK_OK(rql_lock_verify(lock, NULL));
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    run("DEL rql:lock:a");
    assert_int_equal(rql_lock_verify(lock, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static void free_lock_is_free_and_held_lock_is_not(void **state)
{
    rql_lock_options options;
    rql_lock *lock = NULL;

    (void)state;
    rql_lock_options_init(client, &options);
    options.retry_delay_ms = 10;
    options.retry_count = 3;
    CHECK_OK(rql_check_until_free(client, "a", &options, NULL));
    options.ttl_ms = 60000;
    CHECK_OK(rql_lock_acquire(client, "a", &options, &lock, NULL));
    assert_int_equal(rql_check_until_free(client, "a", &options, NULL), RQL_RETRY_LIMIT);
    options.retry_count = RQL_FOREVER;
    options.timeout_ms = wait_stretched(50);
    assert_int_equal(rql_check_until_free(client, "a", &options, NULL), RQL_TIMED_OUT);
    options.fail_fast = true;
    assert_int_equal(rql_check_until_free(client, "a", &options, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void check_is_refused_without_the_right_to_see_the_ttl(void **state)
{
    rql_lock_options options;
    rql_lock *lock = NULL;

    (void)state;
    rql_lock_options_init(client, &options);
    options.retry_count = 2;
    options.retry_delay_ms = 10;
    CHECK_OK(rql_lock_acquire(client, "a", &options, &lock, NULL));
    run("ACL SETUSER default -pttl");
    assert_int_equal(rql_check_until_free(client, "a", &options, NULL), RQL_E_AUTH);
    run("ACL SETUSER default +@all");
    run("PEXPIRE rql:lock:a 9000000000000000000");
    assert_int_equal(rql_check_until_free(client, "a", &options, NULL), RQL_RETRY_LIMIT);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void check_returns_when_the_ttl_ends(void **state)
{
    rql_lock_options options;
    rql_lock *lock = NULL;

    (void)state;
    rql_lock_options_init(client, &options);
    options.ttl_ms = 100;
    options.retry_count = RQL_FOREVER;
    options.retry_delay_ms = 60000;
    options.timeout_ms = 30000;
    CHECK_OK(rql_lock_acquire(client, "a", &options, &lock, NULL));
    CHECK_OK(rql_check_until_free(client, "a", &options, NULL));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static int is_held(rql_lock *lock, void *user_data)
{
    bool locked = false;

    (void)!rql_is_locked(client, rql_lock_describe(lock).name, &locked, NULL);
    *(int64_t *)user_data = rql_lock_token(lock);
    return locked ? 42 : 0;
}

static void value_of_a_block_comes_back_and_the_lock_is_gone(void **state)
{
    int64_t token = 0;
    rql_block block = {.run = is_held, .user_data = &token};
    bool locked = true;

    (void)state;
    CHECK_OK(rql_with_lock(client, "a", NULL, &block, NULL));
    assert_int_equal(block.value, 42);
    assert_true(token > 0);
    CHECK_OK(rql_is_locked(client, "a", &locked, NULL));
    assert_false(locked);
}

static int outlast(rql_lock *lock, void *user_data)
{
    (void)user_data;
    while (rql_lock_get_state(lock) != RQL_GONE || rql_lock_verify(lock, NULL) == RQL_OK) {
    }
    return 1;
}

static void block_that_overruns_is_told(void **state)
{
    rql_block block = {.run = outlast};
    rql_lock_options options;

    (void)state;
    rql_lock_options_init(client, &options);
    options.ttl_ms = 50;
    assert_int_equal(rql_with_lock(client, "a", &options, &block, NULL), RQL_NOT_HELD);
    options.timed = true;
    assert_int_equal(rql_with_lock(client, "a", &options, &block, NULL), RQL_BLOCK_OVERRAN);
}

static void block_does_not_run_without_the_lock(void **state)
{
    rql_block block = {.run = outlast, .value = 7};
    rql_lock_options options;
    rql_lock *lock = NULL;

    (void)state;
    rql_lock_options_init(client, &options);
    options.fail_fast = true;
    CHECK_OK(rql_lock_acquire(client, "a", NULL, &lock, NULL));
    options.task = 1;
    assert_int_equal(rql_with_lock(client, "a", &options, &block, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(block.value, 7);
    CHECK_OK(rql_lock_release(lock, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(ids_have_the_gems_form),
        TEST(this_thread_is_a_possible_host),
        TEST(acquired_locks_are_those_still_held),
        TEST(verify_asks_the_server),
        TEST(free_lock_is_free_and_held_lock_is_not),
        TEST(check_is_refused_without_the_right_to_see_the_ttl),
        TEST(check_returns_when_the_ttl_ends),
        TEST(value_of_a_block_comes_back_and_the_lock_is_gone),
        TEST(block_that_overruns_is_told),
        TEST(block_does_not_run_without_the_lock),
    };
    int failed;

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (redis_server_start(&server)) {
        return 1;
    }
    raw = redis_server_connect(&server);
    failed = cmocka_run_group_tests_name("client", tests, NULL, NULL);
    redisFree(raw);
    redis_server_stop(&server);
    return failed;
}
