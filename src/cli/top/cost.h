#ifndef TOP_COST_H
#define TOP_COST_H

/* What `rql top` costs the server. */

#include "cmd.h"

/* The server works for looks at most one part of so many. */
enum { TOP_SPARING = 50 };

struct top_cost {
    int64_t begun_ms;
    int64_t begun_cpu_ms; /* processor time of all servers; -1: not known */
};

struct top_cost top_cost_begin(rql_client *client);

/* Returns an upper bound of the servers' time since then: the processor time that they used, for
 * whomever, or else the time that passed. */
int64_t top_cost_end(const struct top_cost *self, rql_client *client);

#endif
