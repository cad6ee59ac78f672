#ifndef RQLI_TLS_CONTEXT_H
#define RQLI_TLS_CONTEXT_H

/* The TLS data that a client's connections share: certificates that were read, the newest
 * session. */

#include "base/error.h"

#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>
#include <stdint.h>

struct rqli_subject;
struct ssl_st; /* SSL of OpenSSL, which only tls*.c include */

/* Borrowed, and constant once a context was made with it. */
struct rqli_tls_settings {
    rql_tls_verify verify;
    const char *ca_file;     /* NULL: the system's */
    const char *cert_file;   /* with key_file, or both are NULL */
    const char *key_file;    /* unencrypted */
    const char *server_name; /* NULL: the host */
};

struct rqli_tls_context;

/* Creates a context. RQL_OK: *out is the caller's, and no file was read yet. RQL_E_UNSUPPORTED,
 * RQL_E_NOMEM. The settings and the subject must outlive it. */
rql_status rqli_tls_context_new(struct rqli_tls_context **out,
                                const struct rqli_tls_settings *settings,
                                const struct rqli_subject *subject, rql_error *error);
struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self); /* NULL is fine */

/* The contents of the server's certificate, from the newest connection. */
struct rqli_tls_peer {
    char subject[RQL_SERVER_SUBJECT_SIZE]; /* "": there was no connection yet */
    int64_t expires_us;                    /* since 1970; -1: not known */
};

struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self);

/* Reports a failure of TLS, always with this message. Without OpenSSL it is never called. */
static inline rql_status rqli_tls_fail(rql_error *error, rql_status status, const char *where,
                                       const char *reason)
{
    return rqli_fail(error, status, "no TLS with %.100s: %s", where, reason);
}

/* The rest is for tls.c. */

/* Returns the status for the oldest error in the thread's queue: RQL_E_TLS, or that of a resource
 * which this process lacks now, which says nothing about the server or the files. */
rql_status rqli_tls_status_of_failure(void);

/* Reads the files if they were not read yet or have changed. RQL_E_TLS: they cannot be used, and
 * none were read before; otherwise that is reported once for each change. RQL_E_IO: no descriptor
 * is left to read them; RQL_E_NOMEM. */
rql_status rqli_tls_context_read(struct rqli_tls_context *self, const char *where,
                                 rql_error *error);

enum { RQLI_TLS_SUBJECT_SIZE = 80 };

/* Returns the SSL object of one connection, which resumes the newest session and is the caller's.
 * NULL: no memory. If a certificate is refused its subject goes to culprit[RQLI_TLS_SUBJECT_SIZE],
 * which must be empty. */
struct ssl_st *rqli_tls_context_ssl(struct rqli_tls_context *self, char *culprit);

/* Counts the connection, and keeps the contents of its server's certificate. */
void rqli_tls_context_on_open(struct rqli_tls_context *self, const struct ssl_st *ssl);

#endif
