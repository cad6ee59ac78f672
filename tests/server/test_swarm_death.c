#include "swarm_children.h"

#include "proxy.h"
#include "threads.h"

#include <stdatomic.h>

/* Hosts that die, stop and come back, and flushers that do. */

enum { LOCKS = 1000, WAITERS = 50, FLUSHERS = 20, ROUNDS = 5 };

static void wait_for_ever(size_t index, void *data)
{
    rql_lock_options options = patient(data);
    rql_lock *lock = NULL;

    (void)index;
    options.timeout_ms = RQL_FOREVER;
    (void)!rql_lock_acquire(data, "x", &options, &lock, NULL);
}

static void wait_in_many_threads(void)
{
    rql_client *own = new_client_in_child();

    start_prober_in_child(own);
    threads_run(WAITERS, wait_for_ever, own);
}

/* Nobody releases the lock, so only the flusher can have removed them. */
static void requests_of_killed_waiters_go(void **state)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_child(wait_in_many_threads);
    rql_swarm *swarm;

    (void)state;
    raw_lock("x", "rql:acq:1/1/1/1/aaaaaaaaaaaaaaaa", "rql:hst:1/1/1/aaaaaaaaaaaaaaaa");
    await_hosts(WAITERS);
    await_int(WAITERS, "ZCARD rql:lock_queue:x");
    ask("PERSIST rql:lock_queue:x");
    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    kill_child(child);
    await_within(0, "ZCARD rql:lock_queue:x", bound_ms(&options));
    await_hosts(0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    rql_swarm_free(swarm);
}

static void leave_a_lock(rql_client *own, const char *name)
{
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;

    options.ttl_ms = DAY_MS;
    must(rql_lock_acquire(own, name, &options, &lock, NULL) == RQL_OK, 31);
    must(rql_probe_hosts(own, NULL, NULL, NULL) == RQL_OK, 32); /* as a host that is known */
    rql_lock_forget(lock);
}

static void *leave_a_lock_and_end(void *own)
{
    leave_a_lock(own, "of_the_ended");
    return NULL;
}

static void leave_locks(void)
{
    rql_client *own = new_client_in_child();
    pthread_t thread;

    start_prober_in_child(own);
    must(pthread_create(&thread, NULL, leave_a_lock_and_end, own) == 0, 33);
    must(pthread_join(thread, NULL) == 0, 34);
    leave_a_lock(own, "of_the_living");
    (void)pause();
}

/* The thread that ended has been silent for longer than the process that died. */
static void lock_left_by_a_thread_that_ended_is_kept_and_goes_with_a_process_otherwise(void **state)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_child(leave_locks);
    char host[TEXT_SIZE];
    rql_swarm *swarm;

    (void)state;
    await_int(1, "EXISTS rql:lock:of_the_living");
    await_int(1, "HEXISTS rql:swarm:hsts %s", ask_text(host, "HGET rql:lock:of_the_living hst_id"));
    await_hosts(1);
    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    kill_child(child);
    await_within(0, "EXISTS rql:lock:of_the_living", bound_ms(&options));
    await_hosts(0);
    assert_true(ask_int("PTTL rql:lock:of_the_ended") > DAY_MS / 2);
    rql_swarm_free(swarm);
}

static void note_loss(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    ask("INCR lost");
}

static void *wait_for_another(void *data)
{
    wait_for_ever(0, data);
    return NULL;
}

/* Holds one lock and waits for another. */
static void hold_and_wait(void)
{
    rql_client *own = new_client_in_child();
    rql_lock_options options = patient(own);
    pthread_t thread;
    rql_lock *lock = NULL;

    raw = redis_server_connect(&server); /* the other one is the parent's */
    start_prober_in_child(own);
    options.ttl_ms = DAY_MS;
    options.on_lost = note_loss;
    must(rql_lock_acquire(own, "y", &options, &lock, NULL) == RQL_OK, 31);
    must(pthread_create(&thread, NULL, wait_for_another, own) == 0, 32);
    (void)pause();
}

static pid_t start_stoppable(void)
{
    pid_t child;

    raw_lock("x", "rql:acq:1/1/1/1/aaaaaaaaaaaaaaaa", "rql:hst:1/1/1/aaaaaaaaaaaaaaaa");
    child = start_child(hold_and_wait);
    await_hosts(2);
    await_int(1, "ZCARD rql:lock_queue:x");
    await_int(1, "EXISTS rql:lock:y");
    return child;
}

