#ifndef RQLI_FLEET_H
#define RQLI_FLEET_H

/*
 * Which server has which keys. One server has one set of keys, which has all locks; several servers
 * share the sets of the partitions.
 */

#include "net/node.h"
#include "wire/keys.h"

struct rqli_fleet {
    struct rqli_node first; /* the server, or the first that the URL names: with all that it says */
    struct rqli_node *_Atomic of[RQLI_KEY_SETS]; /* who has these keys, as far as is known */
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

#endif
