#ifndef RQLI_HISTORY_H
#define RQLI_HISTORY_H

/* What follows from a server that is another, or has lost writes (net/era.h). */

#include "lock/client.h"

#include <rql/options.h>

void rqli_history_tell_news(rql_client *client, struct rqli_era *era);

/* Has whoever logged in found out something of these keys? Then it is told, counted, and what is
 * held is doubtful and verified. Any thread, with no mutex held: listeners are called. */
static inline void rqli_history_look(rql_client *client, struct rqli_era *era)
{
    if (atomic_load_explicit(&era->has_news, memory_order_relaxed)) {
        rqli_history_tell_news(client, era);
    }
}

/* The same of all keys. */
void rqli_history_look_at_all(rql_client *client);

/* RQL_E_INVALID: no lock may live for longer than nothing is granted after a failover. */
rql_status rqli_history_check_ttl(const rql_client *client, int64_t ttl_ms, rql_error *error);

/* What a call is asked for, with what the client says of the rest. RQL_E_INVALID also as above. */
rql_status rqli_call_options_read(const rql_client *client, rql_lock_options *out,
                                  const rql_lock_options *given, rql_error *error);

#endif
