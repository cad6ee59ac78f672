#include "net/login/slots.h"

enum { ROW_MIN = 3, NODE_MIN = 2 }; /* first slot, last slot, master; host, port */

static const char *const tags[RQLI_PARTITIONS] = {
#define PARTITION(tag) tag,
#include "wire/partitions.def"
};

/* Reads a node's address. A node that does not know how clients reach it reports no host, or
 * "?". */
static bool read_node(struct rqli_address *out, struct rqli_slice host, int64_t port,
                      const struct rqli_address *asked)
{
    bool is_unknown = host.length == 0 || rqli_slice_is(host, "?");

    return rqli_address_set(out, is_unknown ? rqli_slice_of(asked->host) : host, port);
}

/* ---- the map ---- */

static bool read_master(struct rqli_address *out, const struct rqli_reply *row,
                        const struct rqli_address *asked)
{
    const struct rqli_reply *node = &row->items[2];
    const struct rqli_reply *host;

    if (node->type != RQLI_REPLY_ARRAY || node->count < NODE_MIN ||
        node->items[1].type != RQLI_REPLY_INTEGER) {
        return false;
    }
    host = &node->items[0];
    return (host->type == RQLI_REPLY_TEXT || host->type == RQLI_REPLY_NIL) &&
           read_node(out, host->text, node->items[1].integer, asked);
}

/* Returns true for a row: first and last slot, the master, and perhaps replicas, which are
 * ignored. */
static bool is_row(const struct rqli_reply *row, const struct rqli_address *asked)
{
    struct rqli_address master;

    return row->type == RQLI_REPLY_ARRAY && row->count >= ROW_MIN &&
           row->items[0].type == RQLI_REPLY_INTEGER && row->items[1].type == RQLI_REPLY_INTEGER &&
           row->items[0].integer >= 0 && row->items[0].integer <= row->items[1].integer &&
           row->items[1].integer < RQLI_KEYSLOTS && read_master(&master, row, asked);
}

static const struct rqli_reply *row_with(const struct rqli_reply *reply, unsigned slot)
{
    for (size_t i = 0; i < reply->count; i++) {
        const struct rqli_reply *row = &reply->items[i];

        if (row->items[0].integer <= slot && slot <= row->items[1].integer) {
            return row;
        }
    }
    return NULL;
}

/* Returns the index of a master, which may be a new one. There are never more than partitions. */
static int number_of(struct rqli_slots *self, const struct rqli_address *master)
{
    size_t i = 0;

    while (i < self->n_masters && !rqli_address_is(&self->masters[i], master)) {
        i++;
    }
    if (i == self->n_masters) {
        self->masters[self->n_masters++] = *master;
    }
    return (int)i;
}

bool rqli_slots_read(struct rqli_slots *out, const struct rqli_reply *reply,
                     const struct rqli_address *asked)
{
    if (reply->type != RQLI_REPLY_ARRAY) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (!is_row(&reply->items[i], asked)) {
            return false;
        }
    }
    out->n_masters = 0;
    for (size_t p = 0; p < RQLI_PARTITIONS; p++) {
        const struct rqli_reply *row = row_with(reply, rqli_keyslot(rqli_slice_of(tags[p])));
        struct rqli_address master;

        out->owners[p] =
            row && read_master(&master, row, asked) ? number_of(out, &master) : RQLI_SLOT_IS_FREE;
    }
    return true;
}

/* ---- redirects ---- */

/* Reads the target of "MOVED 3999 127.0.0.1:6381". An IPv6 address has no brackets there. */
static bool read_target(struct rqli_address *out, struct rqli_slice text,
                        const struct rqli_address *answered)
{
    struct rqli_slice node;
    const char *colon;
    int64_t port;
    int slot;

    (void)rqli_slice_word(&text);
    if (!rqli_parse_within(rqli_slice_word(&text), 0, RQLI_KEYSLOTS - 1, &slot)) {
        return false;
    }
    node = rqli_slice_word(&text);
    colon = memrchr(node.data, ':', node.length);
    if (!colon) {
        return false;
    }
    struct rqli_slice host = rqli_slice_take(&node, (size_t)(colon - node.data));

    return rqli_slice_skip(&node, ":") && rqli_parse_int(node, &port) &&
           read_node(out, host, port, answered);
}

enum rqli_way rqli_way_of(const struct rqli_reply *error_reply, const struct rqli_address *answered,
                          struct rqli_address *out)
{
    static const struct {
        const char *code;
        enum rqli_way way;
        bool has_target;
    } ways[] = {
        {"MOVED", RQLI_WAY_MOVED, true},
        {"ASK", RQLI_WAY_AGAIN, false},
        {"TRYAGAIN", RQLI_WAY_AGAIN, false},
        {"CLUSTERDOWN", RQLI_WAY_DOWN, false},
    };

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (rqli_reply_says(error_reply, ways[i].code) &&
            (!ways[i].has_target || read_target(out, error_reply->text, answered))) {
            return ways[i].way;
        }
    }
    return RQLI_WAY_NONE;
}
