/*
 * The engine between a socket and its decoder, over two memory BIOs: bytes from the kernel go into
 * one, bytes to send come out of the other.
 *
 * An SSL object serves one thread at a time, but a connection has a reader and a writer. So each
 * connection has a mutex, held for SSL_read() and SSL_write() and never over a system call.
 * SSL_get_error() and the error queue belong to the call before them, so they are read under the
 * mutex, too. Only writers send: output of reading, the answer to a key update, waits for the next
 * write, as TLS allows.
 */

#include "net/tls.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "net/decode.h"
#include "net/tls_context.h"
#include "net/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* EXTRA_BYTES: what TLS adds to a record. */
enum { EXTRA_BYTES = 256, REASON_SIZE = 128 };

struct rqli_tls {
    pthread_mutex_t mutex; /* guards ssl, in and out, once the handshake is over */
    SSL *ssl;
    struct rqli_tls_context *context;
    BIO *in;  /* from the kernel; owned by ssl */
    BIO *out; /* to the kernel; owned by ssl */

    /* Used by the writer only. */
    size_t owed; /* bytes of text that are encrypted but not fully sent */
    size_t at;   /* bytes of `cipher` that are sent so far */
    size_t length;
    bool has_more; /* `out` has more when `cipher` is sent */
    char cipher[RQLI_TLS_RECORD_BYTES + EXTRA_BYTES];

    /* Used by the reader only. */
    char reason[REASON_SIZE];
    char culprit[RQLI_TLS_SUBJECT_SIZE]; /* subject of the certificate that was refused */
};

/* ---- the reason of a failure ---- */

/* Records why a call failed. Must come right after that call, because the error queue is the
 * thread's. */
static void note_reason(struct rqli_tls *self)
{
    long verdict = SSL_get_verify_result(self->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    if (verdict != X509_V_OK && SSL_get_verify_mode(self->ssl) != SSL_VERIFY_NONE) {
        (void)snprintf(self->reason, sizeof self->reason, "%s: %s",
                       *self->culprit ? self->culprit : "its certificate",
                       X509_verify_cert_error_string(verdict));
    } else {
        (void)snprintf(self->reason, sizeof self->reason, "%s", reason ? reason : "it broke off");
    }
    ERR_clear_error();
}

const char *rqli_tls_reason(const struct rqli_tls *self)
{
    return self && *self->reason ? self->reason : NULL;
}

/* ---- reading ---- */

/* If the server has announced the end, the socket ends as well, which the next read of it finds. */
int rqli_tls_read(struct rqli_tls *self, const char *bytes, size_t length,
                  struct rqli_decoder *decoder)
{
    char text[RQLI_TLS_RECORD_BYTES];
    bool has_text = false;
    bool is_fine;
    int got = 0;
    int code;

    (void)pthread_mutex_lock(&self->mutex);
    ERR_clear_error();
    is_fine = BIO_write(self->in, bytes, (int)length) == (int)length;
    while (is_fine && (got = SSL_read(self->ssl, text, sizeof text)) > 0) {
        is_fine = rqli_decoder_feed(decoder, text, (size_t)got);
        has_text = true;
    }
    code = is_fine ? SSL_get_error(self->ssl, got) : SSL_ERROR_SYSCALL;
    if (code == SSL_ERROR_SSL) {
        note_reason(self);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    if (is_fine && (has_text || code == SSL_ERROR_WANT_READ)) {
        return has_text;
    }
    errno = code == SSL_ERROR_ZERO_RETURN ? ECONNRESET : EPROTO;
    return -1;
}

/* ---- writing ---- */

/* Takes the next part of what the engine wants to send, oldest first. Caller holds self->mutex. */
static void take_cipher(struct rqli_tls *self)
{
    int got = BIO_read(self->out, self->cipher, sizeof self->cipher);

    self->at = 0;
    self->length = got > 0 ? (size_t)got : 0;
    self->has_more = BIO_pending(self->out) > 0;
}

/* Encrypts a record and takes it as well, so that a record costs one round of the mutex. False:
 * that failed, and the connection is of no use any more. */
static bool encrypt_record(struct rqli_tls *self, const char *text, size_t length)
{
    int size = (int)(length < RQLI_TLS_RECORD_BYTES ? length : RQLI_TLS_RECORD_BYTES);
    bool is_done;

    (void)pthread_mutex_lock(&self->mutex);
    ERR_clear_error();
    is_done = SSL_write(self->ssl, text, size) == size;
    ERR_clear_error();
    take_cipher(self);
    (void)pthread_mutex_unlock(&self->mutex);
    self->owed = (size_t)size;
    return is_done;
}

static bool go_on(struct rqli_tls *self)
{
    if (self->at == self->length && self->has_more) {
        (void)pthread_mutex_lock(&self->mutex);
        take_cipher(self);
        (void)pthread_mutex_unlock(&self->mutex);
    }
    return self->at < self->length;
}

/* Sends the encrypted bytes. 1: all is sent; 0: no room; -1: broken. */
static int send_cipher(struct rqli_tls *self, int fd)
{
    while (go_on(self)) {
        ssize_t sent =
            send(fd, self->cipher + self->at, self->length - self->at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        self->at += (size_t)sent;
    }
    return 1;
}

ssize_t rqli_tls_send_some(struct rqli_tls *self, int fd, const char *text, size_t length)
{
    size_t reported = 0;

    while (reported < length) {
        int sent;

        if (self->owed == 0 && !encrypt_record(self, text + reported, length - reported)) {
            errno = EPROTO;
            return -1;
        }
        sent = send_cipher(self, fd);
        if (sent <= 0) {
            return sent < 0 ? -1 : (ssize_t)reported;
        }
        reported += self->owed;
        self->owed = 0;
    }
    return (ssize_t)reported;
}

/* ---- the handshake ---- */

/* Waits for the socket. False: no time is left, and errno says so. */
static bool await_socket(int fd, short events, int64_t deadline_us)
{
    int64_t left_us = deadline_us - rqli_now_us();

    if (left_us <= 0) {
        errno = ETIMEDOUT;
        return false;
    }
    (void)rqli_fd_await(fd, events, left_us);
    return true;
}

/* Sends all that the engine wants to send. If it returns false errno says why. */
static bool send_all(struct rqli_tls *self, int fd, int64_t deadline_us)
{
    int sent;

    self->has_more = BIO_pending(self->out) > 0;
    while ((sent = send_cipher(self, fd)) == 0) {
        if (!await_socket(fd, POLLOUT, deadline_us)) {
            return false;
        }
    }
    return sent > 0;
}

/* Receives bytes for the engine. If it returns false errno says why. */
static bool receive(struct rqli_tls *self, int fd, int64_t deadline_us)
{
    char bytes[4096];
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) < 0 &&
           (errno == EAGAIN || errno == EINTR)) {
        if (!await_socket(fd, POLLIN, deadline_us)) {
            return false;
        }
    }
    if (got == 0) {
        errno = ECONNRESET;
    }
    return got > 0 && BIO_write(self->in, bytes, (int)got) == (int)got;
}

/* No other thread knows of the connection yet. The output of a last step that failed, an alert, is
 * still sent. */
rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                int64_t deadline_us, rql_error *error)
{
    char text[128];
    int code;

    do {
        int done;

        ERR_clear_error();
        done = SSL_do_handshake(self->ssl);
        code = done == 1 ? SSL_ERROR_NONE : SSL_get_error(self->ssl, done);
        if (code != SSL_ERROR_NONE && code != SSL_ERROR_WANT_READ) {
            rql_status status = rqli_tls_status_of_failure();

            note_reason(self);
            (void)send_all(self, fd, deadline_us);
            return rqli_tls_fail(error, status, where, self->reason);
        }
        if (!send_all(self, fd, deadline_us) ||
            (code == SSL_ERROR_WANT_READ && !receive(self, fd, deadline_us))) {
            return rqli_fail(error, RQL_E_IO, "cannot connect to %.100s: TLS handshake: %s", where,
                             errno == ETIMEDOUT ? "no answer in time; is this a port for TLS?"
                                                : strerror_r(errno, text, sizeof text));
        }
    } while (code != SSL_ERROR_NONE);
    rqli_tls_context_on_open(self->context, self->ssl);
    return RQL_OK;
}

