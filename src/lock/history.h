#ifndef RQLI_HISTORY_H
#define RQLI_HISTORY_H

/* Handles a server that was replaced or has lost writes (net/era.h). */

#include "lock/client.h"

#include <rql/options.h>

void rqli_history_tell_news(rql_client *client, struct rqli_era *era);

/* If a login has found such news about these keys, reports and counts the loss, and marks what is
 * held there as doubtful, to be verified. Any thread. Caller holds no mutex, because listeners are
 * called. */
static inline void rqli_history_look(rql_client *client, struct rqli_era *era)
{
    if (atomic_load_explicit(&era->has_news, memory_order_relaxed)) {
        rqli_history_tell_news(client, era);
    }
}

/* Does the same for all keys. */
void rqli_history_look_at_all(rql_client *client);

/* Returns RQL_E_INVALID if the ttl is longer than the pause after a failover in which nothing is
 * granted. */
rql_status rqli_history_check_ttl(const rql_client *client, int64_t ttl_ms, rql_error *error);

/* Reads the options of a call; the client's defaults fill in the rest. Also returns RQL_E_INVALID
 * as above. */
rql_status rqli_call_options_read(const rql_client *client, rql_lock_options *out,
                                  const rql_lock_options *given, rql_error *error);

#endif
