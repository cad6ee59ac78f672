#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#include <rql/base.h>

enum { MOST_ITEMS = 16 };

#define NONCE "0123456789abcdef0123456789abcdef"

/* An answer for so many locks: numbers, but for texts where a grant has its nonces. */
struct row {
    const char *name;
    size_t n_locks;
    size_t count;
    int64_t numbers[MOST_ITEMS];
    enum rqli_answer_kind kind;
};

static struct rqli_reply build(struct rqli_reply items[MOST_ITEMS], const struct row *from)
{
    for (size_t i = 0; i < from->count; i++) {
        bool is_nonce = from->numbers[0] == RQLI_ANSWER_GRANTED && i > 1 && (i - 2) % 4 == 3;

        items[i] = is_nonce ? tree_text(NONCE) : tree_int(from->numbers[i]);
    }
    return tree_array(items, from->count);
}

TEST(an_answer_is_read_with_what_stands_against_each_lock)
{
    static const struct row rows[] = {
        {"queued", 4, 12, {0, 9, 500, 3, 1, 0, 0, 8, 0, 1, 2, 3}, RQLI_ANSWER_QUEUED},
        {"no try", 4, 7, {2, 9, 500, 0, 1, 2, 3}, RQLI_ANSWER_FAIL_FAST_NO_TRY},
        {"after try", 4, 7, {3, 9, -1, 0, 1, 2, 3}, RQLI_ANSWER_FAIL_FAST_AFTER_TRY},
        {"conflict", 4, 7, {4, 9, -1, 0, 1, 2, 3}, RQLI_ANSWER_CONFLICT},
        {"stale", 3, 2, {5, 9}, RQLI_ANSWER_STALE},
        {"again", 3, 2, {6, 9}, RQLI_ANSWER_AGAIN},
        {"a pause", 3, 3, {7, 9, 10}, RQLI_ANSWER_PAUSED},
        {"grant", 2, 10, {1, 9, 77, 5000, 0, 0, 78, RQL_TTL_MAX_MS + 1, 1, 0}, RQLI_ANSWER_GRANTED},
    };

    EACH_ROW (row, rows) {
        struct rqli_reply items[MOST_ITEMS];
        const struct rqli_reply reply = build(items, row);
        struct rqli_answer answer;

        assert_true(rqli_series_answer_read(&reply, row->n_locks, &answer));
        CHECK_ALL(EQ(answer.kind, row->kind), EQ(answer.server_us, 9));
        for (size_t k = 0; k < row->n_locks && row->n_locks == 4; k++) {
            assert_int_equal(rqli_series_answer_obstacle(&reply, k), k);
        }
        for (int64_t k = 0; k < 2 && row->kind == RQLI_ANSWER_GRANTED; k++) {
            answer = rqli_series_answer_grant(&reply, (size_t)k);
            CHECK_ALL(EQ(answer.kind, RQLI_ANSWER_GRANTED), EQ(answer.server_us, 9),
                      EQ(answer.token, 77 + k), EQ(answer.left_ms, k ? RQL_TTL_MAX_MS : 5000),
                      EQ(answer.process, k), EQ(answer.nonce.length, 32),
                      EQ(answer.was_handed_over, false));
        }
    }
}

TEST(what_is_no_answer_is_refused)
{
    static const struct row rows[] = {
        {"nothing", 2, 0, {0}},
        {"kind alone", 2, 1, {1}},
        {"a grant of fewer", 2, 6, {1, 9, 77, 5000, 0, 0}},
        {"a grant of more", 2, 14, {1, 9, 77, 5000, 0, 0, 78, 5000, 0, 0, 79, 5000, 0, 0}},
        {"no token", 2, 10, {1, 9, 0, 5000, 0, 0, 78, 5000, 0, 0}},
        {"no process", 2, 10, {1, 9, 77, 5000, 2, 0, 78, 5000, 0, 0}},
        {"before all time", 2, 10, {1, -9, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"after all time", 2, 10, {1, INT64_MAX, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"a place without obstacles", 2, 8, {0, 9, 500, 3, 1, 0, 0, 8}},
        {"an obstacle too few", 2, 9, {0, 9, 500, 3, 1, 0, 0, 8, 0}},
        {"an unknown obstacle", 2, 10, {0, 9, 500, 3, 1, 0, 0, 8, 0, 4}},
        {"a negative obstacle", 2, 5, {2, 9, 500, 0, -1}},
        {"an unknown kind", 2, 5, {8, 9, 500, 0, 0}},
        {"a pause that is over", 2, 3, {7, 9, 9}},
    };

    /* As the script for one lock answers. */
    static const char *const texts[] = {"OK", "2 17 5", "0 9 500 3 1 0 0 8", "1 9 77 5000 0 0"};
    struct rqli_answer answer;

    EACH_ROW (row, rows) {
        struct rqli_reply items[MOST_ITEMS];
        const struct rqli_reply reply = build(items, row);

        assert_false(rqli_series_answer_read(&reply, row->n_locks, &answer));
    }
    EACH_BY (row, texts, *row) {
        const struct rqli_reply text = tree_text(*row);

        assert_false(rqli_series_answer_read(&text, 2, &answer));
    }
}

/* Where a number belongs there is a text, and the other way round. */
TEST(every_item_has_its_type)
{
    static const struct row rows[] = {
        {"grant", 2, 10, {1, 9, 77, 5000, 0, 0, 78, 5000, 0, 0}},
        {"queued", 2, 10, {0, 9, 500, 3, 1, 0, 0, 8, 0, 1}},
    };

    EACH_ROW (row, rows) {
        for (size_t i = 0; i < row->count; i++) {
            struct rqli_reply items[MOST_ITEMS];
            const struct rqli_reply reply = build(items, row);
            struct rqli_answer answer;

            assert_true(rqli_series_answer_read(&reply, 2, &answer));
            items[i] = items[i].type == RQLI_REPLY_TEXT ? tree_int(1) : tree_text("1");
            assert_false(rqli_series_answer_read(&reply, 2, &answer));
        }
    }
}
