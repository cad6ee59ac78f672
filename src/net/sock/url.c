/*
 * No message repeats a byte of the URL: a URL with a mistake may have its password in any part
 * ("redis://user:pa/ss@host"). The URL is decoded once, here; everything else works on struct
 * rqli_url.
 */

#include "net/sock/url.h"

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "net/sock/shards.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- percent-encoding ---- */

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit = (char)(digit | 0x20); /* lower case */
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Takes the byte at the front, decoded. -1: bad encoding, or a NUL, which would cut a C string
 * short. The text must not be empty. */
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

static rql_status percent_write(char **next, struct rqli_slice text, const char *part,
                                rql_error *error)
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

static rql_status percent_decode(char **out, struct rqli_slice text, const char *part,
                                 rql_error *error)
{
    char *next = calloc(1, text.length + 1);

    *out = next;
    return next ? percent_write(&next, text, part, error) : rqli_fail_nomem(error);
}

static rql_status percent_decode_secret(char **out, struct rqli_slice text, const char *part,
                                        rql_error *error)
{
    char *next = rqli_secret_new(text.length + 1);

    *out = next;
    return next ? percent_write(&next, text, part, error) : rqli_fail_nomem(error);
}

/* ---- sentinels ---- */

#define SENTINEL_FORM "redis+sentinel://host:port,host:port/master"

/* Checks the last of several masters. Their names decide which has a partition, clients compare the
 * list of the names, and messages name one. */
static rql_status check_master(const struct rqli_url *self, rql_error *error)
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

static rql_status read_masters(struct rqli_url *self, struct rqli_slice list, rql_error *error)
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
                             "url: the name of a master is missing, as in " SENTINEL_FORM);
        }
        status = percent_decode(&self->masters[self->n_masters++], name, "path", error);
        if (!status && count > 1) {
            status = check_master(self, error);
        }
    }
    return status;
}

static bool take_sentinel_key(struct rqli_url *self, struct rqli_slice key, struct rqli_slice value,
                              rql_status *status, rql_error *error)
{
    bool is_user = rqli_slice_is(key, "sentinel_user");

    if (is_user || rqli_slice_is(key, "sentinel_password")) {
        char **text = is_user ? &self->sentinel_user : &self->sentinel_password;

        if (*text) {
            *status = rqli_fail(error, RQL_E_INVALID, "url: a query key of sentinels occurs twice");
        } else {
            *status =
                (is_user ? percent_decode : percent_decode_secret)(text, value, "query", error);
        }
        return true;
    }
    if (!rqli_slice_is(key, "sentinel_tls")) {
        return false;
    }
    if (rqli_slice_is(value, "false")) {
        self->sentinel_tls = false;
    } else if (!rqli_slice_is(value, "true") || !self->sentinel_tls) {
        *status =
            rqli_fail(error, RQL_E_INVALID,
                      "url: sentinel_tls is true or false, and true needs rediss+sentinel://");
    }
    return true;
}

/* ---- a URL ---- */

enum {
    URL_BYTES_MAX = 4096,
    PORT_DEFAULT = 6379,
    DATABASE_MAX = 65535,
    DATABASE_TEXT_SIZE = 16,
};

#define SOCKET_PATH_MAX (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

#define SEVERAL_FORMS SENTINEL_FORM ", redis+cluster:// or redis+shards://"

/* The host lists of arrangements that have several hosts. */
static const struct {
    int default_port;
    size_t most;
    const char *what;
} host_lists[] = {
    [RQLI_SENTINEL] = {26379, RQLI_SENTINELS_MAX, "sentinels"},
    [RQLI_CLUSTER] = {PORT_DEFAULT, RQLI_HOSTS_MAX, "hosts"},
    [RQLI_SHARDS] = {PORT_DEFAULT, RQLI_HOSTS_MAX, "hosts"},
};

struct parts {
    const char *scheme;      /* with its "://" */
    struct rqli_slice login; /* user[:password] */
    struct rqli_slice host;  /* host[:port] */
    struct rqli_slice path;  /* with its '/', or empty */
    struct rqli_slice query; /* after '?', or empty */
};

/* Splits what follows "scheme://". A raw '@' in the password is accepted: the last one counts. A
 * raw '/' or '?' is not: the first one ends the host. */
