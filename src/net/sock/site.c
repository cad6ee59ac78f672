#include "net/sock/site.h"

#include "base/error.h"
#include "net/sock/master.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *unless_empty(const char *text)
{
    return text && *text != '\0' ? text : NULL;
}

rql_status rqli_session_use_tls(struct rqli_session *self, const rql_options *options,
                                rql_error *error)
{
    const struct rqli_tls_settings settings = {
        .verify = options->tls_verify,
        .ca_file = unless_empty(options->tls_ca_file),
        .cert_file = unless_empty(options->tls_cert_file),
        .key_file = unless_empty(options->tls_key_file),
        .server_name = unless_empty(options->tls_server_name),
    };

    if (!self->url->is_tls) { /* a swarm of its client may have a URL with TLS */
        return RQL_OK;
    }
    if (!settings.cert_file != !settings.key_file) {
        return rqli_fail(error, RQL_E_INVALID,
                         "tls_cert_file and tls_key_file belong together; one of them is missing");
    }
    self->tls_settings = settings;
    return RQL_OK;
}

bool rqli_site_name(struct rqli_site *self)
{
    const struct rqli_url *url = self->session->url;
    char text[RQLI_ADDRESS_TEXT_SIZE];
    char *where = NULL;
    int length;

    if (self->master) { /* "redis+sentinel://a,b/m1": of several masters the URL names all */
        size_t before_hosts = strcspn(url->where, "/") + strlen("//");
        size_t before_names = before_hosts + strcspn(url->where + before_hosts, "/");

        length = asprintf(&where, "%.*s/%s", (int)before_names, url->where, self->master->name);
    } else {
        length = asprintf(&where, "%s%s", url->is_tls ? "rediss://" : "redis://",
                          rqli_address_print(&self->address, text));
    }
    free(self->where);
    self->where = length < 0 ? NULL : where;
    return self->where != NULL;
}

/* Prepares what every site has, when it is known where the server is. */
static rql_status finish_site(struct rqli_site *self, rql_error *error)
{
    const struct rqli_session *session = self->session;

    if (!self->where) {
        return rqli_fail_nomem(error);
    }
    return session->url->is_tls
               ? rqli_tls_context_new(&self->tls, &session->tls_settings, session->subject, error)
               : RQL_OK;
}

rql_status rqli_site_init_first(struct rqli_site *self, const struct rqli_session *session,
                                rql_error *error)
{
    const struct rqli_url *url = session->url;

    *self = (struct rqli_site){.session = session, .path = url->path, .where = strdup(url->where)};
    if (url->n_hosts > 0 && url->arrangement != RQLI_SENTINEL) {
        self->address = url->hosts[0];
    }
    return finish_site(self, error);
}

rql_status rqli_site_init(struct rqli_site *self, const struct rqli_session *session,
                          const struct rqli_address *address, struct rqli_master *master,
                          rql_error *error)
{
    *self = (struct rqli_site){.session = session, .master = master};
    if (address) {
        self->address = *address;
    }
    (void)rqli_site_name(self);
    return finish_site(self, error);
}

void rqli_site_fini(struct rqli_site *self)
{
    self->tls = rqli_tls_context_free(self->tls);
    free(self->where);
    self->where = NULL;
}
