#include "series_fixture.h"
#include "swarm_fixture.h"

#include "base/clock.h"
#include "client.h"
#include "lock.h"
#include "withdrawal.h"

/* A crowd of the dead at the head of a queue: each way in which a lock can become free passes it by
 * at once, in calls that keep the server busy for less than a millisecond each (protocol.md 1). */

enum { CROWD = 500, CROWD_AT_ONCE = 40, SLOW_US = 1000, TOO_SLOW_US = 4000 };

#define OWNER "rql:acq:90001/1/2/3/ffffffffffffff01"
#define HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define DEAD_HOST "rql:hst:90002/1/0123456789abcdef0123456789abcdef"

/* Requests of clients that are silent; the first one came long ago. */
static void plant_crowd(void)
{
    freeReplyObject(redisCommand(
        raw, "EVAL %s 0 %d %s",
        "for i = 1, ARGV[1] do "
        "local id = string.format('%032x', i) "
        "local acquirer = 'rql:acq:90002/1/' .. i .. '/1/' .. id "
        "redis.call('ZADD', 'rql:lock_queue:x', 1e9 + i, acquirer) "
        "redis.call('HSET', 'rql:req:x', acquirer, ARGV[2] .. ' 5000 ' .. id .. ' 0 q ') end",
        CROWD, DEAD_HOST));
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), CROWD);
}

static void start_behind_the_crowd(struct waiter *live)
{
    *live = (struct waiter){.client = other, .name = "x", .options = patient(other)};
    live->options.retry_delay_ms = 60000;
    waiter_start_as(live, CROWD + 1);
    await_int(1, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
              rql_client_identity(other));
}

/* How many commands took the server so long. */
static int64_t count_slower(int64_t than_us)
{
    redisReply *reply = ask_reply("SLOWLOG GET -1");
    int64_t n = 0;

    for (size_t i = 0; i < reply->elements; i++) {
        n += reply->element[i]->element[2]->integer > than_us;
    }
    freeReplyObject(reply);
    return n;
}

static void begin_measuring(void)
{
    ask("CONFIG RESETSTAT");
    ask("CONFIG SET slowlog-max-len 10000");
    ask("CONFIG SET slowlog-log-slower-than %d", SLOW_US);
    ask("SLOWLOG RESET");
}

/* By push, so whoever made the lock free has served the queue to its end. */
static void expect_served(struct waiter *live, const char *by)
{
    int64_t calls;

    CHECK_OK(waiter_join(live));
    calls = calls_of("evalsha");
    print_message("# %s: %d dead passed in %lld calls, %lld of them over 1 ms\n", by, CROWD,
                  (long long)calls, (long long)count_slower(SLOW_US));
    assert_true(live->handed_over);
    assert_true(calls >= CROWD / CROWD_AT_ONCE);
    assert_true(count_slower(TOO_SLOW_US) < calls / 2);
    CHECK_OK(rql_lock_release(live->lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
}

static void by_a_release(void **state)
{
    rql_lock *lock = hold(client, "x");
    struct waiter live;

    (void)state;
    plant_crowd();
    start_behind_the_crowd(&live);
    begin_measuring();
    CHECK_OK(rql_lock_release(lock, NULL));
    expect_served(&live, "release");
}

static void by_a_release_of_a_series(void **state)
{
    static const char *const names[] = {"w", "x", "y"};
    rql_series *series = take_series(client, names, 3);
    struct waiter live;

    (void)state;
    plant_crowd();
    start_behind_the_crowd(&live);
    begin_measuring();
    CHECK_OK(rql_series_release(series, NULL, NULL));
    expect_served(&live, "release of a series");
}

static void by_a_sweep_of_locks(void **state)
{
    const rql_sweep_owner owner = {.acq_id = OWNER, .hst_id = HOST};
    rql_sweep_result result;
    struct waiter live;

    (void)state;
    raw_lock("x", OWNER, HOST);
    plant_crowd();
    start_behind_the_crowd(&live);
    begin_measuring();
    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, &result, NULL));
    assert_int_equal(result.handed_over_cnt, 1);
    expect_served(&live, "clear_locks_of");
}

