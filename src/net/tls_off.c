/* Replaces tls.c in a build without OpenSSL: there is no context, and so no connection with TLS. */

#include "net/tls.h"

#include "base/error.h"
#include "base/must.h"
#include "net/tls_context.h"

rql_status rqli_tls_context_new(struct rqli_tls_context **out,
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

struct rqli_tls_context *rqli_tls_context_free(struct rqli_tls_context *self)
{
    RQLI_MUST(!self);
    return NULL;
}

struct rqli_tls_peer rqli_tls_context_peer(struct rqli_tls_context *self)
{
    RQLI_MUST(!self);
    return (struct rqli_tls_peer){.expires_us = -1};
}

rql_status rqli_tls_new(struct rqli_tls **out, const struct rqli_endpoint *endpoint,
                        const char *host, rql_error *error)
{
    (void)out;
    (void)endpoint;
    (void)host;
    return rqli_fail(error, RQL_E_UNSUPPORTED, "no TLS in this build");
}

rql_status rqli_tls_shake_hands(struct rqli_tls *self, int fd, const char *where,
                                int64_t deadline_us, rql_error *error)
{
    (void)self;
    (void)fd;
    (void)where;
    (void)deadline_us;
    return rqli_fail(error, RQL_E_UNSUPPORTED, "no TLS in this build");
}

struct rqli_tls *rqli_tls_free(struct rqli_tls *self)
{
    RQLI_MUST(!self);
    return NULL;
}

int rqli_tls_read(struct rqli_tls *self, const char *bytes, size_t length,
                  struct rqli_decoder *decoder)
{
    (void)self;
    (void)bytes;
    (void)length;
    (void)decoder;
    return -1;
}

ssize_t rqli_tls_send_some(struct rqli_tls *self, int fd, const char *text, size_t length)
{
    (void)self;
    (void)fd;
    (void)text;
    (void)length;
    return -1;
}

const char *rqli_tls_reason(const struct rqli_tls *self)
{
    (void)self;
    return NULL;
}
