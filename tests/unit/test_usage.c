#include "check.h"

#include "lock/usage.h"

#include <stdio.h>

enum { TEXT_SIZE = 4 * RQLI_USAGE_SUM_SIZE, N_FIELDS = 26 };

static struct rqli_usage usage;
static char text[TEXT_SIZE + 1];

BEFORE_EACH(set_up)
{
    usage = (struct rqli_usage){0};
}

AFTER_EACH(tear_down)
{
    rqli_usage_fini(&usage);
}

static void add(int64_t day, const char *field, int64_t held_us)
{
    const struct rqli_use use = {
        .holds = 1, .held_us = held_us, .waited_us = 2 * held_us, .lost = held_us > 100};

    assert_true(rqli_usage_add(&usage, day, field, &use));
}

/* What is sent next, of this day. */
static const char *written(int64_t day)
{
    int64_t of_day;
    size_t length = rqli_usage_write(&usage, text, TEXT_SIZE, &of_day);

    assert_int_equal(of_day, day);
    text[length] = '\0';
    return text;
}

TEST(uses_of_a_field_and_day_add_up)
{
    add(7, "a", 10);
    add(7, "bc", 1);
    add(7, "a", 101);
    assert_int_equal(usage.n_waiting, 2);
    assert_string_equal(written(7), "1 2 111 222 1 a2 1 1 2 0 bc");
    assert_int_equal(usage.n_waiting, 0);
    assert_int_equal(rqli_usage_end_sent(&usage), 3);
}

TEST(one_call_is_about_one_day)
{
    add(8, "a", 1);
    add(7, "a", 2);
    add(8, "b", 3);
    assert_string_equal(written(8), "1 1 1 2 0 a1 1 3 6 0 b");
    assert_int_equal(rqli_usage_end_sent(&usage), 2);
    assert_string_equal(written(7), "1 1 2 4 0 a");
    assert_int_equal(rqli_usage_end_sent(&usage), 1);
}

/* What comes while a call is under way waits for the next one. */
TEST(a_sum_that_is_sent_does_not_change)
{
    add(7, "a", 1);
    (void)written(7);
    add(7, "a", 2);
    assert_int_equal(rqli_usage_end_sent(&usage), 1);
    assert_string_equal(written(7), "1 1 2 4 0 a");
}

TEST(what_was_not_sent_waits_again)
{
    add(7, "a", 1);
    add(7, "b", 3);
    (void)written(7);
    add(7, "a", 2);
    assert_int_equal(rqli_usage_take_back(&usage), 0);
    assert_int_equal(usage.n_waiting, 2);
    assert_string_equal(written(7), "1 2 3 6 0 a1 1 3 6 0 b");
}

/* Then nothing new is allocated: that may fail, and a call has to have something to write. */
TEST(what_is_written_once_more_is_the_same)
{
    const struct rqli_dlink *first;

    add(7, "a", 1);
    add(7, "b", 3);
    (void)written(7);
    first = usage.sent.first;
    assert_int_equal(rqli_usage_take_back(&usage), 0);
    assert_ptr_equal(usage.waiting.first, first);
    assert_string_equal(written(7), "1 1 1 2 0 a1 1 3 6 0 b");
    assert_int_equal(rqli_usage_end_sent(&usage), 2);
}

TEST(nothing_is_left_out_for_lack_of_room)
{
    int64_t n_holds = 0;

    for (int i = 0; i < RQLI_USAGE_MAX + 10; i++) {
        char field[16];

        (void)snprintf(field, sizeof field, "%d", i);
        add(7, field, 1);
        n_holds++;
    }
    add(7, "3", 1);
    assert_int_equal(usage.n_waiting, RQLI_USAGE_MAX + 1);
    add(8, "3", 1);
    add(8, "4", 1);
    assert_int_equal(usage.n_waiting, RQLI_USAGE_MAX + 2);
    assert_int_equal(rqli_usage_drop(&usage), n_holds + 3);
    assert_int_equal(usage.n_waiting, 0);
}

/* The rest comes with the next call. */
TEST(a_call_has_so_much_room)
{
    char field[701];
    int64_t n_holds = 0;

    memset(field, 'x', sizeof field - 1);
    field[sizeof field - 1] = '\0';
    for (int i = 0; i < N_FIELDS; i++) {
        field[0] = (char)('a' + i);
        add(7, field, INT64_MAX / 4);
    }
    while (usage.n_waiting > 0) {
        assert_true(strlen(written(7)) <= TEXT_SIZE);
        n_holds += rqli_usage_end_sent(&usage);
    }
    assert_int_equal(n_holds, N_FIELDS);
}
