#ifndef RQLI_PAGES_H
#define RQLI_PAGES_H

/* Reads large data in pages: the keys with a prefix, the fields of a hash, and the contents of
 * many keys. No batch gets more than the connection carries, whatever is stored, and each
 * batch has its own deadline. Any thread may call these functions. */

#include "base/error.h"
#include "lock/client.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/inspect.h>

/* The arguments of all calls; lives as long as one public call. */
struct rqli_reader {
    rql_client *client;
    const char *where; /* for messages: a name or a pattern */
    rql_error *error;
    const struct rqli_key_set *set; /* of the keys that it reads; NULL: of the first server */
    struct rqli_retries *retries; /* for calls about those; NULL: a key that has moved is a fault */
};

/* Takes a batch for the reader's commands. NULL: no memory. */
struct rqli_batch *rqli_reader_take(const struct rqli_reader *self);

/* Returns the address of the node that has those keys. */
const char *rqli_reader_node(const struct rqli_reader *self);

/* Returns the status of a command to this node that changes nothing: a lost reply leaves no
 * doubt. */
rql_status rqli_reader_status(rql_status status, const struct rqli_node *node, rql_error *error);

/* Runs such commands. A batch of NULL means out of memory. This is inline so that every
 * reader and tool can see that NULL is no success. */
rql_status rqli_reader_send(const struct rqli_reader *self, struct rqli_batch *batch);

static inline rql_status rqli_reader_run(const struct rqli_reader *self, struct rqli_batch *batch)
{
    return batch ? rqli_reader_send(self, batch) : rqli_fail_nomem(self->error);
}

/* A list of texts whose number is not known, each with a number that only its user knows. A
 * zeroed list is empty. */
struct rqli_item {
    struct rqli_slice text; /* NUL-terminated */
    int64_t number;
};

struct rqli_list {
    struct rqli_item *item;
    size_t count;
    size_t capacity;
    struct rqli_list_block *blocks; /* memory of the texts */
    bool failed;                    /* out of memory: some are missing */
};

void rqli_list_fini_p(struct rqli_list *self);
void rqli_list_add(struct rqli_list *self, struct rqli_slice text, int64_t number); /* copied */

/* Sorts, and keeps each text once, with the largest of its numbers. */
void rqli_list_sort(struct rqli_list *self);

/* Return the item with this text or NULL, and whether there is one. The list must be sorted. */
const struct rqli_item *rqli_list_find(const struct rqli_list *self, struct rqli_slice text);
bool rqli_list_has(const struct rqli_list *self, struct rqli_slice text);

/* Returns the bytes of all texts with their terminating NULs. */
size_t rqli_list_size(const struct rqli_list *self);

/* Makes a list for the caller, in one allocation. Texts with a NUL are left out, because they
 * would be other texts if they were cut. */
rql_status rqli_list_give(const struct rqli_list *self, rql_text_list **out, rql_error *error);

/* Does the same with the names in keys that have this prefix, sorted. The list has them then. */
rql_status rqli_list_give_names(struct rqli_list *self, const char *prefix, rql_text_list **out,
                                rql_error *error);

enum {
    RQLI_CURSOR_SIZE = 24,
    RQLI_WALK_ROUNDS_MAX = 1 << 20, /* of a hash: a server that never ends the walk is broken */
};

struct rqli_walk;

/* Takes a field of a hash, whose name is plain. If memory runs out, that is noted in `found`. */
typedef void rqli_walk_fn(struct rqli_walk *self, struct rqli_slice name, struct rqli_slice value);

/* A walk by SCAN or HSCAN, which may return a key or field several times while the server
 * resizes its table. At its end each key or field is there once, in order. */
struct rqli_walk {
    const char *prefix;       /* of keys; static, without glob characters: never a user's text */
    const char *hash;         /* or the key whose fields are walked, */
    rqli_walk_fn *take_field; /* and the function that takes them; after the init they go to
                                 `found`, with their times */
    struct rqli_fleet *fleet; /* its nodes' keys are walked; NULL: those of the reader's node */
    struct rqli_node *node;   /* the one of those nodes that is asked now */
    const bool *partitions;   /* only the nodes of these; NULL: all nodes */
    char cursor[RQLI_CURSOR_SIZE];
    bool is_done;
    int64_t server_us; /* of a hash: when its last page was read */
    struct rqli_list found;
};

void rqli_walk_init(struct rqli_walk *self, const char *prefix, const char *hash);

/* Lets a walk of keys go from one server to the next if locks are spread over several: over all
 * servers (NULL), or over those that have these partitions. */
void rqli_walk_use(struct rqli_walk *self, rql_client *client, const bool *partitions);

static inline void rqli_walk_fini_p(struct rqli_walk *self)
{
    rqli_list_fini_p(&self->found);
}

/* Until is_done, the caller asks for a page and takes the replies. No I/O. */
void rqli_walk_ask(const struct rqli_walk *self, struct rqli_command *command, int64_t count);
rql_status rqli_walk_take(struct rqli_walk *self, const struct rqli_batch *batch, rql_error *error);

/* Reads all pages. */
rql_status rqli_walk_read_all(const struct rqli_reader *reader, struct rqli_walk *self,
                              int64_t count);

enum {
    RQLI_BATCH_KEYS = 500,
    RQLI_BATCH_ELEMENTS = 32768,
    RQLI_SPARE_ITEMS = 8, /* a key may have grown by this much since it was measured */
};

/* The cost of reading one key. */
struct rqli_cost {
    int64_t items;
    int64_t bytes;
};

struct rqli_key_batch;

/* How the keys of a batch are measured and read. */
struct rqli_key_batch_ops {
    const char *counter; /* the command that counts the items of a key */
    int64_t most;        /* items of a key that are read at once, at most RQLI_BATCH_ELEMENTS */
    rql_status (*read)(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                       size_t first, size_t n);
    /* Reports a key that holds more than a batch can carry. */
    rql_status (*report_unread)(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                                size_t i);
};

struct rqli_key_batch {
    const struct rqli_key_batch_ops *ops;
    void *context; /* only the ops know its type */
    const struct rqli_item *keys;
    size_t first; /* first of the keys whose costs are known */
    struct rqli_cost costs[RQLI_BATCH_KEYS];
};

/* Reads n keys, as many in one batch as their sizes allow. The sizes are asked for first, so
 * that a huge key of another program does not break the connection that the client's locks depend
 * on. */
rql_status rqli_key_batch_read(const struct rqli_reader *reader,
                               const struct rqli_key_batch_ops *ops, const struct rqli_item *keys,
                               size_t n, void *context);

static inline int64_t rqli_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
