#include "check.h"

#include "base/clock.h"
#include "net/login/credentials.h"
#include "net/login/era.h"
#include "net/login/login.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "peer.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* What a server may answer to the first words, played by a thread. */

enum { LONG_MS = 20000, ROUNDS = 3, HEARD_SIZE = 8192, FIRST_ID = 7, OLD_ID = 8 };

#define UNKNOWN "-ERR unknown command 'HELLO', with args beginning with: '2'\r\n"
#define NO_PERMISSION "-NOPERM this user has no permissions to run the 'hello' command\r\n"
#define NO_AUTH "-NOAUTH Authentication required.\r\n"
#define OLD_WORDS PEER_TIME ":8\r\n:0\r\n+OK\r\n"
#define SUBSCRIBED PEER_SUBSCRIBED PEER_SUBSCRIBED
#define HELLO_OF_NODE "*6\r\n" PEER_ID PEER_MODE(7, "cluster") PEER_ROLE(6, "master")
#define READ_ONLY "-READONLY You can't write against a read only replica.\r\n"

static struct peer_place place;
static struct rqli_url parsed;
static struct rqli_session session;
static struct rqli_site site;
static struct rqli_socket sock;
static rql_error error;
static rql_credentials_fn credentials;    /* of the logins to come */
static struct rqli_era *era;              /* of the logins to come, or NULL */
static enum rqli_arrangement arrangement; /* of the logins to come */
static const char *const *answers;        /* one for each round trip, as far as they go */
static char heard[ROUNDS][HEARD_SIZE];
static size_t n_rounds;

/* Each of our rounds is one write, and has come as a whole when its first byte has. */
static void *play(void *data)
{
    int peer = accept(place.fd, NULL, NULL);
    ssize_t got;

    (void)data;
    while (n_rounds < ROUNDS && (got = recv(peer, heard[n_rounds], HEARD_SIZE - 1, 0)) > 0) {
        heard[n_rounds][got] = '\0';
        if (!answers[n_rounds]) {
            break;
        }
        peer_say(peer, answers[n_rounds++]);
    }
    (void)close(peer);
    return NULL;
}

BEFORE_EACH(set_up)
{
    credentials = NULL;
    era = NULL;
    arrangement = RQLI_SINGLE;
}

/* The parameters stand in front of the path. */
static rql_status log_in(const char *parameters, bool is_for_commands, const char *const *said)
{
    static const struct rqli_seat nobody;
    struct rqli_clock_reading reading;
    pthread_t thread;
    rql_status status;
    bool is_open;
    char url[96];

    peer_listen(&place);
    (void)snprintf(url, sizeof url, "unix://%s%s", parameters, place.path);
    session = (struct rqli_session){
        .url = &parsed, .identity = "me", .credentials = credentials, .eras = era};
    CHECK_OK(rqli_url_parse(&parsed, url, NULL));
    CHECK_OK(rqli_site_init_first(&site, &session, NULL));
    parsed.arrangement = arrangement;
    parsed.n_masters = arrangement == RQLI_SENTINEL ? 2 : 0;
    rqli_site_carry(&site, 0, true); /* of those that have partitions */
    answers = said;
    n_rounds = 0;
    memset(heard, 0, sizeof heard);
    assert_int_equal(pthread_create(&thread, NULL, play, NULL), 0);
    sock = (struct rqli_socket){.site = &site, .fd = -1};
    status = rqli_login(&sock, is_for_commands ? &nobody : NULL,
                        rqli_after_ms(rqli_now_us(), LONG_MS), &reading, &error);
    is_open = sock.fd >= 0;
    rqli_socket_close(&sock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    peer_leave(&place);
    parsed.n_masters = 0;
    rqli_site_fini(&site);
    rqli_url_fini(&parsed);
    assert_null(strstr(error.message, "sesame"));
    assert_int_equal(is_open, status == RQL_OK);
    return status;
}

static rql_status give_for_a_while(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)timeout_ms;
    out->valid_ms = *(const int64_t *)data;
    (void)snprintf(out->password, sizeof out->password, "sesame");
    return RQL_OK;
}

