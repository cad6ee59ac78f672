#ifndef RQLI_SESSION_H
#define RQLI_SESSION_H

/* The part that all connections of a client share, to any server: the identity and the credentials
 * of a login, the time limits, and the listeners. */

#include <rql/options.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_client_name;
struct rqli_era;
struct rqli_resolver;
struct rqli_stats;
struct rqli_subject;

/* Constant once the client is made. All pointers are borrowed from the client. */
struct rqli_session {
    int64_t connect_timeout_ms;
    int64_t io_timeout_ms;
    int64_t spin_us;
    const char *identity;           /* of the client; names connections and channels */
    struct rqli_client_name *name;  /* its name; or NULL: its identity alone */
    rql_credentials_fn credentials; /* called at each login, or NULL */
    void *credentials_data;
    /* The user may lack rights that locks need: a login continues without them, and the connection
     * is for diagnosis. */
    bool lacks_rights;
    /* A bit for each optional question of a login (login.c) that the user may not ask; or NULL. */
    _Atomic uint32_t *refused;
    struct rqli_era *eras;              /* updated at each login for commands; or NULL */
    struct rqli_stats *stats;           /* connections count into them */
    const struct rqli_subject *subject; /* the same, with the listeners for events */
    struct rqli_resolver *resolver;     /* for TCP */
};

#endif
