#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#include <rql/base.h>

enum { MOST_ITEMS = 16 };

#define NONCE "0123456789abcdef0123456789abcdef"

/* An answer: numbers, but for texts where a grant has its nonces. */
struct series_case {
    const char *name;
    size_t count;
    int64_t numbers[MOST_ITEMS];
};

static struct rqli_reply build(struct rqli_reply items[MOST_ITEMS], const struct series_case *from)
{
    for (size_t i = 0; i < from->count; i++) {
        bool is_nonce = from->numbers[0] == RQLI_ANSWER_GRANTED && i > 1 && (i - 2) % 4 == 3;

        items[i] = is_nonce ? tree_text(NONCE) : tree_int(from->numbers[i]);
    }
    return tree_array(items, from->count);
}

static bool read_case(const struct series_case *from, size_t n_locks, struct rqli_answer *out)
{
    struct rqli_reply items[MOST_ITEMS];
    const struct rqli_reply reply = build(items, from);

    print_message("# case %s\n", from->name);
    return rqli_series_answer_read(&reply, n_locks, out);
}

static void each_lock_of_a_grant_is_read(void **state)
{
    static const struct series_case grant = {
        "grant", 10, {1, 1795254268468100, 77, 5000, 0, 0, 78, RQL_TTL_MAX_MS + 1, 1, 0}};
    struct rqli_reply items[MOST_ITEMS];
    const struct rqli_reply reply = build(items, &grant);
    struct rqli_answer answer;

    (void)state;
    assert_true(rqli_series_answer_read(&reply, 2, &answer));
    assert_int_equal(answer.kind, RQLI_ANSWER_GRANTED);
    assert_int_equal(answer.server_us, 1795254268468100);
    answer = rqli_series_answer_grant(&reply, 0);
    assert_int_equal(answer.kind, RQLI_ANSWER_GRANTED);
    assert_int_equal(answer.server_us, 1795254268468100);
    assert_int_equal(answer.token, 77);
    assert_int_equal(answer.left_ms, 5000);
    assert_int_equal(answer.process, 0);
    assert_int_equal(answer.nonce.length, 32);
    assert_false(answer.was_handed_over);
    answer = rqli_series_answer_grant(&reply, 1);
    assert_int_equal(answer.token, 78);
    assert_int_equal(answer.left_ms, RQL_TTL_MAX_MS);
    assert_int_equal(answer.process, 1);
}

static void what_stands_against_each_lock_is_read(void **state)
{
    static const struct {
        struct series_case answer;
        enum rqli_answer_kind kind;
    } cases[] = {
        {{"queued", 12, {0, 9, 500, 3, 1, 0, 0, 8, 0, 1, 2, 3}}, RQLI_ANSWER_QUEUED},
        {{"no try", 7, {2, 9, 500, 0, 1, 2, 3}}, RQLI_ANSWER_FAIL_FAST_NO_TRY},
        {{"after try", 7, {3, 9, -1, 0, 1, 2, 3}}, RQLI_ANSWER_FAIL_FAST_AFTER_TRY},
        {{"conflict", 7, {4, 9, -1, 0, 1, 2, 3}}, RQLI_ANSWER_CONFLICT},
    };

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(cases); i++) {
        struct rqli_reply items[MOST_ITEMS];
        const struct rqli_reply reply = build(items, &cases[i].answer);
        struct rqli_answer answer;

        print_message("# case %s\n", cases[i].answer.name);
        assert_true(rqli_series_answer_read(&reply, 4, &answer));
        assert_int_equal(answer.kind, cases[i].kind);
        assert_int_equal(answer.server_us, 9);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(rqli_series_answer_obstacle(&reply, k), k);
        }
    }
}

static void short_answers_need_no_more(void **state)
{
    static const struct series_case stale = {"stale", 2, {5, 9}};
    static const struct series_case again = {"again", 2, {6, 9}};
    struct rqli_answer answer;

    (void)state;
    assert_true(read_case(&stale, 3, &answer));
    assert_int_equal(answer.kind, RQLI_ANSWER_STALE);
    assert_true(read_case(&again, 3, &answer));
    assert_int_equal(answer.kind, RQLI_ANSWER_AGAIN);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const struct series_case bad[] = {
        {"nothing", 0, {0}},
        {"kind alone", 1, {1}},
        {"a grant of fewer", 6, {1, 9, 77, 5000, 0, 0}},
        {"a grant of more", 14, {1, 9, 77, 5000, 0, 0, 78, 5000, 0, 0, 79, 5000, 0, 0}},
        {"no token", 10, {1, 9, 0, 5000, 0, 0, 78, 5000, 0, 0}},
        {"no process", 10, {1, 9, 77, 5000, 2, 0, 78, 5000, 0, 0}},
        {"before all time", 10, {1, -9, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"after all time", 10, {1, INT64_MAX, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"a place without obstacles", 8, {0, 9, 500, 3, 1, 0, 0, 8}},
        {"an obstacle too few", 9, {0, 9, 500, 3, 1, 0, 0, 8, 0}},
        {"an unknown obstacle", 10, {0, 9, 500, 3, 1, 0, 0, 8, 0, 4}},
        {"a negative obstacle", 5, {2, 9, 500, 0, -1}},
        {"an unknown kind", 5, {7, 9, 500, 0, 0}},
    };
    struct rqli_answer answer;
    static const char *const texts[] = {"OK", "2 17 5", "0 9 500 3 1 0 0 8", "1 9 77 5000 0 0"};

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(bad); i++) {
        assert_false(read_case(&bad[i], 2, &answer));
    }
    for (size_t i = 0; i < TREE_COUNT(texts); i++) { /* as the script for one lock answers */
        const struct rqli_reply text = tree_text(texts[i]);

        assert_false(rqli_series_answer_read(&text, 2, &answer));
    }
}

/* Where a number belongs there is a text, and the other way round. */
static void every_item_has_its_type(void **state)
{
    static const struct series_case good[] = {
        {"grant", 10, {1, 9, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"queued", 10, {0, 9, 500, 3, 1, 0, 0, 8, 0, 1}},
    };

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        struct rqli_reply items[MOST_ITEMS];
        struct rqli_answer answer;
        const struct rqli_reply reply = build(items, &good[i / 10]);
        struct rqli_reply *item = &items[i % 10];

        assert_true(rqli_series_answer_read(&reply, 2, &answer));
        *item = item->type == RQLI_REPLY_TEXT ? tree_int(1) : tree_text("1");
        assert_false(rqli_series_answer_read(&reply, 2, &answer));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lock_of_a_grant_is_read),
        cmocka_unit_test(what_stands_against_each_lock_is_read),
        cmocka_unit_test(short_answers_need_no_more),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(every_item_has_its_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
