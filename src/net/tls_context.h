#ifndef RQLI_TLS_CONTEXT_H
#define RQLI_TLS_CONTEXT_H

/* What the connections of a client share: certificates that were read, the newest session. */

#include "base/error.h"

#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>
#include <stdint.h>

struct rqli_subject;
struct ssl_st; /* SSL of OpenSSL, which only tls*.c include */

/* Borrowed. Constant once a context was made with it. */
struct rqli_tls_settings {
    rql_tls_verify verify;
    const char *ca_file;     /* NULL: the system's */
    const char *cert_file;   /* with key_file, or NULL both */
    const char *key_file;    /* unencrypted */
    const char *server_name; /* NULL: the host */
};

struct rqli_tls_context;

/* RQL_OK: *out is the caller's, and no file was read yet. RQL_E_UNSUPPORTED, RQL_E_NOMEM. The
 * settings and the subject outlive it. */
rql_status rqli_tls_context_new(struct rqli_tls_context **out,
                                const struct rqli_tls_settings *settings,
                                const struct rqli_subject *subject, rql_error *error);
struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self); /* NULL is fine */

/* What the server's certificate says; of the newest connection. */
struct rqli_tls_peer {
    char subject[RQL_SERVER_SUBJECT_SIZE]; /* "": there was no connection yet */
    int64_t expires_us;                    /* since 1970; -1: not known */
};

struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self);

/* The one message of it. Without OpenSSL nobody comes to say it. */
static inline rql_status rqli_tls_fail(rql_error *error, rql_status status, const char *where,
                                       const char *reason)
{
    return rqli_fail(error, status, "no TLS with %.100s: %s", where, reason);
}

/* The rest is for tls.c. */

/* What the oldest error of the thread's queue amounts to: RQL_E_TLS, or what this process lacks
 * now, which says nothing of the server or the files. */
rql_status rqli_tls_status_of_failure(void);

/* The files, if they were not read yet or have changed. RQL_E_TLS: they cannot be used, and nothing
 * was read before; else that is reported once for each change. RQL_E_NOMEM. */
rql_status rqli_tls_context_read(struct rqli_tls_context *self, const char *where,
                                 rql_error *error);

enum { RQLI_TLS_SUBJECT_SIZE = 80 };

/* For one connection, with the newest session to be resumed; the caller's. NULL: no memory. If a
 * certificate is refused its subject goes to culprit[RQLI_TLS_SUBJECT_SIZE], which is empty. */
struct ssl_st *rqli_tls_context_ssl(struct rqli_tls_context *self, char *culprit);

/* Counts it, and keeps what its server's certificate says. */
void rqli_tls_context_on_open(struct rqli_tls_context *self, const struct ssl_st *ssl);

#endif
