#ifndef RQLI_MASTER_H
#define RQLI_MASTER_H

/*
 * Keeps which server is the master, by the claims of sentinels and the confirmations of servers,
 * and the connections that lead to it. When another server becomes the master, connections to the
 * one before end at once, even if it still answers.
 *
 * A connection is ended by shutdown() of its socket: the thread or loop that reads, writes or
 * watches it finds it broken, and reconnects.
 */

#include "base/dlist.h"
#include "net/sock/address.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_site;
struct rqli_sentinels;

/* The sentinel's user may not ask for the epoch. It counts as older than all that are known. */
enum { RQLI_MASTER_NO_EPOCH = -1 };

/* A sentinel's answer. */
struct rqli_master_claim {
    struct rqli_address address;
    int64_t epoch; /* of the failover that made it the master; 0: none; or RQLI_MASTER_NO_EPOCH */
    bool is_down;  /* the sentinel takes it, or the one before it, for dead */
};

struct rqli_master {
    const char *name;                 /* by which the sentinels know it */
    const struct rqli_site *site;     /* the one that leads to it; NULL: not in use */
    struct rqli_sentinels *sentinels; /* the ones to ask */

    struct {
        struct rqli_master_claim claim; /* the last one that may be true */
        int64_t answered_us;            /* when that claim came */
        int64_t older_us; /* since when most know older masters only; 0: they do not */
    } said;               /* under the mutex of the sentinels */

    struct {
        pthread_mutex_t mutex;
        struct rqli_address at;   /* the server there has said so itself; host "": none has yet */
        struct rqli_address left; /* the master before it, at the same epoch */
        int64_t left_us;          /* when it was left */
        int64_t epoch;            /* the highest that was reported for `at` */
        struct rqli_dlist conns;
    } shared; /* everything in here under shared.mutex */
};

/* Part of a connection. Only its own thread uses it, except for the link. */
struct rqli_master_conn {
    struct rqli_dlink link;     /* first */
    struct rqli_master *master; /* NULL: it is in no list */
    struct rqli_address node;
    int fd;
};

/* Nothing is known of the master yet; the caller fills in the members before `said`. */
void rqli_master_init(struct rqli_master *self);
void rqli_master_fini(struct rqli_master *self);

/* False: the claim is of a sentinel that has not learned of a later failover. If the claim names
 * the master in use, its epoch is learned. */
bool rqli_master_hear(struct rqli_master *self, const struct rqli_master_claim *claim);

/* Forgets what was learned from claims so far, the epoch and the server that was left: all
 * sentinels may have been set up again. */
void rqli_master_forget(struct rqli_master *self);

enum rqli_master_news {
    RQLI_MASTER_FIRST, /* no master was known */
    RQLI_MASTER_SAME,
    RQLI_MASTER_OTHER, /* connections to the one before were just ended */
    RQLI_MASTER_LEFT,  /* this server is not the master any more */
};

/* Call it before connecting: a login to a server that hangs then ends, too, when another becomes
 * the master. */
void rqli_master_enter(struct rqli_master *self, struct rqli_master_conn *conn,
                       const struct rqli_address *node);
/* A connection that was not entered is allowed. */
void rqli_master_on_connected(struct rqli_master_conn *conn, int fd);
/* The server at the other end has said that it is the master. */
enum rqli_master_news rqli_master_join(struct rqli_master *self, struct rqli_master_conn *conn,
                                       const struct rqli_master_claim *claim);
/* Call it before the descriptor is closed. A connection that was not entered is allowed. */
void rqli_master_leave(struct rqli_master_conn *conn);

/* Returns the master's address. host "": none is known yet. */
struct rqli_address rqli_master_at(struct rqli_master *self);

#endif
