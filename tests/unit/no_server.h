#ifndef NO_SERVER_H
#define NO_SERVER_H

#include "base/clock.h"
#include "lock/client.h"
#include "lock/client_new.h"
#include "lock/leases.h"

/* A client whose server is never asked. */
static inline rql_client *client_of_url(const char *url)
{
    rql_client *made = NULL;
    rql_options options;

    rql_options_init_gem(&options); /* a lock is renewed, by a thread, where a test says so */
    options.url = url;
    CHECK_OK(rqli_client_make(&made, &options, NULL));
    return made;
}

static inline rql_client *client_without_server(void)
{
    return client_of_url("unix:///nonexistent/rql");
}

static inline rql_client *client_without_cluster(void)
{
    return client_of_url("redis+cluster://127.0.0.1:1");
}

/* One that this client holds, for a minute. */
static inline rql_lock *granted_by(rql_client *client, const char *name)
{
    const struct rqli_lease_terms terms = {.ttl_ms = 60000,
                                           .left_ms = 60000,
                                           .begun_us = rqli_now_us(),
                                           .max_hold_ms = RQL_FOREVER,
                                           .is_claimed = true};
    rql_lock *lock = rqli_lock_new(client, name, 0);

    assert_non_null(lock);
    rqli_lease_init(&lock->kept.lease, &terms);
    memcpy(lock->grant_nonce, lock->nonce, sizeof lock->grant_nonce);
    return lock;
}

#endif
