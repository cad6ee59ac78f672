#include "check.h"

#include "reply_tree.h"
#include "script/answer.h"

#include <rql/base.h>

enum { MOST_ITEMS = 9 };

#define NONCE "0123456789abcdef0123456789abcdef"

/* Answers as the scripts give them: numbers, and in place of one of them a text. */
struct answer_case {
    const char *name;
    int64_t numbers[MOST_ITEMS];
    size_t count;
    const char *text; /* or NULL */
    size_t text_at;
};

static struct rqli_reply build(struct rqli_reply items[MOST_ITEMS], const struct answer_case *from)
{
    for (size_t i = 0; i < MOST_ITEMS; i++) {
        items[i] = i < from->count ? tree_int(from->numbers[i]) : tree_nil();
    }
    if (from->text) {
        items[from->text_at] = tree_text(from->text);
    }
    return tree_array(items, from->count);
}

static bool read_case(const struct answer_case *from, struct rqli_answer *out)
{
    struct rqli_reply items[MOST_ITEMS];
    const struct rqli_reply reply = build(items, from);

    print_message("# case %s\n", from->name);
    return rqli_answer_read(&reply, out);
}

static void a_grant_is_read(void **state)
{
    static const struct answer_case grant = {
        "grant", {1, 99, 1795254268468100, 5000, 2, 0, 1}, 7, NONCE, 5};
    static const struct answer_case at_once = {"at once", {1, 99, 1, 5000, 0, 0, 0}, 7, NONCE, 5};
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
    assert_true(read_case(&at_once, &answer));
    assert_false(answer.was_handed_over);
}

static void a_place_in_the_queue_is_read(void **state)
{
    static const struct answer_case queued = {
        "queued", {0, 1795254268468100, 4321, 7, 1, 0, 0, 1795254268000000}, 8, NULL, 0};
    static const struct answer_case other = {"other flags", {0, 5, -2, 0, 0, 1, 1, -3}, 8, NULL, 0};
    static const struct answer_case mixed = {"mixed flags", {0, 5, -2, 0, 0, 1, 0, 9}, 8, NULL, 0};
    static const struct answer_case newer = {"newer", {0, 5, 6, 7, 1, 1, 0, 8, 0}, 9, "more", 8};
    struct rqli_answer answer;

    (void)state;
    assert_true(read_case(&queued, &answer));
    assert_int_equal(answer.kind, RQLI_ANSWER_QUEUED);
    assert_int_equal(answer.server_us, 1795254268468100);
    assert_int_equal(answer.left_ms, 4321);
    assert_int_equal(answer.rank, 7);
    assert_int_equal(answer.score_us, 1795254268000000);
    assert_true(answer.is_first && !answer.was_restored && !answer.is_of_ruby);
    assert_true(read_case(&other, &answer));
    assert_int_equal(answer.left_ms, -1);
    assert_int_equal(answer.score_us, -3);
    assert_true(!answer.is_first && answer.was_restored && answer.is_of_ruby);
    assert_true(read_case(&mixed, &answer));
    assert_true(!answer.is_first && answer.was_restored && !answer.is_of_ruby);
    assert_true(read_case(&newer, &answer));
}

