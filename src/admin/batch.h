#ifndef RQLI_BATCH_H
#define RQLI_BATCH_H

/* How much a listing reads at once. It looks at the size of what is under its keys before it reads
 * them: one exchange gets a quarter of what the link carries, so that keys may grow meanwhile, and
 * a huge key of somebody else does not break the connection that the client's locks live on. */

#include "admin/reader.h"
#include "net/conn_threads.h"

enum {
    RQLI_BATCH_KEYS = 100,
    RQLI_BATCH_ELEMENTS = 32768,
    RQLI_SPARE_ITEMS = 8, /* a key may have grown by this much since the look */
};

/* What reading one key brings. */
struct rqli_cost {
    int64_t items;
    int64_t bytes;
};

struct rqli_batch;

/* Locks or queues: how their keys are measured and read. */
struct rqli_batch_kind {
    const char *counter; /* the command that counts the items of a key */
    int64_t most;        /* items of a key that are read at once, at most RQLI_BATCH_ELEMENTS */
    rql_status (*read)(const struct rqli_reader *self, const struct rqli_batch *batch, size_t first,
                       size_t n);
    rql_status (*report_unread)(const struct rqli_reader *self, const struct rqli_batch *batch,
                                size_t at);
};

struct rqli_batch {
    const struct rqli_batch_kind *kind;
    const struct rqli_slice *keys;
    size_t n;
    void *out;    /* the array of all results, as the kind knows it */
    size_t place; /* in it, of what is under the first key */
    struct rqli_cost costs[RQLI_BATCH_KEYS];
};

static inline int64_t rqli_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline void rqli_give_back_p(struct rqli_exchange **slot)
{
    rqli_exchange_give(*slot);
}

/* Runs a command that changes nothing. */
rql_status rqli_reader_run(const struct rqli_reader *self, struct rqli_exchange *exchange);

/* Reads n keys into `out`, those that are too large for an exchange excepted. */
rql_status rqli_batch_read(const struct rqli_reader *self, const struct rqli_batch_kind *kind,
                           const struct rqli_slice *keys, size_t n, void *out);

#endif
