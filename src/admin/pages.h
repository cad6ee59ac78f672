#ifndef RQLI_PAGES_H
#define RQLI_PAGES_H

/* Reads what may be large in pages: the keys with a prefix, the fields of a hash, and what is under
 * many keys. No exchange gets more than the connection carries, whatever is stored, and each has
 * its own deadline. Any thread. */

#include "base/error.h"
#include "lock/client.h"
#include "wire/command.h"
#include "wire/reply.h"

/* What all calls need; lives as long as one public call. */
struct rqli_reader {
    rql_client *client;
    const char *where; /* for messages: a name or a pattern */
    rql_error *error;
    const struct rqli_key_set *set; /* of the keys that it reads; NULL: of the first server */
    struct rqli_retries *retries;   /* of what is about those; NULL: what has moved is a fault */
};

/* For its commands. NULL: no memory. */
struct rqli_exchange *rqli_reader_take(const struct rqli_reader *self);

/* Where those keys are. */
const char *rqli_reader_node(const struct rqli_reader *self);

/* What a command that changes nothing came to: a lost reply leaves no doubt. */
rql_status rqli_reader_status(const struct rqli_reader *self, rql_status status);

/* Runs such commands. exchange: NULL is out of memory. Inline, so that all can see that it is no
 * success. */
rql_status rqli_reader_send(const struct rqli_reader *self, struct rqli_exchange *exchange);

static inline rql_status rqli_reader_run(const struct rqli_reader *self,
                                         struct rqli_exchange *exchange)
{
    return exchange ? rqli_reader_send(self, exchange) : rqli_fail_nomem(self->error);
}

/* Texts of unknown number, each with a number that its user knows. Zero is empty. */
struct rqli_item {
    struct rqli_slice text; /* terminated */
    int64_t number;
};

struct rqli_list {
    struct rqli_item *item;
    size_t count;
    size_t capacity;
    struct rqli_list_block *blocks; /* where the texts are */
    bool failed;                    /* out of memory: some are missing */
};

void rqli_list_fini_p(struct rqli_list *self);
void rqli_list_add(struct rqli_list *self, struct rqli_slice text, int64_t number); /* copied */

/* Sorts, and keeps each text once, with the largest of its numbers. */
void rqli_list_sort(struct rqli_list *self);
bool rqli_list_has(const struct rqli_list *self, struct rqli_slice text); /* a sorted one */

/* Bytes of all texts with their ends. */
size_t rqli_list_size(const struct rqli_list *self);

/* A list for a caller, in one allocation. Texts with a NUL are left out: cut, they would be others.
 */
rql_status rqli_list_give(const struct rqli_list *self, rql_text_list **out, rql_error *error);

enum {
    RQLI_CURSOR_SIZE = 24,
    RQLI_WALK_ROUNDS_MAX = 1 << 20, /* of a hash: a server that never ends the walk is broken */
};

struct rqli_walk;

/* A field of a hash, whose name is plain. Memory that runs out is noted in `found`. */
typedef void rqli_walk_fn(struct rqli_walk *self, struct rqli_slice name, struct rqli_slice value);

/* A walk by SCAN or HSCAN, which may name a key or field several times while the server resizes its
 * table. At its end each is there once, in order. */
struct rqli_walk {
    const char *prefix;       /* of keys; static, without glob characters: no user's text may */
    const char *hash;         /* or the key whose fields are walked, */
    rqli_walk_fn *take_field; /* and who takes them; after the init they go to `found`, with the
                                 times that they have */
    struct rqli_fleet *fleet; /* keys are of all its nodes; NULL: of the one that is asked */
    struct rqli_node *node;   /* of those: who is asked now */
    const bool *partitions;   /* whose nodes those are; NULL: of all */
    char cursor[RQLI_CURSOR_SIZE];
    bool is_done;
    int64_t server_us; /* of a hash: when its last page was read */
    struct rqli_list found;
};

void rqli_walk_init(struct rqli_walk *self, const char *prefix, const char *hash);

/* Where locks are spread over several servers a walk of keys goes from one to the next, of all
 * (NULL) or of those that have these partitions. */
void rqli_walk_use(struct rqli_walk *self, rql_client *client, const bool *partitions);

static inline void rqli_walk_fini_p(struct rqli_walk *self)
{
    rqli_list_fini_p(&self->found);
}

/* Until is_done: ask, take the replies. No I/O. */
void rqli_walk_ask(const struct rqli_walk *self, struct rqli_command *command, int64_t count);
rql_status rqli_walk_take(struct rqli_walk *self, const struct rqli_exchange *exchange,
                          rql_error *error);

/* One page, and all of them. */
rql_status rqli_walk_read(const struct rqli_reader *reader, struct rqli_walk *self, int64_t count);
rql_status rqli_walk_read_all(const struct rqli_reader *reader, struct rqli_walk *self,
                              int64_t count);

enum {
    RQLI_BATCH_KEYS = 100,
    RQLI_BATCH_ELEMENTS = 32768,
    RQLI_SPARE_ITEMS = 8, /* a key may have grown by this much since it was measured */
};

/* What reading one key brings. */
struct rqli_cost {
    int64_t items;
    int64_t bytes;
};

/* Two commands find it out: the one that counts the items of a key, and MEMORY USAGE. */
void rqli_cost_ask_count(struct rqli_command *command, const char *counter, struct rqli_slice key);
void rqli_cost_ask_memory(struct rqli_command *command, struct rqli_slice key);

/* A key of another type counts as empty. False: no such reply exists. */
bool rqli_cost_read_count(const struct rqli_reply *reply, int64_t *count);

/* memory: the other reply, of any kind. `most` is how many items are read at once. */
struct rqli_cost rqli_cost_of(int64_t count, const struct rqli_reply *memory, int64_t most);

/* How many of the n keys whose costs these are go into one exchange; 0: the first is too large. */
size_t rqli_cost_fit(const struct rqli_cost *costs, size_t n);

struct rqli_batch;

/* How the keys of a batch are measured and read. */
struct rqli_batch_ops {
    const char *counter; /* the command that counts the items of a key */
    int64_t most;        /* items of a key that are read at once, at most RQLI_BATCH_ELEMENTS */
    rql_status (*read)(const struct rqli_reader *reader, const struct rqli_batch *batch,
                       size_t first, size_t n);
    /* One that holds more than an exchange can carry. */
    rql_status (*report_unread)(const struct rqli_reader *reader, const struct rqli_batch *batch,
                                size_t i);
};

struct rqli_batch {
    const struct rqli_batch_ops *ops;
    void *context; /* as the ops know it */
    const struct rqli_item *keys;
    size_t first; /* of the keys whose costs are known */
    struct rqli_cost costs[RQLI_BATCH_KEYS];
};

/* Reads n keys, as many in one exchange as their sizes allow: those are asked for first, so that a
 * huge key of somebody else does not break the connection that the client's locks live on. */
rql_status rqli_batch_read(const struct rqli_reader *reader, const struct rqli_batch_ops *ops,
                           const struct rqli_item *keys, size_t n, void *context);

static inline int64_t rqli_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