/* The pause itself is what is tested. False: the machine made it last longer. */
static bool keeps_all_through_a_pause(void)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_stoppable();
    rql_swarm *swarm;
    int64_t begun_us;
    bool is_fair;

    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    begun_us = wait_clock_us();
    (void)kill(child, SIGSTOP);
    sleep_ms(options.zombie_ttl_ms / 2);
    (void)kill(child, SIGCONT);
    sleep_ms(options.zombie_ttl_ms);
    is_fair =
        wait_clock_us() - begun_us < options.zombie_ttl_ms * 1700 && ask_int("EXISTS lost") == 0;
    if (is_fair) {
        assert_int_equal(ask_int("EXISTS rql:lock:y"), 1);
        assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
        assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 2);
    }
    rql_swarm_free(swarm);
    kill_child(child);
    ask("FLUSHALL");
    return is_fair;
}

static void host_that_stops_for_less_than_the_ttl_keeps_all(void **state)
{
    bool is_fair = false;

    (void)state;
    for (int i = 0; i < ROUNDS && !is_fair; i++) {
        is_fair = keeps_all_through_a_pause();
    }
    assert_true(is_fair);
}

static void host_that_stops_for_longer_loses_its_lock_and_waits_again(void **state)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_stoppable();
    rql_swarm *swarm;

    (void)state;
    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    (void)kill(child, SIGSTOP);
    await_within(0, "HLEN rql:swarm:hsts", bound_ms(&options));
    assert_int_equal(ask_int("EXISTS rql:lock:y"), 0);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
    (void)kill(child, SIGCONT);
    await_int(1, "GET lost");
    await_int(1, "ZCARD rql:lock_queue:x");
    await_hosts(2);
    rql_swarm_free(swarm);
    kill_child(child);
}

static void note_time(rql_lock *lock, void *user_data)
{
    (void)lock;
    *(atomic_llong *)user_data = wait_clock_us();
}

/* Cut off from the server the holder knows of its loss before another can have the lock. */
static void host_that_is_cut_off_gives_up_before_it_is_flushed(void **state)
{
    struct proxy *proxy = proxy_start(server.socket_path);
    rql_options client_settings = client_options();
    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    atomic_llong told_us = 0;
    rql_lock_options options;
    rql_swarm *probing;
    rql_swarm *flushing;
    rql_client *own;
    rql_lock *lock;

    (void)state;
    client_settings.url = proxy_url(proxy);
    client_settings.io_timeout_ms = 500;
    own = new_client_with(&client_settings);
    probing = prober_of(own);
    flushing = flusher_of(client);
    options = patient(own);
    options.ttl_ms = DAY_MS;
    options.on_lost = note_time;
    options.user_data = &told_us;
    lock = hold_with(own, "x", &options);
    await_hosts(1);
    waiter.options.timeout_ms = RQL_FOREVER;
    waiter_start_as(&waiter, 1);
    proxy_freeze(proxy, PROXY_BOTH, true);
    CHECK_OK(waiter_join(&waiter));
    assert_true(told_us > 0);
    assert_true(told_us <= waiter.ended_us);
    assert_int_equal(rql_lock_remaining_ms(lock), 0);
    proxy_heal(proxy);
    (void)!rql_lock_release(lock, NULL);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    rql_swarm_free(flushing);
    rql_swarm_free(probing);
    rql_client_free(own);
    proxy_stop(proxy);
}

static struct proxy *slow;

static void flush_slowly(void)
{
    rql_options options = client_options();
    rql_client *own = NULL;

    options.url = proxy_url(slow);
    must(rql_client_new(&own, &options, NULL) == RQL_OK, 40);
    must(rql_flush_zombies(own, NULL, NULL, NULL) == RQL_OK, 41);
    rql_client_free(own);
}

