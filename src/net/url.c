/*
 * No message repeats a byte of the URL: one that is written wrongly may have its password in any
 * part ("redis://user:pa/ss@host"). What is in the URL is decoded once, here; everything else works
 * on struct rqli_endpoint.
 */

#include "net/url.h"

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    URL_BYTES_MAX = 4096,
    PORT_DEFAULT = 6379,
    SENTINEL_PORT_DEFAULT = 26379,
    DATABASE_MAX = 65535,
    DATABASE_TEXT_SIZE = 16,
};

#define SENTINEL_FORM "redis+sentinel://host:port,host:port/master"

struct parts {
    struct rqli_slice login; /* user[:password] */
    struct rqli_slice host;  /* host[:port] */
    struct rqli_slice path;  /* with its '/', or empty */
    struct rqli_slice query; /* behind '?', or empty */
};

/* What stands behind "scheme://". A raw '@' in the password is forgiven: the last one counts. A raw
 * '/' or '?' is not: the first one ends the host. */
static struct parts split(struct rqli_slice rest)
{
    struct rqli_slice authority = rqli_slice_take(&rest, rqli_slice_before(rest, "/?"));
    const char *at = memrchr(authority.data, '@', authority.length);
    struct parts parts = {.login = {authority.data, 0}};

    if (at) {
        parts.login = rqli_slice_take(&authority, (size_t)(at - authority.data));
        (void)rqli_slice_take(&authority, 1);
    }
    parts.host = authority;
    parts.path = rqli_slice_take(&rest, rqli_slice_before(rest, "?"));
    (void)rqli_slice_skip(&rest, "?");
    parts.query = rest;
    return parts;
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit = (char)(digit | 0x20); /* lower case */
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The byte at the front, decoded; -1: bad encoding, or a NUL, which would cut a C string short. The
 * text is not empty. */
static int take_byte(struct rqli_slice *rest)
{
    struct rqli_slice code = rqli_slice_take(rest, 1);
    int high;
    int low;

    if (code.data[0] != '%') {
        return (unsigned char)code.data[0];
    }
    if (rest->length < 2) {
        return -1;
    }
    code = rqli_slice_take(rest, 2);
    high = hex_value(code.data[0]);
    low = hex_value(code.data[1]);
    return high < 0 || low < 0 || high + low == 0 ? -1 : high * 16 + low;
}

/* Percent-decoded and terminated; *next is behind it then. */
static rql_status decode_to(char **next, struct rqli_slice text, const char *part, rql_error *error)
{
    while (text.length > 0) {
        int byte = take_byte(&text);

        if (byte < 0) {
            return rqli_fail(error, RQL_E_INVALID, "url: bad percent-encoding in the %s", part);
        }
        *(*next)++ = (char)byte;
    }
    *(*next)++ = '\0';
    return RQL_OK;
}

/* *out is freed with the endpoint, also after a failure. */
static rql_status decode(char **out, struct rqli_slice text, const char *part, rql_error *error)
{
    char *next = calloc(1, text.length + 1);

    *out = next;
    return next ? decode_to(&next, text, part, error) : rqli_fail_nomem(error);
}

/* The same into memory that is not dumped. */
static rql_status decode_secret(char **out, struct rqli_slice text, const char *part,
                                rql_error *error)
{
    char *next = rqli_secret_new(text.length + 1);

    *out = next;
    return next ? decode_to(&next, text, part, error) : rqli_fail_nomem(error);
}

/* "user:password", "user:" (an empty password) or ":password" (of the default user). Nothing, or
 * ":" alone: no password, and no AUTH is sent. */
static rql_status read_login(struct rqli_endpoint *self, struct rqli_slice login, rql_error *error)
{
    struct rqli_slice user = rqli_slice_take(&login, rqli_slice_before(login, ":"));
    bool has_password = rqli_slice_skip(&login, ":");
    rql_status status = RQL_OK;

    if (user.length > 0 && !has_password) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: a user needs a password (an empty one is user:@)");
    }
    if (user.length > 0) {
        status = decode(&self->user, user, "user", error);
    }
    if (!status && (user.length > 0 || login.length > 0)) {
        status = decode_secret(&self->password, login, "password", error);
    }
    return status;
}

