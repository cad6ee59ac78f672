#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#include <rql/base.h>

#define NONCE "0123456789abcdef0123456789abcdef"
#define GRANTED RQLI_ANSWER_GRANTED
#define NOW_US 1795254268468100
#define MOST RQL_TTL_MAX_MS

/* A line as the scripts say it, and what is read. */
static const struct row {
    const char *name;
    const char *line;
    struct rqli_answer read;
} rows[] = {
    {"grant",
     "1 1795254268468100 5000 99 2 1 " NONCE,
     {GRANTED, NOW_US, 99, 5000, 2, {NONCE, 32}, .was_handed_over = true}},
    {"grant at once", "1 0 5 1 0 0 a", {GRANTED, 0, 1, 5, 0, {"a", 1}}},
    {"a share with slots",
     "1 0 5 1 0 0 " NONCE " 0,3",
     {GRANTED, 0, 1, 5, 0, {NONCE, 32}, {"0,3", 3}}},
    {"not in the queue", "1 0 5 1 0 2 a", {GRANTED, 0, 1, 5, 0, {"a", 1}, .was_restored = true}},
    {"grant at the end of time",
     "1 2305843009213693951 5 1 1 1 a",
     {GRANTED, RQLI_SERVER_US_MAX, 1, 5, 1, {"a", 1}, .was_handed_over = true}},
    {"queued",
     "0 1795254268468100 4321 7 1 0 0 1795254268000000",
     {0, NOW_US, .left_ms = 4321, .rank = 7, .score_us = 1795254268000000, .is_first = true}},
    {"other flags",
     "0 5 -2 0 0 1 1 -3",
     {0, 5, .left_ms = -1, .score_us = -3, .was_restored = true, .of_ruby = 1}},
    {"mixed flags", "0 5 -2 0 0 1 0 9", {0, 5, .left_ms = -1, .score_us = 9, .was_restored = true}},
    {"newer",
     "0 5 6 7 1 1 0 8 more",
     {0, 5, .left_ms = 6, .rank = 7, .score_us = 8, .is_first = true, .was_restored = true}},
    {"queued at the end of time",
     "0 2305843009213693951 1 0 0 0 0 0",
     {0, RQLI_SERVER_US_MAX, .left_ms = 1}},
    {"no try", "2 77 300", {RQLI_ANSWER_FAIL_FAST_NO_TRY, 77, .left_ms = 300}},
    {"after a try", "3 77 -1", {RQLI_ANSWER_FAIL_FAST_AFTER_TRY, 77, .left_ms = -1}},
    {"conflict", "4 77 -2", {RQLI_ANSWER_CONFLICT, 77, .left_ms = -1}},
    {"stale", "5 77", {RQLI_ANSWER_STALE, 77, .left_ms = -1}},
    {"again", "6 77", {RQLI_ANSWER_AGAIN, 77, .left_ms = -1}},
    {"a pause", "7 77 5001077", {RQLI_ANSWER_PAUSED, 77, .left_ms = 5001}},
    {"a pause that ends now", "7 77 78", {RQLI_ANSWER_PAUSED, 77, .left_ms = 1}},
    {"a full queue", "8 77 5", {RQLI_ANSWER_FULL, 77, .left_ms = -1}},
    {"with a text", "6 77 x", {RQLI_ANSWER_AGAIN, 77, .left_ms = -1}},
    /* What is left is no more than any ttl. */
    {"nearly the longest lease", "1 1 2591999999 1 0 0 a", {GRANTED, 1, 1, MOST - 1, 0, {"a", 1}}},
    {"beyond the longest lease", "1 1 2592000001 1 0 0 a", {GRANTED, 1, 1, MOST, 0, {"a", 1}}},
    {"a lease that is over", "1 1 -9223372036854775808 1 0 0 a", {GRANTED, 1, 1, -1, 0, {"a", 1}}},
    {"beyond the longest wait", "0 1 9223372036854775807 0 0 0 0 0", {0, 1, .left_ms = MOST}},
    {"no wait", "0 1 0 0 0 0 0 0", {0, 1}},
    {"a conflict for longer", "4 1 2592000001", {RQLI_ANSWER_CONFLICT, 1, .left_ms = MOST}},
};

TEST(a_line_is_read)
{
    EACH_ROW (row, rows) {
        const struct rqli_reply reply = tree_text(row->line);
        const struct rqli_answer *read = &row->read;
        struct rqli_answer found;

        assert_true(rqli_answer_read(&reply, &found));
        CHECK_ALL(EQ(found.kind, read->kind), EQ(found.server_us, read->server_us),
                  EQ(found.token, read->token), EQ(found.left_ms, read->left_ms),
                  EQ(found.process, read->process), EQ(found.nonce.length, read->nonce.length),
                  EQ(found.was_handed_over, read->was_handed_over), EQ(found.rank, read->rank),
                  EQ(found.score_us, read->score_us), EQ(found.is_first, read->is_first),
                  EQ(found.was_restored, read->was_restored), EQ(found.of_ruby, read->of_ruby));
        assert_true(found.nonce.length == 0 ||
                    memcmp(found.nonce.data, read->nonce.data, found.nonce.length) == 0);
        assert_int_equal(found.slots.length, read->slots.length);
        assert_true(found.slots.length == 0 ||
                    memcmp(found.slots.data, read->slots.data, found.slots.length) == 0);
    }
}