/* The flusher stops between its look and its deletes; the host comes back meanwhile. */
static void flusher_that_was_stopped_deletes_nothing_of_the_living(void **state)
{
    static const char host[] = "rql:hst:90001/1/3/ffffffffffffff01";
    pid_t child;

    (void)state;
    raw_host(host, 100);
    raw_host("rql:hst:90002/1/3/ffffffffffffff02", 100);
    raw_lock("x", "rql:acq:90001/1/2/3/ffffffffffffff01", host);
    raw_lock("y", "rql:acq:90002/1/2/3/ffffffffffffff02", "rql:hst:90002/1/3/ffffffffffffff02");
    ask("ZADD rql:lock_queue:z 1 rql:acq:90001/1/2/3/ffffffffffffff01");
    slow = proxy_start(server.socket_path);
    proxy_delay(slow, PROXY_UP, 200 * wait_slowness());
    child = start_limited_child(flush_slowly);
    await_int(2, "HLEN rql:swarm:suspects");
    (void)kill(child, SIGSTOP);
    raw_host(host, 1);
    (void)kill(child, SIGCONT);
    proxy_heal(slow);
    expect_good_end(child);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(ask_int("EXISTS rql:lock:y"), 0);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:z"), 1);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    assert_int_equal(ask_int("EXISTS rql:swarm:suspects"), 0);
    slow = proxy_stop(slow);
}

static bool one_is_elected(void *data)
{
    rql_client **clients = data;
    int elected = 0;

    for (int i = 0; i < FLUSHERS; i++) {
        rql_swarm_status status;

        elected += rql_get_swarm_status(clients[i], &status, NULL) == RQL_OK && status.is_flusher;
    }
    return elected == 1;
}

/* One of many is elected; when it goes another takes its place. */
static void many_flushers_are_one(void **state)
{
    rql_client *clients[FLUSHERS];
    rql_swarm *swarms[FLUSHERS];

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "of_the_dead_%d", i);
        raw_lock(name, "rql:acq:90001/1/2/3/ffffffffffffff01",
                 "rql:hst:90001/1/3/ffffffffffffff01");
    }
    for (int i = 0; i < FLUSHERS; i++) {
        clients[i] = new_client();
        swarms[i] = flusher_of(clients[i]);
    }
    raw_host("rql:hst:90001/1/3/ffffffffffffff01", 100);
    ask("HSET rql:swarm:hsts garbage x rql:hst:1/1/1/a nan rql:hst:2/1/1/a 0x10");
    raw_lock("of_garbage", "rql:acq:1/1/1/1/a", "rql:hst:1/1/1/a");
    await_int(3, "HLEN rql:swarm:hsts");
    assert_int_equal(ask_int("EVAL return(#redis.call('keys','rql:lock:*')) 0"), 1);
    assert_true(wait_until(one_is_elected, clients, AWAIT_MS));
    for (int i = 0; i < FLUSHERS - 1; i++) {
        swarms[i] = rql_swarm_free(swarms[i]);
    }
    raw_host("rql:hst:90001/1/3/ffffffffffffff01", 100);
    await_int(3, "HLEN rql:swarm:hsts");
    rql_swarm_free(swarms[FLUSHERS - 1]);
    for (int i = 0; i < FLUSHERS; i++) {
        rql_client_free(clients[i]);
    }
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
}

/* A flusher that dies without a word is replaced before its hosts are overdue. */
static void flush_in_child(void)
{
    rql_client *own = new_client_in_child();
    rql_swarm_options options = paced(own);
    rql_lock_options settings = patient(own);
    rql_swarm *swarm = NULL;
    rql_lock *lock = NULL;

    settings.ttl_ms = DAY_MS;
    must(rql_swarm_start(own, &options, &swarm, NULL) == RQL_OK, 30);
    must(rql_lock_acquire(own, "x", &settings, &lock, NULL) == RQL_OK, 31);
    (void)pause();
}

static void flusher_that_dies_is_flushed_by_the_next(void **state)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_child(flush_in_child);
    rql_swarm *swarm;

    (void)state;
    await_hosts(1);
    await_int(1, "EXISTS rql:lock:x");
    await_int(1, "EXISTS rql:swarm:flusher");
    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    kill_child(child);
    await_within(0, "EXISTS rql:lock:x", bound_ms(&options));
    await_hosts(0);
    rql_swarm_free(swarm);
}

/* What the server forgot counts as taken away. */
static bool has_been_told(void *told_us)
{
    return *(atomic_llong *)told_us > 0;
}

