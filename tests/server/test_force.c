#include "clients.h"

#include "threads.h"

/* The calls that ask nobody, and those that only look: unlock, extend, check, lists. */

#define RUBY "rql:acq:1/2/3/4/0123456789abcdef"

static void check_unlock(bool lock_released, bool queue_released)
{
    rql_unlock_result result = {.rel_time_us = -1};

    CHECK_OK(rql_force_unlock(other, "x", &result, NULL));
    assert_int_equal(result.lock_released, lock_released);
    assert_int_equal(result.queue_released, queue_released);
    assert_in_range(result.rel_time_us, 1, AWAIT_MS * 1000);
    assert_int_equal(ask_int("EXISTS rql:lock:x rql:lock_queue:x"), 0);
}

static void unlock_says_what_was_there(void **state)
{
    rql_lock *held;

    (void)state;
    check_unlock(false, false);
    held = hold(client, "x");
    check_unlock(true, false);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    ask("ZADD rql:lock_queue:x 1 " RUBY);
    check_unlock(false, true);
    ask("ZADD rql:lock_queue:x 1 " RUBY);
    rql_lock_forget(hold(client, "y"));
    ask("RENAME rql:lock:y rql:lock:x");
    check_unlock(true, true);
    CHECK_OK(rql_force_unlock(other, "x", NULL, NULL));
}

static void a_live_waiter_comes_back_after_an_unlock(void **state)
{
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    rql_lock *held = hold(other, "x");
    rql_unlock_result result;

    (void)state;
    waiter.options.retry_delay_ms = 50;
    waiter_start_as(&waiter, 1);
    CHECK_OK(rql_force_unlock(other, "x", &result, NULL));
    assert_true(result.lock_released && result.queue_released);
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
}

static void unlock_of_a_foreign_queue_is_an_error(void **state)
{
    rql_unlock_result result = {.rel_time_us = -1};
    rql_error error = {0};

    (void)state;
    ask("SET rql:lock_queue:x foreign");
    assert_int_equal(rql_force_unlock(client, "x", &result, &error), RQL_E_WRONG_TYPE);
    assert_int_equal(error.status, RQL_E_WRONG_TYPE);
    assert_non_null(strstr(error.message, "rql:lock:x"));
    assert_int_equal(result.rel_time_us, -1);
    assert_int_equal(ask_int("STRLEN rql:lock_queue:x"), 7);
}

static void unlock_without_a_right_names_it(void **state)
{
    static const char *const rights[] = {"multi", "zremrangebyscore", "expire", "exec"};

    (void)state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        rql_options options = client_options();
        char url[sizeof server.url + 32];
        char named[64];
        rql_client *limited;
        rql_error error = {0};

        ask("ACL SETUSER limited reset on >pw ~* &* +@all -%s", rights[i]);
        (void)snprintf(url, sizeof url, "unix://limited:pw@%s", server.socket_path);
        (void)snprintf(named, sizeof named, "no permissions to run the '%s' command", rights[i]);
        options.url = url;
        limited = new_client_with(&options);
        assert_int_equal(rql_force_unlock(limited, "x", NULL, &error), RQL_E_AUTH);
        assert_non_null(strstr(error.message, named));
        rql_client_free(limited);
    }
}

/* When the lock ends, by the server's clock. */
static int64_t end_ms(void)
{
    return ask_int("PEXPIRETIME rql:lock:x");
}

static void extend_adds_whoever_holds_the_lock(void **state)
{
    static const int64_t added_ms[] = {30000, -50000, 1};
    rql_lock *held = hold(client, "x");
    size_t i;

    (void)state;
    for (i = 0; i < sizeof added_ms / sizeof added_ms[0]; i++) {
        int64_t begun_us = wait_clock_us();
        int64_t before_ms = end_ms();
        int64_t more_ms; /* from a server that is stalled within the script */

        CHECK_OK(rql_force_extend(other, "x", added_ms[i], NULL));
        more_ms = end_ms() - before_ms - added_ms[i];
        assert_in_range(more_ms, 0, (wait_clock_us() - begun_us) / 1000 + 1);
    }
    assert_int_equal(ask_int("HGET rql:lock:x ini_ttl"), 60000);
    assert_int_equal(ask_int("HEXISTS rql:lock:x spc_ext_ttl"), 0);
    CHECK_OK(rql_lock_release(held, NULL));
}

