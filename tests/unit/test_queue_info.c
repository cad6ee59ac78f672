#include "check.h"

#include "admin/info.h"
#include "reply_tree.h"

#include <stdlib.h>

#define KEY "rql:lock_queue:x"

static struct rqli_queue_reading reading;
static struct rqli_command command;
static rql_queue_info *info;

static void begin(int64_t limit)
{
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), limit);
}

AFTER_EACH(tear_down)
{
    rqli_queue_reading_fini(&reading);
    rqli_command_fini(&command);
    free(info);
    info = NULL;
}

/* Members and their scores up to NULL. */
static rql_status take_page(const char *const *words)
{
    struct rqli_reply items[64];
    struct rqli_reply reply;
    size_t count = 0;

    for (; words[count]; count++) {
        items[count] = tree_text(words[count]);
    }
    reply = tree_array(items, count);
    return rqli_queue_reading_take(&reading, &reply, KEY, NULL);
}

#define PAGE(...) CHECK_OK(take_page((const char *const[]){__VA_ARGS__, NULL}))

static void finish(void)
{
    free(info);
    CHECK_OK(rqli_queue_reading_finish(&reading, &info, NULL));
    rqli_queue_reading_fini(&reading);
    assert_string_equal(info->lock_queue, KEY);
    assert_string_equal(info->name, "x");
}

static void check_asks(const char *expected)
{
    rqli_command_reset(&command);
    rqli_queue_reading_ask(&reading, &command);
    assert_int_equal(command.n_commands, 1);
    assert_non_null(strstr(text_of(&command), expected));
}

TEST(pages_continue_at_the_last_score_behind_its_ties)
{
    begin(3);
    check_asks("$4\r\n-inf\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n"
               "$1\r\n0\r\n$1\r\n3\r\n$10\r\nWITHSCORES\r\n");
    PAGE("a", "1.5", "b", "2", "c", "2");
    assert_true(reading.has_more);
    check_asks("$1\r\n2\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n$1\r\n2\r\n");
    PAGE("d", "2", "e", "2", "f", "2");
    check_asks("$1\r\n2\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n$1\r\n5\r\n");
    PAGE("g", "3");
    assert_false(reading.has_more);
    finish();
    CHECK_ALL(EQ(info->status, RQL_KEY_ALIVE), EQ(info->n_requests, 7),
              EQ(info->requests[0].score_us, 1500000), EQ(info->requests[6].score_us, 3000000));
    for (size_t i = 0; i < info->n_requests; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        assert_string_equal(info->requests[i].acq_id, name);
        assert_int_equal(info->requests[i].position, i + 1);
        assert_null(info->requests[i].hst_id);
    }
}

/* One member's, between two others. */
TEST(scores_are_read_with_all_their_digits_or_spoil_only_themselves)
{
    /* -1: nobody can read it */
    const char *scores =
        "-1.5=-1500000|1.0000000000000001e-05=10|1795254268.4681001=1795254268468100"
        "|1.7952542684681123e+9=1795254268468112|inf=-1|-inf=-1|nan=-1|1e300=-1"
        "|=-1|soon=-1";
    char score[PART_SIZE];
    int64_t score_us;

    while (next_part(&scores, score, &score_us)) {
        begin(RQLI_QUEUE_PAGE);
        PAGE("a", "1", "b", score, "c", "3");
        finish();
        CHECK_ALL(EQ(info->status, score_us == -1 ? RQL_KEY_MALFORMED : RQL_KEY_ALIVE),
                  EQ(info->n_requests, 3), EQ(info->requests[0].score_us, 1000000),
                  EQ(info->requests[1].score_us, score_us),
                  EQ(info->requests[2].score_us, 3000000));
    }
}

TEST(what_is_no_queue_has_a_status)
{
    const struct {
        const char *name;
        struct rqli_reply page;
        rql_key_status status;
        const char *first;
    } rows[] = {
        {"another type", tree_error("WRONGTYPE Operation against a key"), RQL_KEY_WRONG_TYPE},
        {"nothing", tree_array(NULL, 0), RQL_KEY_RELEASED},
        {"a member with a NUL", TREE(tree_bytes("a\0b", 3), tree_text("1")), RQL_KEY_MALFORMED,
         "a"},
    };

    EACH_ROW (row, rows) {
        begin(5);
        CHECK_OK(rqli_queue_reading_take(&reading, &row->page, KEY, NULL));
        assert_false(reading.has_more);
        finish();
        CHECK_ALL(EQ(info->status, row->status), EQ(info->n_requests, row->first != NULL),
                  EQ(info->requests != NULL, row->first != NULL));
        assert_true(!row->first || strcmp(info->requests[0].acq_id, row->first) == 0);
    }
}

#define IDENTITY "00112233445566778899aabbccddeeff"
#define ACQUIRER "rql:acq:1/2/3/0/" IDENTITY