static rql_status read_database(struct rqli_endpoint *self, struct rqli_slice text,
                                rql_error *error)
{
    if (!rqli_parse_within(text, 0, DATABASE_MAX, &self->database)) {
        return rqli_fail(error, RQL_E_INVALID, "url: the database is no number from 0 to %d",
                         DATABASE_MAX);
    }
    return RQL_OK;
}

/* What messages call the server. Database 0 is not named. */
static rql_status name_server(struct rqli_endpoint *self, const char *scheme,
                              struct rqli_slice place, const char *before_database,
                              rql_error *error)
{
    char database[DATABASE_TEXT_SIZE] = "";

    if (self->database > 0) {
        (void)snprintf(database, sizeof database, "%s%d", before_database, self->database);
    }
    if (asprintf(&self->where, "%s%.*s%s", scheme, (int)place.length, place.data, database) < 0) {
        self->where = NULL;
        return rqli_fail_nomem(error);
    }
    return RQL_OK;
}

/* What the query says of sentinels. False: the key is none of theirs. */
static bool read_sentinel_key(struct rqli_sentinel_hosts *hosts, struct rqli_slice key,
                              struct rqli_slice value, rql_status *status, rql_error *error)
{
    bool is_user = rqli_slice_is(key, "sentinel_user");

    if (is_user || rqli_slice_is(key, "sentinel_password")) {
        char **text = is_user ? &hosts->user : &hosts->password;

        if (*text) {
            *status = rqli_fail(error, RQL_E_INVALID, "url: a query key of sentinels stands twice");
        } else {
            *status = (is_user ? decode : decode_secret)(text, value, "query", error);
        }
        return true;
    }
    if (!rqli_slice_is(key, "sentinel_tls")) {
        return false;
    }
    if (rqli_slice_is(value, "false")) {
        hosts->is_tls = false;
    } else if (!rqli_slice_is(value, "true") || !hosts->is_tls) {
        *status =
            rqli_fail(error, RQL_E_INVALID,
                      "url: sentinel_tls is true or false, and true needs rediss+sentinel://");
    }
    return true;
}

/* The rest are options, by name: what they mean is the business of whoever has the table of them. A
 * key has no encoding. */
static rql_status read_query(struct rqli_endpoint *self, struct rqli_slice query, rql_error *error)
{
    struct rqli_sentinel_hosts *hosts = &self->by_sentinels;
    char *next = calloc(1, query.length + sizeof "=");
    rql_status status = RQL_OK;

    self->query = next;
    if (!next) {
        return rqli_fail_nomem(error);
    }
    while (!status && query.length > 0) {
        struct rqli_slice value = rqli_slice_take(&query, rqli_slice_before(query, "&"));
        struct rqli_slice key = rqli_slice_take(&value, rqli_slice_before(value, "="));

        (void)rqli_slice_skip(&query, "&");
        if (!rqli_slice_skip(&value, "=") || key.length == 0) {
            return rqli_fail(error, RQL_E_INVALID, "url: a query is key=value, with & between two");
        }
        if (hosts->count == 0 || !read_sentinel_key(hosts, key, value, &status, error)) {
            memcpy(next, key.data, key.length);
            next += key.length + 1;
            status = decode_to(&next, value, "query", error);
        }
    }
    return status;
}

