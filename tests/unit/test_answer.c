#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#include <rql/base.h>

#define NONCE "0123456789abcdef0123456789abcdef"

/* An answer as the scripts give it. */
struct answer_case {
    const char *name;
    const char *line;
};

static bool read_case(const struct answer_case *from, struct rqli_answer *out)
{
    const struct rqli_reply reply = tree_text(from->line);

    print_message("# case %s\n", from->name);
    return rqli_answer_read(&reply, out);
}

static void a_grant_is_read(void **state)
{
    static const struct answer_case grant = {"grant", "1 1795254268468100 5000 99 2 1 " NONCE};
    static const struct answer_case at_once = {"at once", "1 1 5000 99 0 0 " NONCE};
    static const struct answer_case not_queued = {"not in the queue", "1 1 5000 99 0 2 " NONCE};
    struct rqli_answer answer;

    (void)state;
    assert_true(read_case(&grant, &answer));
    assert_int_equal(answer.kind, RQLI_ANSWER_GRANTED);
    assert_int_equal(answer.token, 99);
    assert_int_equal(answer.server_us, 1795254268468100);
    assert_int_equal(answer.left_ms, 5000);
    assert_int_equal(answer.process, 2);
    assert_int_equal(answer.nonce.length, 32);
    assert_memory_equal(answer.nonce.data, NONCE, 32);
    assert_true(answer.was_handed_over);
    assert_false(answer.was_restored);
    assert_true(read_case(&at_once, &answer));
    assert_false(answer.was_handed_over || answer.was_restored);
    assert_true(read_case(&not_queued, &answer));
    assert_true(answer.was_restored && !answer.was_handed_over);
}

static void a_place_in_the_queue_is_read(void **state)
{
    static const struct {
        struct answer_case of;
        int64_t server_us, left_ms, rank, score_us;
        bool is_first, was_restored, of_ruby;
    } rows[] = {
        {{"queued", "0 1795254268468100 4321 7 1 0 0 1795254268000000"},
         1795254268468100,
         4321,
         7,
         1795254268000000,
         true,
         false,
         false},
        {{"other flags", "0 5 -2 0 0 1 1 -3"}, 5, -1, 0, -3, false, true, true},
        {{"mixed flags", "0 5 -2 0 0 1 0 9"}, 5, -1, 0, 9, false, true, false},
        {{"newer", "0 5 6 7 1 1 0 8 more"}, 5, 6, 7, 8, true, true, false},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        struct rqli_answer answer;

        assert_true(read_case(&rows[i].of, &answer));
        assert_int_equal(answer.kind, RQLI_ANSWER_QUEUED);
        assert_int_equal(answer.server_us, rows[i].server_us);
        assert_int_equal(answer.left_ms, rows[i].left_ms);
        assert_int_equal(answer.rank, rows[i].rank);
        assert_int_equal(answer.score_us, rows[i].score_us);
        assert_int_equal(answer.is_first, rows[i].is_first);
        assert_int_equal(answer.was_restored, rows[i].was_restored);
        assert_int_equal(answer.of_ruby != 0, rows[i].of_ruby);
    }
}

static void a_grant_of_another_request_is_told(void **state)
{
    static const struct {
        struct answer_case of;
        const char *nonce;
        bool is_for;
    } cases[] = {
        {{"ours", "1 1 5000 99 0 1 " NONCE}, NONCE, true},
        {{"another's", "1 1 5000 99 0 1 " NONCE}, "1" NONCE, false},
        {{"of a later nonce", "1 1 5000 99 0 1 ab"}, "ac", false},
        {{"of an earlier nonce", "1 1 5000 99 0 1 ab"}, "aa", false},
        {{"of the beginning", "1 1 5000 99 0 1 a"}, "ab", false},
        {{"a re-entry shares it", "1 1 5000 99 1 1 " NONCE}, "x", true},
        {{"so does this", "1 1 5000 99 2 1 " NONCE}, "x", true},
        {{"queued", "0 5 -2 0 0 1 0 9"}, "x", true},
        {{"a conflict", "4 77"}, "x", true},
    };

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        struct rqli_answer answer;

        assert_true(read_case(&cases[i].of, &answer));
        assert_int_equal(rqli_answer_is_for(&answer, cases[i].nonce), cases[i].is_for);
    }
}