TEST(a_login_is_renewed_before_it_ends)
{
    static const struct {
        const char *name;
        int64_t valid_ms;
        int64_t after_ms; /* 0: never */
    } rows[] = {
        {"no end", 0, 0},
        {"an hour", 3600000, 2880000},
        {"a moment", 12, 9},
        {"for ever", INT64_MAX, RQLI_NEVER_US},
    };

    EACH_ROW (row, rows) {
        int64_t valid_ms = row->valid_ms;
        const struct rqli_session by = {.credentials = give_for_a_while,
                                        .credentials_data = &valid_ms};
        const struct rqli_site of = {.session = &by};
        int64_t before_us = rqli_now_us();
        rql_credentials given;
        int64_t renew_us = -1;

        CHECK_OK(rqli_credentials_ask(&of, RQLI_NEVER_US, &given, &renew_us, NULL));
        if (row->after_ms == 0 || row->after_ms == RQLI_NEVER_US) {
            assert_int_equal(renew_us, row->after_ms);
        } else {
            assert_in_range(renew_us, rqli_after_ms(before_us, row->after_ms),
                            rqli_after_ms(rqli_now_us(), row->after_ms));
        }
    }
}

/* The first words, with the password, are one write, and for commands the only one. */
TEST(a_login_for_commands_is_one_round_trip)
{
    static const struct {
        const char *name;
        const char *login;
        const char *begins;
    } rows[] = {
        {"nobody", "", "*4\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$7\r\nSETNAME\r\n$6\r\nrql-me\r\n"},
        {"password", ":sesame@",
         "*7\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsesame\r\n$7\r\n"},
        {"user", "ann:sesame@",
         "*7\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsesame\r\n$7\r\n"},
    };

    EACH_ROW (row, rows) {
        CHECK_OK(log_in(row->login, true, (const char *[]){PEER_LOGIN_FOR_COMMANDS, NULL}));
        assert_memory_equal(heard[0], row->begins, strlen(row->begins));
        CHECK_ALL(EQ(n_rounds, 1), EQ(sock.seat.client_id, FIRST_ID), EQ(sock.is_read_only, false),
                  EQ(sock.scripts, (1 << RQLI_SCRIPT_COUNT) - 1));
        assert_null(strstr(heard[0], "ZREM"));
    }
}

/* The channels of partitions are subscribed to behind it. */
TEST(a_login_for_pushes_ends_with_its_subscriptions)
{
    static const struct {
        const char *name;
        enum rqli_arrangement arrangement;
        size_t n_rounds;
        int64_t client_id;
        const char *said[4];
    } rows[] = {
        {"HELLO", RQLI_SINGLE, 2, FIRST_ID, {PEER_LOGIN, SUBSCRIBED}},
        {"old words", RQLI_SINGLE, 3, OLD_ID, {UNKNOWN PEER_BEHIND_HELLO, OLD_WORDS, SUBSCRIBED}},
        {"node of a cluster", RQLI_CLUSTER, 1, FIRST_ID, {HELLO_OF_NODE PEER_TIME}},
    };

    EACH_ROW (row, rows) {
        arrangement = row->arrangement;
        CHECK_OK(log_in("", false, row->said));
        CHECK_ALL(EQ(n_rounds, row->n_rounds), EQ(sock.seat.client_id, row->client_id),
                  EQ(strstr(heard[0], "PUBLISH") != NULL, row->arrangement == RQLI_SINGLE));
    }
}

#define HELLO_OF(version, mode) "*8\r\n" version PEER_ID mode PEER_ROLE(6, "master") PEER_TIME
#define VERSION(length, version) "$7\r\nversion\r\n$" #length "\r\n" version "\r\n"
#define NODE PEER_MODE(7, "cluster")
#define SHARD PEER_MODE(10, "standalone")
#define SINGLE_OF(version) HELLO_OF(version, SHARD) ":0\r\n"