static void server_that_lost_everything_is_told_again(void **state)
{
    rql_swarm *swarm = prober_of(client);
    rql_lock_options options = patient(client);
    atomic_llong told_us = 0;
    rql_lock *lock;

    (void)state;
    options.ttl_ms = DAY_MS;
    options.on_lost = note_time;
    options.user_data = &told_us;
    lock = hold_with(client, "x", &options);
    await_hosts(1);
    redis_server_kill(&server);
    assert_int_equal(redis_server_restart(&server), 0);
    redisFree(raw);
    raw = redis_server_connect(&server);
    await_hosts(1);
    assert_true(wait_until(has_been_told, &told_us, AWAIT_MS));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    rql_swarm_free(swarm);
}

struct pinger {
    atomic_bool ends;
    int64_t worst_us;
};

static void *ping_all_the_while(void *data)
{
    struct pinger *self = data;
    redisContext *context = redis_server_connect(&server);

    while (context && !self->ends) {
        int64_t begun_us = wait_clock_us();
        int64_t took_us;

        freeReplyObject(redisCommand(context, "PING"));
        took_us = wait_clock_us() - begun_us;
        self->worst_us = took_us > self->worst_us ? took_us : self->worst_us;
    }
    redisFree(context);
    return NULL;
}

static void plant_many(int64_t count)
{
    raw_host("rql:hst:90001/1/3/ffffffffffffff01", 100);
    for (int64_t i = 0; i < count; i += 1000) {
        redisReply *reply = redisCommand(
            raw, "EVAL %s 0 %lld",
            "for i = ARGV[1], ARGV[1] + 999 do redis.call('HSET', 'rql:lock:' .. i, 'acq_id', "
            "'rql:acq:90001/1/' .. i .. '/3/ffffffffffffff01', 'hst_id', i % 2 == 0 and "
            "'rql:hst:90001/1/3/ffffffffffffff01' or 'rql:hst:1/1/1/a', 'ts', '1.5', 'ini_ttl', "
            "'9') "
            "end",
            (long long)i);

        assert_non_null(reply);
        assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
        freeReplyObject(reply);
    }
}

/* RQL_TEST_LONG: 100 000 locks, half of them of the dead. */
static void server_serves_others_during_a_large_flush(void **state)
{
    int64_t count = is_long() ? 100000 : 10000;
    struct pinger pinger = {.worst_us = 0};
    rql_zombies *zombies = NULL;
    pthread_t thread;
    int64_t begun_us;

    (void)state;
    plant_many(count);
    ask("CONFIG SET slowlog-log-slower-than 1000");
    ask("SLOWLOG RESET");
    assert_int_equal(pthread_create(&thread, NULL, ping_all_the_while, &pinger), 0);
    begun_us = wait_clock_us();
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    print_message("# %lld of %lld locks flushed in %lld ms; worst PING meanwhile %lld us, commands "
                  "over 1 ms: %lld\n",
                  (long long)zombies->locks->count, (long long)count,
                  (long long)(wait_clock_us() - begun_us) / 1000, (long long)pinger.worst_us,
                  (long long)ask_int("SLOWLOG LEN"));
    pinger.ends = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(zombies->locks->count, count / 2);
    assert_true(pinger.worst_us < 250000 * wait_slowness());
    rql_zombies_free(zombies);
}

/* ThreadSanitizer does not let the processes of the test do their work. */
static void pass_over(void **state)
{
    (void)state;
    print_message("# ThreadSanitizer: passed over\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_OF_PROCESSES(name)                                                                    \
    {#name, CHILDREN_MAY_MAKE_THREADS ? (name) : pass_over, set_up, tear_down, NULL}
        TEST_OF_PROCESSES(requests_of_killed_waiters_go),
        TEST_OF_PROCESSES(
            lock_left_by_a_thread_that_ended_is_kept_and_goes_with_a_process_otherwise),
        TEST_OF_PROCESSES(host_that_stops_for_less_than_the_ttl_keeps_all),
        TEST_OF_PROCESSES(host_that_stops_for_longer_loses_its_lock_and_waits_again),
        TEST(host_that_is_cut_off_gives_up_before_it_is_flushed),
        TEST(flusher_that_was_stopped_deletes_nothing_of_the_living),
        TEST(many_flushers_are_one),
        TEST_OF_PROCESSES(flusher_that_dies_is_flushed_by_the_next),
        TEST(server_serves_others_during_a_large_flush),
        TEST(server_that_lost_everything_is_told_again),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