static void refusals_are_read(void **state)
{
    static const struct {
        struct answer_case of;
        enum rqli_answer_kind kind;
        int64_t left_ms;
    } cases[] = {
        {{"no try", "2 77 300"}, RQLI_ANSWER_FAIL_FAST_NO_TRY, 300},
        {{"after a try", "3 77 -1"}, RQLI_ANSWER_FAIL_FAST_AFTER_TRY, -1},
        {{"conflict", "4 77 -2"}, RQLI_ANSWER_CONFLICT, -1},
        {{"stale", "5 77"}, RQLI_ANSWER_STALE, -1},
        {{"again", "6 77"}, RQLI_ANSWER_AGAIN, -1},
        {{"with a text", "6 77 x"}, RQLI_ANSWER_AGAIN, -1},
    };

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        struct rqli_answer answer;

        assert_true(read_case(&cases[i].of, &answer));
        assert_int_equal(answer.kind, cases[i].kind);
        assert_int_equal(answer.server_us, 77);
        assert_int_equal(answer.left_ms, cases[i].left_ms);
        assert_int_equal(answer.token, 0);
    }
}

static void what_is_left_is_no_more_than_any_ttl(void **state)
{
    static const struct {
        const char *before;
        const char *behind;
    } lines[] = {{"1 1", "1 0 1 " NONCE}, {"0 1", "0 0 0 0 0"}, {"2 1", "0"}};

    static const struct {
        int64_t given_ms;
        int64_t read_ms;
    } cases[] = {
        {RQL_TTL_MAX_MS - 1, RQL_TTL_MAX_MS - 1},
        {RQL_TTL_MAX_MS + 1, RQL_TTL_MAX_MS},
        {INT64_MAX, RQL_TTL_MAX_MS},
        {INT64_MIN, -1},
        {-1, -1},
        {0, 0},
    };

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases) * TREE_COUNT(lines); i++) {
        size_t at = i / TREE_COUNT(lines);
        char line[128];
        const struct answer_case one = {"with a ttl", line};
        struct rqli_answer answer;

        (void)snprintf(line, sizeof line, "%s %lld %s", lines[i % TREE_COUNT(lines)].before,
                       (long long)cases[at].given_ms, lines[i % TREE_COUNT(lines)].behind);
        assert_true(read_case(&one, &answer));
        assert_int_equal(answer.left_ms, cases[at].read_ms);
    }
}

static void times_within_reckoning_are_taken_and_other_numbers_are_no_answer(void **state)
{
    static const struct answer_case taken[] = {
        {"grant at 0", "1 0 5 1 0 1 " NONCE},
        {"grant at the end of time", "1 2305843009213693951 5 1 0 1 " NONCE},
        {"queued at the end of time", "0 2305843009213693951 1 0 0 0 0 0"},
        {"stale at the end of time", "5 2305843009213693951"},
    };
    static const struct answer_case refused[] = {
        {"nothing", ""},
        {"a kind alone", "5"},
        {"kind -1", "-1 77 1"},
        {"kind 7", "7 77 1"},
        {"a text for a time", "5 x77"},
        {"grant without nonce", "1 1 5000 99 0 1"},
        {"grant with an empty nonce", "1 1 5000 99 0 1 "},
        {"grant with a number for a nonce", "1 1 5000 99 0 1 7"},
        {"grant cut short", "1 1 5000 99 0 " NONCE},
        {"grant with the nonce before", "1 1 5000 99 " NONCE " 0 1"},
        {"grant after a blank", " 1 1 5000 99 0 1 " NONCE},
        {"token 0", "1 1 5000 0 0 1 " NONCE},
        {"token below 0", "1 1 5000 -9 0 1 " NONCE},
        {"process 3", "1 1 5000 99 3 1 " NONCE},
        {"process -1", "1 1 5000 99 -1 1 " NONCE},
        {"grant before all times", "1 -1 5000 99 0 1 " NONCE},
        {"grant after all times", "1 2305843009213693952 5000 99 0 1 " NONCE},
        {"queued cut short", "0 1 1 7 1 0 0"},
        {"queued with a text for a score", "0 1 1 7 1 0 0 5x"},
        {"queued before all times", "0 -1 1 7 1 0 0 5"},
        {"queued after all times", "0 9223372036854775807 1 7 1 0 0 5"},
        {"stale before all times", "5 -1"},
        {"again after all times", "6 2305843009213693952"},
    };
    struct rqli_answer answer;

    (void)state;
    for (size_t i = 0; i < N_ROWS(taken); i++) {
        assert_true(read_case(&taken[i], &answer));
    }
    for (size_t i = 0; i < N_ROWS(refused); i++) {
        assert_false(read_case(&refused[i], &answer));
    }
}

