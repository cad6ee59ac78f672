#include "swarm_fixture.h"

#include "proxy.h"

/* The elements of a swarm, and what becomes of them when their server does not serve them. */

#define DEAD_HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define DEAD_ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"

static bool has_stepped(void *data)
{
    rql_swarm_status status = status_of(data);

    return status.probe_hosts.steps > 0 && status.flush_zombies.steps > 1 && status.is_flusher &&
           status.supervisor.steps > 0;
}

static void status_tells_how_it_is(void **state)
{
    rql_swarm_status status = status_of(client);
    rql_swarm *swarm;

    (void)state;
    assert_false(status.is_running);
    assert_int_equal(status.supervisor.state, RQL_ELEMENT_OFF);
    swarm = swarm_of(client);
    assert_true(wait_until(has_stepped, client, AWAIT_MS));
    status = status_of(client);
    assert_true(status.is_running);
    assert_false(status.auto_swarm);
    assert_int_equal(status.probe_hosts.state, RQL_ELEMENT_RUNNING);
    assert_int_equal(status.flush_zombies.state, RQL_ELEMENT_RUNNING);
    assert_int_equal(status.flush_zombies.breaker, RQL_BREAKER_CLOSED);
    assert_int_equal(status.supervisor.restarts, 0);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 1);
    rql_swarm_stop(swarm);
    status = status_of(client);
    assert_false(status.is_running);
    assert_int_equal(status.flush_zombies.state, RQL_ELEMENT_OFF);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
    rql_swarm_stop(swarm);
    rql_swarm_free(swarm);
    assert_false(status_of(client).probe_hosts.enabled);
}

static void auto_swarm_runs_with_the_client(void **state)
{
    rql_options options = client_options();
    rql_client *own;

    (void)state;
    options.auto_swarm = true;
    own = new_client_with(&options);
    assert_true(status_of(own).auto_swarm);
    assert_true(status_of(own).is_running);
    CHECK_OK(rql_lock_release(hold(own, "x"), NULL));
    await_hosts(1);
    rql_client_free(own);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
}

static bool breaker_is_open(void *data)
{
    return status_of(data).probe_hosts.breaker != RQL_BREAKER_CLOSED;
}

static bool breaker_is_closed(void *data)
{
    rql_swarm_status status = status_of(data);

    return status.probe_hosts.breaker == RQL_BREAKER_CLOSED &&
           status.flush_zombies.breaker == RQL_BREAKER_CLOSED;
}

static void server_that_is_away_is_not_hammered_and_found_again(void **state)
{
    struct proxy *proxy = proxy_start(server.socket_path);
    rql_options options = client_options();
    rql_client *own;
    rql_swarm *swarm;

    (void)state;
    options.url = proxy_url(proxy);
    own = new_client_with(&options);
    swarm = swarm_of(own);
    CHECK_OK(rql_lock_release(hold(own, "x"), NULL));
    await_hosts(1);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_true(wait_until(breaker_is_open, own, AWAIT_MS));
    assert_true(status_of(own).probe_hosts.failures >= 3);
    proxy_heal(proxy);
    assert_true(wait_until(breaker_is_closed, own, AWAIT_MS));
    rql_swarm_free(swarm);
    rql_client_free(own);
    proxy_stop(proxy);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
}

static void elements_have_connections_of_their_own(void **state)
{
    struct proxy *to_probe = proxy_start(server.socket_path);
    struct proxy *to_flush = proxy_start(server.socket_path);
    rql_swarm_options options = quick(client);
    rql_swarm *swarm;

    (void)state;
    options.probe_url = proxy_url(to_probe);
    options.flush_url = proxy_url(to_flush);
    swarm = swarm_with(client, &options);
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    await_hosts(1);
    assert_true(wait_until(has_stepped, client, AWAIT_MS));
    assert_int_equal(proxy_counts(to_probe).connections, 1);
    assert_int_equal(proxy_counts(to_flush).connections, 1);
    rql_swarm_free(swarm);
    proxy_stop(to_probe);
    proxy_stop(to_flush);
}

