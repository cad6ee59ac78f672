#include "wire/keys.h"

/* Terminated; the cursor moves behind it. */
static struct rqli_slice join(char **cursor, struct rqli_slice prefix, struct rqli_slice name)
{
    char *key = *cursor;

    memcpy(key, prefix.data, prefix.length);
    memcpy(key + prefix.length, name.data, name.length);
    key[prefix.length + name.length] = '\0';
    *cursor = key + prefix.length + name.length + 1;
    return (struct rqli_slice){key, prefix.length + name.length};
}

size_t rqli_keys_room(struct rqli_slice name)
{
    return 3 * name.length + sizeof RQLI_KEY_LOCK + sizeof RQLI_KEY_QUEUE +
           sizeof RQLI_KEY_REQUESTS;
}

void rqli_keys_init(struct rqli_keys *self, char *memory, struct rqli_slice name)
{
    self->lock = join(&memory, rqli_slice_of(RQLI_KEY_LOCK), name);
    self->queue = join(&memory, rqli_slice_of(RQLI_KEY_QUEUE), name);
    self->requests = join(&memory, rqli_slice_of(RQLI_KEY_REQUESTS), name);
}
