#include "check.h"

#include "net/sock/site.h"
#include "options/options.h"

#include <rql/client.h>

#include <stdlib.h>
#include <unistd.h>

/* Longest path that fits into sockaddr_un, and one byte more. */
#define PATH_25 "/aaaaaaaaaaaaaaaaaaaaaaaa"
#define PATH_107 PATH_25 PATH_25 PATH_25 PATH_25 "/aaaaaa"
#define NAME_50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_250 NAME_50 NAME_50 NAME_50 NAME_50 NAME_50

#define HOSTS_16 "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"
#define HOSTS_64 HOSTS_16 ",a1,b1,c1,d1,e1,f1,g1,h1,i1,j1,k1,l1,m1,n1,o1,p1," HOSTS_32_MORE
#define HOSTS_32_MORE                                                                              \
    "a2,b2,c2,d2,e2,f2,g2,h2,i2,j2,k2,l2,m2,n2,o2,p2"                                              \
    ",a3,b3,c3,d3,e3,f3,g3,h3,i3,j3,k3,l3,m3,n3,o3,p3"

/* What describe() says of it, and how messages name it. NULL: as the URL does. */
static const struct {
    const char *url;
    const char *described;
    const char *where;
} good_urls[] = {
    {"redis://", "127.0.0.1:6379", "redis://127.0.0.1:6379"},
    {"redis:///", "127.0.0.1:6379", "redis://127.0.0.1:6379"},
    {"redis:///3", "127.0.0.1:6379 /3", "redis://127.0.0.1:6379/3"},
    {"redis://:7000", "127.0.0.1:7000", "redis://127.0.0.1:7000"},
    {"redis://db-1.example_x", "db-1.example_x:6379", "redis://db-1.example_x:6379"},
    {"redis://h:1", "h:1", NULL},
    {"redis://h:65535/65535", "h:65535 /65535", NULL},
    {"redis://h/?", "h:6379", "redis://h:6379"},
    {"redis://[::1]", "[::1]:6379", "redis://[::1]:6379"},
    {"redis://[2001:db8::7]:7001/2", "[2001:db8::7]:7001 /2", NULL},
    {"redis://u:p@h", "h:6379 u:p", "redis://h:6379"},
    {"redis://:p@h:1/2", "h:1 /2 -:p", "redis://h:1/2"},
    {"redis://u:@h", "h:6379 u:", "redis://h:6379"},
    {"redis://@h", "h:6379", "redis://h:6379"},
    {"redis://:@h", "h:6379", "redis://h:6379"},
    {"redis://u:p@", "127.0.0.1:6379 u:p", "redis://127.0.0.1:6379"},
    {"redis://u:p@[::1]:9", "[::1]:9 u:p", "redis://[::1]:9"},
    {"redis://a%40b:p%2F%3aq%25@h", "h:6379 a@b:p/:q%", "redis://h:6379"},
    {"redis://u:p:q@r@h", "h:6379 u:p:q@r", "redis://h:6379"},
    {"redis://u:\xc3\xa9@h", "h:6379 u:\xc3\xa9", "redis://h:6379"},
    {"redis://" NAME_250 "abc", NAME_250 "abc:6379", "redis://" NAME_250 "abc:6379"},
    {"rediss://u:p@h:1/2", "h:1 /2 u:p tls", "rediss://h:1/2"},
    {"rediss://h?", "h:6379 tls", "rediss://h:6379"},
    {"rediss://[::1]?tls_verify=ca&tls_key_file=/k", "[::1]:6379 tls", "rediss://[::1]:6379"},
    {"unix:///run/r.sock", "/run/r.sock", NULL},
    {"unix:///s?db=5", "/s /5", NULL},
    {"unix:///s?", "/s", "unix:///s"},
    {"unix:///a%20b", "/a b", NULL},
    {"unix:///a%0ab", "/a\nb", NULL},
    {"unix:///a@b", "/a@b", NULL},
    {"unix://u:p@/s", "/s u:p", "unix:///s"},
    {"unix://:p@/s?db=1", "/s /1 -:p", "unix:///s?db=1"},
    {"unix://" PATH_107, PATH_107, NULL},

    {"redis+sentinel://a/m", "sentinel a:26379 of m", NULL},
    {"redis+sentinel:///m/", "sentinel 127.0.0.1:26379 of m", "redis+sentinel:///m"},
    {"redis+sentinel://u:p@a:1,[::1]:2,c/m%2f/7", "sentinel a:1 [::1]:2 c:26379 /7 u:p of m/",
     "redis+sentinel://a:1,[::1]:2,c/m%2f/7"},
    {"redis+sentinel://a,b/m?sentinel_user=x%26&sentinel_password=sesame",
     "sentinel a:26379 b:26379 of m by x&:sesame", "redis+sentinel://a,b/m"},
    {"redis+sentinel://a,b/m1,M1,m.2_-x/3?sentinel_user=x&sentinel_password=y",
     "sentinel a:26379 b:26379 /3 of m1 M1 m.2_-x by x:y", "redis+sentinel://a,b/m1,M1,m.2_-x/3"},
    {"redis+sentinel://:p@a/m%31,%6d2/", "sentinel a:26379 -:p of m1 m2",
     "redis+sentinel://a/m%31,%6d2"},
    {"redis+sentinel://a/m%2c%0a", "sentinel a:26379 of m,\n", NULL},
    {"redis+sentinel://a/" HOSTS_64, "sentinel a:26379 of p3", NULL},
    {"rediss+sentinel://a/m?tls_verify=ca", "sentinel a:26379 tls of m by tls",
     "rediss+sentinel://a/m"},
    {"rediss+sentinel://a/m?sentinel_tls=true", "sentinel a:26379 tls of m by tls",
     "rediss+sentinel://a/m"},
    {"rediss+sentinel://a/m?sentinel_tls=false&tls_verify=ca", "sentinel a:26379 tls of m",
     "rediss+sentinel://a/m"},

    {"redis+cluster://a", "cluster a:6379", NULL},
    {"redis+cluster://", "cluster 127.0.0.1:6379", NULL},
    {"redis+cluster://A.b:7000,[::1]:7001,c/", "cluster A.b:7000 [::1]:7001 c:6379",
     "redis+cluster://A.b:7000,[::1]:7001,c"},
    {"redis+cluster://u:p%40@a,a", "cluster a:6379 a:6379 u:p@", "redis+cluster://a,a"},
    {"redis+cluster://:p@a?", "cluster a:6379 -:p", "redis+cluster://a"},
    {"rediss+cluster://a:1,b?tls_verify=ca", "cluster a:1 b:6379 tls", "rediss+cluster://a:1,b"},
    {"redis+cluster://" HOSTS_64, "cluster p3:6379", NULL},
    {"redis+shards://a", "shards a:6379", NULL},
    {"redis+shards://a:1,a:2,b/", "shards a:1 a:2 b:6379", "redis+shards://a:1,a:2,b"},
    {"redis+shards://u:p@Az.b,[2001:DB8::7]:1/3", "shards az.b:6379 [2001:db8::7]:1 /3 u:p",
     "redis+shards://Az.b,[2001:DB8::7]:1/3"},
    {"rediss+shards://a,b/0?tls_verify=ca", "shards a:6379 b:6379 tls", "rediss+shards://a,b"},
    {"redis+shards://" HOSTS_64 "/65535", "shards p3:6379 /65535", NULL},
};

