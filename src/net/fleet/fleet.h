#ifndef RQLI_FLEET_H
#define RQLI_FLEET_H

/*
 * Which server has which keys. A single server has one set of keys, for all locks. The nodes of a
 * cluster share the sets of the partitions, and these move: the cluster's map says which node has
 * which set, and an error reply says which node to ask instead.
 */

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/worker.h"
#include "net/fleet/node.h"
#include "wire/keys.h"

struct rqli_reply;

/* Pauses between two readings of the map: because keys have moved; while a node does not answer. */
enum { RQLI_MAP_PAUSE_MS = 500, RQLI_MAP_SILENT_MS = 200 };

/* Addresses that a client can know. Each stays known, which costs 24 KB. Masters that are moved to
 * other addresses, eleven of them every day, may do so for a year. */
enum { RQLI_NODES_MAX = 4096 };

enum rqli_fleet_map {
    RQLI_MAP_UNKNOWN, /* not all nodes that the URL names were asked yet */
    RQLI_MAP_NOWHERE, /* none of them has answered with the map */
    RQLI_MAP_READ,
};

struct rqli_fleet {
    struct rqli_node first; /* the server, or the URL's first, with all that the URL says */
    struct rqli_node *_Atomic of[RQLI_KEY_SETS]; /* the keys' node, as far as is known */
    atomic_uint n_held[RQLI_KEY_SETS];           /* held locks, by their keys; of a cluster */
    unsigned connections;

    struct rqli_worker *worker;      /* of net/op/cluster.h, with several servers; or NULL */
    struct rqli_worker *map_reader;  /* the same one, of a cluster; or NULL: keys never move */
    _Atomic int64_t read_us;         /* when the map was last asked for; 0: never */
    _Atomic int64_t silent_us;       /* when a node last failed to answer */
    atomic_bool is_wanted;           /* a caller has asked for keys */
    rqli_signal n_read;              /* counts the readings of the map that are over */
    _Atomic int64_t over_us;         /* when the last of those was begun */
    rqli_signal map;                 /* enum rqli_fleet_map */
    atomic_uint n_moves;             /* counts moves of keys between nodes, as far as was seen */
    bool tells_first;                /* net/fleet/map.h: notify a node before asking it; constant */
    struct rqli_node *_Atomic named; /* then: owner of keys by the last error reply; or NULL */

    struct {
        pthread_mutex_t mutex;
        struct rqli_node *last; /* the end of the list of nodes, which begins with the first */
        unsigned n_nodes;
        bool lacks_nodes; /* a node could not be added: there are RQLI_NODES_MAX */
        rql_error fault;  /* of the last reading of the map; all zero: none */
    } shared;             /* guarded by shared.mutex; so are changes of `of` and new nodes */
};

/* Opens no connection yet. The caller fills in the site of the first node, and ends it after
 * the fleet. `connections` is the most that threads share, at each node. False: no memory; the
 * fleet must be ended all the same. */
bool rqli_fleet_init(struct rqli_fleet *self, unsigned connections);
void rqli_fleet_fini(struct rqli_fleet *self); /* a fleet that is all zero is allowed */

/* In a fork child: closes the sockets without sending anything and takes no lock. */
void rqli_fleet_abandon(struct rqli_fleet *self);

/* Any thread. Returns the node to ask about these keys. */
static inline struct rqli_node *rqli_fleet_node(const struct rqli_fleet *self,
                                                const struct rqli_key_set *set)
{
    return atomic_load_explicit(&self->of[rqli_key_set_index(set)], memory_order_acquire);
}

/* Any thread. Returns the node at this address, which stays as long as the fleet; a new one is
 * added. NULL: no memory, or RQLI_NODES_MAX is reached. */
struct rqli_node *rqli_fleet_at(struct rqli_fleet *self, const struct rqli_address *address);

/* Returns the node of this master, in the same way. */
struct rqli_node *rqli_fleet_of_master(struct rqli_fleet *self, struct rqli_master *master);

/* Any thread. The keys of this partition belong to the node from now on. */
void rqli_fleet_give(struct rqli_fleet *self, unsigned partition, struct rqli_node *node);

