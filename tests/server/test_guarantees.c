#include "swarm_children.h"

/* What the dead cost the living, in figures. */

enum { LOCKS = 1000, SERVED = 5, DEAD = 50, DELAY_MS = 100, LONG_ROUNDS = 50, POLL_MS = 1600 };

static void hold_many(void)
{
    rql_client *own = new_client_in_child();
    rql_lock_options options = patient(own);
    char name[32];

    start_prober_in_child(own);
    options.ttl_ms = DAY_MS;
    for (int i = 0; i < LOCKS; i++) {
        rql_lock *lock = NULL;

        (void)snprintf(name, sizeof name, "lock %d", i);
        must(rql_lock_acquire(own, name, &options, &lock, NULL) == RQL_OK, 31);
    }
    (void)pause();
}

static void locks_of_a_killed_process_are_had_in_time(void **state)
{
    rql_swarm_options options = paced(client);
    pid_t child = start_child(hold_many);
    struct waiter waiters[SERVED];
    char names[SERVED][32];
    rql_swarm *swarm;
    int64_t killed_us;
    int64_t last_us = 0;

    (void)state;
    await_int(LOCKS, "EVAL return(#redis.call('keys','rql:lock:*')) 0");
    await_hosts(1);
    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    for (size_t i = 0; i < SERVED; i++) {
        (void)snprintf(names[i], sizeof names[i], "lock %zu", i * (LOCKS / SERVED));
        waiters[i] = (struct waiter){.client = other, .name = names[i], .options = patient(other)};
        waiters[i].options.timeout_ms = RQL_FOREVER;
        waiter_start(&waiters[i]);
    }
    await_int(SERVED, "EVAL return(#redis.call('keys','rql:lock_queue:*')) 0");
    kill_child(child);
    killed_us = wait_clock_us();
    for (size_t i = 0; i < SERVED; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
        last_us = waiters[i].ended_us > last_us ? waiters[i].ended_us : last_us;
        CHECK_OK(rql_lock_release(waiters[i].lock, NULL));
    }
    await_within(0, "EVAL return(#redis.call('keys','rql:lock:*')) 0", bound_ms(&options));
    await_hosts(0);
    print_message("# zombie_ttl %lld ms, flush period %lld ms: waiters served after %lld ms, %d "
                  "locks free after %lld ms\n",
                  (long long)options.zombie_ttl_ms, (long long)options.zombie_flush_period_ms,
                  (long long)(last_us - killed_us) / 1000, LOCKS,
                  (long long)(wait_clock_us() - killed_us) / 1000);
    assert_true(last_us - killed_us < bound_ms(&options) * 1000);
    rql_swarm_free(swarm);
}

static void wait_for_ever(void)
{
    rql_client *own = new_client_in_child();
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;

    options.timeout_ms = RQL_FOREVER;
    (void)!rql_lock_acquire(own, "x", &options, &lock, NULL);
}

/* How many clients listen. */
static void await_listeners(int64_t count)
{
    await_int(count, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

/* From the release to the return of the live waiter's call. */
static int64_t time_behind_the_dead(void)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef";
    struct waiter live = {.client = client, .name = "x", .options = patient(client)};
    int64_t released_us;
    pid_t children[DEAD];

    ask("HSET rql:lock:x acq_id a hst_id h ts 1.0 ini_ttl 60000 rql_nonce %s", secret);
    for (int i = 0; i < DEAD; i++) {
        children[i] = start_child(wait_for_ever);
    }
    await_int(DEAD, "ZCARD rql:lock_queue:x");
    live.options.retry_delay_ms = 60000;
    waiter_start_as(&live, DEAD + 1);
    await_listeners(DEAD + 1);
    for (int i = 0; i < DEAD; i++) {
        kill_child(children[i]);
    }
    await_listeners(1);
    released_us = wait_clock_us();
    CHECK_OK(rql_release_by_secret(client, "x", secret, NULL));
    CHECK_OK(waiter_join(&live));
    CHECK_OK(rql_lock_release(live.lock, NULL));
    ask("FLUSHALL");
    return live.ended_us - released_us;
}

static void killed_processes_do_not_delay_the_living(void **state)
{
    int64_t rounds = is_long() ? LONG_ROUNDS : 1;
    int64_t worst_us = 0;

    (void)state;
    for (int64_t i = 0; i < rounds; i++) {
        int64_t took_us = time_behind_the_dead();

        worst_us = took_us > worst_us ? took_us : worst_us;
    }
    print_message(
        "# %d processes killed, %lld times: the live one behind them had the lock %lld us "
        "after its release at the latest\n",
        DEAD, (long long)rounds, (long long)worst_us);
    assert_true(worst_us < DELAY_MS * 1000 * wait_slowness());
    assert_true(worst_us < POLL_MS * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(locks_of_a_killed_process_are_had_in_time),
        TEST(killed_processes_do_not_delay_the_living),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (!CHILDREN_MAY_MAKE_THREADS) {
        return skip_all("ThreadSanitizer");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