static void check_text(const char *found, const char *wanted)
{
    assert_string_equal(found ? found : "(null)", wanted ? wanted : "(null)");
}

/* Writes what is in a URL: of 64 hosts or masters the last, a missing user as "-". */
static void describe(const struct rqli_url *self, char *out, size_t size)
{
    static const char *const arrangements[] = {[RQLI_SINGLE] = "",
                                               [RQLI_LOCAL] = "",
                                               [RQLI_SENTINEL] = "sentinel ",
                                               [RQLI_CLUSTER] = "cluster ",
                                               [RQLI_SHARDS] = "shards "};
    const char *user = self->sentinel_user;
    char text[RQLI_ADDRESS_TEXT_SIZE];
    FILE *to = fmemopen(out, size, "w");

    assert_non_null(to);
    (void)fprintf(to, "%s%s", arrangements[self->arrangement], self->path ? self->path : "");
    for (size_t i = self->n_hosts == RQLI_HOSTS_MAX ? self->n_hosts - 1 : 0; i < self->n_hosts;
         i++) {
        (void)fprintf(to, "%s%s", i > 0 && self->n_hosts < RQLI_HOSTS_MAX ? " " : "",
                      rqli_address_print(&self->hosts[i], text));
    }
    if (self->database) {
        (void)fprintf(to, " /%d", self->database);
    }
    if (self->user || self->password) {
        (void)fprintf(to, " %s:%s", self->user ? self->user : "-", self->password);
    }
    (void)fprintf(to, "%s%s", self->is_tls ? " tls" : "", self->n_masters > 0 ? " of" : "");
    for (size_t i = self->n_masters == RQLI_MASTERS_MAX ? self->n_masters - 1 : 0;
         i < self->n_masters; i++) {
        (void)fprintf(to, " %s", self->masters[i]);
    }
    if (user || self->sentinel_tls) {
        (void)fprintf(to, " by %s%s%s%s", user ? user : "", user ? ":" : "",
                      user ? self->sentinel_password : "", self->sentinel_tls ? "tls" : "");
    }
    assert_int_equal(fclose(to), 0);
}

