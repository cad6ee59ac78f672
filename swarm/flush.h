#ifndef RQLI_FLUSH_H
#define RQLI_FLUSH_H

/* One flush: check the hosts, end what the dead held, remove them. What it does is decided by the
 * scripts (lua/swarm_look.lua, lua/flush_*.lua); here is who is asked, and when. It is an
 * operation: the swarm's loop drives it, or the thread that flushes by hand. */

#include "admin/host_info.h"
#include "admin/sweep.h"

/* What the calls of a round are. */
enum rqli_flush_phase {
    RQLI_FLUSH_BEGIN,
    RQLI_FLUSH_LOOK,  /* a page of the hosts; it also renews the flusher's election */
    RQLI_FLUSH_SWEEP, /* of what the dead held */
    RQLI_FLUSH_RENEW, /* in between: long flushes stay elected */
    RQLI_FLUSH_REMOVE,
};

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
    bool is_elected;       /* out */
    struct rqli_list dead; /* hosts with a verdict, sorted */
    struct rqli_zombies flushed;

    enum rqli_flush_phase phase;
    int64_t begun_us;
    int64_t renewed_us; /* the election */
    char cursor[RQLI_CURSOR_SIZE];
    int n_pages;
    struct rqli_sweep sweep;
    size_t at;    /* of the dead: those that are being removed begin there, */
    size_t n;     /* and are so many */
    bool is_read; /* the call that looks or removes has its reply */
};

void rqli_flush_fini_p(struct rqli_flush *self);

/* How often the flusher looks, so that the dead are found flush_period_ms after their ttl. */
int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms);

#endif
