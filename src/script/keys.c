#include "script/keys.h"

#include "base/must.h"

static struct rqli_slice join(char *memory, struct rqli_slice prefix, struct rqli_slice name)
{
    RQLI_MUST(prefix.length + name.length < RQLI_KEY_SIZE);
    memcpy(memory, prefix.data, prefix.length);
    memcpy(memory + prefix.length, name.data, name.length);
    memory[prefix.length + name.length] = '\0';
    return (struct rqli_slice){memory, prefix.length + name.length};
}

void rqli_keys_init(struct rqli_keys *self, const char *name)
{
    struct rqli_slice word = rqli_slice_of(name);
    char *memory = self->memory;

    self->lock = join(memory, rqli_slice_of(RQLI_KEY_LOCK), word);
    memory += RQLI_KEY_SIZE;
    self->queue = join(memory, rqli_slice_of(RQLI_KEY_QUEUE), word);
    memory += RQLI_KEY_SIZE;
    self->requests = join(memory, rqli_slice_of(RQLI_KEY_REQUESTS), word);
}
