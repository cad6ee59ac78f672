#ifndef MASTERS_FIXTURE_H
#define MASTERS_FIXTURE_H

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

static inline int start_nodes(void **state)
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
        ask("CLUSTER ADDSLOTSRANGE %d %d", first_slot_of(i), first_slot_of(i + 1) - 1);
        if (i > 0) {
            ask("CLUSTER MEET 127.0.0.1 %d", nodes[0].port);
        }
    }
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

static inline const struct rqli_key_set *set_of(const char *name)
{
    return rqli_key_set_of(true, rqli_slice_of(name));
}

static inline unsigned slot_of(const char *name)
{
    return rqli_keyslot(set_of(name)->prefix);
}

/* Which node has the keys of this name, by the slots that it began with. */
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
