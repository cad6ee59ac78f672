#ifndef RQLI_LOOP_NODE_H
#define RQLI_LOOP_NODE_H

/*
 * The servers as a loop has them: for each its own connections and the operations over them. Only
 * the loop's thread calls these functions, unless a comment says otherwise.
 */

#include "net/conn/push_loop.h"
#include "net/op/op_loop.h"

#include <rql/client.h>

struct rqli_loop_nodes;

/* A loop's own connections to one server, with their operations. None is opened before it is
 * needed. */
struct rqli_loop_node {
    struct rqli_loop_node *_Atomic next; /* the next node in use, or the next parked one */
    struct rqli_loop_nodes *all;
    struct rqli_node *node;
    struct rqli_op_loop op; /* its operations */
    struct rqli_op_loop
        durable; /* operations that wait for replicas or fsync, which may take long */
    struct rqli_push_loop pushes;
    bool wants_pushes;
    bool has_ended_waits; /* because the client is drained */
};

/* All of one loop. The first three members are borrowed from it. */
struct rqli_loop_nodes {
    rql_client *client;
    struct uv_loop_s *uv;
    struct rqli_timers *timers;   /* of its operations */
    struct rqli_loop_node first;  /* the server, or the first that the URL names; then the others */
    struct rqli_loop_node *aside; /* parked nodes: they were in use, and rounds skip them */
    struct rqli_due look;         /* looks for unused connections, if there are several servers */
};

/* Sets the first node up. The caller has set the borrowed members; the others are all zero. From
 * now on unused connections are closed, each for itself, if there are several servers;
 * net/op/cluster.c does so for the client's own connections. False: no memory; the nodes have to be
 * ended all the same. */
bool rqli_loop_nodes_init(struct rqli_loop_nodes *self);
void rqli_loop_nodes_fini(struct rqli_loop_nodes *self); /* all is closed by then */
/* In a fork child. */
void rqli_loop_nodes_abandon(const struct rqli_loop_nodes *self);

/* Returns the loop's node for this server, which stays as long as the loop; it is made if there is
 * none yet. NULL: no memory. */
struct rqli_loop_node *rqli_loop_nodes_at(struct rqli_loop_nodes *self, struct rqli_node *node);
/* As rqli_loop_nodes_at(), but makes nothing. NULL: the node is not in use. */
struct rqli_loop_node *rqli_loop_nodes_find(struct rqli_loop_nodes *self,
                                            const struct rqli_node *node);

/* Puts all parked nodes into use again, so that they can be closed. */
void rqli_loop_nodes_take_back(struct rqli_loop_nodes *self);

/* Ends the connections for commands; the calls under way get the fault. Durable connections
 * stay. */
void rqli_loop_nodes_drop(struct rqli_loop_nodes *self);

#endif
