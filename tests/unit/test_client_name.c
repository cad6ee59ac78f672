#include "check.h"

#include "admin/client_list.h"
#include "net/login/client_name.h"
#include "reply_tree.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

static struct rqli_client_name client;
static const char *host; /* NULL: an ordinary one */

/* In place of the system's. */
int gethostname(char *name, size_t len)
{
    (void)snprintf(name, len, "%s", host ? host : "web-3");
    return 0;
}

static const char *entry_with(const char *label)
{
    rqli_client_name_init(&client, &rqli_key_sets[RQLI_WHOLE], "me", label);
    return client.entry;
}

/* As much of a label as is kept. */
#define X_61 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X_63 X_61 "xx"

/* It is read by others as JSON, and by us without escapes. */
TEST(a_label_is_cut_and_cannot_end_its_field)
{
    static const struct {
        const char *given;
        const char *said;
    } rows[] = {
        {"", "\"label\":\"\"}"},
        {"billing", "\"label\":\"billing\"}"},
        {"a\"b\\c\n\x7F", "\"label\":\"a_b_c__\"}"},
        {"b\xC3\xBCro", "\"label\":\"b\xC3\xBCro\"}"},
        {X_63 X_63 X_63 "xxxxxxxxxx", "\"label\":\"" X_63 "\"}"},
        {X_61 "x\xC3\xBC", "\"label\":\"" X_61 "x\"}"},
        {X_61 "\xC3\xBC", "\"label\":\"" X_61 "\xC3\xBC\"}"},
        {X_61 "\xF0\x9F\x94\x92x", "\"label\":\"" X_61 "\"}"},
    };

    EACH_BY (row, rows, row->said) {
        const char *entry = entry_with(row->given);

        assert_string_equal(entry + strlen(entry) - strlen(row->said), row->said);
    }
}

/* Of the machine's own file, where the environment does not say it. */
TEST(a_user_is_named_by_the_account)
{
    const struct passwd *account = getpwuid(geteuid());
    char said[100];

    assert_int_equal(unsetenv("USER"), 0);
    assert_int_equal(unsetenv("LOGNAME"), 0);
    if (account) {
        (void)snprintf(said, sizeof said, "\"user\":\"%s\"", account->pw_name);
    } else {
        (void)snprintf(said, sizeof said, "\"user\":\"uid %u\"", (unsigned)geteuid());
    }
    assert_non_null(strstr(entry_with("x"), said));
}

/* What a swarm is run with. */
TEST(more_may_be_said_of_a_connection)
{
    rql_client_info *info;

    (void)entry_with("x");
    rqli_client_name_add(&client, ",\"zombie_ttl_ms\":15000,\"probe_period_ms\":2000");
    rqli_client_name_add(&client, ",\"flush_period_ms\":0");
    info = rqli_client_info_read(rqli_slice_of("me"), rqli_slice_of(client.entry));
    assert_non_null(info);
    assert_string_equal(info->label, "x");
    CHECK_ALL(EQ(info->zombie_ttl_ms, 15000), EQ(info->probe_period_ms, 2000),
              EQ(info->flush_period_ms, 0));
    (void)rql_free(info);
}

TEST(connections_are_named_by_what_they_are_for)
{
    static const struct {
        char of_commands;
        bool is_for_commands;
        char end;
    } rows[] = {{'c', true, 'c'}, {'c', false, 's'}, {'b', true, 'b'}};

    (void)entry_with("");
    assert_int_equal(client.of_commands, 'c');
    EACH (row, rows) {
        char text[RQLI_CLIENT_NAME_SIZE];
        char end[32];

        client.of_commands = row->of_commands;
        (void)snprintf(end, sizeof end, ":%d:%c", (int)getpid(), row->end);
        rqli_client_name_of_connection(&client, row->is_for_commands, text);
        assert_memory_equal(text, "rql:", 4);
        assert_string_equal(text + strlen(text) - strlen(end), end);
        assert_null(strpbrk(text, " \n\t"));
    }
}

/* The server takes no blank in it, and its parts are separated by colons. */
TEST(a_host_is_one_word_of_a_connections_name)
{
    static const struct {
        const char *host;
        const char *word;
    } rows[] = {
        {"web-3", "web-3"},   {"a b", "a_b"},     {"a:b", "a_b"},
        {"a~\x7F\n", "a~__"}, {"\xC3\xBC", "__"},
    };

    EACH_BY (row, rows, row->word) {
        char place[64];

        host = row->host;
        (void)entry_with("");
        (void)snprintf(place, sizeof place, "%s:%d", row->word, (int)getpid());
        assert_string_equal(client.place, place);
    }
    host = NULL;
}

/* From a login on, each twenty minutes, by one of those who ask. */
TEST(an_entry_is_due_again_after_a_while)
{
    const int64_t minute_us = INT64_C(60000000);

    (void)entry_with("");
    assert_false(rqli_client_name_is_due(&client, INT64_MAX - 1));
    rqli_client_name_on_login(&client, minute_us);
    CHECK_ALL(EQ(rqli_client_name_is_due(&client, 21 * minute_us - 1), false),
              EQ(rqli_client_name_is_due(&client, 21 * minute_us), true),
              EQ(rqli_client_name_is_due(&client, 21 * minute_us), false),
              EQ(rqli_client_name_is_due(&client, 41 * minute_us), true),
              EQ(rqli_client_name_is_due(&client, 42 * minute_us), false));
    rqli_client_name_on_lost(&client);
    assert_true(rqli_client_name_is_due(&client, 42 * minute_us));
}

#define WHOLE                                                                                      \
    "{\"at_us\":7,\"since_us\":5,\"host\":\"web-3\",\"pid\":14534,\"program\":\"worker\","         \
    "\"user\":\"app\",\"version\":\"0.2.0\",\"label\":\"billing\"}"

TEST(entries_are_read_whatever_they_are)
{
    static const struct {
        const char *entry;
        const char *host, *label;
        int64_t pid, since_us, at_us;
    } rows[] = {
        {WHOLE, "web-3", "billing", 14534, 5, 7},
        {"", "", "", -1, -1, -1},
        {"{\"host\":\"web-3", "web-3", "", -1, -1, -1},
        {"{\"host\":7,\"label\":", "", "", -1, -1, -1},
        {"{\"pid\":99999999999999999999,\"at_us\":7}", "", "", -1, -1, 7},
        {"\"host\":\"\",\"pid\":-4,", "", "", -4, -1, -1},
    };

    EACH_BY (row, rows, row->entry) {
        rql_client_info *info =
            rqli_client_info_read(rqli_slice_of("me"), rqli_slice_of(row->entry));

        assert_non_null(info);
        assert_string_equal(info->identity, "me");
        assert_string_equal(info->host, row->host);
        assert_string_equal(info->label, row->label);
        CHECK_ALL(EQ(info->pid, row->pid), EQ(info->since_us, row->since_us),
                  EQ(info->at_us, row->at_us));
        (void)rql_free(info);
    }
    assert_null(rqli_client_info_read((struct rqli_slice){"a\0b", 3}, rqli_slice_of(WHOLE)));
    assert_null(rqli_client_info_read(rqli_slice_of("me"), (struct rqli_slice){"a\0b", 3}));
}