/* Whoever is told by its partition's channel. What begins with no number is another's version. */
TEST(a_server_of_partitions_is_new_enough_for_their_channels)
{
    /* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
    static const struct {
        const char *name;
        enum rqli_arrangement arrangement;
        const char *first, *second;
        rql_status status;
        const char *says;
    } rows[] = {
        {"old node", RQLI_CLUSTER, HELLO_OF(VERSION(6, "6.2.14"), NODE), NULL, RQL_E_UNSUPPORTED,
         "version 6.2.14 of the server is too old for redis+cluster://, which needs Redis 7.0"},
        {"old shard", RQLI_SHARDS, HELLO_OF(VERSION(5, "6.0.9"), SHARD), NULL, RQL_E_UNSUPPORTED,
         "version 6.0.9 of the server is too old for redis+shards://"},
        {"old one of several masters", RQLI_SENTINEL, HELLO_OF(VERSION(6, "6.2.14"), SHARD), NULL,
         RQL_E_UNSUPPORTED,
         "version 6.2.14 of the server is too old for redis+sentinel:// of several masters"},
        {"node without HELLO", RQLI_CLUSTER, UNKNOWN PEER_TIME, NULL, RQL_E_UNSUPPORTED, "too old"},
        {"shard without HELLO", RQLI_SHARDS, UNKNOWN PEER_TIME, NULL, RQL_E_UNSUPPORTED, "too old"},
        {"node", RQLI_CLUSTER, HELLO_OF(VERSION(5, "7.0.0"), NODE), NULL, RQL_OK, ""},
        {"shard", RQLI_SHARDS, HELLO_OF(VERSION(5, "7.2.5"), SHARD), NULL, RQL_OK, ""},
        {"two digits", RQLI_SHARDS, HELLO_OF(VERSION(4, "10.0"), SHARD), NULL, RQL_OK, ""},
        {"another's", RQLI_SHARDS, HELLO_OF(VERSION(5, "df-1."), SHARD), NULL, RQL_OK, ""},
        {"old and alone", RQLI_SINGLE, SINGLE_OF(VERSION(6, "6.2.14")), SUBSCRIBED, RQL_OK, ""},
        {"node, in place of a shard", RQLI_SHARDS, HELLO_OF(VERSION(5, "7.0.0"), NODE), NULL,
         RQL_E_UNSUPPORTED, "its URL begins with redis+cluster://"},
    };

    EACH_ROW (row, rows) {
        arrangement = row->arrangement;
        error.message[0] = '\0';
        assert_int_equal(log_in("", false, (const char *[]){row->first, row->second, NULL, NULL}),
                         row->status);
        assert_non_null(strstr(error.message, row->says));
    }
}

#define HELLO_ERROR(error) error NO_AUTH NO_AUTH NO_AUTH NO_AUTH NO_AUTH NO_AUTH NO_AUTH NO_AUTH

/* What came behind HELLO says nothing then: the server may have wanted a password first. */
TEST(who_does_not_know_hello_is_asked_with_the_old_words)
{
    static const struct {
        const char *name;
        const char *first;
    } rows[] = {
        {"refused", HELLO_ERROR(NO_PERMISSION)},
        {"not first", HELLO_ERROR(NO_AUTH)},
        {"no id",
         "*4\r\n" PEER_MODE(10, "standalone") PEER_ROLE(6, "master") PEER_BEHIND_HELLO PEER_SEAT},
        {"no role", "*4\r\n" PEER_ID PEER_MODE(10, "standalone") PEER_BEHIND_HELLO PEER_SEAT},
        {"nothing", "*0\r\n" PEER_BEHIND_HELLO PEER_SEAT},
        {"id is a text",
         "*4\r\n$2\r\nid\r\n$1\r\n7\r\n" PEER_ROLE(6, "master") PEER_BEHIND_HELLO PEER_SEAT},
    };

    static const char begins[] = "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsesame\r\n*1\r\n";

    EACH_ROW (row, rows) {
        CHECK_OK(
            log_in("ann:sesame@", true,
                   (const char *[]){row->first, "+OK\r\n" OLD_WORDS ":0\r\n" PEER_SEAT, NULL}));
        assert_memory_equal(heard[1], begins, strlen(begins));
        CHECK_ALL(EQ(n_rounds, 2), EQ(sock.seat.client_id, OLD_ID), EQ(sock.is_read_only, false));
    }
}

/* HELLO has as many elements here as all replies of one batch may have together. */
TEST(each_reply_of_a_login_may_have_as_much_as_any)
{
    enum { MOST_ELEMENTS = 262144, OTHERS = MOST_ELEMENTS - 4 };

    static const char others[] = ":1\r\n";
    char *said = malloc(OTHERS * (sizeof others - 1) + HEARD_SIZE);
    char *at = said + sprintf(said, "*%d\r\n%s", MOST_ELEMENTS, PEER_ID PEER_ROLE(6, "master"));

    for (int i = 0; i < OTHERS; i++) {
        at += sprintf(at, "%s", others);
    }
    (void)strcpy(at, PEER_BEHIND_HELLO PEER_SEAT);
    CHECK_OK(log_in("", true, (const char *[]){said, NULL}));
    free(said);
}

TEST(a_login_that_fails_says_why)
{
    static const struct {
        const char *name;
        const char *login;
        rql_status status;
        size_t n_rounds;
        const char *first;
        const char *second;
        const char *says;
    } rows[] = {
        {"password is wanted", "", RQL_E_AUTH, 2, HELLO_ERROR(NO_AUTH), NO_AUTH, "TIME on unix:"},
        {"may not publish", "", RQL_E_AUTH, 1,
         PEER_HELLO PEER_TIME "-NOPERM no permissions to run the 'publish' command\r\n", NULL,
         "ACL SETUSER default +publish;"},
        {"no channels", "ann:sesame@", RQL_E_AUTH, 1,
         PEER_HELLO PEER_TIME "-NOPERM no permissions to access one of the channels\r\n", NULL,
         "ACL SETUSER ann '&rql:wake:*';"},
        {"no clock", "ann:sesame@", RQL_E_AUTH, 1,
         PEER_HELLO "-NOPERM no permissions to run the 'time' command\r\n", NULL,
         "ACL SETUSER ann +time;"},
        {"no clock, in the words of Redis 7.2", "channels:sesame@", RQL_E_AUTH, 1,
         PEER_HELLO "-NOPERM User channels has no permissions to run the 'time' command\r\n", NULL,
         "ACL SETUSER channels +time;"},
        {"a status", "", RQL_E_PROTOCOL, 1, "+OK\r\n", NULL, "unexpected reply"},
        {"a number", "", RQL_E_PROTOCOL, 1, ":7\r\n", NULL, "unexpected reply"},
        {"a name without a value", "", RQL_E_PROTOCOL, 1, "*3\r\n" PEER_ID "$4\r\nrole\r\n", NULL,
         "unexpected reply"},
    };

    EACH_ROW (row, rows) {
        assert_int_equal(
            log_in(row->login, true, (const char *[]){row->first, row->second, NULL, NULL}),
            row->status);
        assert_int_equal(n_rounds, row->n_rounds);
        assert_non_null(strstr(error.message, row->says));
        assert_int_equal(sock.fd, -1);
    }
}

/* It is connected to all the same: locks can be looked at there. */
TEST(a_replica_is_told_by_its_role_or_by_a_write)
{
    static const struct {
        const char *name;
        const char *first;
        const char *second;
    } rows[] = {
        {"role", "*4\r\n" PEER_ID PEER_ROLE(7, "replica") PEER_BEHIND_HELLO PEER_SEAT, NULL},
        {"write", UNKNOWN PEER_BEHIND_HELLO PEER_SEAT, OLD_WORDS READ_ONLY PEER_SEAT},
    };

    EACH_ROW (row, rows) {
        CHECK_OK(log_in("", true, (const char *[]){row->first, row->second, NULL, NULL}));
        assert_true(sock.is_read_only);
    }
}

/* Texts that nobody has terminated. */
static rql_status give_all(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)timeout_ms;
    (void)data;
    memset(out->user, 'u', sizeof out->user);
    memset(out->password, 'p', sizeof out->password);
    return RQL_OK;
}

