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

#include "net/sock/tls.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/os.h"
#include "base/scope.h"
#include "base/text.h"
#include "net/sock/decode.h"
#include "observe/observe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the context ---- */

enum { N_FILES = 3, SUBJECT_SIZE = 80 };

/* Distinguishes one version of a file from the next. All zero: the file is not there. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct rqli_tls_context {
    const struct rqli_tls_settings *settings;
    const struct rqli_subject *subject; /* gets the counts, log lines and events */

    struct {
        pthread_mutex_t mutex;
        SSL_CTX *files;             /* NULL: nothing was read yet */
        SSL_SESSION *session;       /* the newest, of `files`; NULL: none */
        bool keeps_none;            /* the server refuses what it has given, until files change */
        struct stamp seen[N_FILES]; /* the files at the last attempt to read them */
        struct rqli_tls_peer peer;
    } shared;
};

/* The program may use OpenSSL as well, so the program decides when OpenSSL ends. */
static void init_once(void)
{
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
}

rql_status rqli_tls_context_new(struct rqli_tls_context **out,
                                const struct rqli_tls_settings *settings,
                                const struct rqli_subject *subject, rql_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rqli_tls_context *self = calloc(1, sizeof *self);

    if (!self) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_once(&once, init_once);
    self->settings = settings;
    self->subject = subject;
    self->shared.peer.expires_us = -1;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    *out = self;
    return RQL_OK;
}

/* Drops the session. Caller holds self->shared.mutex, or is the only user. */
static void forget_session(struct rqli_tls_context *self)
{
    SSL_SESSION_free(self->shared.session);
    self->shared.session = NULL;
}

struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self)
{
    if (self) {
        forget_session(self);
        SSL_CTX_free(self->shared.files);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

/* ---- callbacks of OpenSSL ---- */

/* Keeps the newest session. Called under a connection's mutex. TLS 1.3 brings tickets after the
 * handshake. 1: the reference is ours now. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct rqli_tls_context *self = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    bool is_ours;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_ours = SSL_get_SSL_CTX(ssl) == self->shared.files && !self->shared.keeps_none;
    if (is_ours) {
        forget_session(self);
        self->shared.session = session;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_ours;
}

/* Only records whose certificate was refused; the verdict stays OpenSSL's. X509_NAME_oneline()
 * escapes unprintable bytes. */
static int on_verified(int is_fine, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    char *culprit = SSL_get_app_data(ssl);

    if (!is_fine && certificate && *culprit == '\0') {
        (void)X509_NAME_oneline(X509_get_subject_name(certificate), culprit, SUBJECT_SIZE);
    }
    return is_fine;
}

/* Refuses to ask a terminal for a passphrase. The type is OpenSSL's.
 * NOLINTNEXTLINE(readability-non-const-parameter) */
static int on_passphrase(char *out, int size, int writes, void *data)
{
    (void)out;
    (void)size;
    (void)writes;
    (void)data;
    return -1;
}

/* ---- the files ---- */

static void look_at_files(const struct rqli_tls_context *self, struct stamp *out)
{
    const char *names[N_FILES] = {self->settings->ca_file, self->settings->cert_file,
                                  self->settings->key_file};

    memset(out, 0, N_FILES * sizeof *out); /* padding, too: they are compared as bytes */
    for (int i = 0; i < N_FILES; i++) {
        struct stat is;

        if (names[i] && stat(names[i], &is) == 0) {
            out[i].inode = is.st_ino;
            out[i].size = is.st_size;
            out[i].changed = is.st_mtim;
        }
    }
}

/* A build that runs on any system does not have OpenSSL's folder of this one: it takes the first of
 * its files that can be read, unless the environment names another one, as OpenSSL lets it. */
static int use_system_authorities(SSL_CTX *files)
{
    struct rqli_slice rest = rqli_slice_of(RQLI_CA_FILES);
    char path[256];

    if (secure_getenv(X509_get_default_cert_file_env()) ||
        secure_getenv(X509_get_default_cert_dir_env())) {
        return SSL_CTX_set_default_verify_paths(files);
    }
    while (rest.length > 0) {
        const struct rqli_slice file = rqli_slice_take(&rest, rqli_slice_before(rest, ":"));

        (void)snprintf(path, sizeof path, "%.*s", (int)file.length, file.data);
        if (access(path, R_OK) == 0) {
            return SSL_CTX_load_verify_locations(files, path, NULL);
        }
        (void)rqli_slice_skip(&rest, ":");
    }
    return SSL_CTX_set_default_verify_paths(files);
}

/* Returns the option that cannot be used, or NULL. */
static const char *use_files(const struct rqli_tls_settings *settings, SSL_CTX *files)
{
    if (settings->ca_file
            ? SSL_CTX_load_verify_locations(files, settings->ca_file, NULL) != 1
            : settings->verify != RQL_TLS_NONE && use_system_authorities(files) != 1) {
        return "tls_ca_file";
    }
    if (settings->cert_file &&
        SSL_CTX_use_certificate_chain_file(files, settings->cert_file) != 1) {
        return "tls_cert_file";
    }
    if (settings->key_file &&
        (SSL_CTX_use_PrivateKey_file(files, settings->key_file, SSL_FILETYPE_PEM) != 1 ||
         SSL_CTX_check_private_key(files) != 1)) {
        return "tls_key_file";
    }
    return NULL;
}

static SSL_CTX *new_files(struct rqli_tls_context *self)
{
    SSL_CTX *files = SSL_CTX_new(TLS_client_method());

    if (files) {
        (void)SSL_CTX_set_app_data(files, self);
        (void)SSL_CTX_set_min_proto_version(files, TLS1_2_VERSION);
        (void)SSL_CTX_set_options(files, SSL_OP_NO_RENEGOTIATION); /* a write would have to read */
        SSL_CTX_set_verify(
            files, self->settings->verify == RQL_TLS_NONE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
            on_verified);
        SSL_CTX_set_default_passwd_cb(files, on_passphrase);
        (void)SSL_CTX_set_session_cache_mode(files,
                                             SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(files, on_new_session);
    }
    return files;
}

/* Returns the reason of the oldest error: the system's reason if a file was not there. */
static const char *reason_of_failure(char *buffer, size_t size)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SYS) {
        return rqli_os_strerror(ERR_GET_REASON(code), buffer, size);
    }
    return reason ? reason : "no reason given";
}

/* Returns the status for the oldest error in the thread's queue: RQL_E_TLS, or that of a resource
 * which this process lacks now, which says nothing about the server or the files. */
static rql_status status_of_failure(void)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (reason == ERR_R_MALLOC_FAILURE) {
        return RQL_E_NOMEM;
    }
    return ERR_GET_LIB(code) == ERR_LIB_SYS && (reason == EMFILE || reason == ENFILE) ? RQL_E_IO
                                                                                      : RQL_E_TLS;
}

/* Reads the files and replaces those in use. Caller holds self->shared.mutex. */
static rql_status read_files(struct rqli_tls_context *self, const char *where, rql_error *error)
{
    SSL_CTX *files;
    const char *culprit;
    rql_status status;
    char system[128];
    char reason[192];

    ERR_clear_error();
    files = new_files(self);
    if (!files) {
        return rqli_fail_nomem(error);
    }
    culprit = use_files(self->settings, files);
    if (culprit) {
        status = status_of_failure();
        (void)snprintf(reason, sizeof reason, "%s cannot be used: %s", culprit,
                       reason_of_failure(system, sizeof system));
        (void)rqli_tls_fail(error, status, where, reason);
        SSL_CTX_free(files);
        ERR_clear_error();
        return status;
    }
    forget_session(self);
    self->shared.keeps_none = false;
    SSL_CTX_free(self->shared.files);
    self->shared.files = files;
    return RQL_OK;
}

/* Reports the outcome of reading; the mutex must not be held. If this process lacks a resource that
 * is no failed reload: the next connection tries again. */
static void report_read(const struct rqli_tls_context *self, const char *where, bool is_first,
                        const rql_error *fault)
{
    const struct rqli_figures figures = {.server = where, .error = fault->message};

    if (!is_first && fault->status == RQL_E_TLS) {
        rqli_observe(RQLI_ON_TLS_RELOAD_FAILED, self->subject, &figures);
    }
    if (is_first && !fault->status && self->settings->verify == RQL_TLS_NONE) {
        rqli_observe(RQLI_ON_TLS_UNVERIFIED, self->subject, &figures);
    }
}

