#include "check.h"

#include "net/url.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest path that fits into sockaddr_un, and one byte more. */
#define PATH_25 "/aaaaaaaaaaaaaaaaaaaaaaaa"
#define PATH_107 PATH_25 PATH_25 PATH_25 PATH_25 "/aaaaaa"
#define NAME_50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_250 NAME_50 NAME_50 NAME_50 NAME_50 NAME_50

#define TCP RQLI_ENDPOINT_TCP
#define UNIX RQLI_ENDPOINT_UNIX

struct good {
    const char *url;
    enum rqli_endpoint_kind kind;
    const char *place; /* host or path */
    int port;
    int database;
    const char *user;
    const char *password;
    const char *where;
};

static const struct good good_urls[] = {
    {"redis://", TCP, "127.0.0.1", 6379, 0, NULL, NULL, "redis://127.0.0.1:6379"},
    {"redis:///", TCP, "127.0.0.1", 6379, 0, NULL, NULL, "redis://127.0.0.1:6379"},
    {"redis:///3", TCP, "127.0.0.1", 6379, 3, NULL, NULL, "redis://127.0.0.1:6379/3"},
    {"redis://:7000", TCP, "127.0.0.1", 7000, 0, NULL, NULL, "redis://127.0.0.1:7000"},
    {"redis://db-1.example_x", TCP, "db-1.example_x", 6379, 0, NULL, NULL,
     "redis://db-1.example_x:6379"},
    {"redis://h:1", TCP, "h", 1, 0, NULL, NULL, "redis://h:1"},
    {"redis://h:65535/65535", TCP, "h", 65535, 65535, NULL, NULL, "redis://h:65535/65535"},
    {"redis://h/?", TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379"},
    {"redis://[::1]", TCP, "::1", 6379, 0, NULL, NULL, "redis://[::1]:6379"},
    {"redis://[2001:db8::7]:7001/2", TCP, "2001:db8::7", 7001, 2, NULL, NULL,
     "redis://[2001:db8::7]:7001/2"},
    {"redis://u:p@h", TCP, "h", 6379, 0, "u", "p", "redis://h:6379"},
    {"redis://:p@h:1/2", TCP, "h", 1, 2, NULL, "p", "redis://h:1/2"},
    {"redis://u:@h", TCP, "h", 6379, 0, "u", "", "redis://h:6379"},
    {"redis://@h", TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379"},
    {"redis://:@h", TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379"},
    {"redis://u:p@", TCP, "127.0.0.1", 6379, 0, "u", "p", "redis://127.0.0.1:6379"},
    {"redis://u:p@[::1]:9", TCP, "::1", 9, 0, "u", "p", "redis://[::1]:9"},
    {"redis://a%40b:p%2F%3aq%25@h", TCP, "h", 6379, 0, "a@b", "p/:q%", "redis://h:6379"},
    {"redis://u:p:q@r@h", TCP, "h", 6379, 0, "u", "p:q@r", "redis://h:6379"},
    {"redis://u:\xc3\xa9@h", TCP, "h", 6379, 0, "u", "\xc3\xa9", "redis://h:6379"},
    {"redis://" NAME_250 "abc", TCP, NAME_250 "abc", 6379, 0, NULL, NULL,
     "redis://" NAME_250 "abc:6379"},
    {"unix:///run/r.sock", UNIX, "/run/r.sock", 0, 0, NULL, NULL, "unix:///run/r.sock"},
    {"unix:///s?db=5", UNIX, "/s", 0, 5, NULL, NULL, "unix:///s?db=5"},
    {"unix:///s?", UNIX, "/s", 0, 0, NULL, NULL, "unix:///s"},
    {"unix:///a%20b", UNIX, "/a b", 0, 0, NULL, NULL, "unix:///a%20b"},
    {"unix:///a%0ab", UNIX, "/a\nb", 0, 0, NULL, NULL, "unix:///a%0ab"},
    {"unix:///a@b", UNIX, "/a@b", 0, 0, NULL, NULL, "unix:///a@b"},
    {"unix://u:p@/s", UNIX, "/s", 0, 0, "u", "p", "unix:///s"},
    {"unix://:p@/s?db=1", UNIX, "/s", 0, 1, NULL, "p", "unix:///s?db=1"},
    {"unix://" PATH_107, UNIX, PATH_107, 0, 0, NULL, NULL, "unix://" PATH_107},
};

static void same_text(const char *url, const char *found, const char *wanted)
{
    if ((!found != !wanted) || (found && strcmp(found, wanted) != 0)) {
        fail_msg("%s: got \"%s\", not \"%s\"", url, found ? found : "(null)",
                 wanted ? wanted : "(null)");
    }
}

static void check_good(const struct good *row)
{
    struct rqli_endpoint endpoint = {0};
    rql_error error = {0};

    if (rqli_url_parse(&endpoint, row->url, &error)) {
        fail_msg("%s: %s", row->url, error.message);
    }
    assert_int_equal(endpoint.kind, row->kind);
    same_text(row->url, row->kind == TCP ? endpoint.host : endpoint.path, row->place);
    same_text(row->url, endpoint.user, row->user);
    same_text(row->url, endpoint.password, row->password);
    same_text(row->url, endpoint.where, row->where);
    assert_int_equal(endpoint.port, row->port);
    assert_int_equal(endpoint.database, row->database);
    rqli_endpoint_fini(&endpoint);
}

static void a_url_says_where_and_how(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good_urls / sizeof *good_urls; i++) {
        check_good(&good_urls[i]);
    }
}

struct bad {
    const char *url;
    const char *part; /* that the message names */
};

static const struct bad bad_urls[] = {
    {NULL, "missing"},
    {"", "scheme"},
    {"h:6379", "scheme"},
    {"redis:h", "scheme"},
    {"http://h", "scheme"},
    {"REDIS://h", "scheme"},
    {" redis://h", "spaces"},
    {"redis://h ", "spaces"},
    {"redis://u:p q@h", "spaces"},
    {"redis://h\n", "control"},
    {"redis://h#x", "'#'"},
    {"rediss://u:sesame@h", "TLS"},
    {"redis://h:0", "port"},
    {"redis://h:", "port"},
    {"redis://h:65536", "port"},
    {"redis://h:-1", "port"},
    {"redis://h:-0", "port"},
    {"redis://h:+1", "port"},
    {"redis://h:1x", "port"},
    {"redis://h:99999999999999999999", "port"},
    {"redis://h:1:2", "port"},
    {"redis://[::1]9", "port"},
    {"redis://h/65536", "database"},
    {"redis://h/-1", "database"},
    {"redis://h/x", "database"},
    {"redis://h/1/2", "database"},
    {"redis://h?db=1", "query key"},
    {"redis://h/1?ssl=1", "query key"},
    {"redis://h,i", "host"},
    {"redis://h%41", "host"},
    {"redis://" NAME_250 "abcd", "host"},
    {"redis://[::1", "host"},
    {"redis://[]", "host"},
    {"redis://[h]", "host"},
    {"redis://[127.0.0.1]", "host"},
    {"redis://::1", "port"},
    {"redis://u@h", "user needs a password"},
    {"redis://u%4:p@h", "percent-encoding in the user"},
    {"redis://u:p%@h", "percent-encoding in the password"},
    {"redis://u:p%zz@h", "percent-encoding in the password"},
    {"redis://u:p%00@h", "percent-encoding in the password"},
    {"redis://u:sesame/p@h", "port"},
    {"redis://u:12/sesame@h", "database"},
    {"redis://u:sesame?p@h", "port"},
    {"redis://u:12?sesame@h", "query key"},
    {"redis://u:sesame@h:x", "port"},
    {"redis://u:sesame@h/x", "database"},
    {"redis://u:sesame@h?sesame=1", "query key"},
    {"redis://u:sesame@h h", "spaces"},
    {"redis://u:sesame%@h", "percent-encoding"},
    {"sesame", "scheme"},
    {"unix://", "socket path"},
    {"unix://s", "host"},
    {"unix://h/s", "host"},
    {"unix://u:sesame@h/s", "host"},
    {"unix://u:sesame/x@/s", "host"},
    {"unix:///a%00b", "percent-encoding in the path"},
    {"unix:///a%2", "percent-encoding in the path"},
    {"unix:///s?db=65536", "database"},
    {"unix:///s?db=", "database"},
    {"unix:///s?db=1&x=2", "database"},
    {"unix:///s?password=sesame", "query key"},
    {"unix:///s?d", "query key"},
    {"unix://" PATH_107 "a", "at most 107 bytes"},
    {"local:x", "local:"},
    {"local:?db=1", "local:"},
};

static void check_bad(const struct bad *row)
{
    struct rqli_endpoint endpoint = {.port = 7, .database = 8};
    const char *url = row->url ? row->url : "(null)";
    rql_error error = {0};

    if (rqli_url_parse(&endpoint, row->url, &error) != RQL_E_INVALID) {
        fail_msg("%s was not refused", url);
    }
    if (!strstr(error.message, row->part) || strstr(error.message, "sesame")) {
        fail_msg("%s: \"%s\" does not name: %s", url, error.message, row->part);
    }
    assert_int_equal(endpoint.port, 7);
    assert_int_equal(endpoint.database, 8);
    assert_null(endpoint.where);
    assert_int_equal(rqli_url_parse(&endpoint, row->url, NULL), RQL_E_INVALID);
}

static void a_wrong_url_is_refused_by_its_part(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad_urls / sizeof *bad_urls; i++) {
        check_bad(&bad_urls[i]);
    }
}

static bool leaks(const char *text)
{
    return text && (strstr(text, "sesam") || strstr(text, "esame"));
}

static void check_leaks(const char *url)
{
    struct rqli_endpoint endpoint = {0};
    rql_error error = {0};

    (void)rqli_url_parse(&endpoint, url, &error);
    if (leaks(endpoint.where) || leaks(error.message)) {
        fail_msg("%s leaks", url);
    }
    rqli_endpoint_fini(&endpoint);
}

/* Every byte behind the scheme is spoilt in turn in every way. */
static void the_password_never_leaks(void **state)
{
    static const char url[] = "redis://operator:sesame@[2001:db8::7]:7001/2?";
    static const char spoil[] = " #%[]/:?@\n\xff";
    size_t at;
    size_t i;

    (void)state;
    for (at = 0; at < sizeof url - 1; at++) {
        for (i = 0; i < sizeof spoil; i++) {
            char changed[sizeof url];

            memcpy(changed, url, sizeof url);
            changed[at] = spoil[i];
            check_leaks(changed);
        }
    }
}

static void the_callers_fields_stay(void **state)
{
    struct rqli_endpoint endpoint = {
        .connect_timeout_ms = 1, .io_timeout_ms = 2, .spin_us = 3, .identity = "me"};

    (void)state;
    CHECK_OK(rqli_url_parse(&endpoint, "redis://h", NULL));
    assert_int_equal(endpoint.connect_timeout_ms, 1);
    assert_int_equal(endpoint.io_timeout_ms, 2);
    assert_int_equal(endpoint.spin_us, 3);
    assert_string_equal(endpoint.identity, "me");
    rqli_endpoint_fini(&endpoint);
}

static void a_url_has_a_limit(void **state)
{
    char url[4098] = "redis://u:";
    struct rqli_endpoint endpoint = {0};
    size_t start = strlen(url);
    rql_error error;

    (void)state;
    memset(url + start, 'p', sizeof url - start);
    memcpy(url + sizeof url - 4, "@h", 3);
    CHECK_OK(rqli_url_parse(&endpoint, url, NULL));
    assert_int_equal(strlen(endpoint.password), 4096 - start - 2);
    rqli_endpoint_fini(&endpoint);
    memcpy(url + sizeof url - 4, "@hh", 4);
    assert_int_equal(strlen(url), 4097);
    assert_int_equal(rqli_url_parse(&endpoint, url, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "4096"));
}

static void ending_twice_is_fine(void **state)
{
    struct rqli_endpoint endpoint = {0};

    (void)state;
    CHECK_OK(rqli_url_parse(&endpoint, "redis://u:p@h", NULL));
    rqli_endpoint_fini(&endpoint);
    assert_null(endpoint.password);
    rqli_endpoint_fini(&endpoint);
}

struct folder_case {
    const char *own;     /* RQL_LOCAL_DIR */
    const char *runtime; /* XDG_RUNTIME_DIR */
    const char *path;    /* or NULL: the one in /tmp */
};

static const struct folder_case folder_cases[] = {
    {"/own", "/run/u", "/own/redis.sock"},
    {NULL, "/run/u", "/run/u/rql/redis.sock"},
    {"", "/run/u", "/run/u/rql/redis.sock"},
    {NULL, NULL, NULL},
    {"", "", NULL},
};

static void set_or_clear(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void local_is_a_socket_in_a_folder_of_the_user(void **state)
{
    char in_tmp[64];
    size_t i;

    (void)state;
    (void)snprintf(in_tmp, sizeof in_tmp, "/tmp/rql-%u/redis.sock", (unsigned)geteuid());
    for (i = 0; i < sizeof folder_cases / sizeof *folder_cases; i++) {
        struct rqli_endpoint endpoint = {0};

        set_or_clear("RQL_LOCAL_DIR", folder_cases[i].own);
        set_or_clear("XDG_RUNTIME_DIR", folder_cases[i].runtime);
        CHECK_OK(rqli_url_parse(&endpoint, "local:", NULL));
        assert_int_equal(endpoint.kind, RQLI_ENDPOINT_LOCAL);
        assert_string_equal(endpoint.path, folder_cases[i].path ? folder_cases[i].path : in_tmp);
        assert_string_equal(endpoint.where, "local:");
        rqli_endpoint_fini(&endpoint);
    }
}

static void a_local_folder_must_fit_and_be_absolute(void **state)
{
    static const char *const folders[] = {"relative", PATH_107};
    struct rqli_endpoint endpoint = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof folders / sizeof *folders; i++) {
        set_or_clear("RQL_LOCAL_DIR", folders[i]);
        assert_int_equal(rqli_url_parse(&endpoint, "local:", NULL), RQL_E_INVALID);
    }
    set_or_clear("RQL_LOCAL_DIR", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_says_where_and_how),
        cmocka_unit_test(a_wrong_url_is_refused_by_its_part),
        cmocka_unit_test(the_password_never_leaks),
        cmocka_unit_test(the_callers_fields_stay),
        cmocka_unit_test(a_url_has_a_limit),
        cmocka_unit_test(ending_twice_is_fine),
        cmocka_unit_test(local_is_a_socket_in_a_folder_of_the_user),
        cmocka_unit_test(a_local_folder_must_fit_and_be_absolute),
    };

    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
