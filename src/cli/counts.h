#ifndef CLI_COUNTS_H
#define CLI_COUNTS_H

#include <rql/admin.h>
#include <stdbool.h>
#include <stdint.h>

/* The figures of all servers, or of one of them. They include all clients, those of the gem,
 * too. */
struct cli_counts {
    int64_t locks;
    int64_t queues;
    int64_t requests;
    int64_t hosts;   /* hosts that hold or wait; the hosts of the gem's waiters are not known */
    int64_t damaged; /* keys that are neither a readable lock nor a readable queue */
};

/* Returns whether a key in the place of a lock or a queue is neither. */
bool cli_is_damaged(rql_key_status status);

/* Counts the hosts of the swarm that are dead. */
int64_t cli_count_dead(const rql_host_info_list *hosts);

/* All locks and queues that were read, to be counted. */
struct cli_reading {
    rql_lock_info_list *locks;
    rql_queue_info_list *queues;
    rql_holder_list **holders; /* of each lock that several share; NULL for the other locks */
};

/* The reading is zeroed before, and freed after a fault, too. */
rql_status cli_reading_read(struct cli_reading *self, rql_client *client, rql_error *error);
void cli_reading_free_p(struct cli_reading *self);

/* Counts the locks and queues of a node, or those of all servers if `node` is NULL. */
struct cli_counts cli_count(const struct cli_reading *reading, const char *node);

#endif
