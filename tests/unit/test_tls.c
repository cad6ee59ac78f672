#include "check.h"

#include "base/clock.h"
#include "net/sock/decode.h"
#include "net/sock/site.h"
#include "net/sock/tls.h"
#include "observe/observe.h"
#include "options/options.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Client and server of TLS on a socketpair; the test plays the server. LONG_BYTES: some records. */
enum { LONG_MS = 60000, LONG_BYTES = 5 * RQLI_TLS_RECORD_BYTES / 2 };

static struct rqli_url url;
static struct rqli_session session;
static struct rqli_site site;
static struct rqli_subject subject;
static struct rqli_tls *tls;
static SSL_CTX *context;
static SSL *server;
static int client_fd;
static int server_fd;

/* Nobody verifies it. */
static void certify(SSL_CTX *files)
{
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
    EVP_PKEY *key = NULL;
    X509 *certificate = X509_new();

    assert_int_equal(EVP_PKEY_keygen_init(maker), 1);
    assert_int_equal(EVP_PKEY_keygen(maker, &key), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    (void)X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, NULL) > 0);
    assert_int_equal(SSL_CTX_use_certificate(files, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(files, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    EVP_PKEY_CTX_free(maker);
}

static void *serve_handshake(void *unused)
{
    return SSL_accept(server) == 1 ? server : unused;
}

BEFORE_EACH(shake_hands)
{
    const int small = 1; /* the system makes it the least that it allows */
    rql_options options;
    pthread_t thread;
    void *accepted;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    client_fd = fds[0];
    server_fd = fds[1];
    assert_int_equal(setsockopt(client_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    subject = (struct rqli_subject){.stats = rqli_stats_new()};
    session = (struct rqli_session){.url = &url, .subject = &subject};
    rql_options_init(&options);
    options.tls_verify = RQL_TLS_NONE;
    CHECK_OK(rqli_url_parse(&url, "rediss://h", NULL));
    CHECK_OK(rqli_session_use_tls(&session, &options, NULL));
    CHECK_OK(rqli_site_init_first(&site, &session, NULL));
    context = SSL_CTX_new(TLS_server_method());
    certify(context);
    server = SSL_new(context);
    assert_int_equal(SSL_set_fd(server, server_fd), 1);
    assert_int_equal(pthread_create(&thread, NULL, serve_handshake, NULL), 0);
    CHECK_OK(rqli_tls_new(&tls, site.tls, site.where, "h", NULL));
    CHECK_OK(rqli_tls_shake_hands(tls, client_fd, site.where, rqli_after_ms(rqli_now_us(), LONG_MS),
                                  NULL));
    assert_int_equal(pthread_join(thread, &accepted), 0);
    assert_ptr_equal(accepted, server);
}

AFTER_EACH(close_all)
{
    tls = rqli_tls_free(tls);
    SSL_free(server);
    SSL_CTX_free(context);
    rqli_site_fini(&site);
    rqli_url_fini(&url);
    rqli_stats_free(subject.stats);
    (void)close(client_fd);
    (void)close(server_fd);
}

/* All text that the server can read by now: of whole records. */
static size_t hear(char *out, size_t size)
{
    size_t length = 0;
    int got;

    BIO_set_nbio(SSL_get_rbio(server), 1);
    (void)fcntl(server_fd, F_SETFL, O_NONBLOCK);
    while ((got = SSL_read(server, out + length, (int)(size - length))) > 0) {
        length += (size_t)got;
    }
    assert_int_equal(SSL_get_error(server, got), SSL_ERROR_WANT_READ);
    return length;
}

/* Who repeats what is not reported as sent must not have said it, nor leave it out. */
TEST(what_finds_no_room_is_not_reported_and_goes_out_first)
{
    char *text = malloc(LONG_BYTES);
    char *heard = malloc(LONG_BYTES + 1);
    size_t reported = 0;
    size_t length = 0;
    unsigned n_full = 0;

    for (size_t i = 0; i < LONG_BYTES; i++) {
        text[i] = (char)(i % 251);
    }
    while (reported < LONG_BYTES) {
        ssize_t sent = rqli_tls_send_some(tls, client_fd, text + reported, LONG_BYTES - reported);

        assert_in_range(sent, 0, LONG_BYTES - reported);
        reported += (size_t)sent;
        n_full += reported < LONG_BYTES;
        length += hear(heard + length, LONG_BYTES + 1 - length);
        assert_int_equal(length, reported);
    }
    assert_true(n_full > 1); /* within a record, as it is larger than the socket's buffer */
    assert_memory_equal(heard, text, LONG_BYTES);
    free(text);
    free(heard);
}

/* The answer to a key update waits for the next write, and goes before it. */
TEST(a_server_may_change_its_keys)
{
    struct rqli_decoder decoder;
    char bytes[4096]; /* its tickets, too */
    char heard[16];
    ssize_t got;

    if (SSL_version(server) < TLS1_3_VERSION) {
        skip();
    }
    assert_true(rqli_decoder_init(&decoder));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(server, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_write(server, "+PONG\r\n", 7), 7);
        got = recv(client_fd, bytes, sizeof bytes, MSG_DONTWAIT);
        assert_true(got > 0);
        assert_int_equal(rqli_tls_read(tls, bytes, (size_t)got, &decoder), 1);
        assert_int_equal(rqli_tls_send_some(tls, client_fd, "PING", 4), 4);
        assert_int_equal(hear(heard, sizeof heard), 4);
        assert_memory_equal(heard, "PING", 4);
    }
    assert_false(rqli_decoder_is_empty(&decoder));
    rqli_decoder_fini(&decoder);
}
