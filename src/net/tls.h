#ifndef RQLI_TLS_H
#define RQLI_TLS_H

/*
 * TLS between a socket and its decoder. tls.c is the one file that knows OpenSSL; a build without
 * it has tls_off.c, in which there is no context and so nothing else to call.
 *
 * The engine works on memory: what was received is given to it, what it wants sent is taken from
 * it, and all system calls are made outside its mutex. One thread may read while another writes.
 */

#include <rql/status.h>
#include <stdint.h>
#include <sys/types.h>

struct rqli_decoder;
struct rqli_endpoint;

/* Of text, the most that TLS puts into one record. What one call encrypts is one record, which the
 * server can read whole or not at all. */
enum { RQLI_TLS_RECORD_BYTES = 16384 };

/* One connection's session. */
struct rqli_tls;

/* For a connection to this host. Files that have changed are read anew; where that fails what was
 * read before stays in use. RQL_OK: *out is the caller's. RQL_E_TLS: a file cannot be used;
 * RQL_E_NOMEM. */
rql_status rqli_tls_new(struct rqli_tls **out, const struct rqli_endpoint *endpoint,
                        const char *host, rql_error *error);

/* The handshake, on a connected socket that nobody else uses. RQL_OK: the server is who it should
 * be. RQL_E_TLS: it is not; RQL_E_IO: the connection ended or the deadline passed; RQL_E_NOMEM. */
rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                int64_t deadline_us, rql_error *error);

/* Says nothing to the server; the session can be resumed. NULL is fine. */
struct rqli_tls *rqli_tls_free(struct rqli_tls *self);

/* Reader only. Bytes of the socket go in, all text that they bring into the decoder. 1: some; 0:
 * none, they were of TLS itself; -1: broken, with errno. */
int rqli_tls_read(struct rqli_tls *self, const char *bytes, size_t length,
                  struct rqli_decoder *decoder);

/* Writer only; as rqli_socket_send_some(). What it reports as sent has left this process; what was
 * encrypted and found no room is not reported yet, and has to be given again. */
ssize_t rqli_tls_send_some(struct rqli_tls *self, int fd, const char *text, size_t length);

/* Why it broke, if TLS was the reason, else NULL: as an alert that refuses our certificate. */
const char *rqli_tls_reason(const struct rqli_tls *self);

#endif