static void a_grant_of_another_request_is_told(void **state)
{
    static const struct {
        struct answer_case of;
        const char *nonce;
        bool is_for;
    } cases[] = {
        {{"ours", {1, 99, 1, 5000, 0, 0, 1}, 7, NONCE, 5}, NONCE, true},
        {{"another's", {1, 99, 1, 5000, 0, 0, 1}, 7, NONCE, 5}, "1" NONCE, false},
        {{"of a later nonce", {1, 99, 1, 5000, 0, 0, 1}, 7, "ab", 5}, "ac", false},
        {{"of an earlier nonce", {1, 99, 1, 5000, 0, 0, 1}, 7, "ab", 5}, "aa", false},
        {{"of the beginning", {1, 99, 1, 5000, 0, 0, 1}, 7, "a", 5}, "ab", false},
        {{"a re-entry shares it", {1, 99, 1, 5000, 1, 0, 1}, 7, NONCE, 5}, "x", true},
        {{"so does this", {1, 99, 1, 5000, 2, 0, 1}, 7, NONCE, 5}, "x", true},
        {{"queued", {0, 5, -2, 0, 0, 1, 0, 9}, 8, NULL, 0}, "x", true},
        {{"a conflict", {4, 77}, 2, NULL, 0}, "x", true},
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
        {{"no try", {2, 77, 300}, 3, NULL, 0}, RQLI_ANSWER_FAIL_FAST_NO_TRY, 300},
        {{"after a try", {3, 77, -1}, 3, NULL, 0}, RQLI_ANSWER_FAIL_FAST_AFTER_TRY, -1},
        {{"conflict", {4, 77, -2}, 3, NULL, 0}, RQLI_ANSWER_CONFLICT, -1},
        {{"stale", {5, 77}, 2, NULL, 0}, RQLI_ANSWER_STALE, -1},
        {{"again", {6, 77}, 2, NULL, 0}, RQLI_ANSWER_AGAIN, -1},
        {{"with a text", {6, 77, 0}, 3, "x", 2}, RQLI_ANSWER_AGAIN, -1},
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
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        int64_t left_ms = cases[i].given_ms;
        const struct answer_case grant = {"grant", {1, 1, 1, left_ms, 0, 0, 1}, 7, NONCE, 5};
        const struct answer_case queued = {"queued", {0, 1, left_ms, 0, 0, 0, 0, 0}, 8, NULL, 0};
        const struct answer_case refusal = {"refusal", {2, 1, left_ms}, 3, NULL, 0};
        struct rqli_answer answer;

        assert_true(read_case(&grant, &answer));
        assert_int_equal(answer.left_ms, cases[i].read_ms);
        assert_true(read_case(&queued, &answer));
        assert_int_equal(answer.left_ms, cases[i].read_ms);
        assert_true(read_case(&refusal, &answer));
        assert_int_equal(answer.left_ms, cases[i].read_ms);
    }
}

static void times_within_reckoning_are_taken(void **state)
{
    static const struct answer_case cases[] = {
        {"grant at 0", {1, 1, 0, 5, 0, 0, 1}, 7, NONCE, 5},
        {"grant at the end of time", {1, 1, RQLI_SERVER_US_MAX, 5, 0, 0, 1}, 7, NONCE, 5},
        {"queued at the end of time", {0, RQLI_SERVER_US_MAX, 1, 0, 0, 0, 0, 0}, 8, NULL, 0},
        {"stale at the end of time", {5, RQLI_SERVER_US_MAX}, 2, NULL, 0},
    };
    struct rqli_answer answer;

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        assert_true(read_case(&cases[i], &answer));
    }
}

static void other_numbers_are_no_answer(void **state)
{
    static const struct answer_case cases[] = {
        {"nothing", {0}, 0, NULL, 0},
        {"a kind alone", {5}, 1, NULL, 0},
        {"kind -1", {-1, 77, 1}, 3, NULL, 0},
        {"kind 7", {7, 77, 1}, 3, NULL, 0},
        {"a text for a time", {5, 0}, 2, "77", 1},
        {"grant without nonce", {1, 99, 1, 5000, 0}, 5, NULL, 0},
        {"grant with a number for a nonce", {1, 99, 1, 5000, 0, 7, 1}, 7, NULL, 0},
        {"grant with more", {1, 99, 1, 5000, 0, 0, 1, 1}, 8, NONCE, 5},
        {"grant cut short", {1, 99, 1, 5000, 0, 0}, 6, NONCE, 5},
        {"grant with the nonce before", {1, 99, 1, 5000, 0, 0, 1}, 7, NONCE, 4},
        {"token 0", {1, 0, 1, 5000, 0, 0, 1}, 7, NONCE, 5},
        {"token below 0", {1, -9, 1, 5000, 0, 0, 1}, 7, NONCE, 5},
        {"process 3", {1, 99, 1, 5000, 3, 0, 1}, 7, NONCE, 5},
        {"process -1", {1, 99, 1, 5000, -1, 0, 1}, 7, NONCE, 5},
        {"grant before all times", {1, 99, -1, 5000, 0, 0, 1}, 7, NONCE, 5},
        {"grant after all times", {1, 99, RQLI_SERVER_US_MAX + 1, 5000, 0, 0, 1}, 7, NONCE, 5},
        {"queued cut short", {0, 1, 1, 7, 1, 0, 0}, 7, NULL, 0},
        {"queued with a text for a score", {0, 1, 1, 7, 1, 0, 0, 0}, 8, "5", 7},
        {"queued before all times", {0, -1, 1, 7, 1, 0, 0, 5}, 8, NULL, 0},
        {"queued after all times", {0, INT64_MAX, 1, 7, 1, 0, 0, 5}, 8, NULL, 0},
        {"stale before all times", {5, -1}, 2, NULL, 0},
        {"again after all times", {6, RQLI_SERVER_US_MAX + 1}, 2, NULL, 0},
    };
    struct rqli_answer answer;

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        assert_false(read_case(&cases[i], &answer));
    }
}