static struct parts split_parts(const char *scheme, struct rqli_slice rest)
{
    struct rqli_slice authority = rqli_slice_take(&rest, rqli_slice_before(rest, "/?"));
    const char *at = memrchr(authority.data, '@', authority.length);
    struct parts parts = {.scheme = scheme, .login = {authority.data, 0}};

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

/* Reads "user:password", "user:" (an empty password) or ":password" (of the default user). If it is
 * empty, or ":" alone, there is no password, and no AUTH is sent. */
static rql_status read_login(struct rqli_url *self, struct rqli_slice login, rql_error *error)
{
    struct rqli_slice user = rqli_slice_take(&login, rqli_slice_before(login, ":"));
    bool has_password = rqli_slice_skip(&login, ":");
    rql_status status = RQL_OK;

    if (user.length > 0 && !has_password) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: a user needs a password (an empty one is user:@)");
    }
    if (user.length > 0) {
        status = percent_decode(&self->user, user, "user", error);
    }
    if (!status && (user.length > 0 || login.length > 0)) {
        status = percent_decode_secret(&self->password, login, "password", error);
    }
    return status;
}

static rql_status read_database(struct rqli_url *self, struct rqli_slice text, rql_error *error)
{
    if (!rqli_parse_within(text, 0, DATABASE_MAX, &self->database)) {
        return rqli_fail(error, RQL_E_INVALID, "url: the database must be a number from 0 to %d",
                         DATABASE_MAX);
    }
    return RQL_OK;
}

/* Sets the name of the server in messages. Database 0 is not named. */
static rql_status name_server(struct rqli_url *self, const char *scheme, struct rqli_slice place,
                              const char *before_database, rql_error *error)
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

/* Reads a query. All keys except those of sentinels are options of TLS, by name; the code with the
 * table of options interprets them. Without TLS there must be none, because the caller would take
 * the connections for encrypted. A key has no encoding. */
static rql_status read_query(struct rqli_url *self, struct rqli_slice query, rql_error *error)
{
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
        if (self->arrangement == RQLI_SENTINEL &&
            take_sentinel_key(self, key, value, &status, error)) {
            continue;
        }
        if (!self->is_tls) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: unknown query key; of sentinels there are sentinel_user, "
                             "sentinel_password and sentinel_tls, and tls_... needs "
                             "rediss+sentinel://");
        }
        memcpy(next, key.data, key.length);
        next += key.length + 1;
        status = percent_write(&next, value, "query", error);
    }
    return status;
}

/* Reads options of TLS; without TLS there must be none. */
static rql_status read_tls_query(struct rqli_url *self, struct rqli_slice query, rql_error *error)
{
    if (self->is_tls) {
        return read_query(self, query, error);
    }
    return query.length == 0
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID,
                           "url: unknown query key; redis:// takes the database as /db, and "
                           "sentinels are " SENTINEL_FORM);
}

/* Reads [/database]. No path and "/" are database 0. */
static rql_status read_database_path(struct rqli_url *self, struct rqli_slice path,
                                     rql_error *error)
{
    return rqli_slice_skip(&path, "/") && path.length > 0 ? read_database(self, path, error)
                                                          : RQL_OK;
}

/* Reads redis[s]://[[user]:password@][host][:port][/database][?query]. */
static rql_status read_tcp(struct rqli_url *self, struct parts parts, rql_error *error)
{
    char place[RQLI_ADDRESS_TEXT_SIZE];
    rql_status status = read_login(self, parts.login, error);

    if (!status) {
        self->hosts = calloc(1, sizeof *self->hosts);
        status = self->hosts ? rqli_address_take(self->hosts, &parts.host, PORT_DEFAULT, error)
                             : rqli_fail_nomem(error);
    }
    if (!status && parts.host.length > 0) {
        status = rqli_fail(error, RQL_E_INVALID, "url: several hosts are " SEVERAL_FORMS);
    }
    if (!status) {
        status = read_database_path(self, parts.path, error);
    }
    if (!status) {
        status = read_tls_query(self, parts.query, error);
    }
    if (status) {
        return status;
    }
    self->n_hosts = 1;
    return name_server(self, parts.scheme, rqli_slice_of(rqli_address_print(self->hosts, place)),
                       "/", error);
}

/* Reads host[:port][,host[:port]...] An empty host is this machine only if it stands alone: in a
 * list it is a mistake, and would be one more server, at which nothing may listen. */
static rql_status read_hosts(struct rqli_url *self, struct rqli_slice list, rql_error *error)
{
    size_t most = host_lists[self->arrangement].most;
    size_t count = 1 + rqli_slice_count(list, ',');
    rql_status status = RQL_OK;

    if (count > most) {
        return rqli_fail(error, RQL_E_INVALID, "url: more than %zu %s", most,
                         host_lists[self->arrangement].what);
    }
    self->hosts = calloc(count, sizeof *self->hosts);
    if (!self->hosts) {
        return rqli_fail_nomem(error);
    }
    while (!status && self->n_hosts < count) {
        if (count > 1 && rqli_slice_before(list, ":,") == 0) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: a host is missing between two commas; 127.0.0.1 is this "
                             "machine");
        }
        status = rqli_address_take(&self->hosts[self->n_hosts++], &list,
                                   host_lists[self->arrangement].default_port, error);
        (void)rqli_slice_skip(&list, ",");
    }
    return status;
}