TEST(credentials_may_fill_their_fields)
{
    const char *user;

    credentials = give_all;
    CHECK_OK(log_in("", true, (const char *[]){PEER_LOGIN_FOR_COMMANDS, NULL}));
    user = strstr(heard[0], "$255\r\nu");
    assert_non_null(user);
    assert_memory_equal(user + sizeof "$255\r\n" - 1 + 255, "\r\n$4095\r\np", 10);
}

#define SEAT_OF(run_id) "$0\r\n\r\n$16\r\n\nrun_id:" run_id "\r\n\r\n" PEER_SCRIPTS

/* Each partition answers by itself. What has none is verified; a cluster that is down is no cluster
 * yet. */
TEST(an_arrival_at_a_node_is_read_by_partition)
{
    static const struct {
        const char *name; /* the answer */
        rql_status status;
        bool has_news;
    } rows[] = {
        {"-CLUSTERDOWN The cluster is down\r\n", RQL_E_UNAVAILABLE, true},
        {"-CLUSTERDOWN Hash slot not served\r\n", RQL_OK, true},
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", RQL_OK, true},
        {"-ASK 64 127.0.0.1:7001\r\n", RQL_OK, true},
        {"-MOVED 64 127.0.0.1:7001\r\n", RQL_OK, false},
        {"-OOM no memory\r\n", RQL_E_UNAVAILABLE, true},
        {"$3\r\n0 9\r\n", RQL_OK, false},
    };

    EACH_ROW (row, rows) {
        struct rqli_era own = {.floor = 77};

        era = &own;
        arrangement = RQLI_CLUSTER;
        assert_int_equal(
            log_in("", true,
                   (const char *[]){HELLO_OF(VERSION(5, "7.0.0"), NODE) SEAT_OF("abcdef"),
                                    row->name, NULL}),
            row->status);
        CHECK_ALL(EQ(n_rounds, 2), EQ(own.has_news, row->has_news));
    }
}
