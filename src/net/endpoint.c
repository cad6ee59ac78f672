/* What a parsed URL lacks of TLS, and the end of it all. */

#include "base/error.h"
#include "base/secret.h"
#include "net/master.h"
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
    free(self->where);
    free(self->query);
    self->password = rqli_secret_free(self->password);
    rqli_by_sentinels_fini(&self->by_sentinels);
    self->hosts = NULL;
    self->n_hosts = 0;
    self->ring = self->path = self->user = self->where = self->query = NULL;
}

/* Of "redis+sentinel://a,b/m1,m2", which all of them are called, what is in front of the names. */
static int length_of_hosts(const char *of_all)
{
    const char *hosts = strstr(of_all, "://") + strlen("://");

    return (int)(hosts - of_all + (ptrdiff_t)strcspn(hosts, "/"));
}

/* NULL: no memory. */
static char *print_place(const struct rqli_endpoint *self, const char *of_all)
{
    char text[RQLI_ADDRESS_TEXT_SIZE];
    char *out = NULL;
    int length = self->master ? asprintf(&out, "%.*s/%s", length_of_hosts(of_all), of_all,
                                         self->master->name)
                              : asprintf(&out, "%s%s", self->is_tls ? "rediss://" : "redis://",
                                         rqli_address_print(&self->address, text));

    return length < 0 ? NULL : out;
}

bool rqli_endpoint_name_at(struct rqli_endpoint *self)
{
    char *where = print_place(self, self->where);

    free(self->where);
    self->where = where;
    return where != NULL;
}

/* As the other, with all that it has not itself. */
static void begin(struct rqli_endpoint *self, const struct rqli_endpoint *other)
{
    memset(self, 0, sizeof *self);
    memcpy(self, other, offsetof(struct rqli_endpoint, carried)); /* of which it has none yet */
    self->tls = NULL;
    self->where = NULL;
}

static rql_status finish(struct rqli_endpoint *self, const char *of_all, rql_error *error)
{
    self->where = print_place(self, of_all);
    if (!self->where) {
        return rqli_fail_nomem(error);
    }
    return self->is_tls
               ? rqli_tls_context_new(&self->tls, &self->tls_settings, self->subject, error)
               : RQL_OK;
}

rql_status rqli_endpoint_init_at(struct rqli_endpoint *self, const struct rqli_endpoint *other,
                                 const struct rqli_address *address, rql_error *error)
{
    begin(self, other);
    self->address = *address;
    return finish(self, other->where, error);
}

rql_status rqli_endpoint_init_of(struct rqli_endpoint *self, const struct rqli_endpoint *other,
                                 struct rqli_master *master, rql_error *error)
{
    begin(self, other);
    self->master = master;
    master->used = self;
    return finish(self, other->where, error);
}

void rqli_endpoint_fini_at(struct rqli_endpoint *self)
{
    self->tls = rqli_tls_context_free(self->tls);
    free(self->where);
    self->where = NULL;
}
