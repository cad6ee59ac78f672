#ifndef RQLI_NODE_H
#define RQLI_NODE_H

/*
 * A server, as a client has it: where it is, what is known of it, and the connections to it. The
 * loops' own data about it is in lock/loop.h.
 */

#include "net/conn/clock_offset.h"
#include "net/conn/conn_threads.h"
#include "net/sock/site.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * The command connections of a client's threads: one, and one more each time that threads are found
 * to share one at the same time. A thread keeps its connection as long as their number stays the
 * same: so threads that come one after the other share the first, and a few that come at once need
 * not wait for each other. Many threads share the first one again, because their commands then go
 * out in one write, which takes the server fewer reads. No call depends on an additional connection
 * that cannot be opened.
 *
 * Commands with a durability go over a connection of their own, which waits for replicas and for
 * the disk.
 */

enum { RQLI_CONNS_MAX = 4 };

struct rqli_conns {
    struct rqli_conn *each[RQLI_CONNS_MAX]; /* constant after init; the first is always there */
    struct rqli_conn *durable;              /* constant after init */
    unsigned limit;
    atomic_uint n_used; /* the first n_used, all of which were connected once */
    atomic_bool is_changing;
    _Atomic int64_t again_us; /* when one more may be opened */
};

/* Any thread. Returns the connection for the calling thread's next commands. */
struct rqli_conn *rqli_conns_choose(struct rqli_conns *self);

/* Any thread. Returns a connection for all calls that is up, or NULL; none is opened for this. */
struct rqli_conn *rqli_conns_find_up(const struct rqli_conns *self);

/* Returns the connection for all calls that is this carrier of a batch; NULL: it is none of
 * them, or carrier is NULL. */
struct rqli_conn *rqli_conns_find(const struct rqli_conns *self, const void *carrier);

struct rqli_push_threads;

struct rqli_node {
    struct rqli_site site;             /* first: a pointer to it is one to the node */
    struct rqli_node *_Atomic next;    /* in the fleet */
    char name[RQLI_ADDRESS_TEXT_SIZE]; /* with several servers: its address, or the master's name */
    bool is_named;                     /* by the URL, with several servers; constant in use */
    struct rqli_conns conns;           /* for the commands of the callers */
    struct rqli_conn *background;      /* for those of the background thread */
    struct rqli_push_threads *pushes;  /* for pushes to the waiters */
    _Atomic int64_t down_us;           /* when it last did not answer, or was cut off; 0: never */
    bool has_slots;                    /* by the last map of a cluster; for its thread alone */
    _Atomic uint64_t syncs_truly; /* the server (net/login/era.h) whose fsync answer is reliable */

    struct {
        pthread_mutex_t mutex;
        struct rqli_clock_offset clock_offset;
    } shared; /* everything in here is guarded by shared.mutex; rqli_conn_notes::tracking and the
                 members after it are too */
};

/* Returns the place of the node for messages; needs no login. */
static inline const char *rqli_node_where(const struct rqli_node *self)
{
    return self->name[0] != '\0' ? self->name : self->site.where;
}

/* Opens no connection yet. The caller fills in the site, and ends it after the connections.
 * `connections` is the most that threads share. False: no memory; the node must be ended all the
 * same. */
bool rqli_node_init(struct rqli_node *self, unsigned connections);
void rqli_node_fini(struct rqli_node *self); /* a node that is all zero is allowed */

/* Names the node, as one of several. */
void rqli_node_name(struct rqli_node *self);

/* In a fork child: closes the sockets without sending anything and takes no lock. */
void rqli_node_abandon(struct rqli_node *self);

/* Closes each connection that was not used for unused_us; the one for pushes, if no caller waits,
 * together with those for commands. */
void rqli_node_end_unused(struct rqli_node *self, int64_t unused_us);

/* True, once: a connection for commands has ended since the last look, and is not up again. */
bool rqli_node_sees_end(struct rqli_node *self);

#endif
