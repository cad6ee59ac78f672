#include "base/hash_map.h"

#include <stdlib.h>
#include <string.h>

static struct rqli_hash_entry **head_of(const struct rqli_hash_map *self, uint64_t hash)
{
    return &self->heads[hash & (self->n_heads - 1)];
}

static void put(struct rqli_hash_map *self, struct rqli_hash_entry *entry, uint64_t hash)
{
    struct rqli_hash_entry **head = head_of(self, hash);

    *entry = (struct rqli_hash_entry){*head, hash};
    *head = entry;
}

/* Doubles the number of heads. Without memory the map stays as it is. */
static void grow(struct rqli_hash_map *self)
{
    struct rqli_hash_map larger = {.n_heads = self->n_heads * 2, .count = self->count};

    /* Pointers are meant. NOLINTNEXTLINE(bugprone-sizeof-expression) */
    larger.heads = calloc(larger.n_heads, sizeof *larger.heads);
    if (!larger.heads) {
        return;
    }
    for (size_t i = 0; i < self->n_heads; i++) {
        while (self->heads[i]) {
            struct rqli_hash_entry *entry = self->heads[i];

            self->heads[i] = entry->next;
            put(&larger, entry, entry->hash);
        }
    }
    rqli_hash_map_fini(self);
    *self = larger;
}

void rqli_hash_map_fini(struct rqli_hash_map *self)
{
    if (self->heads != self->few) {
        free(self->heads);
    }
}

void rqli_hash_map_add(struct rqli_hash_map *self, struct rqli_hash_entry *entry, uint64_t hash)
{
    if (!self->heads) {
        self->heads = self->few;
        self->n_heads = RQLI_HASH_MAP_FEW;
    } else if (self->count >= self->n_heads) {
        grow(self);
    }
    put(self, entry, hash);
    self->count++;
}

void rqli_hash_map_remove(struct rqli_hash_map *self, const struct rqli_hash_entry *entry)
{
    struct rqli_hash_entry **at = head_of(self, entry->hash);

    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    self->count--;
}

static struct rqli_hash_entry *with_hash(struct rqli_hash_entry *entry, uint64_t hash)
{
    while (entry && entry->hash != hash) {
        entry = entry->next;
    }
    return entry;
}

struct rqli_hash_entry *rqli_hash_map_find(const struct rqli_hash_map *self, uint64_t hash)
{
    return self->count > 0 ? with_hash(*head_of(self, hash), hash) : NULL;
}

struct rqli_hash_entry *rqli_hash_map_next(const struct rqli_hash_entry *entry)
{
    return with_hash(entry->next, entry->hash);
}

/* Multiplies and folds: this is fast, and each bit of the input reaches the lower bits, which
 * choose the head. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* The length is mixed in first, so that zero bytes at the end count. */
uint64_t rqli_hash_bytes(uint64_t seed, struct rqli_slice bytes)
{
    uint64_t hash = seed;
    uint64_t word = bytes.length;
    size_t at = 0;

    for (; bytes.length - at >= sizeof word; at += sizeof word) {
        hash = mix(hash, word);
        memcpy(&word, bytes.data + at, sizeof word);
    }
    hash = mix(hash, word);
    for (word = 0; at < bytes.length; at++) {
        word = word << 8 | (unsigned char)bytes.data[at];
    }
    return mix(hash, word);
}
