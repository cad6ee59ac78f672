#ifndef RQLI_CLIENT_H
#define RQLI_CLIENT_H

/* The insides of a client, which all public calls share. */

#include "base/clock.h"
#include "base/fork.h"
#include "base/freelist.h"
#include "base/random.h"
#include "base/scope.h"
#include "lock/holders.h"
#include "net/login/client_name.h"
#include "net/login/era.h"
#include "net/op/op.h"
#include "net/sock/resolve.h"
#include "observe/observe.h"
#include "wire/command.h"

#include <rql/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_background;
struct rqli_cluster;
struct rqli_history;
struct rqli_history_others;
struct rqli_hosts;
struct rqli_leases;
struct rqli_lost_writes;
struct rqli_master_watch;
struct rqli_sentinels;
struct rqli_stats;

struct rql_client {
    struct rqli_fork_member fork;  /* first: a pointer to a foreign one points to its start */
    rql_options options;           /* constant after new */
    struct rqli_url url;           /* of the options; constant after new */
    char *texts;                   /* of the options; a secret */
    rql_lock_options of_calls;     /* the options of a call that sets none */
    struct rqli_resolver resolver; /* for the servers' names */
    struct rqli_session session;   /* of all its connections */
    struct rqli_fleet fleet;       /* the servers */
    struct rqli_era *eras;         /* one by set of keys; a single one for a single set */
    _Atomic int64_t round_trip_us; /* recent, to a server and back; 0: not known */
    atomic_bool was_connected;     /* by a thread */
    atomic_bool is_draining;       /* nothing is acquired any more */
    atomic_bool has_left_locks;    /* locks that end by their ttl, perhaps after the client */
    struct rqli_client_name name;
    _Atomic uint32_t refused; /* bits of its servers: see rqli_session */
    char identity[RQLI_HEX_SIZE];
    struct rqli_sentinels *sentinels; /* NULL: the URL names the server */
    struct rqli_master_watch *master_watch;
    struct rqli_cluster *cluster; /* NULL: not partitioned */
    struct rqli_background *background;
    struct rqli_history *history; /* NULL: none is kept */
    struct rqli_history_others *history_others;
    struct rqli_lost_writes *lost_writes;
    struct rqli_leases *leases;
    struct rqli_stats *stats;
    struct rqli_subject of_connections; /* the listeners to their events */
    struct rqli_freelist handles;       /* of locks, for reuse */
    struct rqli_freelist transfers;
    struct rqli_holders holders;
    struct rqli_hosts *hosts;                /* the threads that the swarm vouches for */
    struct rql_swarm *swarm;                 /* of auto_swarm, or NULL */
    struct rql_swarm *_Atomic running_swarm; /* that one or the caller's; not freed yet */
    bool is_member;                          /* it has joined the list of base/fork.h */
    bool is_partitioned;                     /* its locks are spread over several servers */
    _Atomic uint64_t n_acquirers;            /* requests that are acquirers of their own */
};

/* Returns the set of keys that a lock of this name belongs to. */
static inline const struct rqli_key_set *rqli_client_key_set(const rql_client *self,
                                                             const char *name)
{
    return rqli_key_set_of(self->is_partitioned, rqli_slice_of(name));
}

/* Returns how many sets of keys the client has; the next two functions number them. */
static inline size_t rqli_client_n_sets(const rql_client *self)
{
    return self->is_partitioned ? RQLI_PARTITIONS : 1;
}

static inline size_t rqli_client_number_of(const rql_client *self, const struct rqli_key_set *set)
{
    return self->is_partitioned ? rqli_key_set_index(set) : 0;
}

static inline const struct rqli_key_set *rqli_client_nth_set(const rql_client *self, size_t n)
{
    return &rqli_key_sets[self->is_partitioned ? n : RQLI_WHOLE];
}

static inline struct rqli_era *rqli_client_era(const rql_client *self,
                                               const struct rqli_key_set *set)
{
    return &self->eras[rqli_client_number_of(self, set)];
}

/* Returns the node that has the keys of this lock. */
static inline struct rqli_node *rqli_client_node(const rql_client *self,
                                                 const struct rqli_keys *keys)
{
    return rqli_fleet_node(&self->fleet, keys->set);
}

/* Returns the route of calls that are about no lock; plain commands go to the first of the
 * servers. */
static inline struct rqli_op_route rqli_client_route_of_all(rql_client *self)
{
    return (struct rqli_op_route){.fleet = &self->fleet, .node = &self->fleet.first};
}

/* Returns the route of calls about the keys of this lock. */
static inline struct rqli_op_route rqli_client_route(rql_client *self, const struct rqli_keys *keys)
{
    return (struct rqli_op_route){.fleet = &self->fleet, .node = rqli_client_node(self, keys)};
}

