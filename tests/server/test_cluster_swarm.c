#include "async_fixture.h"
#include "children.h"
#include "swarm_fixture.h"

/* Swarms of a cluster of three masters: each partition has hosts of its own. */

enum {
    NODES = 3,
    LOCKS = 10,
    LONG_MS = 20000, /* of a swarm whose heartbeats do not come within a test, but the first */
    LOOKS = 5,
    LOOK_CALLS_MAX = 130,
};

#include "cluster.h"

/* What it asks is counted: it does not say what it is called, nor makes a further connection. */
static rql_client *new_quiet_client(void)
{
    rql_options options = client_options();

    options.client_names = false;
    options.connections = 1;
    return new_client_with(&options);
}

static void set_up_cluster(void)
{
    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        ask("FLUSHALL");
    }
    client = new_quiet_client();
    other = new_quiet_client();
}

/* Names of different partitions, of each node in turn. */
static void draw_names(char names[][16], size_t count, const char *kind)
{
    bool is_taken[RQLI_PARTITIONS] = {false};
    unsigned from = 0;

    for (size_t i = 0; i < count; i++) {
        do {
            draw_name(names[i], kind, i % NODES, &from);
        } while (is_taken[rqli_key_set_index(set_of(names[i]))]);
        is_taken[rqli_key_set_index(set_of(names[i]))] = true;
    }
}

static void look_at_node_of(const char *name)
{
    look_at(node_of(name));
}

static int64_t hosts_of(const char *name)
{
    look_at_node_of(name);
    return ask_int("HLEN %s", set_of(name)->hosts.data);
}

static void await_hosts_of(const char *name, int64_t count)
{
    look_at_node_of(name);
    await_int(count, "HLEN %s", set_of(name)->hosts.data);
}

static int64_t exists(const char *name)
{
    look_at_node_of(name);
    return ask_int("EXISTS %slock:%s", set_of(name)->prefix.data, name);
}

static void await_gone(const char *name)
{
    look_at_node_of(name);
    await_int(0, "EXISTS %slock:%s", set_of(name)->prefix.data, name);
}

/* What clients have asked of the nodes: scripts, and writes as the servers have read them; less the
 * question itself. */
struct cost {
    int64_t scripts;
    int64_t writes;
};

static int64_t reads_of_node(void)
{
    redisReply *reply = ask_reply("INFO stats");
    const char *at = strstr(reply->str, "total_reads_processed:");
    int64_t reads = strtoll(at + strlen("total_reads_processed:"), NULL, 10);

    freeReplyObject(reply);
    return reads;
}

static struct cost asked_so_far(void)
{
    struct cost asked = {0};

    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        asked.scripts += calls_of("evalsha") + calls_of("eval");
        asked.writes += reads_of_node();
    }
    return asked;
}

/* Each of the nodes is asked three times in asked_so_far(). */
static struct cost asked_since(const struct cost *before)
{
    struct cost now = asked_so_far();

    return (struct cost){.scripts = now.scripts - before->scripts,
                         .writes = now.writes - before->writes - 3 * (int64_t)NODES};
}

static void probe_by_hand(rql_client *of, size_t expected)
{
    rql_text_list *told = NULL;
    rql_error error = {0};

    if (rql_probe_hosts(of, &told, NULL, &error)) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(told->count, expected);
    rql_text_list_free(told);
}

TEST(a_probe_goes_to_the_partitions_of_what_is_held)
{
    char names[LOCKS + 1][16];
    rql_lock *locks[LOCKS];
    struct cost before;
    struct cost cost;

    draw_names(names, LOCKS + 1, "l");
    for (size_t i = 0; i < LOCKS; i++) {
        locks[i] = hold(client, names[i]);
    }
    probe_by_hand(client, 1); /* one thread, in ten partitions */
    for (size_t i = 0; i <= LOCKS; i++) {
        assert_int_equal(hosts_of(names[i]), i < LOCKS);
    }
    before = asked_so_far();
    probe_by_hand(client, 1);
    cost = asked_since(&before);
    assert_int_equal(cost.scripts, LOCKS);
    assert_int_equal(cost.writes, NODES);
    for (size_t i = 0; i < LOCKS; i++) {
        CHECK_OK(rql_lock_release(locks[i], NULL));
    }
    probe_by_hand(client, 0);
    for (size_t i = 0; i < LOCKS; i++) {
        assert_int_equal(hosts_of(names[i]), 0);
    }
    before = asked_so_far();
    probe_by_hand(client, 0);
    assert_int_equal(asked_since(&before).scripts, 0);
}