/* The lock goes without a word; what follows finds it free. */
static void end_silently(void)
{
    begin_measuring();
    ask("DEL rql:lock:x");
}

static void by_a_sweep_of_requests(void **state)
{
    const rql_sweep_owner owner = {.acq_id = OWNER, .hst_id = HOST};
    rql_sweep_result result;
    struct waiter live;

    (void)state;
    raw_lock("x", "a", "h");
    plant_crowd();
    start_behind_the_crowd(&live);
    ask("ZADD rql:lock_queue:x 5 " OWNER);
    end_silently();
    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, &result, NULL));
    assert_int_equal(result.rem_request_cnt, 1);
    expect_served(&live, "clear_locks_of, a request");
}

static void by_a_sweep_of_dead_requests(void **state)
{
    rql_sweep_options options;
    rql_sweep_result result;
    struct waiter live;

    (void)state;
    rql_sweep_options_init(client, &options);
    options.dead_ttl_ms = 1000;
    raw_lock("x", "a", "h");
    plant_crowd();
    start_behind_the_crowd(&live);
    end_silently();
    CHECK_OK(rql_clear_dead_requests(client, &options, &result, NULL, NULL));
    assert_int_equal(result.rem_request_cnt, CROWD);
    assert_int_equal(result.handed_over_cnt, 1);
    expect_served(&live, "clear_dead_requests");
}

static void by_a_flush_of_locks(void **state)
{
    rql_zombies *zombies = NULL;
    struct waiter live;

    (void)state;
    raw_host(HOST, 100);
    raw_lock("x", OWNER, HOST);
    plant_crowd();
    start_behind_the_crowd(&live);
    begin_measuring();
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    assert_int_equal(zombies->handed_over_cnt, 1);
    rql_zombies_free(zombies);
    expect_served(&live, "flush_zombies, a lock");
}

static void by_a_flush_of_requests(void **state)
{
    rql_zombies *zombies = NULL;
    struct waiter live;

    (void)state;
    raw_host(DEAD_HOST, 100);
    raw_lock("x", "a", "h");
    plant_crowd();
    start_behind_the_crowd(&live);
    end_silently();
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    assert_int_equal(zombies->rem_request_cnt, CROWD);
    assert_int_equal(zombies->handed_over_cnt, 1);
    rql_zombies_free(zombies);
    expect_served(&live, "flush_zombies, requests");
}

/* What a waiter does that gives up, and was granted the lock meanwhile. */
static void by_a_withdrawal(void **state)
{
    rql_lock *lock = hold(client, "x");
    const struct rqli_withdrawal_of what = {"x", "", rql_lock_secret(lock)};
    struct waiter live;

    (void)state;
    plant_crowd();
    start_behind_the_crowd(&live);
    begin_measuring();
    assert_true(rqli_withdraw(client->link, &lock->keys, &what,
                              rqli_client_patience_us(client, rqli_now_us())));
    expect_served(&live, "withdrawal");
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

/* They keep their places for as long as they seem to live, and nobody asks in a loop meanwhile. */
static void who_is_only_out_of_reach_is_waited_for(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    (void)state;
    plant_crowd();
    freeReplyObject(
        redisCommand(raw, "EVAL %s 0 %d",
                     "for i = 1, ARGV[1] do redis.call('ZADD', 'rql:live', "
                     "redis.call('TIME')[1] * 1e6 + 6e7, string.format('%032x', i)) end",
                     CROWD));
    options.timeout_ms = 200;
    begin_measuring();
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_TIMED_OUT);
    print_message("# %lld calls, %lld of them over 1 ms\n", (long long)calls_of("evalsha"),
                  (long long)count_slower(SLOW_US));
    assert_true(calls_of("evalsha") < 10);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), CROWD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(by_a_release),
        TEST(by_a_release_of_a_series),
        TEST(by_a_withdrawal),
        TEST(by_a_sweep_of_locks),
        TEST(by_a_sweep_of_requests),
        TEST(by_a_sweep_of_dead_requests),
        TEST(by_a_flush_of_locks),
        TEST(by_a_flush_of_requests),
        TEST(who_is_only_out_of_reach_is_waited_for),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
