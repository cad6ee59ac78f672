#ifndef RQLI_HOST_INFO_H
#define RQLI_HOST_INFO_H

/* Dead hosts and what they held. An inspection found them, or a swarm flushed them. */

#include "admin/pages.h"

#include <rql/hosts.h>

struct rqli_zombies {
    struct rqli_list hosts;
    struct rqli_list acquirers;
    struct rqli_list locks;
    int64_t removed; /* requests */
    int64_t handed_over;
};

void rqli_zombies_fini_p(struct rqli_zombies *self);

/* Makes a result for the caller. */
rql_status rqli_zombies_give(struct rqli_zombies *found, rql_zombies **out, rql_error *error);

#endif