static void extend_below_zero_ends_the_lock(void **state)
{
    rql_lock *held = hold(client, "x");

    (void)state;
    CHECK_OK(rql_force_extend(other, "x", -RQL_TTL_MAX_MS, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_force_extend(other, "x", 30000, NULL), RQL_NOT_FOUND);
    assert_int_equal(rql_force_extend(other, "x", -1, NULL), RQL_NOT_FOUND);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
}

static void extend_is_kept_within_30_days(void **state)
{
    rql_error error = {0};
    rql_lock *held = hold(client, "x");
    int64_t before_ms = end_ms();
    int64_t left_ms;

    (void)state;
    assert_int_equal(rql_force_extend(other, "x", RQL_TTL_MAX_MS + 1, &error), RQL_E_INVALID);
    assert_int_equal(rql_force_extend(other, "x", -RQL_TTL_MAX_MS - 1, &error), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_int_equal(end_ms(), before_ms);
    CHECK_OK(rql_force_extend(other, "x", RQL_TTL_MAX_MS, NULL));
    left_ms = ask_int("PTTL rql:lock:x");
    assert_true(left_ms <= RQL_TTL_MAX_MS && left_ms > RQL_TTL_MAX_MS / 2);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* PTTL is -1 then, and the gem adds to it. */
static void a_lock_without_ttl_gets_one(void **state)
{
    (void)state;
    ask("HSET rql:lock:x acq_id " RUBY);
    assert_int_equal(end_ms(), -1);
    CHECK_OK(rql_force_extend(client, "x", 20000, NULL));
    assert_in_range(ask_int("PTTL rql:lock:x"), 1, 19999);
}

static rql_status check_until_free(const rql_lock_options *options)
{
    return rql_check_until_free(client, "x", options, NULL);
}

static void check_of_a_held_lock_comes_to_its_limits(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    int64_t begun_us = wait_clock_us();
    int64_t looks = calls_of("hexists");
    rql_status status;

    (void)state;
    options.retry_jitter_ms = 0;
    options.fail_fast = true;
    assert_int_equal(check_until_free(&options), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(calls_of("hexists"), looks + 1);
    options.fail_fast = false;
    options.retry_count = 3;
    options.retry_delay_ms = 100;
    assert_int_equal(check_until_free(&options), RQL_RETRY_LIMIT);
    assert_int_equal(calls_of("hexists"), looks + 4);
    assert_true(wait_clock_us() - begun_us >= 199000);
    begun_us = wait_clock_us();
    options.retry_count = RQL_FOREVER;
    options.retry_delay_ms = 3600000;
    options.timeout_ms = wait_stretched(200);
    status = check_until_free(&options);
    for (int i = 0; i < 3 && status == RQL_E_UNKNOWN; i++) { /* its last reply came too late */
        status = check_until_free(&options);
    }
    assert_int_equal(status, RQL_TIMED_OUT);
    assert_true(wait_clock_us() - begun_us >= 199000);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:x rql:req:x"), 0);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(check_until_free(&options));
    CHECK_OK(rql_check_until_free(client, "x", NULL, NULL));
}

static void check_ends_when_the_locks_ttl_does(void **state)
{
    rql_lock_options options = patient(client);
    int64_t begun_us = wait_clock_us();

    (void)state;
    options.retry_delay_ms = 3600000;
    ask("HSET rql:lock:x acq_id " RUBY);
    ask("PEXPIRE rql:lock:x 400");
    CHECK_OK(check_until_free(&options));
    assert_true(wait_clock_us() - begun_us < options.timeout_ms * 1000); /* nor at the deadline */
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void *check_in_thread(void *status)
{
    rql_lock_options options = patient(client);

    options.retry_delay_ms = 20;
    *(rql_status *)status = rql_check_until_free(client, "x", &options, NULL);
    return NULL;
}

static void check_notices_a_release(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_status status = RQL_E_SERVER;
    int64_t looks = calls_of("hexists");
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, check_in_thread, &status), 0);
    while (calls_of("hexists") < looks + 3) {
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    }
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_OK(status);
}

static void check_of_a_foreign_key_is_an_error(void **state)
{
    rql_error error = {0};

    (void)state;
    ask("SET rql:lock:x foreign");
    assert_int_equal(rql_check_until_free(client, "x", NULL, &error), RQL_E_WRONG_TYPE);
    assert_int_equal(error.status, RQL_E_WRONG_TYPE);
}

/* The names, sorted and joined. */
static void check_acquired(rql_client *whose, const char *expected)
{
    rql_text_list *list = NULL;
    char names[64] = "";
    int one;
    size_t i;

    CHECK_OK(rql_acquired_locks(whose, &list, NULL));
    for (one = 'a'; one <= 'z'; one++) {
        for (i = 0; i < list->count; i++) {
            if (list->item[i][0] == one) {
                (void)strncat(names, list->item[i], sizeof names - strlen(names) - 1);
            }
        }
    }
    rql_text_list_free(list);
    assert_string_equal(names, expected);
}

static void acquired_locks_are_those_in_force(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *a = hold(client, "a");
    rql_lock *b = hold(client, "b");
    rql_lock *again;

    (void)state;
    check_acquired(client, "ab");
    check_acquired(other, "");
    options.conflict_strategy = RQL_WORK_THROUGH;
    again = hold_with(client, "a", &options);
    check_acquired(client, "aab");
    CHECK_OK(rql_lock_release(again, NULL));
    ask("DEL rql:lock:a");
    assert_int_equal(rql_lock_verify(a, NULL), RQL_NOT_HELD);
    check_acquired(client, "b");
    rql_lock_forget(b);
    check_acquired(client, "");
    assert_int_equal(rql_lock_release(a, NULL), RQL_NOT_HELD);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(unlock_says_what_was_there),
        TEST(a_live_waiter_comes_back_after_an_unlock),
        TEST(unlock_of_a_foreign_queue_is_an_error),
        TEST(unlock_without_a_right_names_it),
        TEST(extend_adds_whoever_holds_the_lock),
        TEST(extend_below_zero_ends_the_lock),
        TEST(extend_is_kept_within_30_days),
        TEST(a_lock_without_ttl_gets_one),
        TEST(check_of_a_held_lock_comes_to_its_limits),
        TEST(check_ends_when_the_locks_ttl_does),
        TEST(check_notices_a_release),
        TEST(check_of_a_foreign_key_is_an_error),
        TEST(acquired_locks_are_those_in_force),
        TEST(possible_host_ids_are_those_of_the_live_threads),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