TEST(a_url_says_where_and_how)
{
    EACH_BY (row, good_urls, row->url) {
        struct rqli_url parsed;
        char described[512] = "";

        CHECK_OK(rqli_url_parse(&parsed, row->url, NULL));
        describe(&parsed, described, sizeof described);
        check_text(described, row->described);
        check_text(parsed.where, row->where ? row->where : row->url);
        assert_int_equal(rqli_url_is_partitioned(&parsed), parsed.arrangement == RQLI_CLUSTER ||
                                                               parsed.arrangement == RQLI_SHARDS ||
                                                               parsed.n_masters > 1);
        assert_int_equal(parsed.ring != NULL,
                         rqli_url_is_partitioned(&parsed) && parsed.arrangement != RQLI_CLUSTER);
        rqli_url_fini(&parsed);
        rqli_url_fini(&parsed); /* twice is fine */
    }
}

/* Options that the URL says, over those of the client. */
static const struct {
    const char *query;
    rql_tls_verify verify;
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
    const char *server_name;
} tls_queries[] = {
    {"", RQL_TLS_CA, "/opt/ca", "/opt/cert", "/opt/key", "name"},
    {"?tls_verify=full", RQL_TLS_FULL, "/opt/ca", "/opt/cert", "/opt/key", "name"},
    {"?tls_verify=none&tls_server_name=", RQL_TLS_NONE, "/opt/ca", "/opt/cert", "/opt/key", NULL},
    {"?tls_ca_file=%2Fa%26b&tls_ca_file=/c", RQL_TLS_CA, "/c", "/opt/cert", "/opt/key", "name"},
    {"/1?tls_cert_file=&tls_key_file=", RQL_TLS_CA, "/opt/ca", NULL, NULL, "name"},
    {"?tls_cert_file=/x&tls_key_file=/y&tls_server_name=h%2e", RQL_TLS_CA, "/opt/ca", "/x", "/y",
     "h."},
};

/* What is refused says why, but not what the URL said: "sesame" may be a password. */
static const struct {
    const char *name;
    const char *message; /* NULL: it is taken */
} tls_urls[] = {
    {"redis://h", NULL},
    {"local:", NULL},
    {"rediss://h?tls_cert_file=", "tls_key_file"},
    {"rediss://h?tls_key_file=", "tls_key_file"},
    {"rediss://h?tls_verify=sesame", "url: tls_verify must be full | ca | none"},
    {"rediss://h?tls_verify=", "url: tls_verify must be full | ca | none"},
    {"rediss://h?tls_ca_file=/c&sesame=a", "url: unknown query key"},
    {"rediss://h?tls-verify=ca", "url: unknown query key"},
    {"rediss://h?tls_=sesame", "url: unknown query key"},
    {"rediss://h?retry_count=1", "url: unknown query key"},
    {"rediss://h?url=sesame", "url: unknown query key"},
};

static rql_options tls_options(void)
{
    rql_options options;

    rql_options_init(&options);
    options.tls_verify = RQL_TLS_CA;
    options.tls_ca_file = "/opt/ca";
    options.tls_cert_file = "/opt/cert";
    options.tls_key_file = "/opt/key";
    options.tls_server_name = "name";
    return options;
}

TEST(what_a_url_says_of_tls_goes_before_the_options)
{
    EACH_BY (row, tls_queries, row->query) {
        rql_options options = tls_options();
        struct rqli_url parsed;
        struct rqli_session session = {.url = &parsed};
        const struct rqli_tls_settings *settings = &session.tls_settings;
        char url[128];

        (void)snprintf(url, sizeof url, "rediss://u:sesame@h%s", row->query);
        CHECK_OK(rqli_url_parse(&parsed, url, NULL));
        CHECK_OK(rqli_options_set_of_url(&options, parsed.query, NULL));
        CHECK_OK(rqli_session_use_tls(&session, &options, NULL));
        assert_int_equal(settings->verify, row->verify);
        check_text(settings->ca_file, row->ca_file);
        check_text(settings->cert_file, row->cert_file);
        check_text(settings->key_file, row->key_file);
        check_text(settings->server_name, row->server_name);
        rqli_url_fini(&parsed);
    }
}

