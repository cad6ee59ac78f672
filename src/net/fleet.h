#ifndef RQLI_FLEET_H
#define RQLI_FLEET_H

/*
 * Which server has which keys. One server has one set of keys, which has all locks. The nodes of a
 * cluster share the sets of the partitions, and these move: the cluster's map says who has which,
 * and an error reply whom to ask instead.
 */

#include "base/clock.h"
#include "base/worker.h"
#include "net/node.h"
#include "wire/keys.h"

struct rqli_reply;

/* Between two readings of the map: because keys have moved; while a node gives no answer. */
enum { RQLI_MAP_PAUSE_MS = 500, RQLI_MAP_SILENT_MS = 200 };

/* Addresses that a client may meet. Each stays known, which costs 24 KB: masters that are moved to
 * other addresses, eleven of them every day, may do so for a year. */
enum { RQLI_NODES_MAX = 4096 };

enum rqli_fleet_map {
    RQLI_MAP_UNKNOWN, /* the nodes that the URL names are not all asked yet */
    RQLI_MAP_NOWHERE, /* none of them has answered */
    RQLI_MAP_READ,
};

struct rqli_fleet {
    struct rqli_node first; /* the server, or the first that the URL names: with all that it says */
    struct rqli_node *_Atomic of[RQLI_KEY_SETS]; /* who has these keys, as far as is known */
    atomic_uint n_held[RQLI_KEY_SETS]; /* locks that are held, by their keys; of a cluster */
    unsigned connections;

    struct rqli_worker *worker;      /* net/cluster.h, of several servers; or NULL */
    struct rqli_worker *map_reader;  /* the same, of a cluster; or NULL: nothing moves */
    _Atomic int64_t read_us;         /* when the map was last asked for; 0: never */
    _Atomic int64_t silent_us;       /* when a node last gave no answer */
    atomic_bool is_wanted;           /* somebody asks for keys */
    rqli_signal n_read;              /* readings of the map that are over */
    _Atomic int64_t over_us;         /* when the last of them was begun */
    rqli_signal map;                 /* enum rqli_fleet_map */
    atomic_uint n_moves;             /* of keys from node to node, as far as was seen */
    bool tells_first;                /* net/map.h: a node is told before it is asked; constant */
    struct rqli_node *_Atomic named; /* then: who has keys by the last error reply; or NULL */

    struct {
        pthread_mutex_t mutex;
        struct rqli_node *last; /* of the nodes, which begin with the first */
        unsigned n_nodes;
        bool lacks_nodes; /* there would be more than there may be */
    } shared;             /* under shared.mutex; so are additions to the nodes, and gifts */
};

/* Nothing is connected yet; the endpoint of the first node is its caller's to fill in and to end,
 * the latter after the fleet. `connections` is the most that threads share, at each node. False: no
 * memory; to be ended all the same. */
bool rqli_fleet_init(struct rqli_fleet *self, unsigned connections);
void rqli_fleet_fini(struct rqli_fleet *self); /* also one that is all zero */

/* In a fork child: closes the sockets without a word and takes no lock. */
void rqli_fleet_abandon(struct rqli_fleet *self);

/* Any thread. Whom to ask about these keys. */
static inline struct rqli_node *rqli_fleet_node(const struct rqli_fleet *self,
                                                const struct rqli_key_set *set)
{
    return atomic_load_explicit(&self->of[rqli_key_set_index(set)], memory_order_acquire);
}

/* Any thread. The node at this address, which stays as long as the fleet; it is added if it is new.
 * NULL: no memory, or one too many. */
struct rqli_node *rqli_fleet_at(struct rqli_fleet *self, const struct rqli_address *address);

/* The same of this master. */
struct rqli_node *rqli_fleet_of_master(struct rqli_fleet *self, struct rqli_master *master);

/* Any thread. These keys are the node's from now on. */
void rqli_fleet_give(struct rqli_fleet *self, unsigned partition, struct rqli_node *node);

/* Any thread. The next behind this one, or the first, of those that have keys of partitions, of any
 * (NULL) or of these; of one server there is just that. NULL: there is no other. */
struct rqli_node *rqli_fleet_next(struct rqli_fleet *self, struct rqli_node *node,
                                  const bool *partitions);

/* Any thread. Does it have the keys of locks that are held? */
bool rqli_fleet_holds_at(const struct rqli_fleet *self, const struct rqli_node *node);

/* Any thread. Are such locks at more than one node? */
bool rqli_fleet_holds_apart(const struct rqli_fleet *self);

/* Any thread. Of a cluster: has the map read, soon. */
void rqli_fleet_read_map(struct rqli_fleet *self);

/* ---- what comes of a call ---- */

/* Behind HERE, THERE and LATER the call has done nothing, and is to be sent again. */
enum rqli_verdict {
    RQLI_DONE,  /* the reply is no error */
    RQLI_HERE,  /* at once, with its text: the server has forgotten all scripts */
    RQLI_THERE, /* at once, to the node that has its keys by now */
    RQLI_LATER, /* to that, at retries->again_us */
    RQLI_FAULT, /* the error is one as any other, or it has been sent too often, or too long */
};

/* How often one call, or the calls of one round, were sent again. Zeroed but for until_us: never.
 */
struct rqli_retries {
    int64_t until_us; /* set by the caller: nothing is sent again later than this */
    int64_t again_us; /* with RQLI_LATER; else 0 */
    uint8_t n_flushed;
    uint8_t n_moved;
    uint8_t n_pauses;
};

/* By the reply of this node to a call about these keys. A node that the reply names has them from
 * now on; where the map has to be told first the call waits for that. */
enum rqli_verdict rqli_call_verdict(struct rqli_fleet *fleet, struct rqli_node *node,
                                    const struct rqli_key_set *set, const struct rqli_reply *reply,
                                    struct rqli_retries *retries);

/* The fault of such an error to a call that may not go over another connection: RQL_E_IO, as if its
 * own had ended. */
rql_status rqli_fail_moved(const char *where, const char *subject, rql_error *error);

/* The node gave no answer, or it is cut off: another may have its keys soon. */
void rqli_fleet_on_silence(struct rqli_fleet *self, struct rqli_node *node);

/* Somebody is about to ask: from now on the worker has something to do. */
static inline void rqli_fleet_on_use(struct rqli_fleet *self)
{
    if (self->worker && !atomic_load_explicit(&self->is_wanted, memory_order_relaxed)) {
        atomic_store(&self->is_wanted, true);
        (void)rqli_worker_rouse(self->worker, 0);
    }
}

/* Who has which keys is a guess yet. */
static inline bool rqli_fleet_is_looking(const struct rqli_fleet *self)
{
    return self->map_reader &&
           atomic_load_explicit(&self->map, memory_order_acquire) == RQLI_MAP_UNKNOWN;
}

/* A node that does not answer is one of a cluster that does, or may yet. */
static inline bool rqli_fleet_may_answer(const struct rqli_fleet *self)
{
    return self->map_reader &&
           atomic_load_explicit(&self->map, memory_order_acquire) != RQLI_MAP_NOWHERE;
}

/* Until a map was read that was asked for behind this moment. */
void rqli_fleet_await_next_map(struct rqli_fleet *self, int64_t since_us, int64_t until_us);

/* Waits for the end of that. */
static inline void rqli_fleet_await_map(struct rqli_fleet *self, int64_t until_us)
{
    while (rqli_fleet_is_looking(self) && rqli_now_us() < until_us) {
        rqli_signal_wait(&self->map, RQLI_MAP_UNKNOWN, until_us);
    }
}

#endif
