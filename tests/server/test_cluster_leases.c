#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "net/cluster.h"
#include "net/login.h"

#include <arpa/inet.h>
#include <stdatomic.h>

/* What the leases' thread does where locks are spread over several nodes, of which one is silent,
 * or gives its keys away. */

enum {
    NODES = 3,
    LOCKS = 30,
    TTL_MS = 1000,
    TTL_MOST_MS = 3000,
    LONG_MS = 60000,
    SILENT_MS = 300,
    WITHDRAWALS = 64,
    LEFT = 20, /* addresses at which nobody answers any more */
};

#include "cluster.h"

static rql_client *client;
static rql_lock *locks[LOCKS];
static char names[LOCKS][16];

static void set_up(void)
{
    rql_options options = client_options();

    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        ask("FLUSHALL");
        ask("CONFIG RESETSTAT");
    }
    options.io_timeout_ms = SILENT_MS;
    options.topology_refresh_ms = LONG_MS;
    client = new_client_with(&options);
}

static void tear_down(void)
{
    for (size_t i = 0; i < NODES; i++) { /* of a test that has failed */
        (void)kill(nodes[i].pid, SIGCONT);
    }
    for (int i = 0; i < LOCKS; i++) {
        (void)!rql_lock_release(locks[i], NULL);
        locks[i] = NULL;
    }
    client = rql_client_free(client);
}

static rql_lock *hold_for(const char *name, int64_t ttl_ms)
{
    rql_lock_options options;
    rql_lock *lock = NULL;
    rql_error error = {0};

    rql_lock_options_init(client, &options);
    options.ttl_ms = ttl_ms;
    options.auto_extend = true;
    options.timeout_ms = AWAIT_MS;
    if (rql_lock_acquire(client, name, &options, &lock, &error)) {
        fail_msg("%s: %s", name, error.message);
    }
    return lock;
}

static void hold_all(void)
{
    int64_t ttl_ms = wait_stretched(TTL_MS);

    ttl_ms = ttl_ms < TTL_MOST_MS ? ttl_ms : TTL_MOST_MS; /* the tests last for some of them */
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(names[i], sizeof names[i], "x%d", i);
        locks[i] = hold_for(names[i], ttl_ms);
    }
}

/* So often each of a node's locks was extended, if that went to all of them alike. */
static int64_t renewals(void)
{
    rql_stats stats;

    assert_int_equal(rql_client_stats(client, &stats), RQL_OK);
    return stats.renewals;
}

struct until {
    int64_t renewals;
    int node;      /* whose are looked at; below 0: all but that */
    bool are_gone; /* that is what they become; else they stay */
};

static bool is_at(const struct until *self, int i)
{
    int node = (int)node_of(names[i]);

    return self->node >= 0 ? node == self->node : node != ~self->node;
}

static bool have_been_renewed(void *data)
{
    const struct until *self = data;

    for (int i = 0; i < LOCKS; i++) {
        if (is_at(self, i) && rql_lock_get_state(locks[i]) == RQL_GONE) {
            fail_msg("%s is gone", names[i]);
        }
    }
    return renewals() >= self->renewals;
}

static bool are_gone(void *data)
{
    const struct until *self = data;
    bool gone = true;

    for (int i = 0; i < LOCKS; i++) {
        gone = gone && (!is_at(self, i) || rql_lock_get_state(locks[i]) == RQL_GONE);
    }
    return gone;
}

/* Those of a node, or of all others (~node), for some renewals of each. */
static void stay_held(int node, int64_t times)
{
    struct until until = {.node = node};
    int64_t count = 0;

    for (int i = 0; i < LOCKS; i++) {
        count += is_at(&until, i);
    }
    until.renewals = renewals() + times * count;
    assert_true(wait_until(have_been_renewed, &until, times * TTL_MS + AWAIT_MS));
}

TEST(a_silent_node_has_the_locks_of_the_others_renewed)
{
    struct until until = {.node = 1};

    hold_all();
    stay_held(~NODES, 6);
    redis_server_pause(&nodes[1]);
    stay_held(~1, 9);
    assert_true(wait_until(are_gone, &until, rql_lock_describe(locks[0]).ttl_ms));
    stay_held(~1, 3);
    redis_server_resume(&nodes[1]);
}