TEST(a_url_sets_options_of_tls_alone_and_a_certificate_has_a_key)
{
    EACH_ROW (row, tls_urls) {
        rql_options options = tls_options();
        struct rqli_url parsed;
        struct rqli_session session = {.url = &parsed};
        rql_error error = {0};
        rql_status status;

        CHECK_OK(rqli_url_parse(&parsed, row->name, NULL));
        status = rqli_options_set_of_url(&options, parsed.query, &error);
        status = status ? status : rqli_session_use_tls(&session, &options, &error);
        assert_int_equal(status, row->message ? RQL_E_INVALID : RQL_OK);
        assert_non_null(strstr(error.message, row->message ? row->message : ""));
        assert_null(strstr(error.message, "sesame"));
        rqli_url_fini(&parsed);
    }
}

/* Wrong URLs, by what the message names. */
static const struct {
    const char *name;
    const char *urls;
} bad_urls[] = {
    {"scheme", "h:6379|redis:h|http://h|REDIS://h|sesame"},
    {"spaces", " redis://h|redis://h |redis://u:p q@h|redis://u:sesame@h h"},
    {"control", "redis://h\n"},
    {"'#'", "redis://h#x"},
    {"port", "redis://h:0|redis://h:|redis://h:65536|redis://h:-1|redis://h:-0|redis://h:+1"
             "|redis://h:1x|redis://h:99999999999999999999|redis://h:1:2|redis://[::1]9"
             "|redis://::1|redis://u:sesame/p@h|redis://u:sesame?p@h|redis://u:sesame@h:x"},
    {"database", "redis://h/65536|redis://h/-1|redis://h/x|redis://h/1/2|redis://u:12/sesame@h"
                 "|redis://u:sesame@h/x|unix:///s?db=65536|unix:///s?db=|unix:///s?db=1&x=2"},
    {"key=value",
     "rediss://h?tls_ca_file|rediss://h?sesame|rediss://h?=sesame|rediss://h?a=1&&b=2"},
    {"percent-encoding in the query", "rediss://h?tls_ca_file=%00|rediss://h?tls_key_file=sesame%"},
    {"query key",
     "redis://h?db=1|redis://h/1?ssl=1|redis://u:12?sesame@h|redis://u:sesame@h?sesame=1"
     "|unix:///s?password=sesame|unix:///s?d"},
    {"host", "redis://h,i|redis://h%41|redis://" NAME_250 "abcd|redis://[::1|redis://[]"
             "|redis://[h]|redis://[127.0.0.1]|unix://s|unix://h/s|unix://u:sesame@h/s"
             "|unix://u:sesame/x@/s"},
    {"user needs a password", "redis://u@h"},
    {"percent-encoding in the user", "redis://u%4:p@h"},
    {"percent-encoding in the password", "redis://u:p%@h|redis://u:p%zz@h|redis://u:p%00@h"},
    {"percent-encoding", "redis://u:sesame%@h"},
    {"socket path", "unix://"},
    {"percent-encoding in the path", "unix:///a%00b|unix:///a%2"},
    {"at most 107 bytes", "unix://" PATH_107 "a"},
    {"local:", "local:x|local:?db=1"},
    {"redis+sentinel://host:port,host:port/master",
     "redis-sentinel://a/m|redis://a,b|redis://a:1,b:2/0|redis://a?master_name=m"
     "|redis+sentinel://a|redis+sentinel://a/|redis+sentinel://a//1|rediss+sentinel://a,b"},
    {"name of a master is missing",
     "redis+sentinel://a//|redis+sentinel://a/,m|redis+sentinel://a/m,|redis+sentinel://a/m,,n"
     "|redis+sentinel://u:sesame@a/,/1?sentinel_password=sesame"},
    {"two of the masters are the same",
     "redis+sentinel://a/m,m|redis+sentinel://a/m,n,%6d/1|rediss+sentinel://:sesame@a,b/n,m,m"},
    {"no commas, spaces and control bytes",
     "redis+sentinel://a/m,n%2co|redis+sentinel://a/sesame%2c,m|redis+sentinel://a/m,n%20o"
     "|redis+sentinel://a/m,n%0a|redis+sentinel://a/m,n%7f"},
    {"percent-encoding in the path", "redis+sentinel://a/m,sesame%|redis+sentinel://a/m,n%00"},
    {"more than 64 masters", "redis+sentinel://a/" HOSTS_64 ",x"},
    {"port", "redis+sentinel://a:0/m|redis+sentinel://a:1,b:x/m|redis+sentinel://a:,b/m"},
    {"host", "redis+sentinel://a_*/m|redis+sentinel://a,[b]/m|redis+sentinel://a,%41/m"},
    {"database", "redis+sentinel://a/m/x|redis+sentinel://u:sesame@a/m/1/2"},
    {"more than 16 sentinels", "redis+sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/m"},
    {"occurs twice", "redis+sentinel://a/m?sentinel_password=sesame&sentinel_password=sesame"},
    {"sentinel_user needs a sentinel_password", "redis+sentinel://a/m?sentinel_user=x"},
    {"tls_... needs rediss+sentinel://",
     "redis+sentinel://a/m?tls_verify=full|redis+sentinel://u:p@a,b/m/1?tls_ca_file=c&tls_verify=ca"
     "|redis+sentinel://a/m?sentinel_password=x&tls_ca_file=sesame|redis+sentinel://a/m?db=1"},
    {"sentinel_user, sentinel_password and sentinel_tls", "redis+sentinel://a/m?password=sesame"},
    {"a host is missing between two commas",
     "redis+shards://a,b,|redis+shards://a,,b|redis+shards://,127.0.0.1|redis+shards://:7000,:7001"
     "|redis+cluster://,a|redis+cluster://u:sesame@a,|redis+sentinel://a,,b/m"
     "|redis+sentinel://,/m"},
    {"sentinel_tls", "redis+sentinel://a/m?sentinel_tls=true|rediss+sentinel://a/m?sentinel_tls=1"},
    {"percent-encoding in the query", "redis+sentinel://a/m?sentinel_password=sesame%"},
    {"redis+cluster:// or redis+shards://",
     "redis://a,b|rediss://a,b|redis://u:sesame@a:1,b:2/0|cluster://a|redis-cluster://a"
     "|redis+quorum://a,b,c|redis+cluster:a"},
    {"port", "redis+cluster://a:0|redis+cluster://a,b:x|redis+shards://a:1,b:,c|redis+shards://a:1x"
             "|redis+cluster://u:sesame/p@a"},
    {"host", "redis+cluster://a,%41|redis+cluster://a,c*|redis+shards://[b]|redis+shards://a,[::1"},
    {"user needs a password", "redis+cluster://u@a|redis+shards://u@a,b"},
    {"percent-encoding in the password", "redis+cluster://u:sesame%@a|redis+shards://:%zz@a"},
    {"a cluster has database 0 alone",
     "redis+cluster://a/0|redis+cluster://a,b/1|rediss+cluster://a//?tls_verify=ca"
     "|redis+cluster://a/sesame"},
    {"database", "redis+shards://a/x|redis+shards://a/65536|redis+shards://a,b/1/2"},
    {"the same", "redis+shards://a,a|redis+shards://a:6379,b,a|redis+shards://a,b,c,B"
                 "|redis+shards://[::A],[::a]"},
    {"query key", "redis+cluster://a?db=1|redis+shards://a/1?tls_verify=ca"
                  "|redis+cluster://u:12?sesame@a"},
    {"key=value", "rediss+cluster://a?tls_verify|rediss+shards://a/1?=sesame"},
    {"more than 64 hosts", "redis+cluster://" HOSTS_64 ",x|redis+shards://" HOSTS_64 ",x"},
};

