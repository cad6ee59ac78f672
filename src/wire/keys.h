#ifndef RQLI_KEYS_H
#define RQLI_KEYS_H

/*
 * The names of keys (lua/README.md 1). A server that has all locks has one set of keys. If there
 * are several servers, locks are in partitions, each with a set of keys of its own, in one slot.
 * The partition of a lock follows from its name. This is a part of the protocol, because two
 * clients that disagree about it do not exclude each other. partitions.def has their tags.
 */

#include "base/text.h"

#include <rql/base.h>
#include <stdbool.h>
#include <stddef.h>

#define RQLI_PREFIX "rql:"
#define RQLI_KEY_LOCK RQLI_PREFIX "lock:"
#define RQLI_KEY_QUEUE RQLI_PREFIX "lock_queue:"
#define RQLI_KEY_REQUESTS RQLI_PREFIX "req:"
#define RQLI_OF_SHARES "shares:" /* behind the prefix of any set */
#define RQLI_KEY_SHARES RQLI_PREFIX RQLI_OF_SHARES
#define RQLI_KEY_LIVE RQLI_PREFIX "live"
#define RQLI_KEY_FENCE RQLI_PREFIX "fence"
#define RQLI_KEY_ERA RQLI_PREFIX "era"
#define RQLI_KEY_HOSTS RQLI_PREFIX "swarm:hsts"
#define RQLI_KEY_FLUSHER RQLI_PREFIX "swarm:flusher"
#define RQLI_KEY_CLIENTS RQLI_PREFIX "clients"
#define RQLI_KEY_RING RQLI_PREFIX "ring" /* only on a shard */
#define RQLI_CHANNEL RQLI_PREFIX "wake:" /* followed by the identity of the client */

/* The acquirer of a lock that several share (lua/optional.md 58). */
#define RQLI_SHARED_ACQUIRER RQLI_PREFIX "acq:shared/0/0/0/00000000000000000000000000000000"

/* The ids of a lock that is kept after its release: no client and no swarm has them. */
#define RQLI_KEPT_ACQUIRER RQLI_PREFIX "acq:kept/0/0/0/00000000000000000000000000000000"
#define RQLI_KEPT_HOST RQLI_PREFIX "hst:kept/0/0/00000000000000000000000000000000"

enum { RQLI_PARTITIONS = 128, RQLI_KEYSLOTS = 16384 };

/* Returns the slot of a key of this name in a cluster: that of its first {tag}, if it has one that
 * is not empty. */
unsigned rqli_keyslot(struct rqli_slice name);

/* Returns the partition of a lock, from 0 to RQLI_PARTITIONS - 1. */
unsigned rqli_partition_of(struct rqli_slice name);

/* One set of keys; all texts are terminated. */
struct rqli_key_set {
    struct rqli_slice prefix; /* of all keys, and of the channels */
    struct rqli_slice live;
    struct rqli_slice fence;
    struct rqli_slice era;
    struct rqli_slice hosts;
    struct rqli_slice suspects;
    struct rqli_slice flusher;
    struct rqli_slice clients;
    struct rqli_slice none; /* of a partition: a key that never exists; otherwise empty */
};

/* The sets of the partitions; after them that of a server that has all locks. */
enum { RQLI_WHOLE = RQLI_PARTITIONS, RQLI_KEY_SETS };

extern const struct rqli_key_set rqli_key_sets[RQLI_KEY_SETS];

static inline const struct rqli_key_set *rqli_key_set_of(bool is_partitioned,
                                                         struct rqli_slice name)
{
    return &rqli_key_sets[is_partitioned ? rqli_partition_of(name) : RQLI_WHOLE];
}

static inline unsigned rqli_key_set_index(const struct rqli_key_set *self)
{
    return (unsigned)(self - rqli_key_sets);
}

/* Write the keys of the history, which are in the first set of a client: of the usage of a day,
 * counted from 1970, and of single holds; and a field of the usage. They are terminated. */
enum { RQLI_HISTORY_KEY_SIZE = 48, RQLI_USAGE_FIELD_SIZE = 768 };

#define RQLI_DAY_US INT64_C(86400000000)

struct rqli_slice rqli_usage_key(const struct rqli_key_set *set, int64_t day,
                                 char out[RQLI_HISTORY_KEY_SIZE]);
struct rqli_slice rqli_history_key(const struct rqli_key_set *set, char out[RQLI_HISTORY_KEY_SIZE]);
void rqli_usage_field(struct rqli_slice user, struct rqli_slice host, struct rqli_slice name,
                      char out[RQLI_USAGE_FIELD_SIZE]);

/* Returns the set that a key belongs to, by its beginning. NULL: it belongs to none. */
const struct rqli_key_set *rqli_key_set_in(struct rqli_slice key);

/* Returns the name in a key of any set; prefix is the beginning of such a key in the set of a
 * server that has all locks. Returns "" if the key begins otherwise. */
struct rqli_slice rqli_name_in(struct rqli_slice key, const char *prefix);

/* Room for one key, and for all keys of a lock, of any name that a caller may use. */
enum { RQLI_KEY_SIZE = RQL_NAME_MAX + 32, RQLI_KEYS_ROOM = 3 * RQLI_KEY_SIZE };

/* The keys of one lock; terminated, for messages. */
struct rqli_keys {
    const struct rqli_key_set *set;
    struct rqli_slice lock;
    struct rqli_slice queue;
    struct rqli_slice requests;
};

/* Builds the keys in `memory`, which has rqli_keys_room() bytes and outlives them. A name that SCAN
 * finds may have any bytes and length. */
size_t rqli_keys_room(struct rqli_slice name);
void rqli_keys_init(struct rqli_keys *self, char *memory, const struct rqli_key_set *set,
                    struct rqli_slice name);

#endif
