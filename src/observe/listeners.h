#ifndef RQLI_LISTENERS_H
#define RQLI_LISTENERS_H

/* Who listens to one acquisition; decided once, and kept in its lock. */

#include <rql/lock.h>
#include <rql/observe.h>

struct rqli_listeners {
    rql_log_fn logger; /* NULL: nobody, or not sampled */
    void *logger_data;
    rql_event_fn instrumenter; /* the same */
    void *instrumenter_data;
    void *instrument;
    int64_t ttl_ms;
    int64_t queue_ttl_ms;
    rql_access_strategy access_strategy;
    bool logs_tries;
};

#endif
