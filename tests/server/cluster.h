#ifndef CLUSTER_H
#define CLUSTER_H

/* A cluster of NODES masters, an enumerator that its user has: each has as many slots as the next
 * one. What tests ask goes to the one that is looked at. */

#include "fixture.h"

#include "wire/keys.h"

static struct redis_server nodes[NODES];
static redisContext *raws[NODES];

/* What follows asks this node. */
static inline void look_at(size_t node)
{
    raw = raws[node];
}

/* The first slot of a node; that of one behind the last is behind all. */
static inline int first_slot_of(size_t node)
{
    return (int)(node * RQLI_KEYSLOTS / NODES);
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

static inline void start_node(size_t i)
{
    /* None counts as failed, however long it is stopped. */
    static const char *const arguments[] = {"--cluster-enabled",
                                            "yes",
                                            "--cluster-node-timeout",
                                            "600000",
                                            "--cluster-require-full-coverage",
                                            "no",
                                            NULL};

    assert_int_equal(redis_server_start_tcp(&nodes[i], arguments), 0);
    raws[i] = redis_server_connect(&nodes[i]);
    look_at(i);
    ask("CLUSTER SET-CONFIG-EPOCH %zu", i + 1);
    ask("CLUSTER ADDSLOTSRANGE %d %d", first_slot_of(i), first_slot_of(i + 1) - 1);
    if (i > 0) {
        ask("CLUSTER MEET 127.0.0.1 %d", nodes[0].port);
    }
}

static inline void start_nodes(void)
{
    for (size_t i = 0; i < NODES; i++) {
        start_node(i);
    }
    server = nodes[0];
    (void)snprintf(server.url, sizeof server.url, "redis+cluster://127.0.0.1:%d", nodes[0].port);
    for (size_t i = 0; i < NODES; i++) {
        look_at(i);
        assert_true(wait_until(knows_all, NULL, 3 * AWAIT_MS));
    }
}

static inline void stop_nodes(void)
{
    for (size_t i = 0; i < NODES; i++) {
        redisFree(raws[i]);
        redis_server_stop(&nodes[i]);
    }
}

static inline const struct rqli_key_set *set_of(const char *name)
{
    return rqli_key_set_of(true, rqli_slice_of(name));
}

static inline unsigned slot_of(const char *name)
{
    return rqli_keyslot(set_of(name)->prefix);
}

/* Which node has the keys of this name. */
static inline size_t node_of(const char *name)
{
    size_t node = 0;

    while ((int)slot_of(name) >= first_slot_of(node + 1)) {
        node++;
    }
    return node;
}

/* The next name of this kind whose keys are at the node. */
static inline void draw_name(char name[16], const char *kind, size_t node, unsigned *from)
{
    do {
        (void)snprintf(name, 16, "%s%u", kind, (*from)++);
    } while (node_of(name) != node);
}

#endif