/* Reads /master[,master...][/database] */
static rql_status read_masters_path(struct rqli_url *self, struct rqli_slice path, rql_error *error)
{
    struct rqli_slice list;
    rql_status status;

    (void)rqli_slice_skip(&path, "/");
    list = rqli_slice_take(&path, rqli_slice_before(path, "/"));
    status = read_masters(self, list, error);
    return status ? status : read_database_path(self, path, error);
}

/* Reads
 * redis[s]+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[,master...][/database]
 * [?query]. The login is the masters'; that of the sentinels is in the query. */
static rql_status read_by_sentinels(struct rqli_url *self, struct parts parts, rql_error *error)
{
    struct rqli_slice place = parts.host;
    rql_status status = read_login(self, parts.login, error);

    self->sentinel_tls = self->is_tls;
    if (!status) {
        status = read_hosts(self, parts.host, error);
    }
    if (!status) {
        status = read_masters_path(self, parts.path, error);
    }
    if (!status) {
        status = read_query(self, parts.query, error);
    }
    if (!status && self->sentinel_user && !self->sentinel_password) {
        status = rqli_fail(error, RQL_E_INVALID, "url: sentinel_user needs a sentinel_password");
    }
    /* The text is as in the URL, so that decoded control bytes cannot break up a message. The path
     * follows the hosts there. */
    (void)rqli_slice_skip(&parts.path, "/");
    place.length = (size_t)(parts.path.data + rqli_slice_before(parts.path, "/") - place.data);
    return status ? status : name_server(self, parts.scheme, place, "/", error);
}

static void to_lower_case(char *name)
{
    for (; *name; name++) {
        if (*name >= 'A' && *name <= 'Z') {
            *name = (char)(*name | 0x20);
        }
    }
}

static bool is_repeated(const struct rqli_url *self, size_t i)
{
    for (size_t before = 0; before < i; before++) {
        if (rqli_address_is(&self->hosts[before], &self->hosts[i])) {
            return true;
        }
    }
    return false;
}

/* Checks that all hosts differ. Shards are distinguished by these texts, and get their partitions
 * by them, so clients that write a name in another case agree. */
static rql_status tell_apart(struct rqli_url *self, rql_error *error)
{
    for (size_t i = 0; i < self->n_hosts; i++) {
        to_lower_case(self->hosts[i].host);
        if (is_repeated(self, i)) {
            return rqli_fail(error, RQL_E_INVALID, "url: two of the hosts are the same");
        }
    }
    return RQL_OK;
}

/* Reads redis[s]+cluster://[[user]:password@]host[:port][,host[:port]...][?query], for which any
 * nodes will do, or redis[s]+shards://, the same with [/database]. */
static rql_status read_nodes(struct rqli_url *self, struct parts parts, rql_error *error)
{
    bool is_cluster = self->arrangement == RQLI_CLUSTER;
    rql_status status = read_login(self, parts.login, error);

    if (!status) {
        status = read_hosts(self, parts.host, error);
    }
    if (!status && !is_cluster) {
        status = tell_apart(self, error);
    }
    if (!status && is_cluster && parts.path.length > strlen("/")) {
        status =
            rqli_fail(error, RQL_E_INVALID,
                      "url: a cluster has database 0 alone; nothing but a query may follow its "
                      "hosts");
    }
    if (!status) {
        status = read_database_path(self, parts.path, error);
    }
    if (!status) {
        status = read_tls_query(self, parts.query, error);
    }
    return status ? status : name_server(self, parts.scheme, parts.host, "/", error);
}

/* Returns false if connect() would cut the path off, or take it as relative to a folder that may
 * change. */
static bool is_socket_path(const char *path)
{
    return path[0] == '/' && strlen(path) <= SOCKET_PATH_MAX;
}

/* Reads unix://[[user]:password@]/path[?db=database]. */
static rql_status read_unix(struct rqli_url *self, struct parts parts, rql_error *error)
{
    rql_status status;

    if (parts.host.length > 0) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: unix:// takes no host; use unix:///path or unix://user:pass@/path");
    }
    status = read_login(self, parts.login, error);
    if (!status) {
        status = percent_decode(&self->path, parts.path, "path", error);
    }
    if (!status) {
        status =
            is_socket_path(self->path)
                ? RQL_OK
                : rqli_fail(error, RQL_E_INVALID,
                            "url: the socket path must start with '/' and have at most %zu bytes",
                            SOCKET_PATH_MAX);
    }
    if (!status && parts.query.length > 0) {
        status = rqli_slice_skip(&parts.query, "db=")
                     ? read_database(self, parts.query, error)
                     : rqli_fail(error, RQL_E_INVALID, "url: unknown query key; only db is known");
    }
    /* The text is as in the URL, so that decoded control bytes cannot break up a message. */
    return status ? status : name_server(self, parts.scheme, parts.path, "?db=", error);
}

