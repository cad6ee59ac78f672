#include "series_fixture.h"

#include "async_fixture.h"
#include "swarm_fixture.h"

#include "base/clock.h"
#include "client/client.h"
#include "client/lock.h"
#include "keeper/withdrawal.h"

/* A crowd of the dead at the head of a queue: each way in which a lock can become free passes it by
 * at once, in calls that keep the server busy for less than a millisecond each (protocol.md 1). */

enum {
    CROWD = 500,
    CROWD_AT_ONCE = 40, /* at most */
    SLOW_US = 1000,
    TOO_SLOW_US = 4000,
    POLL_MS = 1600, /* the waiter asks by itself: later it is not known who served it */
    ROUNDS = 5,
};

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

/* A way in which a lock becomes free; what it needs is there before. */
struct way {
    const char *name;
    void (*take)(void);
    void (*end)(void);
};

/* Its client listens already: it asks once, and then is silent for a while. */
static void start_behind_the_crowd(struct waiter *live)
{
    *live = (struct waiter){.client = other, .name = "x", .options = patient(other)};
    live->options.retry_delay_ms = 60000;
    waiter_start_as(live, CROWD + 1);
}

static void check_calls(const char *name)
{
    int64_t calls = calls_of("evalsha");

    print_message("# %s: %d dead passed in %lld calls, %lld of them over 1 ms\n", name, CROWD,
                  (long long)calls, (long long)count_slower(SLOW_US));
    assert_true(calls >= CROWD / CROWD_AT_ONCE);
    assert_true(count_slower(TOO_SLOW_US) < calls / 2);
}

/* By push, so whoever made the lock free has served the queue to its end. False: it took so long
 * that the waiter may have asked. */
static bool passes_in_time(const struct way *way)
{
    struct waiter live;
    int64_t begun_us;
    bool is_in_time;

    way->take();
    plant_crowd();
    begun_us = wait_clock_us();
    start_behind_the_crowd(&live);
    begin_measuring();
    way->end();
    CHECK_OK(waiter_join(&live));
    is_in_time = live.ended_us - begun_us < POLL_MS * 1000;
    if (is_in_time) {
        assert_true(live.handed_over);
        check_calls(way->name);
    }
    CHECK_OK(rql_lock_release(live.lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
    ask("FLUSHALL");
    return is_in_time;
}

static rql_lock *held;
static rql_series *held_series;

static void take_lock(void)
{
    held = hold(client, "x");
}

static void release(void)
{
    CHECK_OK(rql_lock_release(held, NULL));
}

static void release_on_loop(void)
{
    assert_int_equal(release_and_wait(held), RQL_OK);
}

static void take_series_of_three(void)
{
    static const char *const names[] = {"w", "x", "y"};

    held_series = take_series(client, names, 3);
}

static void release_series(void)
{
    CHECK_OK(rql_series_release(held_series, NULL, NULL));
}

/* What a waiter does that gives up, and was granted the lock meanwhile. */
static void withdraw(void)
{
    const struct rqli_withdrawal_of what = {"x", "", rql_lock_secret(held)};

    assert_true(rqli_withdraw(client->link, &held->keys, &what,
                              rqli_client_patience_us(client, rqli_now_us())));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
}

static void take_of_owner(void)
{
    raw_lock("x", OWNER, HOST);
}

static void sweep_owner(void)
{
    const rql_sweep_owner owner = {.acq_id = OWNER, .hst_id = HOST};

    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, NULL, NULL));
}

/* The lock goes without a word; what follows finds it free. */
static void sweep_request_of_owner(void)
{
    ask("ZADD rql:lock_queue:x 5 " OWNER);
    ask("DEL rql:lock:x");
    sweep_owner();
}

static void sweep_dead(void)
{
    rql_sweep_options options;
    rql_sweep_result result;

    rql_sweep_options_init(client, &options);
    options.dead_ttl_ms = 1000;
    ask("DEL rql:lock:x");
    CHECK_OK(rql_clear_dead_requests(client, &options, &result, NULL, NULL));
    assert_int_equal(result.rem_request_cnt, CROWD);
}

static void flush_lock(void)
{
    raw_host(HOST, 100);
    CHECK_OK(rql_flush_zombies(client, NULL, NULL, NULL));
}

static void flush_requests(void)
{
    rql_zombies *zombies = NULL;

    raw_host(DEAD_HOST, 100);
    ask("DEL rql:lock:x");
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    assert_int_equal(zombies->rem_request_cnt, CROWD);
    rql_zombies_free(zombies);
}

static void crowd_of_the_dead_is_passed_by_at_once(void **state)
{
    static const struct way ways[] = {
        {"release", take_lock, release},
        {"release on a loop", take_lock, release_on_loop},
        {"release of a series", take_series_of_three, release_series},
        {"withdrawal", take_lock, withdraw},
        {"clear_locks_of, a lock", take_of_owner, sweep_owner},
        {"clear_locks_of, a request", take_of_owner, sweep_request_of_owner},
        {"clear_dead_requests", take_of_owner, sweep_dead},
        {"flush_zombies, a lock", take_of_owner, flush_lock},
        {"flush_zombies, requests", take_of_owner, flush_requests},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        bool is_in_time = false;

        make_listen(other, client);
        for (int round = 0; round < ROUNDS && !is_in_time; round++) {
            is_in_time = passes_in_time(&ways[i]);
        }
        assert_true(is_in_time);
    }
}

static void plant_signs_of_life(int64_t from_now_us)
{
    freeReplyObject(
        redisCommand(raw, "EVAL %s 0 %d %lld",
                     "for i = 1, ARGV[1] do redis.call('ZADD', 'rql:live', "
                     "redis.call('TIME')[1] * 1e6 + ARGV[2], string.format('%032x', i)) end",
                     CROWD, (long long)from_now_us));
}

/* They keep their places for as long as they seem to live, and nobody asks in a loop meanwhile. */
static void who_is_only_out_of_reach_is_waited_for(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    (void)state;
    plant_crowd();
    plant_signs_of_life(INT64_C(4000000));
    options.timeout_ms = wait_stretched(200);
    begin_measuring();
    assert_true(has_timed_out(rql_lock_acquire(client, "x", &options, &lock, NULL)));
    print_message("# %lld calls, %lld of them over 1 ms\n", (long long)calls_of("evalsha"),
                  (long long)count_slower(SLOW_US));
    assert_true(calls_of("evalsha") < 10 + options.timeout_ms / 200);
    await_int(CROWD, "ZCARD rql:lock_queue:x");
}

/* The server's clock was set back after they died: they are not alive for as long as that. */
static void signs_of_life_from_the_future_are_none(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    plant_crowd();
    plant_signs_of_life(INT64_C(3600000000));
    options.timeout_ms = SHORT_MS;
    lock = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_loop, tear_down_loop)
        TEST(crowd_of_the_dead_is_passed_by_at_once),
        TEST(who_is_only_out_of_reach_is_waited_for),
        TEST(signs_of_life_from_the_future_are_none),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
