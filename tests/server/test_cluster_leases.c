#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "net/conn/conn_shared.h"
#include "net/login/login.h"
#include "net/op/cluster.h"

#include <arpa/inet.h>
#include <stdatomic.h>

/* Which nodes the leases' thread stays connected to, and which it asks for the map. */

enum {
    NODES = 3,
    LONG_MS = 60000,
    SILENT_MS = 1000,
    ABANDONED = 20, /* addresses at which nobody answers any more */
};

#include "cluster.h"

static rql_lock *held_by_test;

static void make_client(int64_t io_timeout_ms)
{
    rql_options options = client_options();

    options.io_timeout_ms = io_timeout_ms;
    options.topology_refresh_ms = LONG_MS;
    client = new_client_with(&options);
}

static void set_up(void)
{
    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        ask("FLUSHALL");
        ask("CONFIG RESETSTAT");
    }
    make_client(client_options().io_timeout_ms);
}

static void tear_down(void)
{
    (void)!rql_lock_release(held_by_test, NULL);
    held_by_test = NULL;
    client = rql_client_free(client);
}

static rql_lock *hold_renewed(const char *name)
{
    rql_lock_options options = patient(client);

    options.auto_extend = true;
    return hold_with(client, name, &options);
}

static bool is_left_alone(void *data)
{
    struct rqli_node *node = data;
    redisReply *channels;
    bool is_left;

    look_at(1);
    channels = ask_reply("PUBSUB SHARDCHANNELS");
    is_left = channels->elements == 0 && !rqli_conn_is_up(node->background) &&
              !rqli_conn_is_up(node->conns.each[0]);
    freeReplyObject(channels);
    return is_left;
}

/* The reader of the map counts as one that is no caller, for as long as it asks. */
static bool has_no_internal_call(void *data)
{
    unsigned count = 0;

    (void)data;
    for (struct rqli_node *node = &client->fleet.first; node; node = node->next) {
        struct rqli_conn *conn = node->conns.each[0];

        (void)pthread_mutex_lock(&conn->shared.mutex);
        count += conn->shared.n_internal;
        (void)pthread_mutex_unlock(&conn->shared.mutex);
    }
    return count == 0;
}

/* A lock of each of two nodes, one of which somebody has waited at. */
TEST(a_node_that_nobody_uses_is_left_alone)
{
    rql_lock_options options;
    rql_lock *held[NODES] = {NULL};
    struct rqli_node *at[NODES] = {NULL};
    struct rqli_clock_reading first;
    struct rqli_clock_reading last;
    unsigned from = 0;
    char name[16];

    client->cluster->unused_us = 200000;
    client->cluster->refresh_ms = 500;
    for (size_t i = 0; i < NODES; i++) {
        draw_name(name, "x", i, &from);
        held[i] = hold_renewed(name);
        at[i] = rqli_client_node(client, &held[i]->keys);
    }
    assert_true(rqli_conn_clock(at[2]->conns.each[0], &first));
    rql_lock_options_init(client, &options);
    options.task = 1;
    options.timeout_ms = 100;
    assert_int_equal(
        rql_lock_acquire(client, rql_lock_name(held[1]), &options, &held_by_test, NULL),
        RQL_TIMED_OUT);
    assert_int_equal(rql_lock_release(held[1], NULL), RQL_OK);
    assert_true(wait_until(is_left_alone, at[1], AWAIT_MS));
    assert_true(rqli_conn_is_up(at[2]->conns.each[0]));
    assert_true(rqli_conn_clock(at[2]->conns.each[0], &last));
    assert_int_equal(first.received_us, last.received_us); /* the same connection */
    assert_true(wait_until(has_no_internal_call, NULL, AWAIT_MS));
    held[1] = hold_renewed("x1");
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(rql_lock_release(held[i], NULL), RQL_OK);
    }
}

static int64_t count_maps(void)
{
    int64_t count = 0;

    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        count += calls_of("cluster|slots");
    }
    return count;
}

static bool has_read_maps(void *data)
{
    return count_maps() >= *(const int64_t *)data;
}

static void await_maps(int64_t count)
{
    assert_true(wait_until(has_read_maps, &count, AWAIT_MS));
}

static bool has_keys(const struct rqli_node *node, bool has_all)
{
    unsigned count = 0;

    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        count += rqli_fleet_node(&client->fleet, &rqli_key_sets[p]) == node;
    }
    return has_all ? count == RQLI_PARTITIONS : count > 0;
}

static bool has_none(void *node)
{
    return !has_keys(node, false);
}

/* The map that says otherwise is read only when this one does not answer. */
static void give_all_keys(struct rqli_node *node)
{
    while (!has_keys(node, true)) {
        for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
            rqli_fleet_give(&client->fleet, p, node);
        }
    }
    rqli_fleet_read_map(&client->fleet);
}

/* Does not speak. Returns its port. */
static int open_silent_listener(int *listener)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    *listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(*listener, 1), 0);
    assert_int_equal(getsockname(*listener, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

/* It stays known, and would take its time each time it is asked. */
TEST(who_has_left_is_not_asked_for_the_map)
{
    struct rqli_address address = {.host = "127.0.0.1"};
    int listener;

    address.port = open_silent_listener(&listener);
    client->fleet.first.is_named = false; /* or it would be asked before who has left */
    client->cluster->refresh_ms = 10;
    held_by_test = hold_renewed("x0");
    await_maps(1);
    assert_non_null(rqli_fleet_at(&client->fleet, &address));
    await_maps(40);
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(close(listener), 0);
}

/* However many they are, and though nobody answers who has keys. */
TEST(who_the_url_names_is_asked_before_who_has_left)
{
    struct rqli_address address = {.host = "127.0.0.1"};
    int left[ABANDONED + 1];
    struct rqli_node *node = NULL;

    client = rql_client_free(client);
    make_client(SILENT_MS);
    held_by_test = hold_renewed("x0");
    await_maps(1);
    for (int i = 0; i <= ABANDONED; i++) {
        address.port = open_silent_listener(&left[i]);
        node = rqli_fleet_at(&client->fleet, &address);
        assert_non_null(node);
    }
    for (int round = 0; round < 2; round++) {
        give_all_keys(node);
        assert_true(wait_until(has_none, node, AWAIT_MS));
    }
    for (int i = 0; i < ABANDONED; i++) {
        assert_int_equal(accept(left[i], NULL, NULL), -1);
        assert_int_equal(close(left[i]), 0);
    }
    assert_int_equal(close(left[ABANDONED]), 0);
}

/* Whom it has told so once, a moment ago. */
TEST(a_node_that_is_cut_off_is_not_asked_for_the_map)
{
    struct rqli_node *node;
    int64_t count;

    client->cluster->refresh_ms = 10; /* its thread reads it from the first lock on */
    held_by_test = hold_renewed("x0");
    node = rqli_client_node(client, &held_by_test->keys);
    await_maps(1);
    atomic_store(&node->down_us, rqli_now_us() + 1000 * LONG_MS);
    await_maps(count_maps() + 2); /* one that was under way */
    look_at(node_of("x0"));
    count = calls_of("cluster|slots");
    await_maps(count_maps() + 40);
    look_at(node_of("x0"));
    assert_int_equal(calls_of("cluster|slots"), count);
}

FIXTURE(start_nodes, stop_nodes, set_up, tear_down);
