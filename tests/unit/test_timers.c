#include "check.h"

#include "base/clock.h"
#include "base/timers.h"

enum { COUNT = 200, STEPS = 20000 };

static struct rqli_timers timers;
static struct rqli_due dues[COUNT];

BEFORE_EACH(set_up)
{
    timers = (struct rqli_timers){0};
    memset(dues, 0, sizeof dues);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(rqli_timers_reserve(&timers));
    }
}

AFTER_EACH(tear_down)
{
    rqli_timers_fini(&timers);
}

TEST(what_is_never_due_is_not_in_it)
{
    static const int64_t times_us[] = {RQLI_NEVER_US, 5, RQLI_NEVER_US, 5};

    EACH (at_us, times_us) {
        rqli_timers_set(&timers, &dues[0], *at_us);
        assert_int_equal(timers.count, *at_us != RQLI_NEVER_US);
    }
    rqli_timers_unreserve(&timers, &dues[0]);
    assert_int_equal(timers.count, 0);
    assert_int_equal(timers.reserved, COUNT - 1);
    assert_true(rqli_timers_reserve(&timers));
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
TEST(it_is_right_whatever_happens)
{
    uint32_t chance = chance_seed();

    for (int i = 0; i < STEPS; i++) {
        struct rqli_due *due = &dues[chance_below(&chance, COUNT)];
        uint32_t what = chance_below(&chance, 4);

        if (what == 0) {
            rqli_timers_set(&timers, due, RQLI_NEVER_US);
        } else if (what == 1) {
            const int64_t earliest_us = find_earliest();
            const int64_t now_us = chance_below(&chance, 1000);

            due = rqli_timers_take_due(&timers, now_us);
            assert_int_equal(due != NULL, earliest_us <= now_us);
            assert_true(!due || (due->at_us == earliest_us && due->place == 0));
        } else {
            rqli_timers_set(&timers, due, chance_below(&chance, 1000));
        }
        assert_int_equal(rqli_timers_first_us(&timers), find_earliest());
    }
}