/* Any thread. Returns the next node after this one (NULL: the first one) that has keys of one of
 * these partitions (NULL: of any); with a single server there is only that. NULL: there is no
 * other. */
struct rqli_node *rqli_fleet_next(struct rqli_fleet *self, struct rqli_node *node,
                                  const bool *partitions);

/* Any thread. True: the node has the keys of held locks. */
bool rqli_fleet_holds_at(const struct rqli_fleet *self, const struct rqli_node *node);

/* Any thread. True: held locks are at more than one node. */
bool rqli_fleet_holds_apart(const struct rqli_fleet *self);

/* Any thread. In a cluster: has the map read soon. */
void rqli_fleet_read_map(struct rqli_fleet *self);

/* ---- the outcome of a call ---- */

/* After HERE, THERE and LATER the call has done nothing, and is to be sent again. */
enum rqli_verdict {
    RQLI_DONE,  /* the reply is no error */
    RQLI_HERE,  /* at once, with its text: the server has forgotten all scripts */
    RQLI_THERE, /* at once, to the node that has its keys now */
    RQLI_LATER, /* to the node that has its keys then, at retries->again_us */
    RQLI_FAULT, /* the error is like any other, or the call was sent too often, or for too long */
};

/* How often one call, or the calls of one round, were sent again. All zero, except for until_us:
 * never. */
struct rqli_retries {
    int64_t until_us; /* set by the caller: nothing is sent again later than this */
    int64_t again_us; /* with RQLI_LATER; else 0 */
    uint8_t n_flushed;
    uint8_t n_moved;
    uint8_t n_pauses;
};

/* Judges the reply of this node to a call about these keys. A node that the reply names has the
 * keys from now on; if that node has to be notified first (tells_first), the call waits for it. */
enum rqli_verdict rqli_call_verdict(struct rqli_fleet *fleet, struct rqli_node *node,
                                    const struct rqli_key_set *set, const struct rqli_reply *reply,
                                    struct rqli_retries *retries);

/* Fails with the fault of such an error, for a call that may not go over another connection:
 * RQL_E_IO, as if its own connection had ended. */
rql_status rqli_fail_moved(const char *where, const char *subject, rql_error *error);

/* Reports that the node did not answer, or is cut off: another node may have its keys soon. */
void rqli_fleet_on_silence(struct rqli_fleet *self, struct rqli_node *node);

/* A caller is about to ask: from now on the worker has something to do. */
static inline void rqli_fleet_on_use(struct rqli_fleet *self)
{
    if (self->worker && !atomic_load_explicit(&self->is_wanted, memory_order_relaxed)) {
        atomic_store(&self->is_wanted, true);
        (void)rqli_worker_rouse(self->worker, 0);
    }
}

/* True: it is still a guess which node has which keys. */
static inline bool rqli_fleet_is_looking(const struct rqli_fleet *self)
{
    return self->map_reader &&
           atomic_load_explicit(&self->map, memory_order_acquire) == RQLI_MAP_UNKNOWN;
}

/* True: a node that does not answer belongs to a cluster that does, or may do so yet. */
static inline bool rqli_fleet_may_answer(const struct rqli_fleet *self)
{
    return self->map_reader &&
           atomic_load_explicit(&self->map, memory_order_acquire) != RQLI_MAP_NOWHERE;
}

/* The last reading of the map has failed with this fault, or has not: then it is all zero. */
void rqli_fleet_note_fault(struct rqli_fleet *self, const rql_error *fault);

/* Any thread. Returns why no map could be read yet, so that some keys may be on unknown nodes.
 * RQL_OK: the map was read, is still being read for the first time, or there is none. */
rql_status rqli_fleet_check_map(struct rqli_fleet *self, rql_error *error);

/* Waits until a reading of the map that was begun after since_us is over. */
void rqli_fleet_await_next_map(struct rqli_fleet *self, int64_t since_us, int64_t until_us);

/* Waits until the first map was read, or cannot be. */
static inline void rqli_fleet_await_map(struct rqli_fleet *self, int64_t until_us)
{
    while (rqli_fleet_is_looking(self) && !rqli_time_is_up(until_us)) {
        rqli_signal_wait(&self->map, RQLI_MAP_UNKNOWN, until_us);
    }
}

#endif