static void check_bad(const char *url, const char *part, rql_status status)
{
    const struct rqli_url empty = {0};
    struct rqli_url parsed;
    rql_error error = {0};

    assert_int_equal(rqli_url_parse(&parsed, url, &error), status);
    assert_non_null(strstr(error.message, part));
    assert_null(strstr(error.message, "sesame"));
    assert_memory_equal(&parsed, &empty, sizeof parsed);
    assert_int_equal(rqli_url_parse(&parsed, url, NULL), status);
}

TEST(a_wrong_url_is_refused_by_its_part)
{
    check_bad(NULL, "set RQL_URL, or give \"local:\"", RQL_E_INVALID);
    check_bad("", "set RQL_URL, or give \"local:\"", RQL_E_INVALID);
    EACH_ROW (row, bad_urls) {
        const char *urls = row->urls;
        char url[PART_SIZE];

        while (next_part(&urls, url, NULL)) {
            check_bad(url, row->name, RQL_E_INVALID);
        }
    }
}

static bool leaks(const char *text)
{
    return text && (strstr(text, "sesam") || strstr(text, "esame"));
}

/* Every byte behind the scheme is spoilt in turn in every way. */
TEST(the_password_never_leaks)
{
    static const char url[] = "redis://operator:sesame@[2001:db8::7]:7001/2?";
    static const char spoil[] = " #%[]/:?@\n\xff";

    for (size_t i = 0; i < (sizeof url - 1) * sizeof spoil; i++) {
        struct rqli_url parsed = {0};
        char changed[sizeof url];
        rql_error error = {0};

        memcpy(changed, url, sizeof url);
        changed[i / sizeof spoil] = spoil[i % sizeof spoil];
        (void)test_print_row((ptrdiff_t)i, changed);
        (void)rqli_url_parse(&parsed, changed, &error);
        assert_false(leaks(parsed.where) || leaks(error.message));
        rqli_url_fini(&parsed);
    }
}

