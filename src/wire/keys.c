#include "wire/keys.h"

#include <string.h>

#define TEXT(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

#define KEY_SET(prefix_text)                                                                       \
    {                                                                                              \
        .prefix = TEXT(prefix_text), .live = TEXT(prefix_text "live"),                             \
        .fence = TEXT(prefix_text "fence"), .era = TEXT(prefix_text "era"),                        \
        .hosts = TEXT(prefix_text "swarm:hsts"), .suspects = TEXT(prefix_text "swarm:suspects"),   \
        .flusher = TEXT(prefix_text "swarm:flusher"), .clients = TEXT(prefix_text "clients"),      \
    }

#define PARTITION(tag) KEY_SET(RQLI_PREFIX "{" tag "}:"),

/* A tag in braces puts all keys of a partition in one slot, also where the name has braces. */
const struct rqli_key_set rqli_key_sets[RQLI_KEY_SETS] = {
#include "wire/partitions.def"
    [RQLI_WHOLE] = KEY_SET(RQLI_PREFIX),
};

static const char of_lock[] = "lock:", of_queue[] = "lock_queue:", of_requests[] = "req:";

/* "{00axj}:" */
enum { TAG_LENGTH = 8 };

/* Terminated; the cursor moves behind it. */
static struct rqli_slice join(char **cursor, struct rqli_slice prefix, const char *kind,
                              struct rqli_slice name)
{
    char *key = *cursor;
    char *end = mempcpy(key, prefix.data, prefix.length);

    end = stpcpy(end, kind);
    end = mempcpy(end, name.data, name.length);
    *end = '\0';
    *cursor = end + 1;
    return (struct rqli_slice){key, (size_t)(end - key)};
}

/* With three terminators. */
size_t rqli_keys_room(struct rqli_slice name)
{
    return 3 * (sizeof RQLI_PREFIX - 1 + TAG_LENGTH + name.length) + sizeof of_lock +
           sizeof of_queue + sizeof of_requests;
}

void rqli_keys_init(struct rqli_keys *self, char *memory, const struct rqli_key_set *set,
                    struct rqli_slice name)
{
    self->set = set;
    self->lock = join(&memory, set->prefix, of_lock, name);
    self->queue = join(&memory, set->prefix, of_queue, name);
    self->requests = join(&memory, set->prefix, of_requests, name);
}
