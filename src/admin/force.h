#ifndef RQLI_FORCE_H
#define RQLI_FORCE_H

#include "admin/pages.h"
#include "lock/history.h"

/* Ends the grant, or the share, of this nonce, as rql_lock_release_by_secret() does. The caller has
 * checked that it is the nonce of a grant. ending: how the history calls it. */
rql_status rqli_end_by_secret(rql_client *client, const char *name, const char *secret,
                              enum rqli_ending ending, rql_error *error);

/* The search for a sharer of a lock of several: by its nonce, or by its token. */
struct rqli_sharer_search {
    struct rqli_walk walk; /* first */
    const char *wanted;    /* its nonce; NULL: */
    int64_t token;
    /* What was found. "": nothing. */
    char nonce[RQL_SECRET_SIZE];
    char acquirer[RQL_ID_SIZE];
    struct rqli_share share;
};

/* Searches a lock of any size. RQL_OK: the search is over, and has found the sharer or none. */
rql_status rqli_sharer_find(rql_client *client, const struct rqli_keys *keys,
                            struct rqli_sharer_search *search, rql_error *error);

/* Runs a call that ends a grant or a request, and serves the rest if the script served only a part
 * of the queue. The library does not repeat the call. */
rql_status rqli_run_end(rql_client *client, const struct rqli_call *call, struct rqli_outcome *out,
                        rql_error *error);

#endif