/* Each item of each answer in turn is of another type. */
static void items_of_another_type_are_no_answer(void **state)
{
    static const struct answer_case cases[] = {
        {"grant", {1, 99, 1, 5000, 0, 0, 1}, 7, NONCE, 5},
        {"queued", {0, 1, 1, 7, 1, 0, 0, 5}, 8, NULL, 0},
        {"conflict", {4, 77}, 2, NULL, 0},
    };
    const struct rqli_reply others[] = {tree_nil(), tree_error("ERR no"), tree_array(NULL, 0),
                                        (struct rqli_reply){.type = RQLI_REPLY_STATUS}};
    struct rqli_reply items[MOST_ITEMS];
    struct rqli_answer answer;

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        const struct rqli_reply reply = build(items, &cases[i]);

        for (size_t at = 0; at < reply.count * TREE_COUNT(others); at++) {
            struct rqli_reply *item = &items[at / TREE_COUNT(others)];
            struct rqli_reply before = *item;

            print_message("# %s, item %zu\n", cases[i].name, at / TREE_COUNT(others));
            *item = others[at % TREE_COUNT(others)];
            assert_false(rqli_answer_read(&reply, &answer));
            *item = before;
        }
        assert_true(rqli_answer_read(&reply, &answer));
    }
}

static void what_is_no_list_is_no_answer(void **state)
{
    const struct rqli_reply others[] = {tree_nil(), tree_int(1), tree_text("1"), tree_error("ERR"),
                                        (struct rqli_reply){.type = RQLI_REPLY_STATUS}};
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
    const struct rqli_reply items[] = {tree_int(1), tree_int(-77), tree_int(5000), tree_int(9)};
    const struct rqli_reply two_and_text[] = {items[0], items[1], tree_text("5000")};
    const struct rqli_reply one_and_nil[] = {items[0], tree_nil(), items[2]};
    const struct rqli_reply without_third = tree_array(two_and_text, 3);
    const struct rqli_reply without_second = tree_array(one_and_nil, 3);
    struct rqli_outcome outcome;

    (void)state;
    for (size_t count = 0; count <= TREE_COUNT(items); count++) {
        const struct rqli_reply reply = tree_array(items, count);

        print_message("# %zu numbers\n", count);
        assert_int_equal(rqli_outcome_read(&reply, &outcome), count >= 2);
        if (count >= 2) {
            assert_int_equal(outcome.what, 1);
            assert_int_equal(outcome.second, -77);
            assert_int_equal(outcome.third, count >= 3 ? 5000 : 0);
        }
    }
    assert_true(rqli_outcome_read(&without_third, &outcome));
    assert_int_equal(outcome.third, 0);
    assert_false(rqli_outcome_read(&without_second, &outcome));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_read),
        cmocka_unit_test(a_place_in_the_queue_is_read),
        cmocka_unit_test(a_grant_of_another_request_is_told),
        cmocka_unit_test(refusals_are_read),
        cmocka_unit_test(what_is_left_is_no_more_than_any_ttl),
        cmocka_unit_test(times_within_reckoning_are_taken),
        cmocka_unit_test(other_numbers_are_no_answer),
        cmocka_unit_test(items_of_another_type_are_no_answer),
        cmocka_unit_test(what_is_no_list_is_no_answer),
        cmocka_unit_test(outcomes_have_two_numbers_or_three),
    };

    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
