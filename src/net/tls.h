#ifndef RQLI_TLS_H
#define RQLI_TLS_H

/*
 * TLS between a socket and its decoder. tls.c and tls_context.c are the only files that know
 * OpenSSL; a build without it has tls_off.c, in which there is no context and so nothing else to
 * call.
 *
 * The engine works on memory: received bytes are given to it, bytes to send are taken from it, and
 * all system calls are made outside its mutex. One thread may read while another writes.
 */

#include <rql/status.h>
#include <stdint.h>
#include <sys/types.h>

struct rqli_decoder;
struct rqli_endpoint;

/* The most text that TLS puts into one record. The text that one call encrypts is one record, which
 * the server can read whole or not at all. */
enum { RQLI_TLS_RECORD_BYTES = 16384 };

/* One connection's session. */
struct rqli_tls;

/* Creates the session of a connection to this host. Files that have changed are read again; if that
 * fails, the files read before stay in use. RQL_OK: *out is the caller's. RQL_E_TLS: a file cannot
 * be used; RQL_E_IO: no descriptor is left to read it; RQL_E_NOMEM. */
rql_status rqli_tls_new(struct rqli_tls **out, const struct rqli_endpoint *endpoint,
                        const char *host, rql_error *error);

/* Performs the handshake on a connected socket that no other thread uses. RQL_OK: the server is the
 * right one. RQL_E_TLS: it is not; RQL_E_IO: the connection ended or the deadline passed;
 * RQL_E_NOMEM. */
rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                int64_t deadline_us, rql_error *error);

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

#endif
