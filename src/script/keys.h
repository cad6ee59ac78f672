#ifndef RQLI_KEYS_H
#define RQLI_KEYS_H

/* The names of all keys (wire.md section 1, protocol.md "Keys") and of the client's channel. */

#include "base/text.h"

#include <rql/base.h>

#define RQLI_KEY_LOCK "rql:lock:"
#define RQLI_KEY_QUEUE "rql:lock_queue:"
#define RQLI_KEY_REQUESTS "rql:req:"
#define RQLI_KEY_LIVE "rql:live"
#define RQLI_KEY_FENCE "rql:fence"
#define RQLI_KEY_HOSTS "rql:swarm:hsts"
#define RQLI_KEY_SUSPECTS "rql:swarm:suspects"
#define RQLI_KEY_FLUSHER "rql:swarm:flusher"
#define RQLI_CHANNEL "rql:wake:"

enum { RQLI_KEY_SIZE = RQL_NAME_MAX + 24 };

/* The keys of one lock, built once per operation; terminated, for messages. */
struct rqli_keys {
    struct rqli_slice lock;
    struct rqli_slice queue;
    struct rqli_slice requests;
    char memory[3 * RQLI_KEY_SIZE];
};

/* Slices point into self->memory: never copy the struct. */
void rqli_keys_init(struct rqli_keys *self, const char *name);

/* For a name of any bytes and length, such as SCAN finds. `memory` has rqli_keys_room() bytes and
 * outlives the keys. */
size_t rqli_keys_room(struct rqli_slice name);
void rqli_keys_init_in(struct rqli_keys *self, char *memory, struct rqli_slice name);

#endif