static rql_swarm *slow_swarm_of(rql_client *of)
{
    rql_swarm_options options = quick(of);

    options.flush_zombies = false;
    options.zombie_ttl_ms = LONG_MS;
    options.probe_period_ms = LONG_MS / 2;
    return swarm_with(of, &options);
}

static bool has_probed(void *data)
{
    return status_of(data).probe_hosts.steps > 0;
}

/* Before a heartbeat would come: who asks for more than a zombie's time is known where its lock is,
 * by the same write. */
TEST(what_outlives_a_host_is_asked_for_by_one_that_is_known)
{
    rql_lock_options options = patient(client);
    char names[3 * NODES][16];
    rql_swarm *swarm = slow_swarm_of(client);
    struct cost before;
    struct cost cost;
    rql_lock *first;
    rql_lock *second;

    draw_names(names, sizeof names / sizeof names[0], "k");
    assert_true(wait_until(has_probed, client, AWAIT_MS));
    first = hold(client, names[0]);
    assert_int_equal(hosts_of(names[0]), 1);
    before = asked_so_far();
    second = hold(client, names[NODES]); /* at the same node */
    cost = asked_since(&before);
    assert_int_equal(hosts_of(names[NODES]), 1);
    assert_int_equal(cost.scripts, 2);
    assert_int_equal(cost.writes, 1);
    CHECK_OK(rql_lock_release(second, NULL));
    before = asked_so_far();
    second = hold(client, names[NODES]);
    assert_int_equal(asked_since(&before).scripts, 1); /* it is known by now */
    CHECK_OK(rql_lock_release(second, NULL));
    options.ttl_ms = LONG_MS;
    second = hold_with(client, names[1], &options);
    assert_int_equal(hosts_of(names[1]), 0);
    CHECK_OK(rql_lock_release(first, NULL));
    CHECK_OK(rql_lock_release(second, NULL));
    rql_swarm_free(swarm);
    assert_int_equal(hosts_of(names[0]), 0);
    assert_int_equal(hosts_of(names[NODES]), 0);
}

TEST(it_is_the_same_on_a_loop)
{
    struct asked asked = asked_for();
    char names[NODES][16];
    rql_swarm *swarm = slow_swarm_of(client);

    draw_names(names, NODES, "a");
    open_loop_of(client);
    start_asking(&asked, names[1]);
    await_asked(&asked);
    assert_int_equal(hosts_of(names[1]), 1);
    CHECK_OK(release_and_wait(asked.lock));
    end_loop();
    rql_swarm_free(swarm);
    assert_int_equal(hosts_of(names[1]), 0);
}

TEST(a_swarm_needs_the_servers_of_its_client)
{
    rql_swarm_options options = quick(client);
    rql_swarm *swarm = NULL;

    options.flush_url = nodes[0].url; /* one of them, by itself */
    assert_int_equal(rql_swarm_start(client, &options, &swarm, NULL), RQL_E_INVALID);
    assert_null(swarm);
}

TEST(who_waits_is_a_host_where_it_waits)
{
    char names[1][16];
    rql_swarm *swarm = swarm_of(client);
    struct waiter waiter = {.client = client, .options = patient(client)};
    rql_lock *lock;

    draw_names(names, 1, "w");
    waiter.options.ttl_ms = ZOMBIE_TTL_MS / 2; /* by a heartbeat, and not by what it asks for */
    waiter.name = names[0];
    lock = hold(other, names[0]);
    assert_int_equal(hosts_of(names[0]), 0);
    waiter_start(&waiter);
    await_hosts_of(names[0], 1);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    await_hosts_of(names[0], 0);
    lock = hold(client, names[0]);
    await_hosts_of(names[0], 1);
    CHECK_OK(rql_lock_release(lock, NULL));
    await_hosts_of(names[0], 0); /* this thread lives on */
    rql_swarm_free(swarm);
}

#define HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"

/* A host whose last heartbeat in the partition of this name was at that time. */
static void host_at(const char *name, const char *host, int64_t at_s)
{
    look_at_node_of(name);
    ask("HSET %s %s %lld.5", set_of(name)->hosts.data, host, (long long)at_s);
}

