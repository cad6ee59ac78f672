#ifndef RQLI_WATCH_STATE_H
#define RQLI_WATCH_STATE_H

/* What a watch has read of one lock, and what two readings say together. Pure. */

#include <rql/inspect.h>
#include <rql/watch.h>

/* One reading of a lock and its queue; borrowed, and each may be NULL. */
struct rqli_watched {
    const char *name;
    const rql_lock_info *lock;
    const rql_holder_list *holders; /* of a lock of several */
    const rql_queue_info *queue;
    int64_t server_us; /* of the reading; -1: nothing was read */
    int64_t held_us;   /* when the holders were read, which may be an earlier reading */
};

/* Reports each difference, in the order of time as far as it is known: what has ended, what has
 * begun, and the rest of the queue. */
void rqli_watched_compare(const struct rqli_watched *before, const struct rqli_watched *now,
                          rql_change_fn on_change, void *user_data);

/* Reports the state, as RQL_CHANGE_NOW. */
void rqli_watched_report(const struct rqli_watched *now, rql_change_fn on_change, void *user_data);

#endif
