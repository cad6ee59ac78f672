#include "check.h"

#include "reply_tree.h"

#include <stdlib.h>

#define ERROR(words, size) ((struct rqli_reply){.type = RQLI_REPLY_ERROR, .text = {words, size}})

TEST(every_code_has_its_class_and_says_if_nothing_was_done)
{
    static const struct {
        const char *text;
        rql_status status;
        bool did_nothing; /* and says so */
    } cases[] = {
        {"NOAUTH Authentication required.", RQL_E_AUTH, true},
        {"WRONGPASS invalid username-password pair or user is disabled.", RQL_E_AUTH, true},
        {"NOPERM this user has no permissions to run the 'evalsha' command", RQL_E_AUTH},
        {"DENIED Redis is running in protected mode", RQL_E_AUTH, true},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", RQL_E_WRONG_TYPE},
        {"READONLY You can't write against a read only replica.", RQL_E_READ_ONLY, true},
        {"MASTERDOWN Link with MASTER is down", RQL_E_READ_ONLY, true},
        {"MOVED 3999 127.0.0.1:6381", RQL_E_UNAVAILABLE, true},
        {"ASK 3999 127.0.0.1:6381", RQL_E_UNAVAILABLE, true},
        {"LOADING Redis is loading the dataset in memory", RQL_E_UNAVAILABLE, true},
        {"BUSY Redis is busy running a script.", RQL_E_UNAVAILABLE, true},
        {"OOM command not allowed when used memory > 'maxmemory'.", RQL_E_UNAVAILABLE, true},
        {"MISCONF Redis is configured to save RDB snapshots", RQL_E_UNAVAILABLE, true},
        {"NOREPLICAS Not enough good replicas to write.", RQL_E_UNAVAILABLE, true},
        {"TRYAGAIN Multiple keys request during rehashing of slot", RQL_E_UNAVAILABLE, true},
        {"CLUSTERDOWN Hash slot not served", RQL_E_UNAVAILABLE, true},
        {"OOM", RQL_E_UNAVAILABLE, true},
        {"EXECABORT Transaction discarded because of: NOPERM User w has no permissions to run the "
         "'exec' command",
         RQL_E_AUTH, true},
        {"EXECABORT Transaction discarded because of previous errors.", RQL_E_SERVER},
        {"ERR unknown command 'FOO'", RQL_E_SERVER},
        {"NOSCRIPT No matching script.", RQL_E_SERVER},
        {"BUSYKEY Target key name already exists.", RQL_E_SERVER},
        {"ASKING is no code", RQL_E_SERVER},
        {"ERR LOADING is not the first word", RQL_E_SERVER},
        {"ERR max number of clients reached", RQL_E_UNAVAILABLE, true},
        {"oom command", RQL_E_SERVER},
        {"", RQL_E_SERVER},
    };

    EACH_BY (row, cases, row->text) {
        struct rqli_reply reply = tree_error(row->text);
        rql_error error = {0};

        assert_int_equal(rqli_reply_class(&reply), row->status);
        assert_int_equal(rqli_reply_did_nothing(&reply), row->did_nothing);
        assert_int_equal(rqli_reply_fault(&reply, "grant", "rql:lock:x", &error), row->status);
        assert_int_equal(strstr(error.message, "; nothing was done") != NULL, row->did_nothing);
    }
}

#define SHA "ffffffffffffffffffffffffffffffffffffffff"

