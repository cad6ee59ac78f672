#include "swarm_fixture.h"

#include "children.h"
#include "threads.h"

/* The swarm in one process: by hand, and its hosts. */

enum { CHURN = 2000, CHURN_AT_ONCE = 20, HOUR_S = 3600 };

#define RUBY_HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define RUBY_ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"
#define RUBY_WAITING "rql:acq:90002/1/2/3/ffffffffffffff02"

static void expect_item(const rql_text_list *list, size_t count, const char *first)
{
    assert_int_equal(list->count, count);
    if (count > 0) {
        assert_string_equal(list->item[0], first);
    }
}

static void one_heartbeat_by_hand(void **state)
{
    rql_text_list *hosts = NULL;
    char host[RQL_ID_SIZE];
    char text[TEXT_SIZE];
    int64_t at_us = 0;

    (void)state;
    CHECK_OK(rql_probe_hosts(client, &hosts, &at_us, NULL));
    expect_item(hosts, 1, rql_current_host_id(client, host));
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    ask_text(text, "HGET rql:swarm:hsts %s", host);
    assert_true(at_us / 1000000 == strtoll(text, NULL, 10));
    assert_non_null(strchr(text, '.'));
    assert_int_equal(ask_int("PTTL rql:swarm:hsts"), -1);
    rql_text_list_free(hosts);
    CHECK_OK(rql_probe_hosts(client, NULL, NULL, NULL));
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
}

static void info_tells_the_dead_from_the_living(void **state)
{
    rql_host_info_list *hosts = NULL;

    (void)state;
    raw_host("a", 100);
    raw_host("b", 1);
    ask("HSET rql:swarm:hsts c garbage d inf e -5 f 1795254268.4157422e0");
    CHECK_OK(rql_swarm_info(client, 15000, &hosts, NULL));
    assert_int_equal(hosts->count, 6);
    assert_true(hosts->item[0].is_zombie);
    assert_true(hosts->item[0].last_probe_us > 0);
    assert_false(hosts->item[1].is_zombie);
    for (size_t i = 2; i < 5; i++) {
        assert_false(hosts->item[i].is_zombie);
        assert_int_equal(hosts->item[i].last_probe_us, -1);
    }
    rql_host_info_list_free(hosts);
    assert_int_equal(rql_swarm_info(client, 0, &hosts, NULL), RQL_E_INVALID);
    ask("DEL rql:swarm:hsts");
    CHECK_OK(rql_swarm_info(client, 15000, &hosts, NULL));
    assert_int_equal(hosts->count, 0);
    rql_host_info_list_free(hosts);
}

static void plant_zombies(void)
{
    raw_host(RUBY_HOST, 100);
    raw_host("rql:hst:90002/1/3/ffffffffffffff02", 100);
    raw_host("rql:hst:90003/1/3/ffffffffffffff03", 2);
    raw_lock("z1", RUBY_ACQUIRER, RUBY_HOST);
    raw_lock("z2", RUBY_ACQUIRER, RUBY_HOST);
    raw_lock("young", "rql:acq:90003/1/2/3/ffffffffffffff03", "rql:hst:90003/1/3/ffffffffffffff03");
    raw_lock("stranger", "rql:acq:90004/1/2/3/ffffffffffffff04",
             "rql:hst:90004/1/3/ffffffffffffff04");
    ask("ZADD rql:lock_queue:young 1 " RUBY_ACQUIRER " 2 " RUBY_WAITING
        " 3 rql:acq:90003/1/2/3/ffffffffffffff03 4 rql:acq:90004/1/2/3/ffffffffffffff04");
    ask("SET rql:lock:foreign x");
    ask("SET rql:lock_queue:foreign x");
}

