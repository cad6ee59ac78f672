/* A light build reports and counts nothing. This file replaces observe.c and stats.c. */

#include "observe/observe.h"

#include <stdlib.h>

void rqli_subject_listen(struct rqli_subject *self, const rql_options *client,
                         const rql_lock_options *options)
{
    (void)self, (void)client, (void)options;
}

/* There is nothing to store, but NULL would mean that memory ran out. */
struct rqli_stats *rqli_stats_new(void)
{
    return malloc(1);
}

struct rqli_stats *rqli_stats_free(struct rqli_stats *self)
{
    free(self);
    return NULL;
}

void rqli_stats_count(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat what,
                      int64_t n)
{
    (void)self, (void)shard, (void)what, (void)n;
}

rql_status rqli_stats_read(const struct rqli_stats *self, rql_stats *out)
{
    (void)self, (void)out;
    return RQL_E_UNSUPPORTED;
}
