#ifndef RQLI_TLS_H
#define RQLI_TLS_H

/*
 * TLS between a socket and its decoder; tls.c alone knows OpenSSL. In a build without OpenSSL there
 * is no context, and so no connection with TLS.
 *
 * The engine works on memory: received bytes are given to it, bytes to send are taken from it, and
 * all system calls are made outside its mutex. One thread may read while another writes.
 */

#include "base/error.h"

#include <rql/client.h>
#include <rql/inspect.h>
#include <rql/options.h>
#include <rql/status.h>
#include <stdint.h>
#include <sys/types.h>

struct rqli_decoder;
struct rqli_subject;

/* Borrowed, and constant once a context was made with it. */
struct rqli_tls_settings {
    rql_tls_verify verify;
    const char *ca_file;     /* NULL: the system's */
    const char *cert_file;   /* with key_file, or both are NULL */
    const char *key_file;    /* unencrypted */
    const char *server_name; /* NULL: the host */
};

/* The certificates that were read, and the newest session, which the next connection resumes. */
struct rqli_tls_context;

/* The contents of the server's certificate, from the newest connection. */
struct rqli_tls_peer {
    char subject[RQL_SERVER_SUBJECT_SIZE]; /* "": there was no connection yet */
    int64_t expires_us;                    /* since 1970; -1: not known */
};

/* Reports a failure of TLS, always with this message. Without OpenSSL it is never called. */
static inline rql_status rqli_tls_fail(rql_error *error, rql_status status, const char *where,
                                       const char *reason)
{
    return rqli_fail(error, status, "no TLS with %.100s: %s", where, reason);
}

/* The most text that TLS puts into one record. The text that one call encrypts is one record, which
 * the server can read whole or not at all. */
enum { RQLI_TLS_RECORD_BYTES = 16384 };

/* One connection's session. */
struct rqli_tls;

#if RQLI_TLS

/* Creates a context. RQL_OK: *out is the caller's, and no file was read yet. RQL_E_UNSUPPORTED,
 * RQL_E_NOMEM. The settings and the subject must outlive it. */
rql_status rqli_tls_context_new(struct rqli_tls_context **out,
                                const struct rqli_tls_settings *settings,
                                const struct rqli_subject *subject, rql_error *error);
struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self); /* NULL is fine */

struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self);

/* Reads the files if they were not read yet or have changed. RQL_E_TLS: they cannot be used, and
 * none were read before; otherwise that is reported once for each change. RQL_E_IO: no descriptor
 * is left to read them; RQL_E_NOMEM. */
rql_status rqli_tls_context_read(struct rqli_tls_context *self, const char *where,
                                 rql_error *error);

/* Creates the session of a connection to this host. Files that have changed are read again; if that
 * fails, the files read before stay in use. RQL_OK: *out is the caller's. RQL_E_TLS: a file cannot
 * be used; RQL_E_IO: no descriptor is left to read it; RQL_E_NOMEM. */
rql_status rqli_tls_new(struct rqli_tls **out, struct rqli_tls_context *context, const char *where,
                        const char *host, rql_error *error);

/* Performs the handshake on a connected socket that no other thread uses. RQL_OK: the server is the
 * right one. RQL_E_TLS: it is not; RQL_E_IO: the connection ended or the deadline passed;
 * RQL_E_NOMEM. */
rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                int64_t deadline_us, rql_error *error);

/* Returns true if the handshake has failed, perhaps because it offered to resume a session. From
 * then on no handshake does, until files have changed. NULL: false. */
bool rqli_tls_is_session_refused(const struct rqli_tls *self);

/* Sends nothing to the server; the session can be resumed. NULL is fine. */
struct rqli_tls *rqli_tls_free(struct rqli_tls *self);

/* Decrypts bytes of the socket and puts all their text into the decoder. Only the reader calls it.
 * 1: some text; 0: none, the bytes belonged to TLS itself; -1: broken, with errno. */
int rqli_tls_read(struct rqli_tls *self, const char *bytes, size_t length,
                  struct rqli_decoder *decoder);

/* Does the same as rqli_socket_send_some(). Only the writer calls it. Bytes reported as sent have
 * left this process. Text that was encrypted and found no room is not reported yet, and has to be
 * given again. */
ssize_t rqli_tls_send_some(struct rqli_tls *self, int fd, const char *text, size_t length);

/* Returns why the connection broke if TLS was the reason, such as an alert that refuses our
 * certificate; else NULL. */
const char *rqli_tls_reason(const struct rqli_tls *self);

#else

static inline rql_status rqli_tls_context_new(struct rqli_tls_context **out,
                                              const struct rqli_tls_settings *settings,
                                              const struct rqli_subject *subject, rql_error *error)
{
    (void)out;
    (void)settings;
    (void)subject;
    return rqli_fail(error, RQL_E_UNSUPPORTED,
                     "url: rediss:// needs TLS, and this library was built without OpenSSL "
                     "(-Dtls=enabled)");
}

static inline struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self)
{
    return self;
}

static inline struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self)
{
    (void)self;
    return (struct rqli_tls_peer){.expires_us = -1};
}

static inline rql_status rqli_tls_new(struct rqli_tls **out, struct rqli_tls_context *context,
                                      const char *where, const char *host, rql_error *error)
{
    (void)out;
    (void)context;
    (void)where;
    (void)host;
    return rqli_fail(error, RQL_E_UNSUPPORTED, "no TLS in this build");
}

static inline rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                              int64_t deadline_us, rql_error *error)
{
    (void)self;
    (void)fd;
    (void)where;
    (void)deadline_us;
    return rqli_fail(error, RQL_E_UNSUPPORTED, "no TLS in this build");
}

static inline bool rqli_tls_is_session_refused(const struct rqli_tls *self)
{
    (void)self;
    return false;
}

static inline struct rqli_tls *rqli_tls_free(struct rqli_tls *self)
{
    return self;
}

static inline int rqli_tls_read(struct rqli_tls *self, const char *bytes, size_t length,
                                struct rqli_decoder *decoder)
{
    (void)self;
    (void)bytes;
    (void)length;
    (void)decoder;
    return -1;
}

static inline ssize_t rqli_tls_send_some(struct rqli_tls *self, int fd, const char *text,
                                         size_t length)
{
    (void)self;
    (void)fd;
    (void)text;
    (void)length;
    return -1;
}

static inline const char *rqli_tls_reason(const struct rqli_tls *self)
{
    (void)self;
    return NULL;
}

#endif

#endif