rql_status rqli_tls_context_read(struct rqli_tls_context *self, const char *where, rql_error *error)
{
    struct stamp now[N_FILES];
    rql_error fault = {0};
    rql_status status = RQL_OK;
    bool is_first;

    look_at_files(self, now);
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_first = !self->shared.files;
    if (is_first || memcmp(now, self->shared.seen, sizeof now) != 0) {
        status = read_files(self, where, &fault);
        if (status == RQL_OK || status == RQL_E_TLS) {
            memcpy(self->shared.seen, now, sizeof now);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    report_read(self, where, is_first, &fault);
    if (!status || !is_first) {
        return RQL_OK;
    }
    if (error) {
        *error = fault;
    }
    return status;
}

/* Returns the SSL object of one connection, which resumes the newest session and is the caller's.
 * NULL: no memory. If a certificate is refused its subject goes to culprit[SUBJECT_SIZE], which
 * must be empty. */
static SSL *new_ssl(struct rqli_tls_context *self, char *culprit)
{
    SSL *ssl;

    (void)pthread_mutex_lock(&self->shared.mutex);
    ssl = SSL_new(self->shared.files);
    if (ssl) {
        (void)SSL_set_app_data(ssl, culprit);
    }
    if (ssl && self->shared.session) {
        (void)SSL_set_session(ssl, self->shared.session); /* if refused: a full handshake */
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return ssl;
}

/* Offers no session any more. */
static void stop_resuming(struct rqli_tls_context *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    forget_session(self);
    self->shared.keeps_none = true;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Reads the server's certificate. A session that was resumed has it, too. */
static void read_peer(struct rqli_tls_peer *out, const SSL *ssl)
{
    X509 *certificate = SSL_get_peer_certificate(ssl);
    struct tm ends = {0};

    *out = (struct rqli_tls_peer){.expires_us = -1};
    if (certificate) {
        (void)X509_NAME_oneline(X509_get_subject_name(certificate), out->subject,
                                sizeof out->subject);
        if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &ends) == 1) {
            const time_t ends_s = timegm(&ends); /* a time_t of 32 bits ends in 2038 */

            out->expires_us = ends_s > 0 ? (int64_t)ends_s * 1000000 : -1;
        }
        X509_free(certificate);
    }
}

/* Counts the connection, and keeps the contents of its server's certificate. */
static void note_opened(struct rqli_tls_context *self, const SSL *ssl)
{
    struct rqli_tls_peer peer;

    rqli_stats_count(self->subject->stats, 0, RQLI_STAT_TLS_HANDSHAKES, 1);
    if (SSL_session_reused(ssl)) {
        rqli_stats_count(self->subject->stats, 0, RQLI_STAT_TLS_RESUMED, 1);
    }
    read_peer(&peer, ssl);
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.peer = peer;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self)
{
    struct rqli_tls_peer peer;

    (void)pthread_mutex_lock(&self->shared.mutex);
    peer = self->shared.peer;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return peer;
}

/* ---- a connection ---- */

/* EXTRA_BYTES: what TLS adds to a record. */
enum { EXTRA_BYTES = 256, REASON_SIZE = 128 };

struct rqli_tls {
    pthread_mutex_t mutex; /* guards ssl, in and out, once the handshake is over */
    SSL *ssl;
    struct rqli_tls_context *context;
    BIO *in;  /* from the kernel; owned by ssl */
    BIO *out; /* to the kernel; owned by ssl */
    bool offers_session;
    bool is_session_refused;

    /* Used by the writer only. */
    size_t owed; /* bytes of text that are encrypted but not fully sent */
    size_t at;   /* bytes of `cipher` that are sent so far */
    size_t length;
    bool has_more; /* `out` has more when `cipher` is sent */
    char cipher[RQLI_TLS_RECORD_BYTES + EXTRA_BYTES];

    /* Used by the reader only. */
    char reason[REASON_SIZE];
    char culprit[SUBJECT_SIZE]; /* subject of the certificate that was refused */
};

/* ---- the reason of a failure ---- */

/* Returns the text for an error of OpenSSL. */
static const char *text_of(unsigned long code)
{
    const char *reason = ERR_reason_error_string(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ERR_GET_REASON(code) == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED) {
        return "the server wants a certificate of the client; set tls_cert_file and tls_key_file";
    }
    return reason ? reason : "it broke off";
}

/* Records why a call failed. Must come right after that call, because the error queue is the
 * thread's. */
static void note_reason(struct rqli_tls *self)
{
    long verdict = SSL_get_verify_result(self->ssl);
    const char *reason = text_of(ERR_peek_error());

    if (verdict != X509_V_OK && SSL_get_verify_mode(self->ssl) != SSL_VERIFY_NONE) {
        (void)snprintf(self->reason, sizeof self->reason, "%s: %s",
                       *self->culprit ? self->culprit : "its certificate",
                       X509_verify_cert_error_string(verdict));
    } else {
        (void)snprintf(self->reason, sizeof self->reason, "%s", reason);
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

/* Sends the encrypted bytes. 1: all is sent; 0: no room; -1: broken. */
static int send_cipher(struct rqli_tls *self, int fd)
{
    for (;;) {
        ssize_t sent;

        if (self->at == self->length && self->has_more) {
            (void)pthread_mutex_lock(&self->mutex);
            take_cipher(self);
            (void)pthread_mutex_unlock(&self->mutex);
        }
        if (self->at == self->length) {
            return 1;
        }
        sent =
            send(fd, self->cipher + self->at, self->length - self->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        self->at += (size_t)sent;
    }
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
    if (rqli_time_is_up(deadline_us)) {
        errno = ETIMEDOUT;
        return false;
    }
    (void)rqli_fd_await(fd, events, deadline_us - rqli_now_us());
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
static bool receive_cipher(struct rqli_tls *self, int fd, int64_t deadline_us)
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

/* Ends a handshake that has failed. A server without a session cache (tls-session-caching no) that
 * asks for certificates gives tickets and answers them with an alert. Must come right after the
 * call that failed. */
static rql_status fail_handshake(struct rqli_tls *self, const char *where, rql_error *error)
{
    const unsigned long code = ERR_peek_error();
    const rql_status status = status_of_failure();

    note_reason(self);
    self->is_session_refused = self->offers_session && ERR_GET_LIB(code) == ERR_LIB_SSL &&
                               ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
    if (self->is_session_refused) {
        stop_resuming(self->context);
    }
    return rqli_tls_fail(error, status, where, self->reason);
}

bool rqli_tls_is_session_refused(const struct rqli_tls *self)
{
    return self && self->is_session_refused;
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
            rql_status status = fail_handshake(self, where, error);

            (void)send_all(self, fd, deadline_us);
            return status;
        }
        if (!send_all(self, fd, deadline_us) ||
            (code == SSL_ERROR_WANT_READ && !receive_cipher(self, fd, deadline_us))) {
            return rqli_fail(error, RQL_E_IO, "cannot connect to %.100s: TLS handshake: %s", where,
                             errno == ETIMEDOUT ? "no answer in time; is this a port for TLS?"
                                                : rqli_os_strerror(errno, text, sizeof text));
        }
    } while (code != SSL_ERROR_NONE);
    note_opened(self->context, self->ssl);
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
static bool set_up_engine(struct rqli_tls *self, const char *host)
{
    const struct rqli_tls_settings *settings = self->context->settings;

    self->ssl = new_ssl(self->context, self->culprit);
    if (!self->ssl) {
        return false;
    }
    self->offers_session = SSL_get_session(self->ssl) != NULL;
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

rql_status rqli_tls_new(struct rqli_tls **out, struct rqli_tls_context *context, const char *where,
                        const char *host, rql_error *error)
{
    RQLI_AUTO(rqli_tls_free) struct rqli_tls *self = NULL;
    rql_status status = rqli_tls_context_read(context, where, error);

    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_init(&self->mutex, NULL);
    self->context = context;
    if (!set_up_engine(self, host)) {
        ERR_clear_error();
        return rqli_fail_nomem(error);
    }
    *out = RQLI_GIVE(self);
    return RQL_OK;
}
