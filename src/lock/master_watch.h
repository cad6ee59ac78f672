#ifndef RQLI_MASTER_WATCH_H
#define RQLI_MASTER_WATCH_H

/*
 * A thread that asks the sentinels of a client all the time who is the master, of each that the
 * client has been connected to. So a client leaves a master that hangs, or still answers though
 * another was chosen, and not only one that broke; and what is held is verified at the next one
 * though nobody has a call for it.
 */

#include "base/worker.h"
#include "net/sentinels.h"

#include <rql/client.h>
#include <stdatomic.h>

struct rqli_master_watch {
    struct rqli_worker worker; /* first */
    rql_client *client;
    struct rqli_sentinels *sentinels;
    struct rqli_sentinel news;
    struct rqli_socket probe; /* a login that finds out whether a server is the master */
    atomic_bool shall_stop;
};

/* NULL: no memory. It sleeps until the first connection is made. */
struct rqli_master_watch *rqli_master_watch_new(rql_client *client,
                                                struct rqli_sentinels *sentinels);
bool rqli_master_watch_start(struct rqli_master_watch *self);
struct rqli_master_watch *rqli_master_watch_free(struct rqli_master_watch *self);

/* In a fork child: closes the copies of descriptors. */
void rqli_master_watch_abandon(struct rqli_master_watch *self);

#endif