static bool has_looked_often(void *data)
{
    return status_of(data).flush_zombies.steps > 5;
}

/* The living cost the server one look at their hash each time, however many locks there are. */
static void locks_are_scanned_only_when_somebody_is_dead(void **state)
{
    rql_lock *lock = hold(client, "x");
    rql_swarm *swarm;

    (void)state;
    raw_host("rql:hst:90002/1/3/ffffffffffffff02", -3600);
    ask("CONFIG RESETSTAT");
    swarm = swarm_of(client);
    assert_true(wait_until(has_looked_often, client, AWAIT_MS));
    assert_int_equal(calls_of("scan"), 0);
    raw_host(DEAD_HOST, 100);
    await_int(0, "HEXISTS rql:swarm:hsts " DEAD_HOST);
    assert_true(calls_of("scan") >= 2);
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_swarm_free(swarm);
}

static bool holds_nothing(void *data)
{
    return rql_lock_get_state(data) == RQL_GONE;
}

/* So many replies has a login. */
static int64_t count_login(struct proxy *proxy)
{
    rql_options options = client_options();
    int64_t before = proxy_counts(proxy).replies;
    rql_client *visitor;

    options.url = proxy_url(proxy);
    visitor = new_client_with(&options);
    CHECK_OK(rql_client_connect(visitor, NULL));
    rql_client_free(visitor);
    return proxy_counts(proxy).replies - before;
}

/* The server knows the host, and the client does not know that it does. */
static void a_first_heartbeat_without_answer_binds_the_locks(void **state)
{
    struct proxy *proxy = proxy_start(server.socket_path);
    rql_swarm_options options = quick(client);
    rql_lock *lock = hold(client, "x");
    rql_swarm *swarm;
    int lost_fd = -1;

    (void)state;
    CHECK_OK(rql_lock_lost_fd(lock, &lost_fd, NULL));
    CHECK_OK(rql_probe_hosts(client, NULL, NULL, NULL)); /* the server knows the script now */
    ask("DEL rql:swarm:hsts");
    options.flush_zombies = false;
    options.probe_url = proxy_url(proxy);
    proxy_cut_reply(proxy, count_login(proxy) + 1);
    swarm = swarm_with(client, &options);
    await_hosts(1);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_true(wait_readable(lost_fd, AWAIT_MS));
    assert_true(holds_nothing(lock));
    (void)!rql_lock_release(lock, NULL);
    rql_swarm_free(swarm);
    proxy_stop(proxy);
}

/* Its host may be flushed at any moment: a lock that it took now would be lost at once. */
static void nothing_is_acquired_while_the_host_may_count_as_dead(void **state)
{
    struct proxy *proxy = proxy_start(server.socket_path);
    rql_swarm_options options = quick(client);
    rql_lock_options settings = patient(client);
    rql_error error = {0};
    rql_lock *lock;
    rql_swarm *swarm;

    (void)state;
    options.flush_zombies = false;
    options.probe_url = proxy_url(proxy);
    swarm = swarm_with(client, &options);
    lock = hold(client, "x");
    await_hosts(1);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_true(wait_until(holds_nothing, lock, AWAIT_MS));
    (void)!rql_lock_release(lock, NULL);
    settings.timeout_ms = 50;
    assert_int_equal(rql_lock_acquire(client, "x", &settings, &lock, &error), RQL_E_UNAVAILABLE);
    assert_non_null(strstr(error.message, "count as dead"));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    CHECK_QUEUE_IS_EMPTY("x");
    proxy_heal(proxy);
    lock = hold(client, "x");
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    CHECK_OK(rql_lock_release(lock, NULL));
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    rql_swarm_free(swarm); /* it cannot say goodbye; the client goes on without a swarm */
    lock = hold(client, "x");
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    CHECK_OK(rql_lock_release(lock, NULL));
    proxy_stop(proxy);
}

static bool flusher_fails(void *data)
{
    rql_swarm_status status = status_of(data);

    return status.flush_zombies.failures > 2 && status.probe_hosts.failures > 2;
}

