#ifndef CLUSTER_H
#define CLUSTER_H

/* Three masters of a cluster, started once; each has a third of the slots at the beginning of a
 * test, which may move some. What is asked of one of them goes through its Unix socket. */

#include "check.h"
#include "redis_server.h"
#include "wait.h"

#include "wire/keys.h"

#include <rql/rql.h>

#include <hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, AWAIT_MS = 10000, CLUSTER_TEXT = 2048 };

static struct cluster_node {
    struct redis_server server;
    redisContext *raw;
    char id[48];
} nodes[NODES];

/* The command is split at blanks. NULL: it was answered by an error. */
static inline redisReply *node_try(int node, const char *text)
{
    redisReply *reply = redisCommand(nodes[node].raw, text);

    if (reply && reply->type == REDIS_REPLY_ERROR) {
        print_message("# %s: %s\n", text, reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static inline redisReply *node_ask(int node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline redisReply *node_ask(int node, const char *format, ...)
{
    char text[CLUSTER_TEXT];
    redisReply *reply;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply = node_try(node, text);
    assert_non_null(reply);
    return reply;
}

#define NODE_DO(node, ...) freeReplyObject(node_ask(node, __VA_ARGS__))

static inline bool node_says(int node, const char *command, const char *text)
{
    redisReply *reply = node_try(node, command);
    bool says = reply && strstr(reply->str, text);

    freeReplyObject(reply);
    return says;
}

static inline bool cluster_is_whole(void *unused)
{
    bool is_whole = true;

    (void)unused;
    for (int i = 0; i < NODES; i++) {
        is_whole = is_whole && node_says(i, "CLUSTER INFO", "cluster_state:ok") &&
                   node_says(i, "CLUSTER INFO", "cluster_slots_assigned:16384");
    }
    return is_whole;
}

static inline int cluster_node_start(int i)
{
    /* None counts as failed, however long it is stopped. */
    static const char *const arguments[] = {"--cluster-enabled",
                                            "yes",
                                            "--cluster-node-timeout",
                                            "600000",
                                            "--cluster-require-full-coverage",
                                            "no",
                                            NULL};
    struct cluster_node *node = &nodes[i];
    redisReply *reply;

    if (redis_server_start_tcp(&node->server, arguments)) {
        return -1;
    }
    node->raw = redis_server_connect(&node->server);
    if (!node->raw) {
        return -1;
    }
    reply = node_ask(i, "CLUSTER MYID");
    (void)snprintf(node->id, sizeof node->id, "%s", reply->str);
    freeReplyObject(reply);
    NODE_DO(i, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    NODE_DO(i, "CLUSTER ADDSLOTSRANGE %d %d", i * RQLI_KEYSLOTS / NODES,
            (i + 1) * RQLI_KEYSLOTS / NODES - 1);
    if (i > 0) {
        NODE_DO(i, "CLUSTER MEET 127.0.0.1 %d", nodes[0].server.port);
    }
    return 0;
}

static inline int cluster_start(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++) {
        if (cluster_node_start(i)) {
            return -1;
        }
    }
    return wait_until(cluster_is_whole, NULL, 3 * AWAIT_MS) ? 0 : -1;
}

static inline int cluster_stop(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++) {
        redisFree(nodes[i].raw);
        redis_server_stop(&nodes[i].server);
    }
    return 0;
}

/* The slot of the keys of this lock, and whose that is at the beginning. */
static inline unsigned slot_of(const char *name)
{
    return rqli_keyslot(rqli_key_set_of(true, rqli_slice_of(name))->prefix);
}

static inline int home_of(const char *name)
{
    int i = 0;

    while (slot_of(name) >= (unsigned)((i + 1) * RQLI_KEYSLOTS / NODES)) {
        i++;
    }
    return i;
}

/* From here on the nodes send those who ask for a key that is not there any more to the other. */
static inline void slot_begin_move(unsigned slot, int from, int to)
{
    NODE_DO(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, nodes[from].id);
    NODE_DO(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, nodes[to].id);
}

/* All keys of it that are there by now. */
static inline void slot_move_keys(unsigned slot, int from, int to)
{
    redisReply *keys = node_ask(from, "CLUSTER GETKEYSINSLOT %u 1000", slot);

    for (size_t i = 0; i < keys->elements; i++) {
        NODE_DO(from, "MIGRATE 127.0.0.1 %d %s 0 5000", nodes[to].server.port,
                keys->element[i]->str);
    }
    freeReplyObject(keys);
}

/* The new owner first, for it tells the others. Those that are not there (-1) do without. */
static inline void slot_give(unsigned slot, int to, int silent)
{
    NODE_DO(to, "CLUSTER SETSLOT %u NODE %s", slot, nodes[to].id);
    for (int i = 0; i < NODES; i++) {
        if (i != to && i != silent) {
            NODE_DO(i, "CLUSTER SETSLOT %u NODE %s", slot, nodes[to].id);
        }
    }
}

static inline rql_options cluster_options(void)
{
    static char url[64];
    rql_options options;

    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", nodes[0].server.port);
    rql_options_init(&options);
    options.url = url;
    return options;
}

#endif