/* redis[s]://[[user]:password@][host][:port][/database]. No path and "/" are database 0. */
static rql_status read_tcp(struct rqli_endpoint *self, struct parts parts, rql_error *error)
{
    char place[RQLI_ADDRESS_TEXT_SIZE];
    rql_status status = read_login(self, parts.login, error);

    if (!status) {
        status = rqli_address_take(&self->address, &parts.host, PORT_DEFAULT, error);
    }
    if (!status && parts.host.length > 0) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "url: several hosts are sentinels, as in " SENTINEL_FORM);
    }
    if (!status && rqli_slice_skip(&parts.path, "/") && parts.path.length > 0) {
        status = read_database(self, parts.path, error);
    }
    if (!status && self->is_tls) {
        status = read_query(self, parts.query, error);
    } else if (!status && parts.query.length > 0) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "url: unknown query key; redis:// takes the database as /db, and "
                           "sentinels are " SENTINEL_FORM);
    }
    if (!status) {
        status = name_server(self, self->is_tls ? "rediss://" : "redis://",
                             rqli_slice_of(rqli_address_print(&self->address, place)), "/", error);
    }
    return status;
}

static rql_status read_sentinels(struct rqli_sentinel_hosts *self, struct rqli_slice list,
                                 rql_error *error)
{
    bool goes_on = true;

    while (goes_on) {
        rql_status status = RQL_E_INVALID;

        if (self->count < RQLI_SENTINELS_MAX) {
            status =
                rqli_address_take(&self->each[self->count++], &list, SENTINEL_PORT_DEFAULT, error);
        } else {
            (void)rqli_fail(error, RQL_E_INVALID, "url: more than %d sentinels",
                            RQLI_SENTINELS_MAX);
        }
        if (status) {
            return status;
        }
        goes_on = rqli_slice_skip(&list, ",");
    }
    return RQL_OK;
}

/* /master[/database] */
static rql_status read_master(struct rqli_endpoint *self, struct rqli_slice path, rql_error *error)
{
    struct rqli_slice name;
    rql_status status;

    (void)rqli_slice_skip(&path, "/");
    name = rqli_slice_take(&path, rqli_slice_before(path, "/"));
    if (name.length == 0) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: the name of the master is missing, as in " SENTINEL_FORM);
    }
    status = decode(&self->by_sentinels.master, name, "path", error);
    if (!status && rqli_slice_skip(&path, "/") && path.length > 0) {
        status = read_database(self, path, error);
    }
    return status;
}

/* redis[s]+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/database][?query]. The
 * login is the master's; that of the sentinels is in the query. */
static rql_status read_by_sentinels(struct rqli_endpoint *self, struct parts parts,
                                    rql_error *error)
{
    struct rqli_slice place = parts.host;
    rql_status status = read_login(self, parts.login, error);

    self->by_sentinels.is_tls = self->is_tls;
    if (!status) {
        status = read_sentinels(&self->by_sentinels, parts.host, error);
    }
    if (!status) {
        status = read_master(self, parts.path, error);
    }
    if (!status) {
        status = read_query(self, parts.query, error);
    }
    /* As written in the URL, so that decoded control bytes cannot break up a message; the path is
     * behind the hosts there. */
    (void)rqli_slice_skip(&parts.path, "/");
    place.length = (size_t)(parts.path.data + rqli_slice_before(parts.path, "/") - place.data);
    return status ? status
                  : name_server(self, self->is_tls ? "rediss+sentinel://" : "redis+sentinel://",
                                place, "/", error);
}

/* connect() would cut it off, or take it as relative to a folder that may change. */
static rql_status check_socket_path(const char *path, rql_error *error)
{
    struct sockaddr_un address;

    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: the socket path must start with '/' and have at most %zu bytes",
                         sizeof address.sun_path - 1);
    }
    return RQL_OK;
}

/* unix://[[user]:password@]/path[?db=database]. */
static rql_status read_unix(struct rqli_endpoint *self, struct parts parts, rql_error *error)
{
    rql_status status;

    if (parts.host.length > 0) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: unix:// takes no host; use unix:///path or unix://user:pass@/path");
    }
    status = read_login(self, parts.login, error);
    if (!status) {
        status = decode(&self->path, parts.path, "path", error);
    }
    if (!status) {
        status = check_socket_path(self->path, error);
    }
    if (!status && parts.query.length > 0) {
        status = rqli_slice_skip(&parts.query, "db=")
                     ? read_database(self, parts.query, error)
                     : rqli_fail(error, RQL_E_INVALID, "url: unknown query key; only db is known");
    }
    /* As written in the URL, so that decoded control bytes cannot break up a message. */
    return status ? status : name_server(self, "unix://", parts.path, "?db=", error);
}

