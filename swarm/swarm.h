#ifndef RQLI_SWARM_H
#define RQLI_SWARM_H

/* The structs of a swarm, which its elements and the public calls share. */

#include "admin/host_info.h"
#include "admin/sweep.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "supervise.h"

#include <rql/swarm.h>

/* The result for the hosts of a plan in one set of keys: the server either knows all of them or
 * not. */
struct rqli_probe_group {
    bool has_failed; /* at least one of its calls */
    int64_t sent_us; /* when the first call was sent */
    int64_t n_dead;  /* hosts that were declared dead meanwhile */
};

/* A call with some of the hosts of one group. */
struct rqli_probe_call {
    size_t group;
    size_t at; /* index of its first host in the group */
    size_t n;
};

/* One heartbeat for the hosts of a client, whatever their number. */
struct rqli_probe {
    struct rqli_op op;  /* first */
    rql_client *client; /* the hosts are its threads */
    rql_client *via;    /* whose connection */
    enum rqli_hosts_who who;
    int64_t zombie_ttl_ms;  /* binds the client's leases; 0: does not bind them */
    struct rqli_list *told; /* gets the hosts that were sent; or NULL */

    rql_error fault;
    int64_t server_us; /* out: the server's time of the heartbeat; 0: nothing was sent */
    int64_t n_dead;    /* out: hosts that were declared dead meanwhile */

    bool has_begun;
    struct rqli_hosts_plan plan;
    struct rqli_probe_group *groups; /* in the order of the plan's groups */
    char (*names)[RQL_ID_SIZE];      /* in the order of the plan's threads */
    struct rqli_probe_call *calls;   /* of all rounds */
    size_t count;
    size_t at;     /* the first call of this round */
    size_t n_open; /* calls of this round without a reply */
};

/* The kinds of calls in a round of a flush. */
enum rqli_flush_phase {
    RQLI_FLUSH_BEGIN,
    RQLI_FLUSH_LOOK,  /* reads pages of the hosts; also renews the flusher's election */
    RQLI_FLUSH_SWEEP, /* ends what the dead hosts held */
    RQLI_FLUSH_RENEW, /* in between, so that long flushes stay elected */
    RQLI_FLUSH_REMOVE,
};

/* The walk over the hosts in one set of keys. */
struct rqli_flush_look {
    char cursor[RQLI_CURSOR_SIZE];
    bool is_over;
};

/* One flush: check the hosts, end what the dead hosts held, remove them. The scripts
 * (lua/swarm_look.lua, lua/flush_*.lua) decide what to do; this code decides which server is asked,
 * and when. A flush is an operation: the swarm's loop drives it, or the thread that flushes by
 * hand. */
struct rqli_flush {
    struct rqli_op op;  /* first */
    rql_client *client; /* whose listeners are notified */
    rql_client *via;    /* whose connection */
    const char *me;     /* candidate in the election; "": by hand, without election */
    int64_t zombie_ttl_ms;
    int64_t wait_ms;  /* between the first sight of a silent host and the verdict */
    int64_t lease_ms; /* of the elected flusher */
    int64_t lock_scan_size;
    int64_t queue_scan_size;
    struct rql_swarm *swarm; /* the flush is a step of this swarm; NULL: by hand */

    rql_error fault;
    bool is_elected;                /* out */
    struct rqli_list verdicts;      /* dead hosts, each with the number of its set of keys */
    bool has_dead[RQLI_PARTITIONS]; /* by number of their set of keys */
    struct rqli_zombies flushed;

    enum rqli_flush_phase phase;
    int64_t begun_us;
    int64_t renewed_us;                            /* when the election was last renewed */
    struct rqli_flush_look looks[RQLI_PARTITIONS]; /* by number of their set of keys */
    unsigned char round[RQLI_PARTITIONS];          /* the numbers of the sets in this round */
    int n_pages;
    struct rqli_sweep sweep;
    size_t at;    /* index of the first verdict that is being removed */
    size_t n;     /* number of verdicts that are being removed */
    bool is_read; /* the call that looks or removes has its reply */
};

void rqli_flush_fini_p(struct rqli_flush *self);

/* Returns how often the flusher looks, so that dead hosts are found flush_period_ms after their
 * ttl. */
int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms);

/* A swarm. Its parts live on one uv loop: the caller's, or the swarm's own, which has a thread. */
struct rql_swarm {
    rql_client *client;
    rql_swarm_options options;
    rql_client *prober_client; /* each element has its own connections; the flusher's client is NULL
                                  if not enabled */
    rql_client *flusher_client;
    struct rqli_job job; /* keeps the loop going until the swarm is freed */
    rql_loop *home;      /* for the prober, and for the supervisor's timer */
    rql_loop *away;      /* for the flusher, or NULL */
    struct rqli_element supervisor;
    struct rqli_element prober;
    struct rqli_element flusher;
    atomic_bool is_flusher; /* elected, at the last step */
    atomic_bool is_running; /* not stopped */
    struct rqli_post stopping;
    struct rqli_post leaving;
    rqli_signal stopped; /* 1: the swarm has stopped */

    /* Used by the loop's thread only, down to n_open. */
    enum rqli_hosts_who who; /* the hosts that the prober reports */
    struct rqli_probe probe; /* of the step under way */
    struct rqli_flush flush;
    uint64_t awaited; /* number of the prober's first step after the stop */
    bool is_stopping;
    bool is_leaving;
    int n_open; /* loops that are still to be closed */

    struct {
        uv_loop_t uv;
        uv_thread_t thread;
        bool is_used;
    } own;
};

/* Returns the server's time for an event of the client, -1: not known. `via` is the client whose
 * connection the event is about. The other one may have had no reply yet. */
int64_t rqli_swarm_clock_us(rql_client *client, rql_client *via);

/* The operations of the elements' steps; the supervisor's are in swarm.c. */
extern const struct rqli_element_ops rqli_prober_ops;
extern const struct rqli_element_ops rqli_flusher_ops;

#endif
