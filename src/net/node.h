#ifndef RQLI_NODE_H
#define RQLI_NODE_H

/*
 * A server, as a client has it: where it is, what is known of it, and the connections to it. What
 * loops have of their own is in lock/loop.h.
 */

#include "net/clock_offset.h"
#include "net/conn.h"
#include "net/url.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * The command connections of a client's threads: one, and one more each time that threads meet on
 * one of them. A thread sticks to its own as long as their number stays: so threads that come one
 * after the other share the first, and a few that come at once need not wait for each other. Many
 * share the first as well: what they ask goes out together, which takes the server fewer reads.
 * Nobody depends on one more that cannot be opened.
 *
 * What is to be made safe goes over one of its own, which waits for replicas and for the disk.
 */

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

struct rqli_push_threads;

struct rqli_node {
    struct rqli_endpoint endpoint;     /* first: what leads to it leads to the node */
    struct rqli_node *_Atomic next;    /* of the fleet */
    char name[RQLI_ADDRESS_TEXT_SIZE]; /* of one of several: its address, or the master's name */
    bool is_named;                     /* by the URL, of one of several; constant in use */
    struct rqli_conns conns;           /* commands of the callers */
    struct rqli_conn *background;      /* those of the leases' thread */
    struct rqli_push_threads *pushes;  /* pushes to the waiters */
    _Atomic int64_t down_us;           /* when it last gave no answer, or was cut off; 0: never */
    bool has_slots;                    /* by the last map of a cluster; of its thread alone */
    _Atomic uint64_t syncs_truly; /* the server (net/era.h) that is known to answer fsync truly */

    struct {
        pthread_mutex_t mutex;
        struct rqli_clock_offset clock_offset;
    } shared; /* everything in here under shared.mutex; rqli_conn_notes::tracking and what follows
                 it too */
};

/* For messages, and whoever wants to know where something is; without a login. */
static inline const char *rqli_node_where(const struct rqli_node *self)
{
    return self->name[0] != '\0' ? self->name : self->endpoint.where;
}

/* Nothing is connected yet; the endpoint is its caller's to fill in and to end, the latter after
 * the connections. `connections` is the most that threads share. False: no memory; to be ended all
 * the same. */
bool rqli_node_init(struct rqli_node *self, unsigned connections);
void rqli_node_fini(struct rqli_node *self); /* also one that is all zero */

/* It is one of several. */
void rqli_node_name(struct rqli_node *self);

/* In a fork child: closes the sockets without a word and takes no lock. */
void rqli_node_abandon(struct rqli_node *self);

/* Closes each connection that nobody has used for so long; the one for pushes, where nobody waits,
 * with those for commands. */
void rqli_node_end_unused(struct rqli_node *self, int64_t unused_us);

/* True: a connection for commands has ended, at its other end, and was closed here. */
bool rqli_node_sees_end(struct rqli_node *self);

#endif
