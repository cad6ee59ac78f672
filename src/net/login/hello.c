#include "net/login/hello.h"

#include "base/error.h"
#include "base/text.h"
#include "net/sock/site.h"

enum { MAJOR_LEAST = 7 }; /* of Redis; Valkey began with version 7.2 and is never too old */

static rql_status check_mode(const struct rqli_site *site, const struct rqli_reply *mode,
                             rql_error *error)
{
    const bool wants_cluster = site->session->url->arrangement == RQLI_CLUSTER;

    if (!wants_cluster && rqli_reply_is(mode, "cluster")) {
        return rqli_fail(error, RQL_E_UNSUPPORTED,
                         "%s: this server is a node of a cluster: its URL begins with "
                         "redis+cluster://, or rediss+cluster:// with TLS",
                         site->where);
    }
    if (wants_cluster && rqli_reply_is(mode, "standalone")) {
        return rqli_fail(error, RQL_E_UNSUPPORTED,
                         "%s: this server is no node of a cluster: its URL begins with redis://, "
                         "or rediss:// with TLS",
                         site->where);
    }
    if (rqli_reply_is(mode, "sentinel")) {
        return rqli_fail(error, RQL_E_UNSUPPORTED,
                         "%s: this is a sentinel, not the server that it watches, whose URL is "
                         "redis+sentinel://host:port/master",
                         site->where);
    }
    return RQL_OK;
}

static rql_status fail_old(const struct rqli_site *site, struct rqli_slice version,
                           rql_error *error)
{
    static const char *const needing[] = {
        [RQLI_SENTINEL] = "redis+sentinel:// of several masters",
        [RQLI_CLUSTER] = "redis+cluster://",
        [RQLI_SHARDS] = "redis+shards://",
    };

    return rqli_fail(error, RQL_E_UNSUPPORTED,
                     "%s: version %.*s of the server is too old for %s, which needs Redis 7.0 "
                     "or Valkey (SPUBLISH)",
                     site->where, (int)version.length, version.data,
                     needing[site->session->url->arrangement]);
}

/* A version that does not begin with a number is another program's, which may support what is
 * needed. */
static rql_status check_version(const struct rqli_site *site, const struct rqli_reply *version,
                                rql_error *error)
{
    struct rqli_slice text = version->text;
    struct rqli_slice major = rqli_slice_take(&text, rqli_slice_before(text, "."));
    int number;

    if (!rqli_site_is_partitioned(site) || !rqli_parse_within(major, 0, MAJOR_LEAST - 1, &number)) {
        return RQL_OK;
    }
    return fail_old(site, version->text, error);
}

rql_status rqli_hello_check(const struct rqli_site *site, const struct rqli_reply *reply,
                            rql_error *error)
{
    const struct rqli_reply *mode = rqli_reply_field(reply, "mode", RQLI_REPLY_TEXT);
    const struct rqli_reply *version = rqli_reply_field(reply, "version", RQLI_REPLY_TEXT);
    rql_status status = mode ? check_mode(site, mode, error) : RQL_OK;

    return status || !version ? status : check_version(site, version, error);
}

rql_status rqli_hello_check_unknown(const struct rqli_site *site, rql_error *error)
{
    return rqli_site_is_partitioned(site) ? fail_old(site, rqli_slice_of("5 or less"), error)
                                          : RQL_OK;
}
