#include "clients.h"
#include "series_fixture.h"

/* What a program sees of a series that no scenario can tell: blocks, threads that end, forks. */

static void names_are_checked_before_anything_is_sent(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    static const char *const bad[] = {"a", ""};
    static const char *const none[] = {"a", NULL};
    static const char *many[RQL_SERIES_MAX + 1];

    const struct {
        const char *const *names;
        size_t count;
    } cases[] = {{twice, 3}, {bad, 2}, {none, 2}, {abc, 0}, {NULL, 3}, {many, RQL_SERIES_MAX + 1}};

    int64_t calls = calls_of("evalsha") + calls_of("eval");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wish wish;
        rql_series *series = NULL;
        rql_error error = {0};

        wish_for(&wish, client, cases[i].names, cases[i].count);
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, &error), RQL_E_INVALID);
        assert_int_equal(error.status, RQL_E_INVALID);
        assert_int_equal(wish.result.count, 0);
    }
    assert_int_equal(rql_series_acquire(client, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), calls);
}

static int count_in_block(rql_series *series, void *user_data)
{
    (void)user_data;
    for (size_t i = 0; i < 3; i++) {
        if (ask_int("EXISTS rql:lock:%s", abc[i]) != 1) {
            return -1;
        }
    }
    return (int)rql_series_count(series);
}

static void block_runs_under_all_locks(void **state)
{
    rql_series_block block = {.run = count_in_block};
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    CHECK_OK(rql_with_series(client, &wish.options, &block, NULL));
    assert_int_equal(block.value, 3);
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_RELEASE);
    assert_true(wish.result.hold_time_us > 0);
    CHECK_NOTHING_OF_ABC();
    block.run = NULL;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_E_INVALID);
}

static int outlast(rql_series *series, void *user_data)
{
    (void)user_data;
    while (rql_series_remaining_ms(series) > 0 || ask_int("EXISTS rql:lock:a") == 1) {
    }
    return 7;
}

static void timed_block_is_told_that_it_overran(void **state)
{
    rql_series_block block = {.run = outlast};
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.ttl_ms = 60;
    wish.lock.timed = true;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_BLOCK_OVERRAN);
    assert_int_equal(block.value, 7);
    wish.lock.timed = false;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_NOT_HELD);
}

static int leave_thread(rql_series *series, void *user_data)
{
    (void)series;
    (void)user_data;
    pthread_exit(NULL);
}

static void *run_block_that_leaves(void *data)
{
    rql_series_block block = {.run = leave_thread};
    struct wish wish;

    wish_for(&wish, data, abc, 3);
    (void)!rql_with_series(data, &wish.options, &block, NULL);
    return NULL;
}

static void thread_that_ends_in_the_block_releases(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, run_block_that_leaves, client), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_NOTHING_OF_ABC();
}

/* In a child of the process: every call says so, and nothing of the parent's is touched. */
static bool is_refused_after_fork(rql_series *series)
{
    struct wish wish;
    rql_series *second = NULL;
    int fd;

    wish_for(&wish, client, abc, 3);
    return rql_series_acquire(client, &wish.options, &second, NULL) == RQL_E_FORKED &&
           rql_series_extend(series, 1000, NULL) == RQL_E_FORKED &&
           rql_series_lost_fd(series, &fd, NULL) == RQL_E_FORKED &&
           rql_series_get_state(series) == RQL_GONE && rql_series_remaining_ms(series) == 0 &&
           rql_series_release(series, NULL, NULL) == RQL_E_FORKED;
}

static void a_series_belongs_to_the_parent(void **state)
{
    rql_series *series = take_series(client, abc, 3);
    pid_t child = fork();
    int how = 0;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        _exit(is_refused_after_fork(series) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

static int outlast_the_bare_ttl(rql_series *series, void *user_data)
{
    const int64_t *ttl_ms = user_data;
    int64_t until_us = wait_clock_us() + *ttl_ms * 1500;

    (void)series;
    while (wait_clock_us() < until_us) {
        (void)ask_int("EXISTS rql:lock:a");
    }
    return 0;
}

/* Of a series as the gem's all locks live longer than that: a block is told by the ttl that was
 * asked for. */
static void timed_counts_the_bare_ttl(void **state)
{
    int64_t ttl_ms = 60;
    rql_series_block block = {.run = outlast_the_bare_ttl, .user_data = &ttl_ms};
    rql_series *series = NULL;
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 2);
    wish.options.mode = RQL_SERIES_GEM;
    wish.lock.ttl_ms = ttl_ms;
    wish.lock.retry_count = 1;
    wish.lock.retry_delay_ms = 60000;
    wish.lock.timed = true;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_BLOCK_OVERRAN);
    wish.lock.timed = false;
    CHECK_OK(rql_with_series(client, &wish.options, &block, NULL));
    CHECK_NOTHING_OF_ABC();
    wish.options.mode = (rql_series_mode)7;
    assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(names_are_checked_before_anything_is_sent),
        TEST(block_runs_under_all_locks),
        TEST(timed_block_is_told_that_it_overran),
        TEST(thread_that_ends_in_the_block_releases),
        TEST(a_series_belongs_to_the_parent),
        TEST(timed_counts_the_bare_ttl),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
