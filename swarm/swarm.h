#ifndef RQLI_SWARM_H
#define RQLI_SWARM_H

/* A swarm, as what it does and what asks it share it. */

#include "flush.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "supervise.h"

#include <rql/swarm.h>

/* One heartbeat for the hosts of a client, whatever their number. */
struct rqli_probe {
    struct rqli_op op;  /* first */
    rql_client *client; /* whose hosts */
    rql_client *via;    /* whose connection */
    enum rqli_hosts_who who;
    int64_t zombie_ttl_ms;  /* that the client's leases are bound by; 0: they are not */
    struct rqli_list *told; /* the hosts that were told, or NULL */

    rql_error fault;
    int64_t server_us; /* out: with this time; 0: there was nothing to tell */
    int64_t n_dead;    /* out: that were declared dead meanwhile */

    bool has_begun;
    struct rqli_hosts_plan plan;
    size_t count;
    char (*names)[RQL_ID_SIZE];
    size_t at;       /* the first host of this round */
    size_t n_open;   /* calls of this round without a reply */
    int64_t sent_us; /* the first call */
};

/* Its parts live on one loop. Without a loop of the caller that is the swarm's own, in a thread. */
struct rql_swarm {
    rql_client *client;
    rql_swarm_options options;
    rql_client *prober_client; /* connections of their own; the flusher's is NULL if not enabled */
    rql_client *flusher_client;
    struct rqli_job job; /* keeps the loop going until it is freed */
    rql_loop *home;      /* of the prober, and of the supervisor's timer */
    rql_loop *away;      /* of the flusher, or NULL */
    struct rqli_element supervisor;
    struct rqli_element prober;
    struct rqli_element flusher;
    atomic_bool is_flusher; /* elected, at the last step */
    atomic_bool is_running; /* not stopped */
    struct rqli_post stopping;
    struct rqli_post leaving;
    rqli_signal stopped; /* 1: it has */

    /* The loop's thread. */
    enum rqli_hosts_who who; /* for whom the prober speaks */
    struct rqli_probe probe; /* of the step under way */
    struct rqli_flush flush;
    uint64_t awaited; /* step of the prober: the first one after it was stopped */
    bool is_stopping;
    bool is_leaving;
    int n_open; /* loops, that are to be closed */

    struct {
        uv_loop_t uv;
        uv_thread_t thread;
        bool is_used;
    } own;
};

/* The steps of its elements; the supervisor's are in swarm.c. */
extern const struct rqli_element_ops rqli_prober_ops;
extern const struct rqli_element_ops rqli_flusher_ops;

/* The loop's thread. News of it; and: an element has taken a step, was refused one by its breaker,
 * or has ended. */
void rqli_swarm_notify(struct rql_swarm *self, enum rqli_moment moment,
                       struct rqli_figures figures);
void rqli_swarm_on_step(struct rql_swarm *self);

#endif