/* Each withdrawal is tried again and again, and each try needs a connection. */
TEST(what_is_to_be_withdrawn_at_a_silent_node_delays_no_renewals)
{
    hold_all();
    redis_server_pause(&nodes[1]);
    for (int i = 0; i < WITHDRAWALS; i++) {
        char name[16];
        struct rqli_withdrawal_of what = {
            .name = name, .acquirer = "nobody", .nonce = "0123456789abcdef0123456789abcdef"};

        (void)snprintf(name, sizeof name, "y%d", i);
        what.set = rqli_client_key_set(client, name);
        rqli_leases_withdraw(client->leases, &what, LONG_MS);
    }
    stay_held(~1, 9);
    redis_server_resume(&nodes[1]);
}

struct error_of {
    size_t node;
    char text[32];
};

static bool has_answered(void *data)
{
    const struct error_of *self = data;
    redisReply *reply;
    bool has;

    look_at(self->node);
    reply = ask_reply("INFO errorstats");
    has = strstr(reply->str, self->text) != NULL;
    freeReplyObject(reply);
    return has;
}

/* Until the node has answered so. */
static void await_error(size_t node, const char *code)
{
    struct error_of error = {.node = node};

    (void)snprintf(error.text, sizeof error.text, "errorstat_%s:", code);
    assert_true(wait_until(has_answered, &error, AWAIT_MS));
}

/* While its slot moves a call about its keys is answered TRYAGAIN, by both nodes, for there is no
 * queue; ASK comes when all keys have left. */
TEST(a_lock_whose_slot_moves_stays_held)
{
    const char *name = "x0";
    size_t from = node_of(name);
    size_t to = (from + 1) % NODES;
    unsigned slot = slot_of(name);

    hold_all();
    begin_move(slot, from, to);
    await_error(from, "TRYAGAIN");
    move_keys(slot, from, to);
    await_error(from, "ASK");
    give_slot(slot, to, NODES);
    stay_held(~NODES, 6);
    look_at(to);
    assert_true(ask_int("PTTL %s", rql_lock_describe(locks[0]).lock_key) > 0);
    for (int i = 0; i < LOCKS; i++) {
        bool is_locked = false;

        assert_int_equal(rql_lock_verify(locks[i], NULL), RQL_OK);
        assert_int_equal(rql_is_locked(client, names[i], &is_locked, NULL), RQL_OK);
        assert_true(is_locked);
    }
    move_slot(slot, to, from);
    stay_held(~NODES, 3);
}

static void count_loss(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)atomic_fetch_add((atomic_int *)user_data, 1);
}

static bool is_released(void *data)
{
    const struct error_of *at = data;

    look_at(at->node);
    return ask_int("EXISTS %slock:x0", set_of("x0")->prefix.data) == 0;
}

/* Its answer is MOVED, which nobody waits for. */
TEST(a_lazy_release_goes_after_its_lock)
{
    const char *name = "x0";
    size_t from = node_of(name);
    struct error_of to = {.node = (from + 1) % NODES};
    atomic_int losses = 0;
    rql_lock_options options;
    rql_lock *lock;

    rql_lock_options_init(client, &options);
    options.ttl_ms = LONG_MS;
    options.lazy_release = true;
    options.on_lost = count_loss;
    options.user_data = &losses;
    assert_int_equal(rql_lock_acquire(client, name, &options, &lock, NULL), RQL_OK);
    move_slot(slot_of(name), from, to.node);
    assert_false(is_released(&to));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_OK);
    assert_true(wait_until(is_released, &to, AWAIT_MS));
    await_error(from, "MOVED");
    client = rql_client_free(client); /* all is told by then */
    assert_int_equal(losses, 0);
    move_slot(slot_of(name), to.node, from);
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

