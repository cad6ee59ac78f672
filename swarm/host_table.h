#ifndef RQLI_HOST_TABLE_H
#define RQLI_HOST_TABLE_H

/* The hash of hosts as it was read, sorted by host. */

#include <rql/swarm.h>
#include <stdbool.h>
#include <stddef.h>

enum { RQLI_HOST_TABLE_CURSOR_SIZE = 24 };

struct rqli_host_table_row {
    char *host;
    int64_t last_us; /* -1: no time */
};

struct rqli_host_table {
    struct rqli_host_table_row *item;
    size_t count;
    size_t capacity;
    int64_t server_us; /* when it was read */
    char cursor[RQLI_HOST_TABLE_CURSOR_SIZE];
};

/* Into an empty one. */
rql_status rqli_host_table_read(rql_client *client, struct rqli_host_table *rows, rql_error *error);
void rqli_host_table_fini_p(struct rqli_host_table *self);

bool rqli_host_table_is_zombie(const struct rqli_host_table *rows,
                               const struct rqli_host_table_row *row, int64_t zombie_ttl_ms);

#endif