/* Returns a connection to the first server for the next command of the calling thread. */
struct rqli_conn *rqli_client_conn(rql_client *client);

/* Finds the n-th of the nodes that have locks, from 0, as far as is known. RQL_NOT_FOUND: there are
 * fewer nodes. Waits for the first map of a cluster. */
rql_status rqli_client_find_node(rql_client *client, size_t n, struct rqli_node **out,
                                 rql_error *error);

/* Returns RQL_E_INVALID for NULL, and RQL_E_FORKED in a child of the client's process. */
rql_status rqli_client_check_process(const rql_client *client, rql_error *error);

/* Does the same, and returns RQL_E_INVALID for a client with a bare login: it can neither take
 * locks nor see that its keys have moved. All calls but commands and pings check this. */
rql_status rqli_client_check(const rql_client *client, rql_error *error);

/* Returns RQL_E_INVALID unless the name may be that of a lock: the name becomes part of keys, logs
 * and lines. */
rql_status rqli_name_check(const char *name, rql_error *error);

/* Returns RQL_E_INVALID if the ttl is longer than the pause after a failover in which nothing is
 * granted. */
rql_status rqli_client_check_ttl(const rql_client *client, int64_t ttl_ms, rql_error *error);

/* Raises RQL_E_UNAVAILABLE for an acquisition, because the client is drained. */
rql_status rqli_client_fail_draining(const char *name, rql_error *error);

/* Returns whether the client is drained: from rql_client_drain() on, for ever. */
static inline bool rqli_client_is_draining(const rql_client *self)
{
    return atomic_load_explicit(&self->is_draining, memory_order_relaxed);
}

/* Returns whether a call that waits for a lock tries again after this fault, which may pass by
 * itself. A server that has never answered may not be there at all. */
bool rqli_client_tries_again(rql_client *client, rql_status fault);

/* Reads the options of a call; the client's defaults fill in the rest. Also returns RQL_E_INVALID
 * as above. */
rql_status rqli_call_options_read(const rql_client *client, rql_lock_options *out,
                                  const rql_lock_options *given, rql_error *error);

/* Any thread. Notes how long after its command a reply came. */
void rqli_client_on_round_trip(rql_client *client, int64_t took_us);

/* Returns how long a call may last beyond its deadline, to take back its request: two round trips
 * as measured recently, and 50 ms at least. */
int64_t rqli_client_grace_us(const rql_client *client);

/* Returns when a single command must be answered: time to connect, and for the reply. */
int64_t rqli_client_until_us(const rql_client *client, int64_t now_us);

/* Returns true, once each time that the client's name is due to be written again, along with
 * another command. */
static inline bool rqli_client_wants_name(rql_client *self)
{
    return self->options.client_names && rqli_client_name_is_due(&self->name, rqli_now_us());
}

/* Plain commands over a client's connections, one at a time. */

RQLI_DEFINE_AUTO(struct rqli_batch *, rqli_batch_give);

/* Returns a batch for commands about the keys of this set; with NULL, for the first of the
 * servers. Waits for the first map of a cluster, until until_us at the longest. Returns NULL if
 * there is no memory. */
struct rqli_batch *rqli_client_batch(rql_client *client, const struct rqli_key_set *set,
                                     int64_t until_us);

/* Returns the node that such a batch goes to. */
struct rqli_node *rqli_client_node_of(rql_client *client, const struct rqli_batch *batch);

/* Runs such a batch. If its node does not answer, the map of the cluster is read soon. */
rql_status rqli_client_run(rql_client *client, struct rqli_batch *batch, int64_t until_us,
                           rql_error *error);

/* Returns true if this reply says that nothing was done, usually because the keys have moved. The
 * commands are then to be sent again at retries->again_us, which is never 0, to the node that has
 * the keys by then. */
bool rqli_client_follows(rql_client *client, const struct rqli_key_set *set,
                         const struct rqli_reply *reply, struct rqli_retries *retries);

/* Runs one command of texts, with NULL after the last, within the time of a single command. RQL_OK:
 * *out holds its reply, which is no error, and is to be given back. Otherwise *out is unchanged. */
__attribute__((sentinel)) rql_status rqli_query(rql_client *client, struct rqli_batch **out,
                                                rql_error *error, ...);

/* Does the same at the node that has the keys of this lock, whose key is the second text. */
__attribute__((sentinel)) rql_status rqli_query_about(rql_client *client,
                                                      const struct rqli_keys *keys,
                                                      struct rqli_batch **out, rql_error *error,
                                                      ...);

/* The keys of a name that a caller gave. It must not be moved, because the keys point into it. */
struct rqli_named {
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
};

/* Fills in the keys, after it has checked the client and the name. */
rql_status rqli_named_init(struct rqli_named *self, const rql_client *client, const char *name,
                           rql_error *error);

#endif