/* In a folder that only this user can enter; a program with more rights than its user must not be
 * led elsewhere by the environment. */
static rql_status read_local(struct rqli_endpoint *self, struct rqli_slice rest, rql_error *error)
{
    static const char socket_name[] = "redis.sock";
    const char *own = secure_getenv("RQL_LOCAL_DIR");
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    int length;

    if (rest.length > 0) {
        return rqli_fail(error, RQL_E_INVALID, "url: nothing may follow local:");
    }
    if (own && own[0] != '\0') {
        length = asprintf(&self->path, "%s/%s", own, socket_name);
    } else if (runtime && runtime[0] != '\0') {
        length = asprintf(&self->path, "%s/rql/%s", runtime, socket_name);
    } else {
        length = asprintf(&self->path, "/tmp/rql-%ju/%s", (uintmax_t)geteuid(), socket_name);
    }
    if (length < 0) {
        self->path = NULL;
    }
    self->where = strdup("local:");
    if (!self->path || !self->where) {
        return rqli_fail_nomem(error);
    }
    return check_socket_path(self->path, error);
}

/* After a failure some fields are set: the caller frees them. */
static rql_status read_url(struct rqli_endpoint *self, struct rqli_slice url, rql_error *error)
{
    static const struct {
        const char *prefix;
        enum rqli_endpoint_kind kind;
        bool is_tls;
        rql_status (*read)(struct rqli_endpoint *self, struct parts parts, rql_error *error);
    } schemes[] = {
        {"redis://", RQLI_ENDPOINT_TCP, false, read_tcp},
        {"rediss://", RQLI_ENDPOINT_TCP, true, read_tcp},
        {"redis+sentinel://", RQLI_ENDPOINT_TCP, false, read_by_sentinels},
        {"rediss+sentinel://", RQLI_ENDPOINT_TCP, true, read_by_sentinels},
        {"unix://", RQLI_ENDPOINT_UNIX, false, read_unix},
    };

    if (url.length > URL_BYTES_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "url: longer than %d bytes", URL_BYTES_MAX);
    }
    for (size_t i = 0; i < url.length; i++) {
        unsigned char byte = (unsigned char)url.data[i]; /* from 0x80 up it is taken for UTF-8 */

        if (byte <= ' ' || byte == '#' || byte == 0x7f) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: spaces, control bytes and '#' must be percent-encoded");
        }
    }
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (rqli_slice_skip(&url, schemes[i].prefix)) {
            self->kind = schemes[i].kind;
            self->is_tls = schemes[i].is_tls;
            return schemes[i].read(self, split(url), error);
        }
    }
    if (rqli_slice_skip(&url, "local:")) {
        self->kind = RQLI_ENDPOINT_LOCAL;
        return read_local(self, url, error);
    }
    return rqli_fail(error, RQL_E_INVALID,
                     "url: unknown scheme; use redis://, rediss://, unix:// or local:, and for "
                     "sentinels " SENTINEL_FORM);
}

/* The texts of *out are not freed: it has none yet. */
rql_status rqli_url_parse(struct rqli_endpoint *out, const char *url, rql_error *error)
{
    struct rqli_endpoint read = {0};
    rql_status status;

    if (!url) {
        return rqli_fail(error, RQL_E_INVALID, "url: missing");
    }
    status = read_url(&read, rqli_slice_of(url), error);
    if (status) {
        rqli_endpoint_fini(&read);
        return status;
    }
    /* What no URL says stays as the options have it. */
    read.connect_timeout_ms = out->connect_timeout_ms;
    read.io_timeout_ms = out->io_timeout_ms;
    read.spin_us = out->spin_us;
    read.identity = out->identity;
    read.stats = out->stats;
    read.subject = out->subject;
    read.tls = out->tls;
    read.credentials = out->credentials;
    read.credentials_data = out->credentials_data;
    *out = read;
    return RQL_OK;
}
