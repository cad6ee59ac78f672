#include "clients.h"

/* Beside the gem: it waits and holds as redis_queued_locks does, in raw commands. */

#define RUBY "rql:acq:1/2/3/4/0123456789abcdef"

enum { GRACE_US = 2000000 };

static void ruby_holds(void)
{
    ask("HSET rql:lock:x acq_id " RUBY " hst_id rql:hst:1/2/4/0123456789abcdef ts %lld.5 "
        "ini_ttl 60000",
        (long long)time(NULL));
    ask("PEXPIRE rql:lock:x 60000");
}

static struct waiter waiter_of(rql_client *own, int64_t retry_delay_ms)
{
    struct waiter waiter = {.client = own, .name = "x", .options = patient(own)};

    waiter.options.retry_delay_ms = retry_delay_ms;
    waiter.options.retry_jitter_ms = 0;
    return waiter;
}

/* Keys that the server would tell somebody about: somebody listens for a change. */
static void await_tracking(void)
{
    await_int(1, "EVAL "
                 "return(tonumber(redis.call('info','stats'):match('tracking_total_keys:([0-9]+)')"
                 ")) 0");
}

static void a_ruby_waiter_in_front_of_a_free_lock_has_two_seconds(void **state)
{
    struct waiter waiter = waiter_of(client, 50);
    int64_t begun_us;
    int64_t seen = 0;

    (void)state;
    ask("ZADD rql:lock_queue:x %lld " RUBY, (long long)time(NULL) - 1);
    begun_us = wait_clock_us();
    waiter_start_as(&waiter, 2);
    while (wait_clock_us() < begun_us + GRACE_US - 200000) {
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
        seen = ask_int("ZRANK rql:lock_queue:x " RUBY);
        assert_int_equal(seen, 0);
    }
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.ended_us - begun_us >= GRACE_US - 1000);
    assert_true(waiter.ended_us - begun_us < GRACE_US + 300000 * wait_slowness());
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
}

/* The server's clock was set back after it was seen: its time is not over only then. */
static void a_ruby_waiter_seen_in_the_future_has_two_seconds(void **state)
{
    rql_lock_options options = patient(client);
    long long score = (long long)time(NULL) - 1;
    char seen[TEXT_SIZE];
    rql_lock *lock;

    (void)state;
    options.timeout_ms = 4 * GRACE_US / 1000 * wait_slowness();
    options.queue_ttl_ms = RQL_FOREVER;
    ask("ZADD rql:lock_queue:x %lld " RUBY, score);
    (void)snprintf(seen, sizeof seen, "%lld000000 %lld " RUBY, score + 3600, score);
    freeReplyObject(redisCommand(raw, "HSET rql:req:x ruby %s", seen));
    lock = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
}

static void a_release_leaves_the_lock_free_for_a_ruby_waiter(void **state)
{
    rql_lock *held = hold(client, "x");

    (void)state;
    ask("ZADD rql:lock_queue:x %lld " RUBY, (long long)time(NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    assert_int_equal(ask_int("TTL rql:lock_queue:x"), -1); /* the gem's queues have none */
}

/* It comes within its time and takes the lock by its own hands, as it always does. */
static void a_live_ruby_waiter_is_not_overtaken(void **state)
{
    struct waiter waiter = waiter_of(client, 20);
    rql_lock *held = hold(client, "x");

    (void)state;
    ask("ZADD rql:lock_queue:x %lld " RUBY, (long long)time(NULL) - 1);
    waiter_start_as(&waiter, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    ask("MULTI"); /* as the gem does: the waiter must not come in between */
    ask("ZREM rql:lock_queue:x " RUBY);
    ruby_holds();
    ask("EXEC");
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    ask("EXPIRE rql:lock:x 0");
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

/* Twice: the notice comes once for each time that it was asked for. */
static void check_wakes_by_notice(const char *release)
{
    struct waiter waiter = waiter_of(client, 5000);
    int64_t released_us;

    ruby_holds();
    waiter_start_as(&waiter, 1);
    await_tracking();
    released_us = wait_clock_us();
    ask("%s", release);
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.ended_us - released_us < 1000000 * wait_slowness());
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void rubys_expire_wakes_the_waiter_at_once(void **state)
{
    (void)state;
    check_wakes_by_notice("EXPIRE rql:lock:x 0");
    check_wakes_by_notice("EXPIRE rql:lock:x 0");
}

static void rubys_del_wakes_the_waiter_at_once(void **state)
{
    (void)state;
    check_wakes_by_notice("DEL rql:lock:x");
}

static void a_change_that_frees_nothing_is_followed_by_another_notice(void **state)
{
    struct waiter waiter = waiter_of(client, 5000);
    int64_t released_us;

    (void)state;
    ruby_holds();
    waiter_start_as(&waiter, 1);
    await_tracking();
    ask("HINCRBY rql:lock:x spc_cnt 1");
    await_tracking();
    released_us = wait_clock_us();
    ask("DEL rql:lock:x");
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.ended_us - released_us < 1000000 * wait_slowness());
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static rql_client *new_limited_client(const char *rights)
{
    char url[TEXT_SIZE];
    rql_options options = client_options();

    ask("ACL SETUSER limited reset on >pw ~* &* +@all %s", rights);
    (void)snprintf(url, sizeof url, "unix://limited:pw@%s", server.socket_path);
    options.url = url;
    return new_client_with(&options);
}

static void check_wakes_by_polling(const char *rights)
{
    rql_client *limited = new_limited_client(rights);
    struct waiter waiter = waiter_of(limited, 100);
    int64_t released_us;

    CHECK_OK(rql_client_connect(limited, NULL));
    ruby_holds();
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    released_us = wait_clock_us();
    ask("DEL rql:lock:x");
    if (waiter_join(&waiter)) {
        fail_msg("%s: %s", rights, waiter.error.message);
    }
    assert_true(waiter.ended_us - released_us < 1000000 * wait_slowness());
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    rql_client_free(limited);
}

static void without_the_right_to_be_told_it_polls(void **state)
{
    (void)state;
    check_wakes_by_polling("-client|tracking");
    check_wakes_by_polling("-client|tracking -client|caching");
    check_wakes_by_polling("-client +client|id");
    check_wakes_by_polling("resetchannels &rql:wake:*");
}

/* The gem's unlock empties the queue of C waiters as well. */
static void rubys_unlock_gives_the_lock_to_the_waiter(void **state)
{
    struct waiter waiter = waiter_of(client, 5000);
    int64_t released_us;

    (void)state;
    ruby_holds();
    waiter_start_as(&waiter, 1);
    await_tracking();
    released_us = wait_clock_us();
    ask("EVAL "
        "redis.call('ZREMRANGEBYSCORE',KEYS[2],'-inf','+inf');return(redis.call('EXPIRE',KEYS[1],0)"
        ") 2 rql:lock:x rql:lock_queue:x");
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.ended_us - released_us < 1000000 * wait_slowness());
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_ruby_waiter_in_front_of_a_free_lock_has_two_seconds),
        TEST(a_ruby_waiter_seen_in_the_future_has_two_seconds),
        TEST(a_release_leaves_the_lock_free_for_a_ruby_waiter),
        TEST(a_live_ruby_waiter_is_not_overtaken),
        TEST(rubys_expire_wakes_the_waiter_at_once),
        TEST(rubys_del_wakes_the_waiter_at_once),
        TEST(a_change_that_frees_nothing_is_followed_by_another_notice),
        TEST(rubys_unlock_gives_the_lock_to_the_waiter),
        TEST(without_the_right_to_be_told_it_polls),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
