#ifndef CLI_COUNTS_H
#define CLI_COUNTS_H

#include <rql/rql.h>
#include <stdint.h>

/* What the servers show of all clients together, Ruby's as well, or one of them. */
struct cli_counts {
    int64_t locks;
    int64_t queues;
    int64_t requests;
    int64_t hosts;   /* that hold or wait; of the gem's waiters no host is known */
    int64_t damaged; /* keys that are no lock or queue that could be read */
};

/* node NULL: of all servers. */
struct cli_counts cli_count(const rql_lock_info_list *locks, const rql_queue_info_list *queues,
                            const char *node);

#endif