/* A lock of each of two nodes, one of which somebody has waited at. */
TEST(a_node_that_nobody_uses_is_left_alone)
{
    rql_lock_options options;
    rql_lock *held[NODES] = {NULL};
    struct rqli_node *at[NODES] = {NULL};
    struct rqli_clock_reading first;
    struct rqli_clock_reading last;

    client->cluster->unused_us = 200000;
    client->cluster->refresh_ms = 500;
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(names[i], sizeof names[i], "x%d", i);
        if (!held[node_of(names[i])]) {
            held[node_of(names[i])] = hold_for(names[i], LONG_MS);
            at[node_of(names[i])] = rqli_client_node(client, &held[node_of(names[i])]->keys);
        }
    }
    assert_true(rqli_conn_clock(at[2]->conns.each[0], &first));
    rql_lock_options_init(client, &options);
    options.task = 1;
    options.timeout_ms = 100;
    assert_int_equal(
        rql_lock_acquire(client, rql_lock_describe(held[1]).name, &options, &locks[0], NULL),
        RQL_TIMED_OUT);
    assert_int_equal(rql_lock_release(held[1], NULL), RQL_OK);
    assert_true(wait_until(is_left_alone, at[1], AWAIT_MS));
    assert_true(rqli_conn_is_up(at[2]->conns.each[0]));
    assert_true(rqli_conn_clock(at[2]->conns.each[0], &last));
    assert_int_equal(first.received_us, last.received_us); /* the same connection */
    held[1] = hold_for("x1", LONG_MS);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(rql_lock_release(held[i], NULL), RQL_OK);
    }
}

static bool has_read_maps(void *data)
{
    int64_t count = 0;

    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        count += calls_of("cluster|slots");
    }
    return count >= *(const int64_t *)data;
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
    locks[0] = hold_for("x0", LONG_MS);
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
    int left[LEFT + 1];
    struct rqli_node *node = NULL;

    locks[0] = hold_for("x0", LONG_MS);
    await_maps(1);
    for (int i = 0; i <= LEFT; i++) {
        address.port = open_silent_listener(&left[i]);
        node = rqli_fleet_at(&client->fleet, &address);
        assert_non_null(node);
    }
    for (int round = 0; round < 2; round++) {
        give_all_keys(node);
        assert_true(wait_until(has_none, node, AWAIT_MS));
    }
    for (int i = 0; i < LEFT; i++) {
        assert_int_equal(accept(left[i], NULL, NULL), -1);
        assert_int_equal(close(left[i]), 0);
    }
    assert_int_equal(close(left[LEFT]), 0);
}

/* Whom it has told so once, a moment ago. */
TEST(a_node_that_is_cut_off_is_not_asked_for_the_map)
{
    struct rqli_node *node;
    int64_t count;

    locks[0] = hold_for("x0", LONG_MS);
    node = rqli_client_node(client, &locks[0]->keys);
    await_maps(1);
    atomic_store(&node->down_us, rqli_now_us() + 1000 * LONG_MS);
    client->cluster->refresh_ms = 10;
    rqli_fleet_read_map(&client->fleet);
    await_maps(2); /* one that was under way */
    look_at(node_of("x0"));
    count = calls_of("cluster|slots");
    await_maps(40);
    look_at(node_of("x0"));
    assert_int_equal(calls_of("cluster|slots"), count);
}

static bool is_gone(void *data)
{
    return rql_lock_get_state(data) == RQL_GONE;
}

/* As a replica that has missed the grant; its master is gone, and nobody asks for anything. The
 * last test: the slot stays there. */
TEST(who_has_taken_over_is_asked_at_once_for_what_is_held)
{
    const char *name = "x1";
    size_t from = node_of(name);
    size_t to = (from + 1) % NODES;
    unsigned slot = slot_of(name);

    /* What is connected already does not say again what was seen. */
    for (int i = 2; !locks[1]; i++) {
        char other[16];

        (void)snprintf(other, sizeof other, "x%d", i);
        locks[1] = node_of(other) == to ? hold_for(other, LONG_MS) : NULL;
    }
    locks[0] = hold_for(name, LONG_MS);
    assert_int_equal(rql_lock_get_state(locks[0]), RQL_HELD);
    redis_server_pause(&nodes[from]);
    look_at(to);
    ask("CLUSTER BUMPEPOCH");
    give_slot(slot, to, from);
    rqli_fleet_read_map(&client->fleet);
    assert_true(wait_until(is_gone, locks[0], AWAIT_MS));
    redis_server_resume(&nodes[from]);
}

FIXTURE(start_nodes, stop_nodes, set_up, tear_down);
