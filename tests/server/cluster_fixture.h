#ifndef CLUSTER_FIXTURE_H
#define CLUSTER_FIXTURE_H

/* A cluster of two masters, which each have half of the slots, for tests of threads and loops. */

#include "async_fixture.h"

#include "wire/keys.h"

enum {
    NODES = 2,
    SEEDED = 8192, /* the first node has the slots below it */
};

static struct redis_server nodes[NODES];
static redisContext *raws[NODES];

/* What follows asks this node. */
static inline void look_at(size_t node)
{
    raw = raws[node];
}

static inline bool knows_all(void *data)
{
    redisReply *info = ask_reply("CLUSTER INFO");
    redisReply *slots = ask_reply("CLUSTER SLOTS");
    bool is_ok = strstr(info->str, "cluster_state:ok") && slots->elements == NODES;

    (void)data;
    freeReplyObject(info);
    freeReplyObject(slots);
    return is_ok;
}

static inline int start_nodes(void **state)
{
    /* None counts as failed, however long it is stopped. */
    static const char *const arguments[] = {"--cluster-enabled",
                                            "yes",
                                            "--cluster-node-timeout",
                                            "600000",
                                            "--cluster-require-full-coverage",
                                            "no",
                                            NULL};

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

static inline int stop_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        redisFree(raws[i]);
        redis_server_stop(&nodes[i]);
    }
    return 0;
}

static inline int set_up_clients(void **state)
{
    (void)state;
    client = new_client();
    other = new_client();
    return 0;
}

static inline const struct rqli_key_set *set_of(const char *name)
{
    return rqli_key_set_of(true, rqli_slice_of(name));
}

static inline unsigned slot_of(const char *name)
{
    return rqli_keyslot(set_of(name)->prefix);
}

/* The next name of this kind whose keys are at the node. */
static inline void draw_name(char name[16], const char *kind, size_t node, unsigned *from)
{
    do {
        (void)snprintf(name, 16, "%s%u", kind, (*from)++);
    } while ((slot_of(name) < SEEDED) != (node == 0));
}

static inline void await_queue(const char *name, int64_t count)
{
    await_int(count, "ZCARD %slock_queue:%s", set_of(name)->prefix.data, name);
}

static inline redisReply *id_of(size_t node)
{
    look_at(node);
    return ask_reply("CLUSTER MYID");
}

/* With all that is in it, key by key. */
static inline void move_slot(unsigned slot, size_t from, size_t to)
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

#define CLIENTS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_clients, tear_down)

#endif
