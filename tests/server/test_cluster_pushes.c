#include "async_fixture.h"

#include "wire/keys.h"

/* Two nodes of a cluster: what is pushed to those who wait there, and to those whose slot moves. */

enum {
    NODES = 2,
    WAITERS = 3,
    SEEDED = 8192,       /* the first node has the slots below it */
    NO_POLL_MS = 600000, /* between two polls of those who are pushed nothing */
    PUSHED_MS = 1000,    /* what is not pushed takes longer to be found */
};

static struct redis_server nodes[NODES];
static redisContext *raws[NODES];

/* What follows asks this node. */
static void look_at(size_t node)
{
    raw = raws[node];
}

static bool knows_all(void *data)
{
    redisReply *info = ask_reply("CLUSTER INFO");
    redisReply *slots = ask_reply("CLUSTER SLOTS");
    bool is_ok = strstr(info->str, "cluster_state:ok") && slots->elements == NODES;

    (void)data;
    freeReplyObject(info);
    freeReplyObject(slots);
    return is_ok;
}

static int start_nodes(void **state)
{
    static const char *const arguments[] = {"--cluster-enabled", "yes", NULL};

    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        if (redis_server_start_tcp(&nodes[i], arguments)) {
            return -1;
        }
        raws[i] = redis_server_connect(&nodes[i]);
        look_at(i);
        ask("CLUSTER SET-CONFIG-EPOCH %zu", i + 1);
        ask("CLUSTER ADDSLOTSRANGE %d %d", i == 0 ? 0 : SEEDED,
            i == 0 ? SEEDED - 1 : RQLI_KEYSLOTS - 1);
    }
    ask("CLUSTER MEET 127.0.0.1 %d", nodes[0].port);
    server = nodes[0];
    (void)snprintf(server.url, sizeof server.url, "redis+cluster://127.0.0.1:%d", nodes[0].port);
    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        if (!wait_until(knows_all, NULL, AWAIT_MS)) {
            return -1;
        }
    }
    return 0;
}

static int stop_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        redisFree(raws[i]);
        redis_server_stop(&nodes[i]);
    }
    return 0;
}

static int set_up_clients(void **state)
{
    (void)state;
    client = new_client();
    other = new_client();
    return 0;
}

static const struct rqli_key_set *set_of(const char *name)
{
    return rqli_key_set_of(true, rqli_slice_of(name));
}

static unsigned slot_of(const char *name)
{
    return rqli_keyslot(set_of(name)->prefix);
}

/* The next name of this kind whose keys are at the node. */
static void draw_name(char name[16], const char *kind, size_t node, unsigned *from)
{
    do {
        (void)snprintf(name, 16, "%s%u", kind, (*from)++);
    } while ((slot_of(name) < SEEDED) != (node == 0));
}

static void await_queue(const char *name, int64_t count)
{
    await_int(count, "ZCARD %slock_queue:%s", set_of(name)->prefix.data, name);
}

/* So many listen to a channel of this partition, at the node that is looked at. */
static bool has_listener(void *data)
{
    char text[TEXT_SIZE];
    redisReply *reply;
    bool has;

    (void)snprintf(text, sizeof text, "PUBSUB SHARDCHANNELS %s*", set_of(data)->prefix.data);
    reply = ask_reply(text);
    has = reply->elements > 0;
    freeReplyObject(reply);
    return has;
}

static void await_listener(char *name)
{
    if (!wait_until(has_listener, name, AWAIT_MS)) {
        fail_msg("nobody listens for %s", name);
    }
}

static int64_t pushes_of(rql_client *of)
{
    rql_stats stats;

    CHECK_OK(rql_client_stats(of, &stats));
    return stats.pushes;
}

static void check_is_fast(int64_t begun_us)
{
    assert_in_range(wait_clock_us() - begun_us, 0, PUSHED_MS * INT64_C(1000) * wait_slowness());
}

static struct waiter waiter_for(const char *name)
{
    struct waiter waiter = {.client = client, .name = name, .options = patient(client)};

    waiter.options.retry_delay_ms = NO_POLL_MS;
    waiter.options.timeout_ms = AWAIT_MS;
    waiter.releases = true;
    return waiter;
}

