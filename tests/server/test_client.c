#include "check.h"
#include "redis_server.h"
#include "threads.h"
#include "wait.h"

#include <rql/rql.h>

#include <hiredis.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a client knows of itself and of what it holds, and the calls around a whole hold. */

enum { AWAIT_MS = 10000 };

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

struct hosts {
    char id[4][RQL_ID_SIZE];
    pthread_barrier_t both; /* all have written; all may go */
};

static void write_host(size_t index, void *data)
{
    struct hosts *hosts = data;

    (void)rql_current_host_id(client, hosts->id[index]);
    (void)pthread_barrier_wait(&hosts->both);
    (void)pthread_barrier_wait(&hosts->both);
}

static int count_of(const rql_text_list *list, const char *text)
{
    int count = 0;
    size_t i;

    for (i = 0; i < list->count; i++) {
        count += strcmp(list->item[i], text) == 0;
    }
    return count;
}

/* A thread that was joined is in the list until the kernel has cleared it away. */
static bool is_not_listed(void *host)
{
    rql_text_list *list = NULL;
    bool is_there = rql_possible_host_ids(client, &list, NULL) || count_of(list, host) > 0;

    rql_text_list_free(list);
    return !is_there;
}

static void possible_host_ids_are_those_of_the_live_threads(void **state)
{
    struct hosts hosts;
    struct threads *threads;
    rql_text_list *list = NULL;
    char own[RQL_ID_SIZE];
    size_t i;

    (void)state;
    assert_int_equal(pthread_barrier_init(&hosts.both, NULL, 5), 0);
    threads = threads_start(4, write_host, &hosts);
    (void)pthread_barrier_wait(&hosts.both);
    CHECK_OK(rql_possible_host_ids(client, &list, NULL));
    assert_int_equal(count_of(list, rql_current_host_id(client, own)), 1);
    for (i = 0; i < 4; i++) {
        assert_int_equal(count_of(list, hosts.id[i]), 1);
    }
    rql_text_list_free(list);
    (void)pthread_barrier_wait(&hosts.both);
    threads_join(threads);
    assert_true(wait_until(is_not_listed, hosts.id[0], AWAIT_MS));
    CHECK_OK(rql_possible_host_ids(client, &list, NULL));
    assert_int_equal(count_of(list, own), 1);
    rql_text_list_free(list);
    assert_int_equal(pthread_barrier_destroy(&hosts.both), 0);
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

static void a_program_of_another_age_gets_the_counters_it_knows(void **state)
{
    struct {
        rql_stats stats;
        char more[64];
    } longer;

    char shorter[offsetof(rql_stats, hand_overs)];
    rql_stats *older = (rql_stats *)&longer;
    rql_lock *lock = NULL;

    (void)state;
    CHECK_OK(rql_lock_acquire(client, "x", NULL, &lock, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    memset(&longer, 0xA5, sizeof longer);
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof shorter));
    assert_int_equal(older->size, sizeof shorter);
    assert_int_equal(older->acquisitions, 1);
    assert_int_not_equal(older->hand_overs, 0); /* not touched */
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof longer));
    assert_int_equal(longer.stats.size, sizeof longer.stats);
    assert_int_equal(longer.more[63], 0);
    assert_int_equal(rql_client_stats(NULL, older), RQL_E_INVALID);
    assert_int_equal(rql_client_stats_sized(client, NULL, sizeof *older), RQL_E_INVALID);
    assert_int_equal(rql_client_stats_sized(client, older, 1), RQL_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_program_of_another_age_gets_the_counters_it_knows),
        TEST(ids_have_the_gems_form),
        TEST(possible_host_ids_are_those_of_the_live_threads),
        TEST(free_lock_is_free_and_held_lock_is_not),
        TEST(check_is_refused_without_the_right_to_see_the_ttl),
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
