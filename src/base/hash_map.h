#ifndef RQLI_HASH_MAP_H
#define RQLI_HASH_MAP_H

/*
 * A hash map of entries that are part of what is in it; the keys are their owners'. A few entries
 * need no memory of the map's own. Zeroed: empty. No lock.
 */

#include "base/text.h"

struct rqli_hash_entry {
    struct rqli_hash_entry *next;
    uint64_t hash;
};

enum { RQLI_HASH_MAP_FEW = 16 };

struct rqli_hash_map {
    struct rqli_hash_entry **heads; /* NULL: empty; `few`, as long as they are enough */
    size_t n_heads;
    size_t count;
    struct rqli_hash_entry *few[RQLI_HASH_MAP_FEW];
};

void rqli_hash_map_fini(struct rqli_hash_map *self);

/* It is in no map. Never fails: without memory the chains grow longer. */
void rqli_hash_map_add(struct rqli_hash_map *self, struct rqli_hash_entry *entry, uint64_t hash);

/* It is in the map. */
void rqli_hash_map_remove(struct rqli_hash_map *self, const struct rqli_hash_entry *entry);

/* The first of those with this hash, and the next of those; other keys may have the same. NULL:
 * there is none. */
struct rqli_hash_entry *rqli_hash_map_find(const struct rqli_hash_map *self, uint64_t hash);
struct rqli_hash_entry *rqli_hash_map_next(const struct rqli_hash_entry *entry);

/* seed: another for each kind of keys, or the hash of what goes in front. */
uint64_t rqli_hash_bytes(uint64_t seed, struct rqli_slice bytes);

#endif