/* Sets the socket of the private server. Its folder follows from the user id alone: with and
 * without a login session, under cron too, all programs of one user must find the same server.
 * rqli_local_join() checks that the folder is this user's. A program with more rights than its user
 * must not be led elsewhere by the environment. */
static rql_status read_local(struct rqli_url *self, struct rqli_slice rest, rql_error *error)
{
    static const char socket_name[] = "redis.sock";
    const char *own = secure_getenv("RQL_LOCAL_DIR");
    int length;

    if (rest.length > 0) {
        return rqli_fail(error, RQL_E_INVALID, "url: nothing may follow local:");
    }
    if (own && own[0] != '\0') {
        length = asprintf(&self->path, "%s/%s", own, socket_name);
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
    return is_socket_path(self->path)
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID,
                           "url: RQL_LOCAL_DIR must start with '/' and have at most %zu bytes",
                           SOCKET_PATH_MAX - sizeof socket_name);
}

/* If it fails the caller frees the members that are set by then. */
static rql_status read_url(struct rqli_url *self, struct rqli_slice url, rql_error *error)
{
    static const struct {
        const char *prefix;
        enum rqli_arrangement arrangement;
        bool is_tls;
        rql_status (*read)(struct rqli_url *self, struct parts parts, rql_error *error);
    } schemes[] = {
        {"redis://", RQLI_SINGLE, false, read_tcp},
        {"rediss://", RQLI_SINGLE, true, read_tcp},
        {"redis+sentinel://", RQLI_SENTINEL, false, read_by_sentinels},
        {"rediss+sentinel://", RQLI_SENTINEL, true, read_by_sentinels},
        {"redis+cluster://", RQLI_CLUSTER, false, read_nodes},
        {"rediss+cluster://", RQLI_CLUSTER, true, read_nodes},
        {"redis+shards://", RQLI_SHARDS, false, read_nodes},
        {"rediss+shards://", RQLI_SHARDS, true, read_nodes},
        {"unix://", RQLI_SINGLE, false, read_unix},
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
            self->arrangement = schemes[i].arrangement;
            self->is_tls = schemes[i].is_tls;
            return schemes[i].read(self, split_parts(schemes[i].prefix, url), error);
        }
    }
    if (rqli_slice_skip(&url, "local:")) {
        self->arrangement = RQLI_LOCAL;
        return read_local(self, url, error);
    }
    return rqli_fail(error, RQL_E_INVALID,
                     "url: unknown scheme; use redis://, rediss://, unix:// or local:, and for "
                     "several hosts " SEVERAL_FORMS);
}

size_t rqli_url_shards(const struct rqli_url *self,
                       char texts[RQLI_HOSTS_MAX][RQLI_ADDRESS_TEXT_SIZE],
                       const char *names[RQLI_HOSTS_MAX])
{
    const bool has_masters = self->n_masters > 0;
    size_t count = has_masters ? self->n_masters : self->n_hosts;

    for (size_t i = 0; i < count; i++) {
        names[i] = has_masters ? self->masters[i] : rqli_address_print(&self->hosts[i], texts[i]);
    }
    return count;
}

/* Sets the list of shards, if there are any. */
static rql_status list_shards(struct rqli_url *self, rql_error *error)
{
    char texts[RQLI_HOSTS_MAX][RQLI_ADDRESS_TEXT_SIZE];
    const char *names[RQLI_HOSTS_MAX];
    size_t count;

    if (!rqli_url_is_partitioned(self) || self->arrangement == RQLI_CLUSTER) {
        return RQL_OK;
    }
    count = rqli_url_shards(self, texts, names);
    self->ring = rqli_shards_ring(names, count);
    return self->ring ? RQL_OK : rqli_fail_nomem(error);
}

rql_status rqli_url_parse(struct rqli_url *out, const char *url, rql_error *error)
{
    rql_status status;

    *out = (struct rqli_url){0};
    if (!url || *url == '\0') {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: none is given; set RQL_URL, or give \"local:\" for a private server "
                         "on this machine");
    }
    status = read_url(out, rqli_slice_of(url), error);
    if (!status) {
        status = list_shards(out, error);
    }
    if (status) {
        rqli_url_fini(out);
    }
    return status;
}

void rqli_url_fini(struct rqli_url *self)
{
    for (size_t i = 0; i < self->n_masters; i++) {
        free(self->masters[i]);
    }
    free(self->masters);
    free(self->hosts);
    free(self->path);
    free(self->user);
    (void)rqli_secret_free(self->password);
    free(self->query);
    free(self->where);
    free(self->ring);
    free(self->sentinel_user);
    (void)rqli_secret_free(self->sentinel_password);
    *self = (struct rqli_url){0};
}
