#ifndef RQLI_SITE_H
#define RQLI_SITE_H

/* The servers to which a client makes connections, and what all of these connections share. */

#include "net/sock/tls.h"
#include "net/sock/url.h"
#include "wire/keys.h"

#include <rql/options.h>
#include <rql/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_client_name;
struct rqli_era;
struct rqli_master;
struct rqli_resolver;
struct rqli_stats;
struct rqli_subject;

/* The part that all connections of a client share, to any server: the identity and the credentials
 * of a login, the time limits, and the listeners. Constant once the client is made. All pointers
 * are borrowed from the client. */
struct rqli_session {
    const struct rqli_url *url;
    struct rqli_tls_settings tls_settings; /* with url->is_tls */
    bool local_start;                      /* see rql_options */
    int64_t connect_timeout_ms;
    int64_t io_timeout_ms;
    int64_t spin_us;
    const char *identity;           /* of the client; names connections and channels */
    struct rqli_client_name *name;  /* its name; or NULL: its identity alone */
    rql_credentials_fn credentials; /* called at each login; or NULL: those of the URL are used */
    void *credentials_data;
    bool is_bare; /* a login asks for nothing: rql_options::bare_login */
    /* A bit for each optional question of a login (login.c) that the user may not ask; or NULL. */
    _Atomic uint32_t *refused;
    struct rqli_era *eras;              /* updated at each login for commands; or NULL */
    struct rqli_stats *stats;           /* connections count into them */
    const struct rqli_subject *subject; /* the same, with the listeners for events */
    struct rqli_resolver *resolver;     /* for TCP */
};

/* Takes the TLS settings of a rediss:// URL from the options, which include those of its query and
 * whose texts outlive the session. RQL_E_INVALID: a certificate without its key, or the other way
 * round. */
rql_status rqli_session_use_tls(struct rqli_session *self, const rql_options *options,
                                rql_error *error);

/* One server. Constant as soon as it is in use, except for `carried`. */
struct rqli_site {
    const struct rqli_session *session; /* borrowed */
    struct rqli_address address;        /* of TCP, unless sentinels know it */
    const char *path;                   /* of a Unix socket, borrowed; NULL: TCP */
    struct rqli_master *master;         /* finds the address, borrowed; NULL: it is known */
    char *where;                        /* for messages: no user, no password, no query */
    struct rqli_tls_context *tls;       /* NULL: connections are not encrypted */
    _Atomic uint64_t carried[RQLI_PARTITIONS / 64]; /* a bit for each partition that it has */
};

static inline bool rqli_site_carries(const struct rqli_site *self, unsigned partition)
{
    return (self->carried[partition / 64] >> partition % 64 & 1) != 0;
}

/* Records that the server has the partition from now on, or that another one has it. Any thread. */
static inline void rqli_site_carry(struct rqli_site *self, unsigned partition, bool has_it)
{
    uint64_t bit = UINT64_C(1) << partition % 64;

    if (has_it) {
        (void)atomic_fetch_or(&self->carried[partition / 64], bit);
    } else {
        (void)atomic_fetch_and(&self->carried[partition / 64], ~bit);
    }
}

/* Returns true if the servers of the client share the partitions. */
static inline bool rqli_site_is_partitioned(const struct rqli_site *self)
{
    return rqli_url_is_partitioned(self->session->url);
}

/* Returns the longest pause between two attempts to connect; the pause is random, below it.
 * Sentinels, or a cluster's map, can name the new master from one moment to the next. */
static inline int64_t rqli_site_pause_ms(const struct rqli_site *self)
{
    enum rqli_arrangement arrangement = self->session->url->arrangement;

    return arrangement == RQLI_SENTINEL || arrangement == RQLI_CLUSTER ? 200 : 2000;
}

/* Makes the site of the server that the URL names, or of the first of them; messages name it as the
 * URL does. RQL_E_UNSUPPORTED: this build has no TLS; RQL_E_NOMEM. */
rql_status rqli_site_init_first(struct rqli_site *self, const struct rqli_session *session,
                                rql_error *error);
/* Makes the site of another server: at this address, or of this master, wherever it is. It has its
 * own TLS context, because the certificate's name and the TLS session are its own. Statuses as
 * above. */
rql_status rqli_site_init(struct rqli_site *self, const struct rqli_session *session,
                          const struct rqli_address *address, struct rqli_master *master,
                          rql_error *error);
void rqli_site_fini(struct rqli_site *self); /* may be all zero */

/* Makes messages name the server by its address alone, or by its master's name and the sentinels.
 * False: no memory. */
bool rqli_site_name(struct rqli_site *self);

#endif
