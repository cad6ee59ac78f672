/* What a parsed URL lacks of TLS, and the end of it all. */

#include "base/error.h"
#include "base/secret.h"
#include "net/url.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *unless_empty(const char *text)
{
    return text && *text != '\0' ? text : NULL;
}

rql_status rqli_endpoint_use_tls(struct rqli_endpoint *self, const rql_options *options,
                                 rql_error *error)
{
    const struct rqli_tls_settings settings = {
        .verify = options->tls_verify,
        .ca_file = unless_empty(options->tls_ca_file),
        .cert_file = unless_empty(options->tls_cert_file),
        .key_file = unless_empty(options->tls_key_file),
        .server_name = unless_empty(options->tls_server_name),
    };

    if (!self->is_tls) { /* a swarm of its client may have a URL that is */
        return RQL_OK;
    }
    if (!settings.cert_file != !settings.key_file) {
        return rqli_fail(error, RQL_E_INVALID,
                         "tls_cert_file and tls_key_file belong together; one of them is missing");
    }
    self->tls_settings = settings;
    return rqli_tls_context_new(&self->tls, &self->tls_settings, self->subject, error);
}

void rqli_endpoint_fini(struct rqli_endpoint *self)
{
    self->tls = rqli_tls_context_free(self->tls);
    free(self->hosts);
    free(self->ring);
    free(self->path);
    free(self->user);
    free(self->by_sentinels.master);
    free(self->by_sentinels.user);
    free(self->where);
    free(self->query);
    self->password = rqli_secret_free(self->password);
    self->by_sentinels.password = rqli_secret_free(self->by_sentinels.password);
    self->hosts = NULL;
    self->n_hosts = 0;
    self->ring = self->path = self->user = self->where = self->query = NULL;
    self->by_sentinels = (struct rqli_by_sentinels){0};
}

bool rqli_endpoint_name_at(struct rqli_endpoint *self)
{
    char text[RQLI_ADDRESS_TEXT_SIZE];

    free(self->where);
    if (asprintf(&self->where, "%s%s", self->is_tls ? "rediss://" : "redis://",
                 rqli_address_print(&self->address, text)) < 0) {
        self->where = NULL;
    }
    return self->where != NULL;
}

rql_status rqli_endpoint_init_at(struct rqli_endpoint *self, const struct rqli_endpoint *other,
                                 const struct rqli_address *address, rql_error *error)
{
    rql_status status = RQL_OK;

    memset(self, 0, sizeof *self);
    memcpy(self, other, offsetof(struct rqli_endpoint, carried)); /* of which it has none yet */
    self->address = *address;
    self->tls = NULL;
    self->where = NULL;
    if (!rqli_endpoint_name_at(self)) {
        return rqli_fail_nomem(error);
    }
    if (self->is_tls) {
        status = rqli_tls_context_new(&self->tls, &self->tls_settings, self->subject, error);
    }
    return status;
}

void rqli_endpoint_fini_at(struct rqli_endpoint *self)
{
    self->tls = rqli_tls_context_free(self->tls);
    free(self->where);
    self->where = NULL;
}
