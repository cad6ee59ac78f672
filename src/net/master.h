#ifndef RQLI_MASTER_H
#define RQLI_MASTER_H

/*
 * Which server is the master, by what sentinels claim and servers confirm, and the connections that
 * lead to it: when another is, those to the one before end at once, also where it still answers.
 *
 * A connection is ended by shutdown() of its socket: whoever reads, writes or watches it finds it
 * broken, thread or loop, and connects anew.
 */

#include "base/dlist.h"
#include "net/address.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_endpoint;
struct rqli_sentinels;

/* What a sentinel says. */
struct rqli_master_claim {
    struct rqli_address address;
    int64_t epoch; /* of the failover that made it the master; 0: none, or not known */
    bool is_down;  /* it takes it, or the one before it, for dead */
};

struct rqli_master {
    const char *name;                 /* by which sentinels know it */
    const struct rqli_endpoint *used; /* what leads to it; NULL: nobody needs it */
    struct rqli_sentinels *sentinels; /* that are asked */

    struct {
        struct rqli_master_claim claim; /* the last one that may be true */
        int64_t answered_us;            /* when that came */
        int64_t older_us; /* since when most know of older masters only; 0: they do not */
    } said;               /* under the mutex of the sentinels */

    struct {
        pthread_mutex_t mutex;
        struct rqli_address at;   /* it has said so itself; host "": nobody has yet */
        struct rqli_address left; /* the one before, at the same epoch */
        int64_t epoch;            /* the highest that was heard of it */
        struct rqli_dlist conns;
    } shared; /* everything in here under shared.mutex */
};

/* Part of a connection; of its own thread, but for the link. */
struct rqli_master_conn {
    struct rqli_dlink link;     /* first */
    struct rqli_master *master; /* NULL: it is in no list */
    struct rqli_address node;
    int fd;
};

/* Nothing is known of it yet; what is in front of `said` is the caller's to fill in. */
void rqli_master_init(struct rqli_master *self);
void rqli_master_fini(struct rqli_master *self);

/* False: a sentinel that has not heard of a later failover says so. Of the master in use the epoch
 * is learned. */
bool rqli_master_hear(struct rqli_master *self, const struct rqli_master_claim *claim);

/* What claims said so far counts no more: all sentinels may have been set up anew. */
void rqli_master_forget(struct rqli_master *self);

enum rqli_master_news {
    RQLI_MASTER_FIRST, /* nobody was known */
    RQLI_MASTER_SAME,
    RQLI_MASTER_OTHER, /* connections to the one before were just ended */
    RQLI_MASTER_LEFT,  /* it is not the master any more */
};

/* Before it is connected to: a login to a server that stands still ends as well when another is the
 * master. */
void rqli_master_enter(struct rqli_master *self, struct rqli_master_conn *conn,
                       const struct rqli_address *node);
/* Not entered is fine. */
void rqli_master_on_connected(struct rqli_master_conn *conn, int fd);
/* The server at the other end has said that it is the master. */
enum rqli_master_news rqli_master_join(struct rqli_master *self, struct rqli_master_conn *conn,
                                       const struct rqli_master_claim *claim);
/* Before the descriptor is closed. Not entered is fine. */
void rqli_master_leave(struct rqli_master_conn *conn);

/* host "": nobody was yet. */
struct rqli_address rqli_master_at(struct rqli_master *self);

#endif