/* Of a request and its answer; the identity stands once, at the end of the acquirer's id. */
TEST(a_host_is_the_first_word_of_a_record)
{
    char too_long[RQL_ID_SIZE + 1] = {0};
    char long_with_identity[RQL_ID_SIZE - 32 + 1] = {0};

    const struct {
        const char *acquirer;
        struct rqli_reply reply;
        const char *host;
    } rows[] = {
        {"a", TREE(tree_text("rql:hst:1/2/0/ff 5000 nonce")), "rql:hst:1/2/0/ff"},
        {"b", TREE(tree_nil()), NULL},
        {"c", TREE(tree_text("alone")), "alone"},
        {"d", TREE(tree_text("")), NULL},
        {"e", TREE(tree_text(" x")), NULL},
        {"f", TREE(tree_bytes(too_long, RQL_ID_SIZE)), NULL},
        {"g", TREE(tree_bytes("h\0st x", 6)), NULL},
        {ACQUIRER, TREE(tree_text("rql:hst:1/2/0/ 5000 nonce")), "rql:hst:1/2/0/" IDENTITY},
        {"short", TREE(tree_text("rql:hst:1/2/0/ 5000 nonce")), "rql:hst:1/2/0/"},
        {ACQUIRER, TREE(tree_bytes(long_with_identity, RQL_ID_SIZE - 32)), long_with_identity},
        {"another type", tree_error("WRONGTYPE Operation against a key"), NULL},
    };

    memset(too_long, 'h', RQL_ID_SIZE);
    memset(long_with_identity, '/', RQL_ID_SIZE - 32);
    EACH_BY (row, rows, row->acquirer) {
        begin(9);
        PAGE(row->acquirer, "1");
        assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 1);
        CHECK_OK(rqli_queue_reading_take_hosts(&reading, &row->reply, KEY, NULL));
        assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 0);
        finish();
        assert_int_equal(info->status, RQL_KEY_ALIVE);
        assert_int_equal(info->requests[0].hst_id != NULL, row->host != NULL);
        if (row->host && info->requests[0].hst_id) {
            assert_string_equal(info->requests[0].hst_id, row->host);
        }
    }
}

TEST(records_are_asked_for_in_parts)
{
    const struct {
        const char *name;
        size_t most, n_asked;
        struct rqli_reply reply;
    } rows[] = {
        {"as many as there may be", 2, 2, TREE(tree_nil(), tree_nil())},
        {"the rest", 100, 1, TREE(tree_text("h 1"))},
        {"nothing", 100, 0, tree_array(NULL, 0)},
    };

    begin(9);
    PAGE("a", "1", "b", "2", "c", "3");
    EACH_ROW (row, rows) {
        assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, row->most), row->n_asked);
        CHECK_OK(rqli_queue_reading_take_hosts(&reading, &row->reply, KEY, NULL));
    }
    assert_string_equal(text_of(&command),
                        "*4\r\n$5\r\nHMGET\r\n$9\r\nrql:req:x\r\n$1\r\na\r\n$1\r\nb\r\n"
                        "*3\r\n$5\r\nHMGET\r\n$9\r\nrql:req:x\r\n$1\r\nc\r\n");
    finish();
    assert_null(info->requests[1].hst_id);
    assert_string_equal(info->requests[2].hst_id, "h");
}

TEST(names_that_are_too_long_have_no_records)
{
    static const char prefix[] = "rql:lock_queue:";

    static const struct {
        const char *name;
        size_t length, n_asked;
    } rows[] = {{"the longest", RQL_NAME_MAX, 1}, {"one byte more", RQL_NAME_MAX + 1, 0}};

    char key[RQL_NAME_MAX + 32];

    memset(key, 'n', sizeof key);
    memcpy(key, prefix, sizeof prefix - 1);
    EACH_ROW (row, rows) {
        const struct rqli_slice name = {key, sizeof prefix - 1 + row->length};

        rqli_queue_reading_init(&reading, name, 9);
        PAGE("a", "1");
        assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), row->n_asked);
        rqli_queue_reading_fini(&reading);
    }
}

TEST(replies_that_say_nothing_are_faults)
{
    const struct rqli_reply a = tree_text("a");
    const struct rqli_reply one = tree_text("1");
    const struct rqli_reply bad[] = {TREE(a, one, a),
                                     TREE(a, tree_int(1)),
                                     TREE(a, tree_text("1111111111111111111111111111111111111111")),
                                     TREE(a, one, a, one),
                                     tree_nil(),
                                     tree_text("x")};
    const struct rqli_reply refused = tree_error("NOPERM no");
    rql_error error = {0};

    begin(1);
    EACH (row, bad) {
        assert_int_equal(rqli_queue_reading_take(&reading, row, KEY, &error), RQL_E_PROTOCOL);
    }
    assert_int_equal(rqli_queue_reading_take(&reading, &refused, KEY, &error), RQL_E_AUTH);
    PAGE("a", "1");
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 1);
    assert_int_equal(rqli_queue_reading_take_hosts(&reading, &bad[0], KEY, &error), RQL_E_PROTOCOL);
}
