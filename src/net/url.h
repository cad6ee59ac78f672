#ifndef RQLI_URL_H
#define RQLI_URL_H

/* Where the server is and how to log in: a parsed URL. Constant as soon as it has its TLS. */

#include "net/tls_context.h"

#include <rql/options.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_stats;

enum rqli_endpoint_kind { RQLI_ENDPOINT_TCP, RQLI_ENDPOINT_UNIX, RQLI_ENDPOINT_LOCAL };

struct rqli_endpoint {
    enum rqli_endpoint_kind kind;
    char *host;     /* TCP: name or address */
    char *path;     /* UNIX: socket path; LOCAL: socket path of the private server */
    char *user;     /* or NULL */
    char *password; /* or NULL; never in a message */
    char *where;    /* for messages: the URL without user, password and query */
    bool is_tls;    /* rediss:// */
    char *query;    /* of rediss://: options; each key and its value terminated, "" behind them */
    struct rqli_tls_settings tls_settings; /* of the options; rqli_endpoint_use_tls() */
    int port;
    int database;
    int64_t connect_timeout_ms;
    int64_t io_timeout_ms;
    int64_t spin_us;
    const char *identity;           /* of the client; names the connection and the channel */
    struct rqli_stats *stats;       /* of the client; connections count into them */
    rql_credentials_fn credentials; /* asked at each login, or NULL */
    void *credentials_data;
    struct rqli_tls_context *tls; /* with is_tls */
};

/* Fills everything that the URL says; the fields from connect_timeout_ms on are the caller's. *out
 * is untouched on failure. RQL_E_INVALID names the part that is wrong, without the password. */
rql_status rqli_url_parse(struct rqli_endpoint *out, const char *url, rql_error *error);

/* Of rediss:// its context. The options have what the query says of them; their texts outlive the
 * endpoint. RQL_E_INVALID, RQL_E_UNSUPPORTED or RQL_E_NOMEM. */
rql_status rqli_endpoint_use_tls(struct rqli_endpoint *self, const rql_options *options,
                                 rql_error *error);
void rqli_endpoint_fini(struct rqli_endpoint *self); /* wipes the password */

#endif
