/* No message repeats a byte of it, as of the rest of a URL (net/url.c). */

#include "net/by_sentinels.h"

#include "base/error.h"
#include "base/secret.h"
#include "net/percent.h"

#include <stdlib.h>
#include <string.h>

void rqli_by_sentinels_fini(struct rqli_by_sentinels *self)
{
    for (size_t i = 0; i < self->n_masters; i++) {
        free(self->masters[i]);
    }
    free(self->masters);
    free(self->user);
    (void)rqli_secret_free(self->password);
    *self = (struct rqli_by_sentinels){0};
}

/* The last of several, by whose names they have their partitions: clients say the list of them to
 * each other, and messages say one. */
static rql_status check_master(const struct rqli_by_sentinels *self, rql_error *error)
{
    size_t last = self->n_masters - 1;
    const char *name = self->masters[last];

    for (const char *at = name; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == ',' || *at == 0x7f) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: the names of several masters have no commas, spaces and "
                             "control bytes, percent-encoded or not");
        }
    }
    for (size_t i = 0; i < last; i++) {
        if (strcmp(self->masters[i], name) == 0) {
            return rqli_fail(error, RQL_E_INVALID, "url: two of the masters are the same");
        }
    }
    return RQL_OK;
}

rql_status rqli_by_sentinels_read_masters(struct rqli_by_sentinels *self, struct rqli_slice list,
                                          rql_error *error)
{
    const size_t count = 1 + rqli_slice_count(list, ',');
    rql_status status = RQL_OK;

    if (count > RQLI_MASTERS_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "url: more than %d masters", RQLI_MASTERS_MAX);
    }
    self->masters = calloc(count, sizeof *self->masters);
    if (!self->masters) {
        return rqli_fail_nomem(error);
    }
    while (!status && self->n_masters < count) {
        struct rqli_slice name = rqli_slice_take(&list, rqli_slice_before(list, ","));

        (void)rqli_slice_skip(&list, ",");
        if (name.length == 0) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: the name of a master is missing, as in " RQLI_SENTINEL_FORM);
        }
        status = rqli_percent_decode(&self->masters[self->n_masters++], name, "path", error);
        if (!status && count > 1) {
            status = check_master(self, error);
        }
    }
    return status;
}

bool rqli_by_sentinels_take(struct rqli_by_sentinels *self, struct rqli_slice key,
                            struct rqli_slice value, rql_status *status, rql_error *error)
{
    bool is_user = rqli_slice_is(key, "sentinel_user");

    if (is_user || rqli_slice_is(key, "sentinel_password")) {
        char **text = is_user ? &self->user : &self->password;

        if (*text) {
            *status = rqli_fail(error, RQL_E_INVALID, "url: a query key of sentinels stands twice");
        } else {
            *status = (is_user ? rqli_percent_decode : rqli_percent_decode_secret)(text, value,
                                                                                   "query", error);
        }
        return true;
    }
    if (!rqli_slice_is(key, "sentinel_tls")) {
        return false;
    }
    if (rqli_slice_is(value, "false")) {
        self->is_tls = false;
    } else if (!rqli_slice_is(value, "true") || !self->is_tls) {
        *status =
            rqli_fail(error, RQL_E_INVALID,
                      "url: sentinel_tls is true or false, and true needs rediss+sentinel://");
    }
    return true;
}
