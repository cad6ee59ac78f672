/* The certificates of a client's connections, read when the first connection is made and again when
 * a file has changed, and the session that the next connection resumes. */

#include "net/tls_context.h"

#include "base/error.h"
#include "observe/observe.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { N_FILES = 3 };

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
    is_ours = SSL_get_SSL_CTX(ssl) == self->shared.files;
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
        (void)X509_NAME_oneline(X509_get_subject_name(certificate), culprit, RQLI_TLS_SUBJECT_SIZE);
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

/* Returns the option that cannot be used, or NULL. */
static const char *use_files(const struct rqli_tls_settings *settings, SSL_CTX *files)
{
    if (settings->ca_file
            ? SSL_CTX_load_verify_locations(files, settings->ca_file, NULL) != 1
            : settings->verify != RQL_TLS_NONE && SSL_CTX_set_default_verify_paths(files) != 1) {
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
        return strerror_r(ERR_GET_REASON(code), buffer, size);
    }
    return reason ? reason : "no reason given";
}

rql_status rqli_tls_status_of_failure(void)
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
        status = rqli_tls_status_of_failure();
        (void)snprintf(reason, sizeof reason, "%s cannot be used: %s", culprit,
                       reason_of_failure(system, sizeof system));
        (void)rqli_tls_fail(error, status, where, reason);
        SSL_CTX_free(files);
        ERR_clear_error();
        return status;
    }
    forget_session(self);
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

SSL *rqli_tls_context_ssl(struct rqli_tls_context *self, char *culprit)
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
            out->expires_us = (int64_t)timegm(&ends) * 1000000;
        }
        X509_free(certificate);
    }
}

void rqli_tls_context_on_open(struct rqli_tls_context *self, const SSL *ssl)
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
