#include "wire/keys.h"

#include <string.h>

#define TEXT(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

#define KEY_SET(prefix_text, none_text)                                                            \
    {                                                                                              \
        .prefix = TEXT(prefix_text), .live = TEXT(prefix_text "live"),                             \
        .fence = TEXT(prefix_text "fence"), .era = TEXT(prefix_text "era"),                        \
        .hosts = TEXT(prefix_text "swarm:hsts"), .suspects = TEXT(prefix_text "swarm:suspects"),   \
        .flusher = TEXT(prefix_text "swarm:flusher"), .clients = TEXT(prefix_text "clients"),      \
        .none = TEXT(none_text),                                                                   \
    }

#define PARTITION(tag) KEY_SET(RQLI_PREFIX "{" tag "}:", RQLI_PREFIX "{" tag "}:none"),

/* A tag in braces puts all keys of a partition in one slot, also where the name has braces. */
const struct rqli_key_set rqli_key_sets[RQLI_KEY_SETS] = {
#include "wire/partitions.def"
    [RQLI_WHOLE] = KEY_SET(RQLI_PREFIX, ""),
};

/* "{00axj}:" */
enum { TAG_LENGTH = 8 };

/* What stands between the prefix and the name. */
static const struct rqli_slice of_lock = TEXT("lock:");
static const struct rqli_slice of_queue = TEXT("lock_queue:");
static const struct rqli_slice of_requests = TEXT("req:");

/* Terminated; the cursor moves behind it. */
static inline struct rqli_slice join(char **cursor, struct rqli_slice prefix,
                                     struct rqli_slice kind, struct rqli_slice name)
{
    char *key = *cursor;
    char *end = key + prefix.length + kind.length + name.length;

    memcpy(key, prefix.data, prefix.length);
    memcpy(key + prefix.length, kind.data, kind.length);
    memcpy(end - name.length, name.data, name.length);
    *end = '\0';
    *cursor = end + 1;
    return (struct rqli_slice){key, (size_t)(end - key)};
}

/* With three terminators. */
size_t rqli_keys_room(struct rqli_slice name)
{
    return 3 * (sizeof RQLI_PREFIX - 1 + TAG_LENGTH + name.length + 1) + of_lock.length +
           of_queue.length + of_requests.length;
}

void rqli_keys_init(struct rqli_keys *self, char *memory, const struct rqli_key_set *set,
                    struct rqli_slice name)
{
    self->set = set;
    self->lock = join(&memory, set->prefix, of_lock, name);
    self->queue = join(&memory, set->prefix, of_queue, name);
    self->requests = join(&memory, set->prefix, of_requests, name);
}