static void zombies_are_found(void **state)
{
    rql_zombies *zombies = NULL;
    rql_text_list *list = NULL;

    (void)state;
    plant_zombies();
    CHECK_OK(rql_zombies_info(client, 15000, &zombies, NULL));
    expect_item(zombies->hosts, 2, RUBY_HOST);
    expect_item(zombies->acquirers, 1, RUBY_ACQUIRER);
    expect_item(zombies->locks, 2, "rql:lock:z1");
    zombies = rql_zombies_free(zombies);
    CHECK_OK(rql_zombie_hosts(client, 15000, &list, NULL));
    expect_item(list, 2, RUBY_HOST);
    list = rql_text_list_free(list);
    CHECK_OK(rql_zombie_locks(client, 15000, &list, NULL));
    expect_item(list, 2, "rql:lock:z1");
    list = rql_text_list_free(list);
    CHECK_OK(rql_zombie_acquirers(client, 15000, &list, NULL));
    expect_item(list, 1, RUBY_ACQUIRER);
    list = rql_text_list_free(list);
    CHECK_OK(rql_zombie_hosts(client, 1000 * HOUR_S, &list, NULL));
    expect_item(list, 0, "");
    list = rql_text_list_free(list);
}

static void flush_by_hand_frees_what_the_dead_held(void **state)
{
    rql_zombies *zombies = NULL;

    (void)state;
    plant_zombies();
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    expect_item(zombies->hosts, 2, RUBY_HOST);
    expect_item(zombies->acquirers, 1, RUBY_ACQUIRER);
    expect_item(zombies->locks, 2, "rql:lock:z1");
    assert_int_equal(zombies->rem_request_cnt, 2);
    zombies = rql_zombies_free(zombies);
    assert_int_equal(ask_int("EXISTS rql:lock:z1 rql:lock:z2"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:young rql:lock:stranger rql:lock:foreign"), 3);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:young"), 2);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    assert_int_equal(ask_int("EXISTS rql:swarm:suspects rql:swarm:flusher"), 0);
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    expect_item(zombies->hosts, 0, "");
    zombies = rql_zombies_free(zombies);
}