TEST(as_many_slots_are_read_as_there_are_units)
{
    static const struct {
        const char *text;
        int units, limit;
        bool are_slots;
        int slots[2];
    } cases[] = {
        {"0", 1, 4, true, {0}},      {"3", 1, 4, true, {3}},    {"0,3", 2, 4, true, {0, 3}},
        {"", 2, 4, true, {0, 1}},    {"4", 1, 4, false, {0}},   {"-1", 1, 4, false, {0}},
        {"0,3", 1, 4, false, {0}},   {"3", 2, 4, false, {0}},   {"3,0", 2, 4, false, {0}},
        {"0,0", 2, 4, false, {0}},   {"0,", 1, 4, false, {0}},  {"0,", 2, 4, false, {0}},
        {",0", 2, 4, false, {0}},    {"0 3", 2, 4, false, {0}}, {"0,3 x", 2, 4, false, {0}},
        {"0,1,2", 2, 4, false, {0}}, {"x", 1, 4, false, {0}},
    };

    EACH_BY (row, cases, row->text) {
        const struct rqli_share share = {row->units, row->limit, true};
        int slots[2] = {0};
        bool are_slots = rqli_share_read_slots(rqli_slice_of(row->text), &share, slots);

        assert_int_equal(are_slots, row->are_slots);
        for (int i = 0; are_slots && i < row->units; i++) {
            assert_int_equal(slots[i], row->slots[i]);
        }
    }
}

TEST(what_is_cut_short_or_out_of_bounds_is_no_answer)
{
    const char *lines =
        "|5|-1 77 1|8 77|8 77 5 6|9 77 1|7 77 77|7 77|7 77 5 6|5 x77|1 1 5000 99 0 1|1 1 5000 99 "
        "0 1 |1 1 5000 99 0 1 7"
        "|1 1 5000 99 0 " NONCE "|1 1 5000 99 " NONCE " 0 1| 1 1 5000 99 0 1 " NONCE
        "|1 1 5000 0 0 1 " NONCE "|1 1 5000 -9 0 1 " NONCE "|1 1 5000 99 3 1 " NONCE
        "|1 1 5000 99 -1 1 " NONCE "|1 -1 5000 99 0 1 " NONCE
        "|1 2305843009213693952 5000 99 0 1 " NONCE "|0 1 1 7 1 0 0"
        "|0 1 1 7 1 0 0 5x|0 -1 1 7 1 0 0 5|0 9223372036854775807 1 7 1 0 0 5|5 -1"
        "|6 2305843009213693952";
    char line[PART_SIZE];
    struct rqli_answer answer;

    while (next_part(&lines, line, NULL)) {
        const struct rqli_reply reply = tree_text(line);

        assert_false(rqli_answer_read(&reply, &answer));
    }
}

TEST(what_is_neither_is_no_answer)
{
    const struct rqli_reply others[] = {tree_nil(),        tree_int(1),         tree_text("1"),
                                        tree_error("ERR"), tree_array(NULL, 0), tree_status("")};
    struct rqli_outcome outcome;
    struct rqli_answer answer;

    EACH (row, others) {
        assert_false(rqli_answer_read(row, &answer));
        assert_false(rqli_outcome_read(row, &outcome));
    }
}

TEST(outcomes_have_two_to_four_numbers)
{
    static const struct {
        const char *line;
        bool is_outcome;
        int64_t third, fourth;
    } cases[] = {{"", false, 0, 0},
                 {"1", false, 0, 0},
                 {"1 -77", true, 0, 0},
                 {"1 x", false, 0, 0},
                 {"1 -77 5000", true, 5000, 0},
                 {"1 -77 5000 9", true, 5000, 9},
                 {"1 -77 5000 9 4", true, 5000, 9},
                 {"1 -77 x", true, 0, 0},
                 {"x 1 2", false, 0, 0},
                 {"1  2", false, 0, 0}};

    EACH_BY (row, cases, row->line) {
        const struct rqli_reply reply = tree_text(row->line);
        struct rqli_outcome read;

        assert_int_equal(rqli_outcome_read(&reply, &read), row->is_outcome);
        if (row->is_outcome) {
            CHECK_ALL(EQ(read.what, 1), EQ(read.second, -77), EQ(read.third, row->third),
                      EQ(read.fourth, row->fourth));
        }
    }
}

/* As TIME says it. */
TEST(a_time_of_day_has_seconds_and_microseconds_of_one)
{
    static const struct {
        const char *seconds;
        const char *us;
        int64_t time_us; /* -1: it is none */
    } cases[] = {{"1795254268", "468100", NOW_US},
                 {"0", "0", 0},
                 {"1", "999999", 1999999},
                 {"1", "1000000", -1},
                 {"1", "-1", -1},
                 {"-1", "0", -1},
                 {"1", "9223372036854775807", -1},
                 {"9223372036854775807", "0", -1},
                 {"1", "x", -1}};

    EACH (row, cases) {
        const struct rqli_reply reply = TREE(tree_text(row->seconds), tree_text(row->us));
        int64_t time_us = -1;

        assert_int_equal(rqli_time_read(&reply, &time_us), row->time_us >= 0);
        assert_int_equal(time_us, row->time_us);
    }
}