/* What a list begins with counts: that of a series goes on. */
static void a_list_says_what_a_line_does(void **state)
{
    struct rqli_reply items[] = {tree_int(0), tree_int(77), tree_int(5), tree_int(7), tree_int(1),
                                 tree_int(0), tree_int(1),  tree_int(9), tree_int(3)};
    const struct rqli_reply others[] = {tree_nil(), tree_error("ERR no"), tree_array(NULL, 0),
                                        tree_text("5"),
                                        (struct rqli_reply){.type = RQLI_REPLY_STATUS}};
    struct rqli_answer answer;

    (void)state;
    for (size_t count = 8; count <= TREE_COUNT(items); count++) {
        const struct rqli_reply reply = tree_array(items, count);

        assert_true(rqli_answer_read(&reply, &answer));
        assert_int_equal(answer.server_us, 77);
        assert_int_equal(answer.score_us, 9);
    }
    for (size_t at = 0; at < 8 * TREE_COUNT(others); at++) {
        const struct rqli_reply reply = tree_array(items, 8);
        struct rqli_reply before = items[at / TREE_COUNT(others)];

        print_message("# item %zu\n", at / TREE_COUNT(others));
        items[at / TREE_COUNT(others)] = others[at % TREE_COUNT(others)];
        assert_false(rqli_answer_read(&reply, &answer));
        items[at / TREE_COUNT(others)] = before;
    }
}

static void what_is_neither_is_no_answer(void **state)
{
    const struct rqli_reply others[] = {
        tree_nil(),        tree_int(1),         tree_text("1"),
        tree_error("ERR"), tree_array(NULL, 0), (struct rqli_reply){.type = RQLI_REPLY_STATUS}};
    struct rqli_outcome outcome;
    struct rqli_answer answer;

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(others); i++) {
        assert_false(rqli_answer_read(&others[i], &answer));
        assert_false(rqli_outcome_read(&others[i], &outcome));
    }
}

static void outcomes_have_two_numbers_or_three(void **state)
{
    static const struct {
        const char *line;
        bool is_outcome;
        int64_t third;
    } cases[] = {
        {"", false, 0},
        {"1", false, 0},
        {"1 -77", true, 0},
        {"1 x", false, 0},
        {"1 -77 5000", true, 5000},
        {"1 -77 5000 9", true, 5000},
        {"1 -77 x", true, 0},
        {"x 1 2", false, 0},
        {"1  2", false, 0},
    };
    struct rqli_outcome outcome;

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        const struct rqli_reply reply = tree_text(cases[i].line);

        print_message("# %s\n", cases[i].line);
        assert_int_equal(rqli_outcome_read(&reply, &outcome), cases[i].is_outcome);
        if (cases[i].is_outcome) {
            assert_int_equal(outcome.what, 1);
            assert_int_equal(outcome.second, -77);
            assert_int_equal(outcome.third, cases[i].third);
        }
    }
}

/* As TIME says it. */
static void a_time_of_day_has_seconds_and_microseconds_of_one(void **state)
{
    static const struct {
        const char *seconds;
        const char *us;
        int64_t time_us; /* -1: it is none */
    } rows[] = {
        {"1795254268", "468100", 1795254268468100},
        {"0", "0", 0},
        {"1", "999999", 1999999},
        {"1", "1000000", -1},
        {"1", "-1", -1},
        {"-1", "0", -1},
        {"1", "9223372036854775807", -1},
        {"9223372036854775807", "0", -1},
        {"1", "x", -1},
    };

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(rows); i++) {
        const struct rqli_reply items[] = {tree_text(rows[i].seconds), tree_text(rows[i].us)};
        const struct rqli_reply reply = tree_array(items, 2);
        int64_t time_us = -1;

        assert_int_equal(rqli_time_read(&reply, &time_us), rows[i].time_us >= 0);
        assert_int_equal(time_us, rows[i].time_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_read),
        cmocka_unit_test(a_place_in_the_queue_is_read),
        cmocka_unit_test(a_grant_of_another_request_is_told),
        cmocka_unit_test(refusals_are_read),
        cmocka_unit_test(what_is_left_is_no_more_than_any_ttl),
        cmocka_unit_test(times_within_reckoning_are_taken_and_other_numbers_are_no_answer),
        cmocka_unit_test(a_list_says_what_a_line_does),
        cmocka_unit_test(what_is_neither_is_no_answer),
        cmocka_unit_test(outcomes_have_two_numbers_or_three),
        cmocka_unit_test(a_time_of_day_has_seconds_and_microseconds_of_one),
    };

    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
