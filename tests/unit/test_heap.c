#include "check.h"

#include "base/clock.h"
#include "base/heap.h"
#include "chance.h"

#include <string.h>

enum { COUNT = 200, STEPS = 20000 };

static struct rqli_heap heap;
static struct rqli_due dues[COUNT];

static int set_up(void **state)
{
    (void)state;
    heap = (struct rqli_heap){0};
    memset(dues, 0, sizeof dues);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(rqli_heap_reserve(&heap));
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rqli_heap_fini(&heap);
    return 0;
}

static void nothing_is_due_in_an_empty_heap(void **state)
{
    (void)state;
    assert_int_equal(rqli_heap_first_us(&heap), RQLI_NEVER_US);
    assert_null(rqli_heap_take_due(&heap, RQLI_NEVER_US - 1));
}

static void the_earliest_comes_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        rqli_heap_set(&heap, &dues[i], (int64_t)(i * 7919 % COUNT));
    }
    for (int64_t at_us = 0; at_us < COUNT; at_us++) {
        struct rqli_due *due;

        assert_null(rqli_heap_take_due(&heap, at_us - 1));
        due = rqli_heap_take_due(&heap, at_us);
        assert_non_null(due);
        assert_int_equal(due->at_us, at_us);
        assert_int_equal(due->place, 0);
    }
    assert_int_equal(rqli_heap_first_us(&heap), RQLI_NEVER_US);
}

static void what_is_never_due_is_not_in_it(void **state)
{
    (void)state;
    rqli_heap_set(&heap, &dues[0], RQLI_NEVER_US);
    assert_int_equal(heap.count, 0);
    rqli_heap_set(&heap, &dues[0], 5);
    rqli_heap_set(&heap, &dues[0], RQLI_NEVER_US);
    assert_int_equal(heap.count, 0);
    rqli_heap_set(&heap, &dues[0], 5);
    rqli_heap_unreserve(&heap, &dues[0]);
    assert_int_equal(heap.count, 0);
    assert_int_equal(heap.reserved, COUNT - 1);
    assert_true(rqli_heap_reserve(&heap));
}

static int64_t find_earliest(void)
{
    int64_t earliest_us = RQLI_NEVER_US;

    for (size_t i = 0; i < COUNT; i++) {
        if (dues[i].place > 0 && dues[i].at_us < earliest_us) {
            earliest_us = dues[i].at_us;
        }
    }
    return earliest_us;
}

/* Set, moved, taken out and taken, in any order. */
static void it_is_right_whatever_happens(void **state)
{
    uint32_t chance = 1;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        struct rqli_due *due = &dues[chance_below(&chance, COUNT)];
        uint32_t what = chance_below(&chance, 4);

        if (what == 0) {
            rqli_heap_set(&heap, due, RQLI_NEVER_US);
        } else if (what == 1) {
            (void)rqli_heap_take_due(&heap, chance_below(&chance, 1000));
        } else {
            rqli_heap_set(&heap, due, chance_below(&chance, 1000));
        }
        assert_int_equal(rqli_heap_first_us(&heap), find_earliest());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(nothing_is_due_in_an_empty_heap),
        TEST(the_earliest_comes_first),
        TEST(what_is_never_due_is_not_in_it),
        TEST(it_is_right_whatever_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
