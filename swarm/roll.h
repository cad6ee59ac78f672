#ifndef RQLI_ROLL_H
#define RQLI_ROLL_H

/* The hash of hosts as it was read, sorted by host. */

#include <rql/swarm.h>
#include <stdbool.h>
#include <stddef.h>

enum { RQLI_ROLL_CURSOR_SIZE = 24 };

struct rqli_roll_row {
    char *host;
    int64_t last_us; /* -1: no time */
};

struct rqli_roll {
    struct rqli_roll_row *item;
    size_t count;
    size_t capacity;
    int64_t server_us; /* when it was read */
    char cursor[RQLI_ROLL_CURSOR_SIZE];
};

/* Into an empty one. */
rql_status rqli_roll_read(rql_client *client, struct rqli_roll *rows, rql_error *error);
void rqli_roll_fini_p(struct rqli_roll *self);

bool rqli_roll_is_zombie(const struct rqli_roll *rows, const struct rqli_roll_row *row,
                         int64_t zombie_ttl_ms);

#endif