/* For a day. */
static void lock_of_host(const char *name)
{
    const char *prefix = set_of(name)->prefix.data;

    look_at_node_of(name);
    ask("HSET %slock:%s acq_id %s hst_id %s ts 1795254268.4681 ini_ttl %d", prefix, name, ACQUIRER,
        HOST, DAY_MS);
    ask("PEXPIRE %slock:%s %d", prefix, name, DAY_MS);
}

static int64_t server_s(void)
{
    redisReply *reply = ask_reply("TIME");
    int64_t seconds = strtoll(reply->element[0]->str, NULL, 10);

    freeReplyObject(reply);
    return seconds;
}

/* What is dead in one partition is no zombie's in another. */
TEST(zombies_hold_what_they_have_where_they_are_dead)
{
    int64_t now_s = server_s();
    char names[NODES][16];
    rql_zombies *zombies = NULL;

    draw_names(names, NODES, "z");
    for (size_t i = 0; i < NODES; i++) {
        host_at(names[i], HOST, i == 0 ? now_s - 100 : now_s + 100);
        lock_of_host(names[i]);
    }
    CHECK_OK(rql_zombies_info(client, LONG_MS, &zombies, NULL));
    assert_int_equal(zombies->hosts->count, 1);
    assert_int_equal(zombies->locks->count, 1);
    assert_non_null(strstr(zombies->locks->item[0], names[0]));
    rql_zombies_free(zombies);
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    assert_int_equal(zombies->locks->count, 1);
    assert_int_equal(zombies->hosts->count, 1);
    rql_zombies_free(zombies);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(exists(names[i]), i > 0);
        assert_int_equal(hosts_of(names[i]), i > 0);
    }
}

TEST(a_silent_node_keeps_no_flush_from_the_others)
{
    rql_swarm_options options = quick(client);
    char names[NODES][16];
    rql_swarm *swarm;

    draw_names(names, NODES, "q");
    options.probe_hosts = false;
    for (size_t i = 0; i < NODES - 1; i++) {
        host_at(names[i], HOST, server_s() - 100);
        lock_of_host(names[i]);
    }
    redis_server_pause(&nodes[NODES - 1]);
    swarm = swarm_with(client, &options);
    for (size_t i = 0; i < NODES - 1; i++) {
        await_gone(names[i]);
        await_hosts_of(names[i], 0);
    }
    redis_server_resume(&nodes[NODES - 1]);
    rql_swarm_free(swarm);
}

static bool is_lost(void *data)
{
    return rql_lock_get_state(data) == RQL_GONE;
}

static bool may_acquire(void *data)
{
    rql_lock *lock = NULL;
    rql_status status = rql_lock_acquire(client, data, NULL, &lock, NULL);

    return status == RQL_OK && rql_lock_release(lock, NULL) == RQL_OK;
}

struct progress {
    rql_client *of;
    int64_t steps;
};

static bool has_stepped(void *data)
{
    const struct progress *progress = data;

    return status_of(progress->of).flush_zombies.steps >= progress->steps;
}

static bool has_probed_so_often(void *data)
{
    const struct progress *progress = data;

    return status_of(progress->of).probe_hosts.steps >= progress->steps;
}

TEST(a_node_that_stops_ends_the_leases_of_its_partitions_alone)
{
    rql_swarm_options options = quick(client);
    rql_lock_options fast = patient(client);
    struct progress progress = {.of = client};
    char names[2 * NODES][16];
    rql_lock *locks[NODES];
    rql_lock *none = NULL;
    rql_swarm *swarm;

    draw_names(names, sizeof names / sizeof names[0], "n");
    options.flush_zombies = false;
    swarm = swarm_with(client, &options);
    for (size_t i = 0; i < NODES; i++) {
        locks[i] = hold(client, names[i]);
        await_hosts_of(names[i], 1);
    }
    redis_server_pause(&nodes[1]);
    assert_true(wait_until(is_lost, locks[1], AWAIT_MS));
    fast.fail_fast = true;
    assert_int_equal(rql_lock_acquire(client, names[1], &fast, &none, NULL), RQL_E_UNAVAILABLE);
    progress.steps = status_of(client).probe_hosts.steps + LOOKS;
    assert_true(wait_until(has_probed_so_often, &progress, AWAIT_MS)); /* longer than it took */
    assert_int_equal(status_of(client).probe_hosts.breaker, RQL_BREAKER_CLOSED);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(rql_lock_get_state(locks[i]), i == 1 ? RQL_GONE : RQL_HELD);
    }
    CHECK_OK(rql_lock_release(hold(client, names[NODES]), NULL));
    redis_server_resume(&nodes[1]);
    assert_true(wait_until(may_acquire, names[NODES + 1], AWAIT_MS));
    for (size_t i = 0; i < NODES; i++) {
        (void)rql_lock_release(locks[i], NULL);
    }
    rql_swarm_free(swarm);
}

