#ifndef RQLI_CONNS_H
#define RQLI_CONNS_H

/*
 * The command connections of a client's threads: one, and one more each time that threads meet on
 * one of them. A thread sticks to its own as long as their number stays: so threads that come one
 * after the other share the first, and a few that come at once need not wait for each other. Many
 * share the first as well: what they ask goes out together, which takes the server fewer reads.
 * Nobody depends on one more that cannot be opened.
 *
 * What is to be made safe goes over one of its own, which waits for replicas and for the disk.
 */

#include "net/conn.h"

#include <stdatomic.h>

enum { RQLI_CONNS_MAX = 4 };

struct rqli_conns {
    struct rqli_conn *each[RQLI_CONNS_MAX]; /* constant after init; the first is always there */
    struct rqli_conn *durable;              /* constant after init */
    unsigned limit;
    atomic_uint n_used; /* these first, which were all connected once */
    atomic_bool is_changing;
    _Atomic int64_t again_us; /* when another may be opened */
};

/* limit: how many there may be, 1 to RQLI_CONNS_MAX. Nothing is connected yet. False: no memory;
 * to be ended all the same. */
bool rqli_conns_init(struct rqli_conns *self, const struct rqli_endpoint *endpoint, unsigned limit);
void rqli_conns_fini(struct rqli_conns *self);

/* In a fork child: as rqli_conn_abandon(). */
void rqli_conns_abandon(struct rqli_conns *self);

/* For what the calling thread is about to ask. Any thread. */
struct rqli_conn *rqli_conns_choose(struct rqli_conns *self);

/* True: one of them has ended, at its other end, and was closed here. */
bool rqli_conns_see_end(struct rqli_conns *self);

/* Closes each that nobody has used for so long. */
void rqli_conns_end_unused(struct rqli_conns *self, int64_t unused_us);

/* The one, of those for all calls, that is this carrier of an exchange; NULL: none of them, as NULL
 * is. */
struct rqli_conn *rqli_conns_find(const struct rqli_conns *self, const void *carrier);

#endif
