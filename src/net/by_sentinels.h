#ifndef RQLI_BY_SENTINELS_H
#define RQLI_BY_SENTINELS_H

/* What a URL says of sentinels, and of the masters that they watch. */

#include "base/text.h"

#include <rql/status.h>
#include <stdbool.h>

enum { RQLI_SENTINELS_MAX = 16, RQLI_MASTERS_MAX = 64 };

#define RQLI_SENTINEL_FORM "redis+sentinel://host:port,host:port/master"

struct rqli_by_sentinels {
    char **masters; /* by which names they know them */
    size_t n_masters;
    char *user;     /* to log in to them, or NULL */
    char *password; /* the same; wiped */
    bool is_tls;
};

/* Here and below it begins zeroed, and is to be ended after a failure, too; RQL_E_INVALID or
 * RQL_E_NOMEM. "m1,m2". */
rql_status rqli_by_sentinels_read_masters(struct rqli_by_sentinels *self, struct rqli_slice list,
                                          rql_error *error);

/* A key of the query, and its value. False: the key is none of theirs. */
bool rqli_by_sentinels_take(struct rqli_by_sentinels *self, struct rqli_slice key,
                            struct rqli_slice value, rql_status *status, rql_error *error);

void rqli_by_sentinels_fini(struct rqli_by_sentinels *self); /* twice is fine */

#endif
