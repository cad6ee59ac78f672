#ifndef RQLI_CLIENT_H
#define RQLI_CLIENT_H

/* The insides of a client: what all public calls share. */

#include "base/clock.h"
#include "base/fork.h"
#include "base/freelist.h"
#include "base/random.h"
#include "base/scope.h"
#include "lock/holders.h"
#include "net/client_name.h"
#include "net/era.h"
#include "net/op.h"
#include "net/resolve.h"
#include "observe/observe.h"
#include "wire/command.h"

#include <rql/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_cluster;
struct rqli_hosts;
struct rqli_leases;
struct rqli_master_watch;
struct rqli_sentinels;
struct rqli_stats;

struct rql_client {
    struct rqli_fork_member fork;  /* first: what leads to a foreign one leads to its begin */
    rql_options options;           /* constant after new */
    char *texts;                   /* those of the options; a secret */
    rql_lock_options of_calls;     /* what they say of a call that says nothing */
    struct rqli_resolver resolver; /* of the servers' names */
    struct rqli_fleet fleet;       /* the servers */
    struct rqli_era *eras;         /* by set of keys; one, if there is but one */
    _Atomic int64_t round_trip_us; /* to a server and back, of late; 0: not known */
    atomic_bool was_connected;     /* by a thread */
    atomic_bool has_left_locks;    /* that end by their ttl, perhaps after the client */
    struct rqli_client_name name;
    _Atomic uint32_t refused; /* by its servers: see rqli_endpoint */
    char identity[RQLI_HEX_SIZE];
    struct rqli_sentinels *sentinels; /* or NULL: the URL names the server */
    struct rqli_master_watch *master_watch;
    struct rqli_cluster *cluster; /* or NULL */
    struct rqli_leases *leases;   /* leases, and what the background thread does */
    struct rqli_stats *stats;
    struct rqli_subject of_connections; /* who is told what happens to them */
    struct rqli_freelist handles;       /* of locks, to be used again */
    struct rqli_freelist transfers;
    struct rqli_holders holders;
    struct rqli_hosts *hosts;                /* the threads that the swarm vouches for */
    struct rql_swarm *swarm;                 /* of auto_swarm, or NULL */
    struct rql_swarm *_Atomic running_swarm; /* that or the caller's; not freed yet */
    bool is_member;                          /* fork was joined */
    bool is_partitioned;                     /* its locks are spread over several servers */
    _Atomic uint64_t n_acquirers;            /* requests that are acquirers of their own */
};

/* To which keys a lock of this name belongs. */
static inline const struct rqli_key_set *rqli_client_key_set(const rql_client *self,
                                                             const char *name)
{
    return rqli_key_set_of(self->is_partitioned, rqli_slice_of(name));
}

/* How many sets of keys it has, and which in a row one of them is. */
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

/* Who has the keys of this lock. */
static inline struct rqli_node *rqli_client_node(const rql_client *self,
                                                 const struct rqli_keys *keys)
{
    return rqli_fleet_node(&self->fleet, keys->set);
}

/* Where calls go that are about no lock; plain commands to the first of the servers. */
static inline struct rqli_op_route rqli_client_route_of_all(rql_client *self)
{
    return (struct rqli_op_route){.fleet = &self->fleet, .node = &self->fleet.first};
}

/* Where calls about the keys of this lock go. */
static inline struct rqli_op_route rqli_client_route(rql_client *self, const struct rqli_keys *keys)
{
    return (struct rqli_op_route){.fleet = &self->fleet, .node = rqli_client_node(self, keys)};
}

/* For what the calling thread is about to ask the server, or one of them. */
struct rqli_conn *rqli_client_conn(rql_client *client);

/* RQL_E_INVALID for NULL, RQL_E_FORKED in a child of the client's process. */
rql_status rqli_client_check(const rql_client *client, rql_error *error);

/* RQL_E_INVALID unless the name may be a lock's: it becomes part of keys, logs and lines. */
rql_status rqli_name_check(const char *name, rql_error *error);

/* A reply came so long after its command was sent. Any thread. */
void rqli_client_on_round_trip(rql_client *client, int64_t took_us);

/* How long a call may last beyond its deadline, to take back what it asked for: two round trips as
 * measured of late, and 50 ms at least. */
int64_t rqli_client_grace_us(const rql_client *client);

/* When a single command has to be answered: connect and answer. */
int64_t rqli_client_budget_us(const rql_client *client, int64_t now_us);

/* Is what the client is called to be written again, along with something else? */
static inline bool rqli_client_wants_name(rql_client *self)
{
    return self->options.client_names && rqli_client_name_is_due(&self->name, rqli_now_us());
}

/* A client from new to free, without a swarm. */

rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error);
rql_client *rqli_client_free(rql_client *client);

/* Plain commands over a client's connections, one at a time. */

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

/* For commands about keys of this set; NULL: for the first of the servers. NULL: no memory. */
struct rqli_exchange *rqli_client_exchange(rql_client *client, const struct rqli_key_set *set);

/* Their keys have moved, by this reply, and nothing was done: true, they are to be asked again, at
 * retries->again_us, which is never 0 then, where the keys are by then. */
bool rqli_client_follows(rql_client *client, const struct rqli_key_set *set,
                         const struct rqli_reply *reply, struct rqli_retries *retries);

/* Runs one command of texts, NULL behind the last, within the time of a single command. RQL_OK:
 * *out holds its reply, which is no error, and is to be given back. Otherwise *out stays as it was.
 */
__attribute__((sentinel)) rql_status rqli_query(rql_client *client, struct rqli_exchange **out,
                                                rql_error *error, ...);

/* The same of who has the keys of this lock, whose key is the second text. */
__attribute__((sentinel)) rql_status rqli_query_about(rql_client *client,
                                                      const struct rqli_keys *keys,
                                                      struct rqli_exchange **out, rql_error *error,
                                                      ...);

/* The keys of a name that a caller gave. It is not moved: they are in it. */
struct rqli_named {
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
};

/* Checks the client and the name first. */
rql_status rqli_named_init(struct rqli_named *self, const rql_client *client, const char *name,
                           rql_error *error);

#endif
