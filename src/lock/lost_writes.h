#ifndef RQLI_LOST_WRITES_H
#define RQLI_LOST_WRITES_H

/* Handles a server that was replaced or has lost writes (net/login/era.h). */

#include "base/timers.h"
#include "lock/client.h"

#include <stdatomic.h>

/* The last look of the thread in the background at the servers, while it watches leases. */
struct rqli_lost_writes {
    rql_client *client;
    struct rqli_due due;         /* the next look */
    atomic_bool shall_arrive;    /* a connection has ended, and no new one was made */
    struct rqli_node *seen_at[]; /* the node of each set of keys; of the thread */
};

/* To be made after the background, and freed with free() after its thread has ended. */
struct rqli_lost_writes *rqli_lost_writes_new(rql_client *client);

/* A connection of a loop of the client has ended. As soon as the thread watches leases, it
 * reconnects and finds out whether the server is the same and has lost nothing. Any thread. */
void rqli_lost_writes_on_cut(rql_client *client);

void rqli_lost_writes_tell_news(rql_client *client, struct rqli_era *era);

/* If a login has found such news about these keys, reports and counts the loss, and marks what is
 * held there as doubtful, to be verified. Any thread. Caller holds no mutex, because listeners are
 * called. */
static inline void rqli_lost_writes_look(rql_client *client, struct rqli_era *era)
{
    if (atomic_load_explicit(&era->has_news, memory_order_relaxed)) {
        rqli_lost_writes_tell_news(client, era);
    }
}

/* Does the same for all keys. */
void rqli_lost_writes_look_at_all(rql_client *client);

#endif