static bool is_flusher(void *data)
{
    return status_of(data).is_flusher;
}

/* One looks at all partitions; who is not elected asks the first one, and nobody else. */
TEST(looking_for_the_dead_costs_little)
{
    rql_swarm_options options = quick(client);
    struct progress progress = {.of = client};
    rql_swarm *swarms[2];
    struct cost before;
    int64_t looks;
    int64_t scripts;

    options.probe_hosts = false;
    swarms[0] = swarm_with(client, &options);
    assert_true(wait_until(is_flusher, client, AWAIT_MS));
    swarms[1] = swarm_with(other, &options);
    progress.of = other;
    progress.steps = 1;
    assert_true(wait_until(has_stepped, &progress, AWAIT_MS));
    progress.of = client;
    looks = status_of(client).flush_zombies.steps;
    before = asked_so_far();
    progress.steps = looks + LOOKS;
    assert_true(wait_until(has_stepped, &progress, AWAIT_MS));
    scripts = asked_since(&before).scripts;
    looks = status_of(client).flush_zombies.steps - looks + 1;
    assert_in_range(scripts, (LOOKS - 1) * RQLI_PARTITIONS, looks * LOOK_CALLS_MAX);
    assert_false(status_of(other).is_flusher);
    rql_swarm_free(swarms[0]);
    assert_true(wait_until(is_flusher, other, AWAIT_MS));
    rql_swarm_free(swarms[1]);
    look_at(0);
    assert_int_equal(ask_int("EXISTS %s", rqli_key_sets[0].flusher.data), 0);
}

static bool is_no_flusher(void *data)
{
    return !status_of(data).is_flusher;
}

TEST(nobody_flushes_without_the_first_partition)
{
    rql_swarm_options options = quick(client);
    rql_swarm *swarm;

    options.probe_hosts = false;
    swarm = swarm_with(client, &options);
    assert_true(wait_until(is_flusher, client, AWAIT_MS));
    redis_server_pause(&nodes[1]);
    assert_true(status_of(client).is_flusher);
    redis_server_pause(&nodes[0]);
    assert_true(wait_until(is_no_flusher, client, AWAIT_MS));
    redis_server_resume(&nodes[0]);
    assert_true(wait_until(is_flusher, client, AWAIT_MS)); /* the other one is still silent */
    redis_server_resume(&nodes[1]);
    rql_swarm_free(swarm);
}

TEST(a_host_of_several_partitions_is_listed_once)
{
    int64_t now_s = server_s();
    char names[NODES][16];
    char flusher[RQL_ID_SIZE];
    rql_host_info_list *hosts = NULL;
    rql_text_list *zombies = NULL;

    draw_names(names, NODES, "h");
    host_at(names[0], HOST, now_s - 100);
    host_at(names[1], HOST, now_s + 100);
    host_at(names[2], HOST "0", now_s + 100);
    CHECK_OK(rql_swarm_info(client, LONG_MS, &hosts, NULL));
    assert_int_equal(hosts->count, 2);
    assert_string_equal(hosts->item[0].hst_id, HOST);
    assert_int_equal(hosts->item[0].last_probe_us, (now_s + 100) * 1000000 + 500000);
    assert_true(hosts->item[0].is_zombie);
    assert_false(hosts->item[1].is_zombie);
    rql_host_info_list_free(hosts);
    CHECK_OK(rql_zombie_hosts(client, LONG_MS, &zombies, NULL));
    assert_int_equal(zombies->count, 1);
    assert_string_equal(zombies->item[0], HOST);
    rql_text_list_free(zombies);
    assert_int_equal(rql_swarm_flusher(client, flusher, NULL), RQL_NOT_FOUND);
    look_at(0);
    ask("SET %s me", rqli_key_sets[0].flusher.data);
    CHECK_OK(rql_swarm_flusher(client, flusher, NULL));
    assert_string_equal(flusher, "me");
}

FIXTURE(start_nodes, stop_nodes, set_up_cluster, free_clients);