static bool outage_is_over(void *data)
{
    return breaker_is_closed(data) && status_of(data).is_flusher;
}

/* Demoted for longer than the ttl, and promoted: who lives gets the time to say so. */
static void demotion_and_promotion_cost_no_living_host_its_locks(void **state)
{
    rql_swarm *swarm = swarm_of(client);
    char host[RQL_ID_SIZE];

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "first"), NULL));
    await_hosts(1);
    raw_lock("x", "a", rql_current_host_id(client, host));
    raw_lock("y", DEAD_ACQUIRER, DEAD_HOST);
    ask("REPLICAOF 127.0.0.1 1");
    assert_true(wait_until(flusher_fails, client, AWAIT_MS));
    await_int(1,
              "EVAL "
              "return(redis.call('time')[1]-redis.call('hget',KEYS[1],ARGV[1])>%lld)and(1)or(0) "
              "1 rql:swarm:hsts %s",
              (long long)(2 * ZOMBIE_TTL_MS * swarm_slowness() / 1000), host);
    ask("REPLICAOF NO ONE");
    raw_host(DEAD_HOST, 100);
    assert_true(wait_until(outage_is_over, client, AWAIT_MS));
    await_int(0, "HEXISTS rql:swarm:hsts " DEAD_HOST);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    rql_swarm_free(swarm);
}

/* A name that clients connect to, and who answers to it. */
static void point(const char *link_path, const struct redis_server *to)
{
    (void)unlink(link_path);
    assert_int_equal(symlink(to->socket_path, link_path), 0);
}

static void start_pair(struct redis_server *master, struct redis_server *replica)
{
    static char port[8];
    static const char *arguments[] = {"--replicaof", "127.0.0.1", port, NULL};

    assert_int_equal(redis_server_start_tcp(master, NULL), 0);
    (void)snprintf(port, sizeof port, "%d", master->port);
    assert_int_equal(redis_server_start_with(replica, arguments), 0);
}

static void swarm_goes_on_with_the_replica_that_takes_over(void **state)
{
    redisContext *raw_before = raw;
    rql_options client_settings = client_options();
    struct redis_server master;
    struct redis_server replica;
    char link_path[128];
    char url[160];
    rql_client *own;
    rql_swarm *swarm;
    rql_lock *lock;

    (void)state;
    start_pair(&master, &replica);
    raw = redis_server_connect(&replica);
    (void)snprintf(link_path, sizeof link_path, "%s/link", replica.dir);
    (void)snprintf(url, sizeof url, "unix://%s", link_path);
    point(link_path, &master);
    client_settings.url = url;
    own = new_client_with(&client_settings);
    swarm = swarm_of(own);
    lock = hold(own, "x");
    await_hosts(1);
    await_int(1, "EXISTS rql:lock:x");
    redis_server_kill(&master);
    point(link_path, &replica);
    ask("REPLICAOF NO ONE");
    raw_host(DEAD_HOST, 100);
    raw_lock("y", DEAD_ACQUIRER, DEAD_HOST);
    await_int(0, "HEXISTS rql:swarm:hsts " DEAD_HOST);
    assert_int_equal(ask_int("EXISTS rql:lock:y"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    (void)!rql_lock_release(lock, NULL);
    rql_swarm_free(swarm);
    rql_client_free(own);
    redisFree(raw);
    raw = raw_before;
    (void)unlink(link_path);
    redis_server_stop(&replica);
    redis_server_stop(&master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(status_tells_how_it_is),
        TEST(auto_swarm_runs_with_the_client),
        TEST(server_that_is_away_is_not_hammered_and_found_again),
        TEST(elements_have_connections_of_their_own),
        TEST(locks_are_scanned_only_when_somebody_is_dead),
        TEST(a_first_heartbeat_without_answer_binds_the_locks),
        TEST(nothing_is_acquired_while_the_host_may_count_as_dead),
        TEST(demotion_and_promotion_cost_no_living_host_its_locks),
        TEST(swarm_goes_on_with_the_replica_that_takes_over),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