/* Sets the name to ask the server for, and with full verification the name that the certificate
 * must have. An address is no name to ask for. */
static bool set_name(SSL *ssl, const char *text, bool is_checked)
{
    char name[TLSEXT_MAXLEN_host_name + 2]; /* OpenSSL copies it, but does not take a const */
    unsigned char unused[sizeof(struct in6_addr)];
    bool is_address;

    (void)snprintf(name, sizeof name, "%s", text);
    is_address = inet_pton(AF_INET, name, unused) == 1 || inet_pton(AF_INET6, name, unused) == 1;
    if (is_address) {
        return !is_checked || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    }
    return SSL_set_tlsext_host_name(ssl, name) == 1 && (!is_checked || SSL_set1_host(ssl, name));
}

/* Sets the engine up. False: no memory. The BIOs are the SSL object's as soon as both exist. */
static bool set_up(struct rqli_tls *self, const struct rqli_endpoint *endpoint, const char *host)
{
    const struct rqli_tls_settings *settings = &endpoint->tls_settings;

    self->ssl = rqli_tls_context_ssl(endpoint->tls, self->culprit);
    if (!self->ssl) {
        return false;
    }
    self->in = BIO_new(BIO_s_mem());
    self->out = BIO_new(BIO_s_mem());
    if (!self->in || !self->out) {
        (void)BIO_free(self->in);
        (void)BIO_free(self->out);
        return false;
    }
    SSL_set_bio(self->ssl, self->in, self->out);
    SSL_set_connect_state(self->ssl);
    return set_name(self->ssl, settings->server_name ? settings->server_name : host,
                    settings->verify == RQL_TLS_FULL);
}

/* Marks the session as ended in both directions. Otherwise OpenSSL would take it for a broken one,
 * which could not be resumed. */
struct rqli_tls *rqli_tls_free(struct rqli_tls *self)
{
    if (self) {
        if (self->ssl) {
            SSL_set_shutdown(self->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
            SSL_free(self->ssl);
        }
        (void)pthread_mutex_destroy(&self->mutex);
        free(self);
    }
    return NULL;
}

RQLI_DEFINE_AUTO(struct rqli_tls *, rqli_tls_free);

rql_status rqli_tls_new(struct rqli_tls **out, const struct rqli_endpoint *endpoint,
                        const char *host, rql_error *error)
{
    RQLI_AUTO(rqli_tls_free) struct rqli_tls *self = NULL;
    rql_status status = rqli_tls_context_read(endpoint->tls, endpoint->where, error);

    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_init(&self->mutex, NULL);
    self->context = endpoint->tls;
    if (!set_up(self, endpoint, host)) {
        ERR_clear_error();
        return rqli_fail_nomem(error);
    }
    *out = RQLI_GIVE(self);
    return RQL_OK;
}