/* Of another client: it waits until the holder releases. */
static void threads_are_told_at_each_node(void **state)
{
    unsigned from = 0;

    (void)state;
    for (size_t i = 0; i < 3 * NODES; i++) {
        char name[16];
        rql_lock *lock;
        struct waiter waiter;
        int64_t before = pushes_of(client);
        int64_t begun_us;

        draw_name(name, "w", i % NODES, &from);
        look_at(i % NODES);
        lock = hold(other, name);
        waiter = waiter_for(name);
        waiter_start(&waiter);
        await_queue(name, 1);
        await_listener(name);
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        CHECK_OK(waiter_join(&waiter));
        check_is_fast(begun_us);
        assert_true(pushes_of(client) > before);
    }
}

static void loops_are_told(void **state)
{
    unsigned from = 0;
    char name[16];
    struct asked asked;
    struct expected queued = {.value = 1};
    rql_lock *lock;
    int64_t begun_us;

    (void)state;
    (void)open_loop_of(client);
    look_at(0);
    for (int i = 0; i < 2; i++) {
        draw_name(name, "l", 0, &from);
        lock = hold(other, name);
        asked = asked_for();
        asked.options.retry_delay_ms = NO_POLL_MS;
        start_asking(&asked, name);
        (void)snprintf(queued.text, sizeof queued.text, "ZCARD %slock_queue:%s",
                       set_of(name)->prefix.data, name);
        run_until(server_says, &queued);
        while (!has_listener(name)) {
            run_for_ms(1);
        }
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        await_asked(&asked);
        check_is_fast(begun_us);
        CHECK_OK(asked.status);
        CHECK_OK(release_and_wait(asked.lock));
    }
    assert_true(pushes_of(client) >= 2);
    close_loop();
    uv_close((uv_handle_t *)&budget, NULL);
    CHECK_OK(uv_run(&uv, UV_RUN_DEFAULT));
    CHECK_OK(uv_loop_close(&uv));
}

static redisReply *id_of(size_t node)
{
    look_at(node);
    return ask_reply("CLUSTER MYID");
}

/* With all that is in it, key by key. */
static void move_slot(unsigned slot, size_t from, size_t to)
{
    redisReply *giver = id_of(from);
    redisReply *taker = id_of(to);
    redisReply *keys;
    char text[TEXT_SIZE];

    ask("CLUSTER SETSLOT %u IMPORTING %s", slot, giver->str);
    look_at(from);
    ask("CLUSTER SETSLOT %u MIGRATING %s", slot, taker->str);
    (void)snprintf(text, sizeof text, "CLUSTER GETKEYSINSLOT %u 100", slot);
    keys = ask_reply(text);
    for (size_t i = 0; i < keys->elements; i++) {
        ask("MIGRATE 127.0.0.1 %d %s 0 5000", nodes[to].port, keys->element[i]->str);
    }
    look_at(to);
    ask("CLUSTER SETSLOT %u NODE %s", slot, taker->str);
    look_at(from);
    ask("CLUSTER SETSLOT %u NODE %s", slot, taker->str);
    look_at(to);
    freeReplyObject(keys);
    freeReplyObject(giver);
    freeReplyObject(taker);
}

/* Its first waiter leads; the others ask nobody by themselves. All of them are told by the old node
 * that the slot has gone, long before the next poll. */
static void who_waits_goes_with_a_slot_that_moves(void **state)
{
    struct waiter waiters[WAITERS];
    unsigned from = 0;
    char name[16];
    rql_lock *lock;

    (void)state;
    draw_name(name, "m", 0, &from);
    for (size_t to = 1; to < 3; to++) { /* there and back */
        int64_t before;
        int64_t begun_us;

        look_at(1 - to % 2);
        lock = hold(other, name);
        for (size_t i = 0; i < WAITERS; i++) {
            waiters[i] = waiter_for(name);
            waiter_start(&waiters[i]);
            await_queue(name, (int64_t)i + 1);
        }
        await_listener(name);
        move_slot(slot_of(name), 1 - to % 2, to % 2);
        begun_us = wait_clock_us();
        await_queue(name, WAITERS);
        await_listener(name);
        check_is_fast(begun_us);
        before = pushes_of(client);
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        for (size_t i = 0; i < WAITERS; i++) {
            CHECK_OK(waiter_join(&waiters[i]));
        }
        check_is_fast(begun_us);
        assert_true(pushes_of(client) > before);
    }
}

#define CLIENTS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_clients, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENTS_TEST(threads_are_told_at_each_node),
        CLIENTS_TEST(loops_are_told),
        CLIENTS_TEST(who_waits_goes_with_a_slot_that_moves),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
