#include "lock/client.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { LEAST_GRACE_US = 50000, MOST_MORE_US = 50000 };

rql_status rqli_client_check(const rql_client *client, rql_error *error)
{
    if (!client) {
        return rqli_fail(error, RQL_E_INVALID, "client is NULL");
    }
    if (rqli_fork_is_foreign(&client->fork)) {
        return rqli_fail(error, RQL_E_FORKED,
                         "the client was made before fork(); make one in this process");
    }
    return RQL_OK;
}

rql_status rqli_name_check(const char *name, rql_error *error)
{
    if (!name || !rqli_name_is_valid(name)) {
        return rqli_fail(error, RQL_E_INVALID,
                         "lock name: must be 1 to %d bytes without control bytes; nothing was sent",
                         RQL_NAME_MAX);
    }
    return RQL_OK;
}

/* Follows what becomes faster more closely than what becomes slower, and one that took very long by
 * little: it was held up, and is not the way to the server. Readers and writers may mix: the next
 * reply mends it. */
void rqli_client_on_round_trip(rql_client *client, int64_t took_us)
{
    int64_t before_us = atomic_load_explicit(&client->round_trip_us, memory_order_relaxed);
    int64_t most_us = 2 * before_us + MOST_MORE_US;

    if (before_us > 0) {
        took_us = took_us < most_us ? took_us : most_us;
        took_us = before_us + (took_us - before_us) / (took_us > before_us ? 8 : 2);
    }
    atomic_store_explicit(&client->round_trip_us, took_us, memory_order_relaxed);
}

int64_t rqli_client_grace_us(const rql_client *client)
{
    int64_t grace_us = 2 * atomic_load_explicit(&client->round_trip_us, memory_order_relaxed);

    return grace_us > LEAST_GRACE_US ? grace_us : LEAST_GRACE_US;
}

int64_t rqli_client_budget_us(const rql_client *client, int64_t now_us)
{
    return rqli_after_ms(now_us,
                         client->options.connect_timeout_ms + client->options.io_timeout_ms);
}
