#ifndef RQLI_HASH_MAP_H
#define RQLI_HASH_MAP_H

/*
 * A hash map whose entries are members of the objects in it; the owners of the entries have the
 * keys. A few entries need no memory of the map's own. A zeroed map is empty. The map has no lock.
 */

#include "base/text.h"

struct rqli_hash_entry {
    struct rqli_hash_entry *next;
    uint64_t hash;
};

enum { RQLI_HASH_MAP_FEW = 16 };

struct rqli_hash_map {
    struct rqli_hash_entry **heads; /* NULL: empty; `few`, as long as that is enough */
    size_t n_heads;
    size_t count;
    struct rqli_hash_entry *few[RQLI_HASH_MAP_FEW];
};

void rqli_hash_map_fini(struct rqli_hash_map *self);

/* Adds an entry that is in no map. Never fails: without memory the chains grow longer. */
void rqli_hash_map_add(struct rqli_hash_map *self, struct rqli_hash_entry *entry, uint64_t hash);

/* Removes an entry, which must be in the map. */
void rqli_hash_map_remove(struct rqli_hash_map *self, const struct rqli_hash_entry *entry);

/* Return the first entry with this hash, and the next one after it, or NULL if there is none. Other
 * keys may have the same hash. */
struct rqli_hash_entry *rqli_hash_map_find(const struct rqli_hash_map *self, uint64_t hash);
struct rqli_hash_entry *rqli_hash_map_next(const struct rqli_hash_entry *entry);

/* Returns the hash of the bytes. seed: a different one for each kind of key, or the hash of the
 * bytes in front. */
uint64_t rqli_hash_bytes(uint64_t seed, struct rqli_slice bytes);

#endif
