#include "check.h"

#include "net/login/era.h"
#include "reply_tree.h"

/* What a client makes of what it has seen, and of what arrive.lua says to it. */

static struct rqli_era era;
static rql_error error;

BEFORE_EACH(set_up)
{
    era = (struct rqli_era){0};
}

TEST(the_floor_is_the_highest_token_that_was_seen)
{
    const int64_t tokens[] = {5, 3, 9, 9, 8};
    int64_t floor = 0;

    EACH (token, tokens) {
        floor = *token > floor ? *token : floor;
        rqli_era_on_token(&era, *token);
        assert_int_equal(era.floor, floor);
        assert_true(rqli_era_wants(&era));
    }
}

/* That of a hand-over that never took place is no floor, and is given to no other. */
TEST(a_token_that_is_made_is_above_all_that_were_seen_or_made)
{
    rqli_era_on_token(&era, 100);
    assert_int_equal(rqli_era_make_token(&era, 8, 200), 101);
    assert_int_equal(rqli_era_make_token(&era, 8, 200), 102);
    assert_int_equal(rqli_era_make_token(&era, 500, 600), 500);
    assert_int_equal(rqli_era_make_token(&era, 500, 600), 501);
    assert_int_equal(era.floor, 100);
    rqli_era_on_token(&era, 900);
    assert_int_equal(rqli_era_make_token(&era, 500, 900), 0);
    assert_int_equal(rqli_era_make_token(&era, 500, 901), 901);
}

/* EVAL text 2 rql:fence rql:era <server> <floor> <pause>: the end of it. */
TEST(an_arrival_says_who_the_server_is_and_what_was_seen)
{
    static const struct {
        const char *name;
        int64_t floor, made;
        const char *run_id, *end;
    } rows[] = {
        {"known", 77, 0, "abc",
         "$1\r\n2\r\n$9\r\nrql:fence\r\n$7\r\nrql:era\r\n$3\r\nabc\r\n$2\r\n77\r\n$4\r\n5000\r\n"},
        {"unknown", 77, 76, "",
         "$1\r\n2\r\n$9\r\nrql:fence\r\n$7\r\nrql:era\r\n$1\r\n-\r\n$2\r\n77\r\n$4\r\n5000\r\n"},
        {"a token was made that the server may not know", 74, 77, "abc",
         "$1\r\n2\r\n$9\r\nrql:fence\r\n$7\r\nrql:era\r\n$3\r\nabc\r\n$2\r\n77\r\n$4\r\n5000\r\n"},
    };

    EACH_ROW (row, rows) {
        struct rqli_command command = {0};
        size_t length = strlen(row->end);

        era = (struct rqli_era){.pause_ms = 5000, .floor = row->floor, .made = row->made};
        assert_int_equal(rqli_era_write(&era, &rqli_key_sets[RQLI_WHOLE], row->run_id,
                                        (struct rqli_slice){0}, &command),
                         row->floor);
        assert_int_equal(command.n_commands, 1);
        assert_true(command.length > length);
        assert_memory_equal(command.data + command.length - length, row->end, length);
        rqli_command_fini(&command);
    }
}

/* Of a client that has said 100 and may have seen more since. */
TEST(what_was_lost_is_told_once)
{
    const struct {
        const char *name;
        struct rqli_reply answer;
        int64_t seen; /* by the time of the answer */
        rql_status status;
        bool is_news;
        int64_t lost, known, floor;
    } rows[] = {
        {"nothing", tree_text("0 100"), 100, RQL_OK, false, 0, 0, 100},
        {"more is known", tree_text("0 200"), 100, RQL_OK, false, 0, 0, 100},
        {"lost", tree_text("1 40"), 100, RQL_OK, true, 100, 40, 100},
        {"all is lost", tree_text("1 0"), 100, RQL_OK, true, 100, 0, 100},
        {"lost, and more was seen", tree_text("1 40"), 150, RQL_OK, true, 100, 40, 150},
        {"far ahead", tree_text("2 40"), 100, RQL_OK, true, 100, 40, 40},
        {"far ahead, and more was seen", tree_text("2 40"), 150, RQL_OK, true, 100, 40, 150},
        {"a token that was made is not there", tree_text("1 100"), 100, RQL_OK, false, 0, 0, 100},
        {"nor is it, and another client's is", tree_text("1 110"), 100, RQL_OK, false, 0, 0, 100},
        {"one that was made is far ahead", tree_text("2 100"), 100, RQL_OK, false, 0, 0, 100},
        {"unknown", tree_text("3 40"), 100, RQL_E_PROTOCOL, false, 0, 0, 100},
        {"below all", tree_text("-1 40"), 100, RQL_E_PROTOCOL, false, 0, 0, 100},
        {"short", tree_text("1"), 100, RQL_E_PROTOCOL, false, 0, 0, 100},
        {"a text", tree_text("OK"), 100, RQL_E_PROTOCOL, false, 0, 0, 100},
        {"error", tree_error("READONLY You can't write"), 100, RQL_E_READ_ONLY, false, 0, 0, 100},
    };

    EACH_ROW (row, rows) {
        int64_t lost = 0;
        int64_t known = 0;

        era = (struct rqli_era){.floor = row->seen, .made = row->seen};
        assert_int_equal(rqli_era_read(&era, 100, &row->answer, "here", &error), row->status);
        assert_true(!row->status || strstr(error.message, "arrive on here"));
        assert_int_equal(rqli_era_take_news(&era, &lost, &known), row->is_news);
        CHECK_ALL(EQ(lost, row->lost), EQ(known, row->known), EQ(era.floor, row->floor),
                  EQ(rqli_era_make_token(&era, 0, INT64_MAX), row->floor + 1));
        assert_false(rqli_era_take_news(&era, &lost, &known));
    }
}

/* Logins, one after the other, and whether what is held is verified behind the last. */
TEST(another_server_is_news)
{
    static const struct {
        const char *name, *before, *now;
        bool is_news;
    } rows[] = {
        {"the first", NULL, "a", false},       {"the first, unknown", NULL, "", false},
        {"the same", "a", "a", false},         {"another", "a", "b", true},
        {"not known any more", "a", "", true}, {"never known", "", "", true},
        {"known now", "", "a", true},
    };

    EACH_ROW (row, rows) {
        int64_t lost = -1;
        int64_t known = -1;

        era = (struct rqli_era){0};
        if (row->before) {
            rqli_era_on_login(&era, row->before);
        }
        rqli_era_on_login(&era, row->now);
        assert_int_equal(rqli_era_take_news(&era, &lost, &known), row->is_news);
        assert_int_equal(lost, row->is_news ? 0 : -1);
    }
}