/* What another version or language may have written there. */
static void a_host_without_a_time_is_never_dead(void **state)
{
    (void)state;
    ask("HSET rql:swarm:hsts " RUBY_HOST " garbage b -5 c inf d 0x10");
    raw_lock("x", RUBY_ACQUIRER, RUBY_HOST);
    CHECK_OK(rql_flush_zombies(client, NULL, NULL, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 4);
}

static void what_is_flushed_goes_to_the_next_waiter(void **state)
{
    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    rql_zombies *zombies = NULL;

    (void)state;
    raw_host(RUBY_HOST, 100);
    raw_lock("x", RUBY_ACQUIRER, RUBY_HOST);
    waiter.options.retry_delay_ms = 60000;
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    assert_int_equal(zombies->handed_over_cnt, 1);
    rql_zombies_free(zombies);
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.handed_over);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

/* The verdict is on a host as it was; one that probed again is another matter. */
static void verdict_ends_with_the_next_heartbeat(void **state)
{
    rql_lock *lock = hold(client, "x");
    rql_lock_facts facts = rql_lock_describe(lock);
    char host[RQL_ID_SIZE];

    (void)state;
    (void)snprintf(host, sizeof host, "%s", facts.hst_id);
    ask("HSET rql:swarm:hsts %s 5.5", host);
    ask("HSET rql:swarm:suspects %s x", host);
    CHECK_OK(rql_probe_hosts(client, NULL, NULL, NULL));
    assert_int_equal(ask_int("HLEN rql:swarm:suspects"), 0);
    CHECK_OK(rql_flush_zombies(other, NULL, NULL, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* A silence that is judged long after it was seen: time enough to look at what happens between. */
static rql_swarm *slow_flusher_of(rql_client *of)
{
    rql_swarm_options options = quick(of);

    options.probe_hosts = false;
    options.zombie_ttl_ms = 20000;
    return swarm_with(of, &options);
}

static void one_sight_is_not_enough(void **state)
{
    rql_swarm *swarm = slow_flusher_of(client);
    char text[TEXT_SIZE];

    (void)state;
    await_int(1, "HLEN rql:swarm:suspects");
    raw_host(RUBY_HOST, 100);
    raw_lock("x", RUBY_ACQUIRER, RUBY_HOST);
    await_int(2, "HLEN rql:swarm:suspects");
    assert_non_null(strstr(ask_text(text, "HGET rql:swarm:suspects " RUBY_HOST), " S "));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    raw_host(RUBY_HOST, 0);
    await_int(1, "HLEN rql:swarm:suspects");
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    rql_swarm_free(swarm);
}

static bool is_suspected_anew(void *unused)
{
    char text[TEXT_SIZE];

    (void)unused;
    ask_text(text, "HGET rql:swarm:suspects " RUBY_HOST);
    return strncmp(text, "1 S ", 4) != 0;
}

/* Nobody looked meanwhile, or the clock jumped: hosts had no chance to clear themselves. */
static void suspicions_from_before_a_pause_say_nothing(void **state)
{
    static const char *const looked_us[] = {"1", "9007199254740991"};

    (void)state;
    for (size_t i = 0; i < sizeof looked_us / sizeof looked_us[0]; i++) {
        rql_swarm *swarm;

        ask("FLUSHALL");
        raw_host(RUBY_HOST, 100);
        raw_lock("x", RUBY_ACQUIRER, RUBY_HOST);
        freeReplyObject(redisCommand(raw, "EVAL %s 0 %s " RUBY_HOST,
                                     "redis.call('HSET', 'rql:swarm:suspects', '', ARGV[1], "
                                     "ARGV[2], '1 S ' "
                                     ".. redis.call('HGET', 'rql:swarm:hsts', ARGV[2]))",
                                     looked_us[i]));
        assert_int_equal(ask_int("HLEN rql:swarm:suspects"), 2);
        swarm = slow_flusher_of(client);
        assert_true(wait_until(is_suspected_anew, NULL, AWAIT_MS));
        await_int(2, "HLEN rql:swarm:suspects");
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
        rql_swarm_free(swarm);
    }
}

static void settings_are_checked(void **state)
{
    rql_swarm_options options = quick(client);
    rql_swarm *swarm = NULL;
    rql_error error = {0};

    (void)state;
    options.probe_period_ms = options.zombie_ttl_ms;
    assert_int_equal(rql_swarm_start(client, &options, &swarm, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "half of zombie_ttl_ms"));
    options = quick(client);
    options.zombie_ttl_ms = 0;
    assert_int_equal(rql_swarm_start(client, &options, &swarm, NULL), RQL_E_INVALID);
    assert_int_equal(rql_flush_zombies(client, &options, NULL, NULL), RQL_E_INVALID);
    options = quick(client);
    options.flush_url = "nonsense";
    assert_int_equal(rql_swarm_start(client, &options, &swarm, NULL), RQL_E_INVALID);
    assert_int_equal(rql_swarm_start(client, NULL, NULL, NULL), RQL_E_INVALID);
    swarm = swarm_of(client);
    assert_int_equal(rql_swarm_start(client, NULL, &swarm, NULL), RQL_E_BUSY);
    assert_null(rql_swarm_free(swarm));
    assert_null(rql_swarm_free(swarm_of(client)));
    assert_null(rql_swarm_free(NULL));
    rql_swarm_stop(NULL);
}

static void thread_is_a_host_from_its_first_use_to_its_end(void **state)
{
    struct waiter waiter = {
        .client = client, .name = "x", .options = patient(client), .releases = true};
    rql_swarm *swarm = prober_of(client);
    char host[RQL_ID_SIZE];

    (void)state;
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    await_hosts(1);
    assert_int_equal(ask_int("HEXISTS rql:swarm:hsts %s", rql_current_host_id(client, host)), 1);
    waiter_start(&waiter);
    CHECK_OK(waiter_join(&waiter));
    await_hosts(1);
    rql_swarm_free(swarm);
    assert_int_equal(ask_int("EXISTS rql:swarm:hsts"), 0);
}

struct probe {
    char host[TEXT_SIZE];
    char text[TEXT_SIZE]; /* its last heartbeat */
};

static bool has_probed_since(void *data)
{
    const struct probe *before = data;
    char after[TEXT_SIZE];

    ask_text(after, "HGET rql:swarm:hsts %s", before->host);
    return strcmp(before->text, after) != 0;
}

/* A lock outlives the thread that took it: its host stays. */
static void host_stays_while_it_holds(void **state)
{
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    rql_swarm *swarm = prober_of(client);
    struct probe before;

    (void)state;
    waiter_start(&waiter);
    CHECK_OK(waiter_join(&waiter));
    ask_text(before.host, "HGET rql:lock:x hst_id");
    await_hosts(1);
    rql_swarm_stop(swarm);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    ask_text(before.text, "HGET rql:swarm:hsts %s", before.host);
    assert_true(wait_until(has_probed_since, &before, AWAIT_MS));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    await_hosts(0);
    rql_swarm_free(swarm);
}

static void host_that_is_freed_with_its_locks_leaves_them_to_their_ttl(void **state)
{
    rql_swarm *swarm = prober_of(client);
    rql_lock *lock = hold(client, "x");

    (void)state;
    await_hosts(1);
    rql_swarm_free(swarm);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_true(rql_lock_remaining_ms(lock) > ZOMBIE_TTL_MS * SLOWNESS_MAX);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void lock_and_end(size_t index, void *data)
{
    char name[32];
    rql_lock_options options = patient(data);
    rql_lock *lock = NULL;

    (void)snprintf(name, sizeof name, "churn %zu", index);
    if (rql_lock_acquire(data, name, &options, &lock, NULL) == RQL_OK) {
        (void)rql_lock_release(lock, NULL);
    }
}

/* RQL_TEST_LONG: 10^5 threads. */
static void short_threads_leave_no_entry(void **state)
{
    int64_t threads = getenv("RQL_TEST_LONG") ? 100000 : CHURN / wait_slowness();
    rql_swarm *swarm = prober_of(client);
    int64_t begun_us = wait_clock_us();

    (void)state;
    for (int64_t i = 0; i < threads; i += CHURN_AT_ONCE) {
        threads_run(CHURN_AT_ONCE, lock_and_end, client);
    }
    print_message("# %lld threads in %lld ms, %lld hosts at their end\n", (long long)threads,
                  (long long)(wait_clock_us() - begun_us) / 1000,
                  (long long)ask_int("HLEN rql:swarm:hsts"));
    await_hosts(0);
    rql_swarm_free(swarm);
}

static rql_swarm *inherited;

static void use_what_is_inherited(void)
{
    rql_swarm_status status;

    must(rql_get_swarm_status(client, &status, NULL) == RQL_E_FORKED, 10);
    rql_swarm_stop(inherited);
    must(rql_swarm_free(inherited) == NULL, 11);
    must(rql_probe_hosts(client, NULL, NULL, NULL) == RQL_E_FORKED, 12);
    must(rql_flush_zombies(client, NULL, NULL, NULL) == RQL_E_FORKED, 13);
    if (CHILDREN_MAY_MAKE_THREADS) {
        rql_client *own = new_client_in_child();
        rql_swarm *swarm = NULL;

        must(rql_swarm_start(own, NULL, &swarm, NULL) == RQL_OK, 14);
        rql_swarm_free(swarm);
        rql_client_free(own);
    }
}

static void child_has_nothing_of_its_parents_swarm(void **state)
{
    rql_lock *lock;

    (void)state;
    inherited = swarm_of(client);
    lock = hold(client, "x");
    await_hosts(1);
    expect_good_end(start_limited_child(use_what_is_inherited));
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    assert_true(status_of(client).is_running);
    CHECK_OK(rql_lock_release(lock, NULL));
    inherited = rql_swarm_free(inherited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(one_heartbeat_by_hand),
        TEST(info_tells_the_dead_from_the_living),
        TEST(zombies_are_found),
        TEST(flush_by_hand_frees_what_the_dead_held),
        TEST(a_host_without_a_time_is_never_dead),
        TEST(what_is_flushed_goes_to_the_next_waiter),
        TEST(verdict_ends_with_the_next_heartbeat),
        TEST(one_sight_is_not_enough),
        TEST(suspicions_from_before_a_pause_say_nothing),
        TEST(settings_are_checked),
        TEST(thread_is_a_host_from_its_first_use_to_its_end),
        TEST(host_stays_while_it_holds),
        TEST(host_that_is_freed_with_its_locks_leaves_them_to_their_ttl),
        TEST(short_threads_leave_no_entry),
        TEST(child_has_nothing_of_its_parents_swarm),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