/* What servers of several ages make of an error within a script. */
TEST(errors_within_scripts_are_classed_and_stripped)
{
    static const struct {
        const char *text;
        rql_status status;
        const char *message;
    } cases[] = {
        {"WRONGTYPE Operation against a key script: " SHA ", on @user_script:3.", RQL_E_WRONG_TYPE,
         "poll on rql:lock:x: WRONGTYPE Operation against a key"},
        {"ERR Error running script (call to f_" SHA "): @user_script:1: WRONGTYPE Operation "
         "against a key",
         RQL_E_WRONG_TYPE, "poll on rql:lock:x: WRONGTYPE Operation against a key"},
        {"ERR Error running script (call to f_" SHA "): @user_script:1: @user_script: 1: -OOM "
         "command not allowed",
         RQL_E_UNAVAILABLE, "poll on rql:lock:x: OOM command not allowed; nothing was done"},
        {"ERR Error running script (call to f_" SHA "): @user_script:1: -READONLY You can't write",
         RQL_E_READ_ONLY, "poll on rql:lock:x: READONLY You can't write; nothing was done"},
        {"ERR handler failed: WRONGTYPE Operation script: " SHA ", on @user_script:9.",
         RQL_E_WRONG_TYPE, "poll on rql:lock:x: ERR handler failed: WRONGTYPE Operation"},
        {"ERR The user executing the script can't run this command or subcommand script: " SHA
         ", on @user_script:1.",
         RQL_E_AUTH,
         "poll on rql:lock:x: ERR The user executing the script can't run this command or "
         "subcommand"},
        {"ERR ACL failure in script: User w has no permissions to run the 'publish' command",
         RQL_E_AUTH, "poll on rql:lock:x: User w has no permissions to run the 'publish' command"},
        {"ERR ACL failure in script: User a-service-with-a-name-of-46-bytes-in-production has no "
         "permissions to run the 'hmset' command script: " SHA ", on @user_script:1.",
         RQL_E_AUTH,
         "poll on rql:lock:x: User a-service-with-a-name-of-46-bytes-in-production has no "
         "permissions to run the 'hmset' command"},
        {"EXECABORT Transaction discarded because of: NOPERM User "
         "a-service-with-a-name-of-34-bytes "
         "has no permissions to run the 'exec' command",
         RQL_E_AUTH,
         "poll on rql:lock:x: NOPERM User a-service-with-a-name-of-34-bytes has no permissions to "
         "run the 'exec' command; nothing was done"},
        {"ERR ACL failure in script: No permissions to access a key script: " SHA
         ", on @user_script:1.",
         RQL_E_AUTH, "poll on rql:lock:x: No permissions to access a key"},
        {"ERR user_script:1: Script attempted to access nonexistent global variable 'x' "
         "script: " SHA ", on @user_script:1.",
         RQL_E_SERVER,
         "poll on rql:lock:x: ERR user_script:1: Script attempted to access nonexistent global "
         "variable 'x'"},
        {"ERR Error running script (call to f_" SHA "): @user_script:12", RQL_E_SERVER, NULL},
        {"ERR a word script: in the text", RQL_E_SERVER,
         "poll on rql:lock:x: ERR a word script: in the text"},
        {"ERR a word script: in the text, on @end", RQL_E_SERVER,
         "poll on rql:lock:x: ERR a word script: in the text, on @end"},
    };

    EACH_BY (row, cases, row->text) {
        struct rqli_reply reply = tree_error(row->text);
        rql_error error = {0};

        assert_int_equal(rqli_reply_class(&reply), row->status);
        assert_int_equal(rqli_reply_fault(&reply, "poll", "rql:lock:x", &error), row->status);
        assert_int_equal(error.status, row->status);
        if (row->message) {
            assert_string_equal(error.message, row->message);
        }
    }
}

TEST(what_no_server_counts_is_no_count)
{
    static const int64_t counts[] = {0, 1, INT64_C(1) << 40};
    static const int64_t others[] = {-1, INT64_MIN, (INT64_C(1) << 40) + 1, INT64_MAX};

    EACH (count, counts) {
        struct rqli_reply reply = {.type = RQLI_REPLY_INTEGER, .integer = *count};

        assert_true(rqli_reply_is_count(&reply));
        reply.type = RQLI_REPLY_STATUS;
        assert_false(rqli_reply_is_count(&reply));
    }
    EACH (other, others) {
        const struct rqli_reply reply = {.type = RQLI_REPLY_INTEGER, .integer = *other};

        assert_false(rqli_reply_is_count(&reply));
    }
}

TEST(control_bytes_are_escaped)
{
    const struct {
        struct rqli_reply reply;
        const char *where, *message;
    } rows[] = {
        {ERROR("ERR a\r\nb\0c\x1b[31m\x7f", 16), "k\ny",
         "poll on k\\x0ay: ERR a\\x0d\\x0ab\\x00c\\x1b[31m\\x7f"},
        {ERROR("\x1f ~\x7f\x80\xff", 6), "\xc3\xa4", "poll on \xc3\xa4: \\x1f ~\\x7f\x80\xff"},
    };

    EACH (row, rows) {
        rql_error error = {0};

        assert_int_equal(rqli_reply_fault(&row->reply, "poll", row->where, &error), RQL_E_SERVER);
        assert_string_equal(error.message, row->message);
    }
}

TEST(a_cut_keeps_the_claim_and_whole_characters)
{
    char name[700] = "rql:lock:";
    struct rqli_reply reply;
    rql_error error = {0};
    char text[300];

    for (int i = 0; i < 200; i++) {
        strcat(name, "\xc3\xa4");
    }
    memset(text, 'x', sizeof text);
    memcpy(text, "LOADING ", 8);
    text[sizeof text - 1] = '\0';
    reply = tree_error(text);
    /* Cut behind a first byte, and behind a second one. */
    for (const char *where = name; where < name + 2; where++) {
        assert_int_equal(rqli_reply_fault(&reply, "poll", where, &error), RQL_E_UNAVAILABLE);
        assert_non_null(strstr(error.message, "\xc3\xa4...: LOADING xxx"));
        assert_non_null(strstr(error.message, "xxx...; nothing was done"));
    }
}

TEST(only_a_text_is_searched)
{
    const struct rqli_reply rows[] = {
        tree_nil(),
        tree_int(7),
        tree_array(NULL, 0),
        TREE(tree_text("\nclients:7\r\n")),
        tree_status("\nclients:7\r\n"),
        tree_error("\nclients:7\r\n"),
    };
    const struct rqli_reply text = tree_text("\nclients:7\r\n");

    EACH (row, rows) {
        char found[8] = "none";

        rqli_reply_copy_between(found, sizeof found, row, "\nclients:", "\r");
        assert_string_equal(found, "none");
        assert_int_equal(rqli_info_number(row, "\nclients:"), -1);
    }
    assert_int_equal(rqli_info_number(&text, "\nclients:"), 7);
}
