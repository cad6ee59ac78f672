#include "fixture.h"

/* Commands of the caller's own, and clients whose login asks for nothing. */

enum { WORDS_MAX = 8 };

static rql_reply *reply_to(rql_client *by, const char *const words[WORDS_MAX])
{
    rql_command command = {.argv = words};
    rql_reply *reply = NULL;

    while (command.argc < WORDS_MAX && words[command.argc]) {
        command.argc++;
    }
    CHECK_OK(rql_client_command(by, 0, &command, &reply, NULL));
    return reply;
}

#define REPLY(by, ...) reply_to(by, (const char *const[WORDS_MAX]){__VA_ARGS__})

/* Checks the text of a reply to these words. */
#define CHECK_REPLY(by, wanted_type, wanted, ...)                                                  \
    do {                                                                                           \
        rql_reply *reply_ = REPLY(by, __VA_ARGS__);                                                \
        assert_int_equal(rql_reply_get_type(reply_), wanted_type);                                 \
        assert_non_null(strstr(rql_reply_text(reply_, NULL), wanted));                             \
        assert_null(rql_free(reply_));                                                             \
    } while (0)

TEST(a_reply_has_the_servers_type_and_value)
{
    rql_reply *reply = REPLY(client, "EVAL", "return {7, {'a', 'bc'}, false, {ok = 'OK'}}", "0");
    const rql_reply *inner = rql_reply_item(reply, 1);
    size_t length;

    CHECK_ALL(EQ(rql_reply_get_type(reply), RQL_REPLY_ARRAY), EQ(rql_reply_count(reply), 4),
              EQ(rql_reply_integer(rql_reply_item(reply, 0)), 7), EQ(rql_reply_count(inner), 2),
              EQ(rql_reply_get_type(rql_reply_item(reply, 2)), RQL_REPLY_NIL),
              EQ(rql_reply_get_type(rql_reply_item(reply, 3)), RQL_REPLY_STATUS));
    assert_string_equal(rql_reply_text(rql_reply_item(inner, 1), &length), "bc");
    assert_int_equal(length, 2);
    assert_null(rql_reply_item(reply, 4));
    assert_int_equal(rql_reply_integer(inner), 0);
    assert_string_equal(rql_reply_text(reply, NULL), "");
    assert_null(rql_free(reply));
}

TEST(words_may_contain_any_bytes)
{
    const char *const words[] = {"ECHO", "a\0b"};
    const size_t lengths[] = {4, 3};
    const rql_command command = {.argc = 2, .argv = words, .argvlen = lengths};
    rql_reply *reply = NULL;
    size_t length;

    CHECK_OK(rql_client_command(client, 0, &command, &reply, NULL));
    assert_memory_equal(rql_reply_text(reply, &length), "a\0b", 4);
    assert_int_equal(length, 3);
    (void)rql_free(reply);
}

TEST(an_error_of_the_server_is_a_reply_and_no_redirect_is_followed)
{
    ask("SET text x");
    CHECK_REPLY(client, RQL_REPLY_ERROR, "WRONGTYPE", "HGET", "text", "f");
    CHECK_REPLY(client, RQL_REPLY_ERROR, "MOVED 7 127.0.0.1:1", "EVAL",
                "return redis.error_reply('MOVED 7 127.0.0.1:1')", "0");
    CHECK_REPLY(client, RQL_REPLY_ERROR, "NOSCRIPT", "EVALSHA",
                "0000000000000000000000000000000000000000", "0");
}

TEST(a_command_that_is_none_and_a_server_that_is_none_are_refused)
{
    static const char *const words[] = {"PING", NULL};
    const rql_command commands[] = {
        {.argc = 0, .argv = words}, {.argc = 2, .argv = words}, {.argc = 1, .argv = NULL}};
    const rql_command good = {.argc = 1, .argv = words};
    rql_reply *reply = NULL;

    EACH (command, commands) {
        assert_int_equal(rql_client_command(client, 0, command, &reply, NULL), RQL_E_INVALID);
    }
    assert_int_equal(rql_client_command(client, 0, NULL, &reply, NULL), RQL_E_INVALID);
    assert_int_equal(rql_client_command(client, 0, &good, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_client_command(NULL, 0, &good, &reply, NULL), RQL_E_INVALID);
    assert_int_equal(rql_client_command(client, 1, &good, &reply, NULL), RQL_NOT_FOUND);
    assert_null(reply);
    assert_null(rql_free(NULL));
    assert_int_equal(rql_reply_get_type(NULL), RQL_REPLY_NIL);
    assert_string_equal(rql_reply_text(NULL, NULL), "");
}

/* Makes a client of a user that has only these rights. */
static rql_client *new_user(const char *rights, bool is_bare)
{
    rql_options options = client_options();
    char url[TEXT_SIZE];

    ask("ACL SETUSER poor reset on >pw ~* resetchannels %s", rights);
    ask("ACL LOG RESET");
    (void)snprintf(url, sizeof url, "unix://poor:pw@%s", server.socket_path);
    options.url = url;
    options.bare_login = is_bare;
    options.client_names = false;
    return new_client_with(&options);
}

static void check_bare(const char *rights)
{
    rql_client *bare = new_user(rights, true);
    rql_client *whole = new_user(rights, false);
    rql_server_info info;
    rql_error error = {.status = RQL_OK};
    rql_stats stats;
    rql_lock *lock = NULL;
    redisReply *log;

    CHECK_REPLY(bare, RQL_REPLY_STATUS, "PONG", "PING");
    log = ask_reply("ACL LOG");
    assert_int_equal(log->elements, 0); /* the login has asked for nothing that is not allowed */
    freeReplyObject(log);
    CHECK_REPLY(bare, RQL_REPLY_ERROR, "NOPERM", "TIME");
    CHECK_OK(rql_client_ping(bare, &info, NULL));
    assert_int_equal(rql_lock_acquire(bare, "x", NULL, &lock, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "bare_login"));
    assert_int_equal(rql_client_connect(bare, NULL), RQL_E_INVALID);
    assert_int_equal(rql_client_stats(bare, &stats), RQL_E_INVALID);
    assert_int_equal(rql_client_connect(whole, NULL), RQL_E_AUTH);
    (void)rql_client_free(bare);
    (void)rql_client_free(whole);
}

TEST(a_bare_login_needs_no_right_but_that_of_its_command)
{
    check_bare("-@all +hello +ping");
}

TEST(a_bare_login_works_without_hello)
{
    rql_client *bare = new_user("-@all +ping", true);

    CHECK_REPLY(bare, RQL_REPLY_STATUS, "PONG", "PING");
    (void)rql_client_free(bare);
}

TEST(a_client_with_a_bare_login_has_no_swarm)
{
    rql_options options = client_options();
    rql_client *bare = NULL;

    options.bare_login = true;
    options.auto_swarm = true;
    assert_int_equal(rql_client_new(&options, &bare, NULL), RQL_E_INVALID);
    assert_null(bare);
}

FIXTURE(start_server, stop_server, make_clients, free_clients);