TEST(a_url_has_a_limit)
{
    char url[4098] = "redis://u:";
    struct rqli_url parsed = {0};
    size_t start = strlen(url);
    rql_error error;

    memset(url + start, 'p', sizeof url - start);
    memcpy(url + sizeof url - 4, "@h", 3);
    CHECK_OK(rqli_url_parse(&parsed, url, NULL));
    assert_int_equal(strlen(parsed.password), 4096 - start - 2);
    rqli_url_fini(&parsed);
    memcpy(url + sizeof url - 4, "@hh", 4);
    assert_int_equal(strlen(url), 4097);
    assert_int_equal(rqli_url_parse(&parsed, url, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "4096"));
}

static void set_or_clear(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

TEST(local_is_a_socket_in_a_folder_of_the_user)
{
    char in_tmp[64];

    const struct {
        const char *own;     /* RQL_LOCAL_DIR */
        const char *runtime; /* XDG_RUNTIME_DIR */
        const char *path;    /* NULL: it is refused */
    } rows[] = {
        {"/own", "/run/u", "/own/redis.sock"},
        {NULL, "/run/u", in_tmp}, /* a session and cron share one server */
        {"", "/run/u", in_tmp},
        {NULL, NULL, in_tmp},
        {"", "", in_tmp},
        {"relative", NULL, NULL},
        {PATH_107, NULL, NULL}, /* too long with its socket */
    };

    (void)snprintf(in_tmp, sizeof in_tmp, "/tmp/rql-%u/redis.sock", (unsigned)geteuid());
    EACH_BY (row, rows, row->own) {
        struct rqli_url parsed = {0};

        set_or_clear("RQL_LOCAL_DIR", row->own);
        set_or_clear("XDG_RUNTIME_DIR", row->runtime);
        assert_int_equal(rqli_url_parse(&parsed, "local:", NULL),
                         row->path ? RQL_OK : RQL_E_INVALID);
        if (row->path) {
            assert_int_equal(parsed.arrangement, RQLI_LOCAL);
            assert_string_equal(parsed.path, row->path);
            assert_string_equal(parsed.where, "local:");
        }
        rqli_url_fini(&parsed);
    }
    set_or_clear("RQL_LOCAL_DIR", NULL);
}

TEST(a_server_that_is_met_later_carries_nothing_yet)
{
    struct rqli_url parsed;
    const struct rqli_session session = {.url = &parsed};
    struct rqli_site first;
    struct rqli_site other;

    CHECK_OK(rqli_url_parse(&parsed, "redis+cluster://u:p@a:1,b:2", NULL));
    CHECK_OK(rqli_site_init_first(&first, &session, NULL));
    rqli_site_carry(&first, 3, true);
    CHECK_OK(rqli_site_init(&other, &session, &parsed.hosts[1], NULL, NULL));
    CHECK_ALL(EQ(rqli_site_carries(&first, 3), true), EQ(rqli_site_carries(&other, 3), false));
    assert_string_equal(first.where, "redis+cluster://a:1,b:2");
    assert_string_equal(other.where, "redis://b:2");
    rqli_site_fini(&other);
    rqli_site_fini(&first);
    rqli_url_fini(&parsed);
}
