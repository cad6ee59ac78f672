#ifndef RQLI_KEYS_H
#define RQLI_KEYS_H

/* The names of all keys (lua/README.md 1) and of the client's channel. */

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

/* Room for one key, and for all of a lock, of any name that a caller may use. */
enum { RQLI_KEY_SIZE = RQL_NAME_MAX + 24, RQLI_KEYS_ROOM = 3 * RQLI_KEY_SIZE };

/* The keys of one lock; terminated, for messages. */
struct rqli_keys {
    struct rqli_slice lock;
    struct rqli_slice queue;
    struct rqli_slice requests;
};

/* Builds them in `memory`, which has rqli_keys_room() bytes and outlives them. A name that SCAN
 * finds may have any bytes and length. */
size_t rqli_keys_room(struct rqli_slice name);
void rqli_keys_init(struct rqli_keys *self, char *memory, struct rqli_slice name);

#endif
