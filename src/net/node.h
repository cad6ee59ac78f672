#ifndef RQLI_NODE_H
#define RQLI_NODE_H

/*
 * A server, as a client has it: where it is, what is known of it, and the connections to it. What
 * loops have of their own is in lock/loop.h.
 */

#include "net/clock_offset.h"
#include "net/conns.h"
#include "net/url.h"

#include <pthread.h>

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
