#ifndef RQLI_FLUSH_H
#define RQLI_FLUSH_H

/* One round of the flusher: look at the hosts, end what the dead held, remove them. What it does is
 * decided by the scripts (lua/swarm_look.lua, lua/flush_*.lua); here is who is asked, and when. */

#include "admin/pages.h"

struct rqli_flush {
    rql_client *client; /* which is told of it */
    rql_client *via;
    const char *me; /* candidate of the election; "": by hand, nobody is asked */
    int64_t zombie_ttl_ms;
    int64_t wait_ms;  /* between the first sight of the silent and the verdict */
    int64_t lease_ms; /* of the elected */
    int64_t lock_scan_size;
    int64_t queue_scan_size;
    bool (*goes_on)(void *context); /* asked now and then; false ends the round. Or NULL */
    void *context;

    bool is_elected;        /* out */
    int64_t renewed_us;     /* the election */
    struct rqli_list dead;  /* hosts with a verdict, sorted */
    struct rqli_list hosts; /* out: of them, those that were removed */
    struct rqli_list acquirers;
    struct rqli_list locks;
    int64_t removed;
    int64_t handed_over;
};

/* RQL_OK, also when another is elected; RQL_STOPPED; or a fault: what was done by then is done. */
rql_status rqli_flush_run(struct rqli_flush *self, rql_error *error);
void rqli_flush_fini_p(struct rqli_flush *self);

/* Steps down. */
void rqli_flush_resign(struct rqli_flush *self);

/* How often the flusher looks, so that the dead are found flush_period_ms after their ttl. */
int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms);

#endif
