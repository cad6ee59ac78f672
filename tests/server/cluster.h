#ifndef CLUSTER_H
#define CLUSTER_H

/* A cluster of NODES masters, an enumerator that its user has: each has as many slots as the next
 * one at the beginning of a test, which may move some. What tests ask goes to the one that is
 * looked at. */

#include "fixture.h"

#include "wire/keys.h"

static struct redis_server nodes[NODES];
static redisContext *raws[NODES];
static char ids[NODES][48]; /* by which the nodes know each other */

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
    redisReply *id;

    assert_int_equal(redis_server_start_tcp(&nodes[i], arguments), 0);
    raws[i] = redis_server_connect(&nodes[i]);
    look_at(i);
    id = ask_reply("CLUSTER MYID");
    (void)snprintf(ids[i], sizeof ids[i], "%s", id->str);
    freeReplyObject(id);
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

/* From here on the nodes send those who ask for a key that is not there any more to the other. */
static inline void begin_move(unsigned slot, size_t from, size_t to)
{
    look_at(to);
    ask("CLUSTER SETSLOT %u IMPORTING %s", slot, ids[from]);
    look_at(from);
    ask("CLUSTER SETSLOT %u MIGRATING %s", slot, ids[to]);
}

/* All keys of it that are there by now. */
static inline void move_keys(unsigned slot, size_t from, size_t to)
{
    char text[TEXT_SIZE];
    redisReply *keys;

    (void)snprintf(text, sizeof text, "CLUSTER GETKEYSINSLOT %u 1000", slot);
    look_at(from);
    keys = ask_reply(text);
    for (size_t i = 0; i < keys->elements; i++) {
        ask("MIGRATE 127.0.0.1 %d %s 0 5000", nodes[to].port, keys->element[i]->str);
    }
    freeReplyObject(keys);
}

/* The new owner first, for it tells the others; it is looked at. A node that is stopped (NODES:
 * none) does without. */
static inline void give_slot(unsigned slot, size_t to, size_t stopped)
{
    for (size_t i = 0; i < NODES; i++) {
        size_t node = (to + i) % NODES;

        if (node != stopped) {
            look_at(node);
            ask("CLUSTER SETSLOT %u NODE %s", slot, ids[to]);
        }
    }
    look_at(to);
}

/* With all that is in it. */
static inline void move_slot(unsigned slot, size_t from, size_t to)
{
    begin_move(slot, from, to);
    move_keys(slot, from, to);
    give_slot(slot, to, NODES);
}

#endif
