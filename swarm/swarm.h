#ifndef RQLI_SWARM_H
#define RQLI_SWARM_H

/* A swarm, as what it does and what asks it share it. */

#include "admin/host_info.h"
#include "admin/sweep.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "supervise.h"

#include <rql/swarm.h>

/* The hosts of a plan in one set of keys: those who have it know of them, or do not. */
struct rqli_probe_group {
    bool has_failed; /* any of its calls */
    int64_t sent_us; /* the first of them */
    int64_t n_dead;  /* hosts that were declared dead meanwhile */
};

/* Some of the hosts of one group. */
struct rqli_probe_call {
    size_t group;
    size_t at; /* in the group */
    size_t n;
};

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
    struct rqli_probe_group *groups; /* as those of the plan */
    char (*names)[RQL_ID_SIZE];      /* as its threads */
    struct rqli_probe_call *calls;   /* of all rounds */
    size_t count;
    size_t at;     /* the first call of this round */
    size_t n_open; /* those of this round without a reply */
};

/* What the calls of a round of a flush are. */
enum rqli_flush_phase {
    RQLI_FLUSH_BEGIN,
    RQLI_FLUSH_LOOK,  /* pages of the hosts; it also renews the flusher's election */
    RQLI_FLUSH_SWEEP, /* of what the dead held */
    RQLI_FLUSH_RENEW, /* in between: long flushes stay elected */
    RQLI_FLUSH_REMOVE,
};

/* The walk over the hosts in one set of keys. */
struct rqli_flush_look {
    char cursor[RQLI_CURSOR_SIZE];
    bool is_over;
};

/* One flush: check the hosts, end what the dead held, remove them. What it does is decided by the
 * scripts (lua/swarm_look.lua, lua/flush_*.lua); here is who is asked, and when. It is an
 * operation: the swarm's loop drives it, or the thread that flushes by hand. */
struct rqli_flush {
    struct rqli_op op;  /* first */
    rql_client *client; /* whose listeners are notified */
    rql_client *via;    /* whose connection */
    const char *me;     /* candidate of the election; "": by hand, nobody is asked */
    int64_t zombie_ttl_ms;
    int64_t wait_ms;  /* between the first sight of the silent and the verdict */
    int64_t lease_ms; /* of the elected */
    int64_t lock_scan_size;
    int64_t queue_scan_size;
    struct rql_swarm *swarm; /* whose step it is; NULL: by hand */

    rql_error fault;
    bool is_elected;                /* out */
    struct rqli_list verdicts;      /* hosts that are dead, with the number of their set of keys */
    struct rqli_list dead;          /* the same hosts, sorted */
    bool has_dead[RQLI_PARTITIONS]; /* by number of their set of keys */
    struct rqli_zombies flushed;

    enum rqli_flush_phase phase;
    int64_t begun_us;
    int64_t renewed_us;                            /* the election */
    struct rqli_flush_look looks[RQLI_PARTITIONS]; /* by number of their set of keys */
    unsigned char round[RQLI_PARTITIONS];          /* the numbers of those in this round */
    int n_pages;
    struct rqli_sweep sweep;
    size_t at;    /* of the verdicts: those that are being removed begin there, */
    size_t n;     /* and are so many */
    bool is_read; /* the call that looks or removes has its reply */
};

void rqli_flush_fini_p(struct rqli_flush *self);

/* How often the flusher looks, so that the dead are found flush_period_ms after their ttl. */
int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms);

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

#endif
