/* What a parsed URL lacks of TLS, and the end of it all. */

#include "base/error.h"
#include "net/url.h"

#include <stdlib.h>
#include <string.h>

/* What the URL says goes before, also where it is empty. False: no memory. */
static bool settle(char **text, const char *option)
{
    if (!*text && option) {
        *text = strdup(option);
        if (!*text) {
            return false;
        }
    }
    if (*text && **text == '\0') {
        free(*text);
        *text = NULL;
    }
    return true;
}

rql_status rqli_endpoint_take_tls(struct rqli_endpoint *self, const rql_options *options,
                                  rql_error *error)
{
    struct rqli_tls_settings *settings = &self->tls_settings;

    settings->verify = settings->has_verify ? settings->verify : options->tls_verify;
    if (!settle(&settings->ca_file, options->tls_ca_file) ||
        !settle(&settings->cert_file, options->tls_cert_file) ||
        !settle(&settings->key_file, options->tls_key_file) ||
        !settle(&settings->server_name, options->tls_server_name)) {
        return rqli_fail_nomem(error);
    }
    if (!self->is_tls) { /* a swarm of its client may have a URL that is */
        return RQL_OK;
    }
    if (!settings->cert_file != !settings->key_file) {
        return rqli_fail(error, RQL_E_INVALID,
                         "tls_cert_file and tls_key_file belong together; one of them is missing");
    }
    return rqli_tls_context_new(&self->tls, settings, self->stats, error);
}

void rqli_endpoint_fini(struct rqli_endpoint *self)
{
    struct rqli_tls_settings *settings = &self->tls_settings;

    if (self->password) {
        explicit_bzero(self->password, strlen(self->password));
    }
    self->tls = rqli_tls_context_free(self->tls);
    free(settings->ca_file);
    free(settings->cert_file);
    free(settings->key_file);
    free(settings->server_name);
    *settings = (struct rqli_tls_settings){0};
    free(self->host);
    free(self->path);
    free(self->user);
    free(self->password);
    free(self->where);
    self->host = self->path = self->user = self->password = self->where = NULL;
}
