#ifndef RQLI_MASTER_WATCH_H
#define RQLI_MASTER_WATCH_H

/*
 * A thread that keeps asking the sentinels of a client for the master, for each master that the
 * client has been connected to. So a client leaves not only a master whose connection broke, but
 * also one that hangs, or that still answers though another was promoted. Held locks are verified
 * at the new master even if no call goes there.
 */

#include "base/worker.h"
#include "net/login/sentinels.h"

#include <rql/client.h>
#include <stdatomic.h>

struct rqli_master_watch {
    struct rqli_worker worker; /* first */
    rql_client *client;
    struct rqli_sentinels *sentinels;
    struct rqli_sentinel news;
    int64_t subscribe_us;     /* when to try again, after a refusal */
    struct rqli_socket probe; /* a login that finds out whether a server is the master */
    atomic_bool shall_stop;
};

/* Makes a watch and starts its thread, which sleeps until the first connection is made. NULL: no
 * memory, or no thread. */
struct rqli_master_watch *rqli_master_watch_new(rql_client *client,
                                                struct rqli_sentinels *sentinels);
struct rqli_master_watch *rqli_master_watch_free(struct rqli_master_watch *self);

/* In a fork child: closes the copies of descriptors. */
void rqli_master_watch_abandon(struct rqli_master_watch *self);

#endif
