#include "series_fixture.h"

#include "async_fixture.h"
#include "dead.h"
#include "swarm_fixture.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/withdraw.h"

/* A crowd of the dead at the head of a queue: each way in which a lock can become free passes it by
 * at once, in calls that keep the server busy for less than a millisecond each. */

enum {
    CROWD = 500,
    CROWD_AT_ONCE = 40, /* at most */
    SLOW_US = 1000,
    TOO_SLOW_US = 4000,
    POLL_MS = 1600, /* the waiter asks by itself: later it is not known who served it */
    ROUNDS = 5,
    SOON_US = 100000,
    LATEST_US = 3000000, /* a third of the silence of the dead, and what a slow machine adds */
    SLOWNESS_LIMIT = 10, /* a machine that is slower says nothing about a tenth of a second */
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
static void start_behind_the_crowd(struct waiter *live, int64_t count)
{
    *live = (struct waiter){.client = other, .name = "x", .options = patient(other)};
    live->options.retry_delay_ms = 60000;
    waiter_start_as(live, count + 1);
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
    start_behind_the_crowd(&live, CROWD);
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

static bool has_another_holder(void *data)
{
    char nonce[TEXT_SIZE];

    (void)data;
    return strcmp(ask_text(nonce, "HGET rql:lock:x rql_nonce"), rql_lock_secret(held)) != 0;
}

/* What a waiter does that gives up, and was granted the lock meanwhile. */
static void withdraw(void)
{
    const struct rqli_withdrawal_of what = {"x", "", rql_lock_secret(held)};

    rqli_leases_withdraw(client->leases, &what, held->ttl_ms);
    assert_true(wait_until(has_another_holder, NULL, AWAIT_MS));
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

/* From what frees the lock to the end of the live one's call. */
static int64_t time_behind(const struct crowd *crowd, const struct way *way)
{
    struct waiter live;
    int64_t freed_us;

    way->take();
    plant_dead("x", crowd);
    start_behind_the_crowd(&live, crowd->count);
    begin_measuring();
    freed_us = wait_clock_us();
    way->end();
    CHECK_OK(waiter_join(&live));
    print_message("# %s, %s: %lld us, %lld calls, %lld of them over 1 ms\n", crowd->text, way->name,
                  (long long)(live.ended_us - freed_us), (long long)calls_of("evalsha"),
                  (long long)count_slower(SLOW_US));
    assert_true(count_slower(TOO_SLOW_US) <= 1 + calls_of("evalsha") / 2);
    CHECK_OK(rql_lock_release(live.lock, NULL));
    ask("FLUSHALL");
    return live.ended_us - freed_us;
}

/* Again where the machine was busy: what is too slow is so each time. */
static bool is_soon(const struct crowd *crowd, const struct way *way)
{
    int64_t took_us = time_behind(crowd, way);

    for (int round = 1; round < ROUNDS && took_us >= SOON_US; round++) {
        make_listen(other, client);
        took_us = time_behind(crowd, way);
    }
    return took_us < SOON_US * wait_slowness() && took_us < SOON_US * SLOWNESS_LIMIT;
}

static void force_unlock(void)
{
    CHECK_OK(rql_force_unlock(client, "x", NULL, NULL));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
}

static void clear_all(void)
{
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
}

static void shorten_to_nothing(void)
{
    CHECK_OK(rql_force_extend(client, "x", -RQL_TTL_MAX_MS, NULL));
}

/* Of those some seem to live: they are none of its business. */
static void sweep_some_dead(void)
{
    rql_sweep_options options;

    rql_sweep_options_init(client, &options);
    options.dead_ttl_ms = 1000;
    ask("DEL rql:lock:x");
    CHECK_OK(rql_clear_dead_requests(client, &options, NULL, NULL, NULL));
}

static void check_behind(const struct crowd *crowd)
{
    static const struct way ways[] = {
        {"release", take_lock, release},
        {"release on a loop", take_lock, release_on_loop},
        {"release of a series", take_series_of_three, release_series},
        {"withdrawal", take_lock, withdraw},
        {"unlock", take_lock, force_unlock},
        {"an extension by less than nothing", take_of_owner, shorten_to_nothing},
        {"clear_locks", take_of_owner, clear_all},
        {"clear_locks_of, a lock", take_of_owner, sweep_owner},
        {"clear_locks_of, a request", take_of_owner, sweep_request_of_owner},
        {"clear_dead_requests", take_of_owner, sweep_some_dead},
        {"flush_zombies", take_of_owner, flush_lock},
    };

    int n_late = 0;

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        make_listen(other, client);
        n_late += !is_soon(crowd, &ways[i]);
    }
    assert_int_equal(n_late, 0);
}

static void the_living_do_not_wait_for_processes_killed_just_now(void **state)
{
    (void)state;
    check_behind(&(struct crowd){"8 processes", 8, DEAD_FRESH, false});
    check_behind(&(struct crowd){"1000 processes", 1000, DEAD_FRESH, false});
}

static void the_living_do_not_wait_for_the_threads_of_a_process_killed_just_now(void **state)
{
    (void)state;
    check_behind(&(struct crowd){"300 of one process", 300, DEAD_FRESH, true});
}

static void the_living_do_not_wait_for_processes_killed_long_ago(void **state)
{
    (void)state;
    check_behind(&(struct crowd){"1000 silent processes", 1000, DEAD_SILENT, false});
    check_behind(&(struct crowd){"1000 of one silent process", 1000, DEAD_SILENT, true});
}

static void plant_heartbeats(int64_t from_now_us)
{
    freeReplyObject(
        redisCommand(raw, "EVAL %s 0 %d %lld",
                     "for i = 1, ARGV[1] do redis.call('ZADD', 'rql:live', "
                     "redis.call('TIME')[1] * 1e6 + ARGV[2], string.format('%032x', i)) end",
                     CROWD, (long long)from_now_us));
}

static const struct crowd killed_just_now[] = {
    {"1000 processes", 1000, DEAD_FRESH, false},
    {"300 of one process", 300, DEAD_FRESH, true},
};

enum { N_KILLED = sizeof killed_just_now / sizeof killed_just_now[0] };

/* Whoever asks for a free lock has it, though all in front of him still seem to live. */
static void who_asks_finds_a_free_lock_behind_those_killed_just_now(void **state)
{
    rql_lock_options options = patient(client);

    (void)state;
    for (int i = 0; i < N_KILLED; i++) {
        int64_t begun_us;
        rql_lock *lock;

        plant_dead("x", &killed_just_now[i]);
        begin_measuring();
        begun_us = wait_clock_us();
        lock = hold_with(client, "x", &options);
        begun_us = wait_clock_us() - begun_us;
        print_message("# %s: %lld us, %lld calls, %lld of them over 1 ms\n",
                      killed_just_now[i].text, (long long)begun_us, (long long)calls_of("evalsha"),
                      (long long)count_slower(SLOW_US));
        assert_true(begun_us < SOON_US * SLOWNESS_LIMIT);
        assert_true(count_slower(TOO_SLOW_US) <= 1 + calls_of("evalsha") / 2);
        CHECK_OK(rql_lock_release(lock, NULL));
        ask("FLUSHALL");
    }
}

/* Of a lock that nobody of ours has freed. */
static void check_next_poll(const struct crowd *crowd, const char *text, int64_t ttl_ms)
{
    struct waiter live;
    int64_t freed_us;

    make_listen(other, client);
    take_of_owner();
    plant_dead("x", crowd);
    start_behind_the_crowd(&live, crowd->count);
    ask("PEXPIRE rql:lock:x %lld", (long long)ttl_ms);
    freed_us = wait_clock_us() + ttl_ms * 1000;
    CHECK_OK(waiter_join(&live));
    print_message("# %s, %s: %lld us\n", crowd->text, text, (long long)(live.ended_us - freed_us));
    assert_true(live.ended_us - freed_us < LATEST_US);
    CHECK_OK(rql_lock_release(live.lock, NULL));
    ask("FLUSHALL");
}

static void the_next_poll_finds_a_free_lock_behind_those_killed_just_now(void **state)
{
    (void)state;
    for (int i = 0; i < N_KILLED; i++) {
        check_next_poll(&killed_just_now[i], "expiry", 300);
        check_next_poll(&killed_just_now[i], "Ruby's release", 0);
    }
}

/* The server's clock was set back after they died: they are not alive for as long as that. */
static void heartbeats_from_the_future_are_none(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    plant_crowd();
    plant_heartbeats(INT64_C(3600000000));
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
        TEST(the_living_do_not_wait_for_processes_killed_just_now),
        TEST(the_living_do_not_wait_for_the_threads_of_a_process_killed_just_now),
        TEST(the_living_do_not_wait_for_processes_killed_long_ago),
        TEST(who_asks_finds_a_free_lock_behind_those_killed_just_now),
        TEST(the_next_poll_finds_a_free_lock_behind_those_killed_just_now),
        TEST(heartbeats_from_the_future_are_none),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server_with_pattern, stop_server);
}
