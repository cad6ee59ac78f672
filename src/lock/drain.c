#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/conn/push_threads.h"

#include <rql/client.h>

/*
 * Brings what a client does to an end. The mark on the client is never taken back: acquisitions
 * look at it in each of their steps (acquire.c), and a grant that comes later is not listed
 * (leases.c).
 */

static rql_status fail_held(int64_t timeout_ms, rql_error *error)
{
    return rqli_fail(error, RQL_TIMED_OUT, "locks are still held after %lld ms",
                     (long long)timeout_ms);
}

rql_status rql_client_drain(rql_client *client, int64_t timeout_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, error);
    struct rqli_node *node = NULL;
    int64_t until_us;
    bool is_asked;

    if (!status && timeout_ms < RQL_FOREVER) {
        status = rqli_fail(error, RQL_E_INVALID, "timeout_ms is %lld; it must be 0 or more, or -1",
                           (long long)timeout_ms);
    }
    if (status) {
        return status;
    }
    until_us = rqli_after_ms(rqli_now_us(), timeout_ms);
    atomic_store(&client->is_draining, true);
    while ((node = rqli_fleet_next(&client->fleet, node, NULL))) {
        rqli_push_threads_hint_all(node->pushes);
    }
    is_asked = rqli_leases_drain(client->leases, until_us);
    if (!rqli_leases_await_none(client->leases, until_us)) {
        return is_asked ? fail_held(timeout_ms, error) : rqli_fail_nomem(error);
    }
    return RQL_OK;
}
