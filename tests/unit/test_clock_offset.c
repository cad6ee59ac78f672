#include "check.h"

#include "chance.h"
#include "lock/clock_offset.h"

enum {
    NOW_US = 900000000,
    SECOND_US = 1000000,
    DRIFT_US = 2000,
    N_WORLDS = 2000,
    N_READINGS = 60,
    PPM = 1000000,
};

/* Local minus server; Unix time is far ahead of any boot. */
#define OFFSET_US (NOW_US - INT64_C(1795254268468100))

/* A reading whose two ways took `half_us` each. */
static enum rqli_clock_offset_news read_clock(struct rqli_clock_offset *clock_offset,
                                              int64_t offset_us, int64_t at_us, int64_t half_us)
{
    return rqli_clock_offset_add(clock_offset, at_us - half_us, at_us - offset_us, at_us + half_us);
}

/* The lower bound of the offset, as the caller of rqli_clock_offset_earliest() sees it. */
static int64_t bound_us(const struct rqli_clock_offset *clock_offset, int64_t at_us)
{
    int64_t local_us = 0;

    assert_true(rqli_clock_offset_earliest(clock_offset, 0, at_us, &local_us));
    return local_us;
}

static void without_a_reading_nothing_is_known(void **state)
{
    const struct rqli_clock_offset clock_offset = {0};
    int64_t local_us = 77;

    (void)state;
    assert_false(rqli_clock_offset_earliest(&clock_offset, 1, NOW_US, &local_us));
    assert_int_equal(local_us, 77);
    assert_true(rqli_clock_offset_server_latest(&clock_offset, NOW_US) == INT64_MAX);
}

/* A reading of nothing would lie within the window. */
static void a_machine_that_has_just_started_knows_nothing_either(void **state)
{
    struct rqli_clock_offset clock_offset = {0};
    int64_t early_us = 3 * SECOND_US;
    int64_t local_us;

    (void)state;
    assert_false(rqli_clock_offset_earliest(&clock_offset, 1, early_us, &local_us));
    assert_int_equal(read_clock(&clock_offset, -SECOND_US, early_us, 50), RQLI_CLOCK_OFFSET_FINE);
    assert_int_equal(bound_us(&clock_offset, early_us), -SECOND_US - 50);
}

/* To the microsecond: a reading at the end of a window begins the next. */
static void windows_follow_each_other(void **state)
{
    struct rqli_clock_offset clock_offset = {0};

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 10);
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US + 5 * SECOND_US - 20, 30);
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 12 * SECOND_US), 30);
}

static void one_reading_bounds_both_ways(void **state)
{
    struct rqli_clock_offset clock_offset = {0};
    int64_t local_us = 0;

    (void)state;
    assert_int_equal(read_clock(&clock_offset, OFFSET_US, NOW_US, 50), RQLI_CLOCK_OFFSET_FINE);
    assert_true(
        rqli_clock_offset_earliest(&clock_offset, NOW_US - OFFSET_US, NOW_US + 100, &local_us));
    assert_int_equal(local_us, NOW_US - 50);
    assert_int_equal(rqli_clock_offset_server_latest(&clock_offset, NOW_US + 100) -
                         (NOW_US + 100 - OFFSET_US),
                     50);
}

static void the_best_bound_of_the_window_counts(void **state)
{
    static const struct {
        int64_t at_us;
        int64_t half_us;
        int64_t expected_half_us;
    } readings[] = {
        {0, 300, 300},
        {1 * SECOND_US, 500, 300}, /* slower: says nothing new */
        {2 * SECOND_US, 40, 40},   /* faster */
        {6 * SECOND_US, 900, 40},  /* the five seconds before still count */
        {9 * SECOND_US, 200, 40},
        {11 * SECOND_US, 700, 200}, /* those are forgotten now */
        {12 * SECOND_US, 100, 100},
    };

    struct rqli_clock_offset clock_offset = {0};

    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++) {
        int64_t at_us = NOW_US + readings[i].at_us;

        print_message("# reading at %lld us\n", (long long)readings[i].at_us);
        assert_int_equal(read_clock(&clock_offset, OFFSET_US, at_us, readings[i].half_us),
                         RQLI_CLOCK_OFFSET_FINE);
        assert_int_equal(OFFSET_US - bound_us(&clock_offset, at_us), readings[i].expected_half_us);
    }
}

static void a_bound_fades_without_new_readings(void **state)
{
    struct rqli_clock_offset clock_offset = {0};
    int64_t local_us;

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 10);
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US + 6 * SECOND_US, 80);
    /* The windows begin when the first answer came: 10 us after its time. */
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 10 * SECOND_US + 9), 10);
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 10 * SECOND_US + 10), 80);
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 15 * SECOND_US + 9), 80);
    assert_false(
        rqli_clock_offset_earliest(&clock_offset, 0, NOW_US + 15 * SECOND_US + 10, &local_us));
    assert_int_equal(rqli_clock_offset_server_latest(&clock_offset, NOW_US + 60 * SECOND_US),
                     NOW_US + 60 * SECOND_US - OFFSET_US + 80);
}

static void after_a_silence_it_begins_anew(void **state)
{
    struct rqli_clock_offset clock_offset = {0};

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 10);
    assert_int_equal(read_clock(&clock_offset, OFFSET_US, NOW_US + 10 * SECOND_US, 400),
                     RQLI_CLOCK_OFFSET_FINE);
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 10 * SECOND_US), 400);
}

/* Bounds 100 us wide: a step is seen when it takes the offset out of them, drift included. */
static void steps_beyond_the_bounds_are_recognised(void **state)
{
    static const struct {
        int64_t step_us; /* of the offset: < 0 when the server's clock goes forward */
        int64_t after_us;
        enum rqli_clock_offset_news expected;
    } cases[] = {
        {0, SECOND_US, RQLI_CLOCK_OFFSET_FINE},
        {DRIFT_US + 200, SECOND_US, RQLI_CLOCK_OFFSET_FINE},
        {DRIFT_US + 201, SECOND_US, RQLI_CLOCK_OFFSET_STEPPED},
        {-DRIFT_US - 200, SECOND_US, RQLI_CLOCK_OFFSET_FINE},
        {-DRIFT_US - 201, SECOND_US, RQLI_CLOCK_OFFSET_STEPPED},
        {INT64_C(3600) * SECOND_US, 9 * SECOND_US, RQLI_CLOCK_OFFSET_STEPPED},
        {INT64_C(-3600) * SECOND_US, 9 * SECOND_US, RQLI_CLOCK_OFFSET_STEPPED},
        {INT64_C(3600) * SECOND_US, 10 * SECOND_US,
         RQLI_CLOCK_OFFSET_FINE}, /* nothing left to compare */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t at_us = NOW_US + cases[i].after_us;
        int64_t offset_us = OFFSET_US + cases[i].step_us;
        struct rqli_clock_offset clock_offset = {0};

        print_message("# step %lld us\n", (long long)cases[i].step_us);
        (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 100);
        assert_int_equal(read_clock(&clock_offset, offset_us, at_us, 100), cases[i].expected);
        assert_true(cases[i].expected == RQLI_CLOCK_OFFSET_FINE ||
                    bound_us(&clock_offset, at_us) == offset_us - 100);
    }
}

static void the_best_bound_sees_a_step_that_the_last_would_miss(void **state)
{
    struct rqli_clock_offset clock_offset = {0};

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 10);
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US + SECOND_US, 900000);
    assert_int_equal(read_clock(&clock_offset, OFFSET_US - 5000, NOW_US + 2 * SECOND_US, 10),
                     RQLI_CLOCK_OFFSET_STEPPED);
}

static void what_was_known_before_a_step_is_forgotten(void **state)
{
    struct rqli_clock_offset clock_offset = {0};
    int64_t later_us = NOW_US + 4 * SECOND_US;

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US, 10);
    assert_int_equal(read_clock(&clock_offset, OFFSET_US - SECOND_US, later_us, 30),
                     RQLI_CLOCK_OFFSET_STEPPED);
    assert_int_equal(OFFSET_US - SECOND_US - bound_us(&clock_offset, later_us), 30);
    assert_int_equal(
        read_clock(&clock_offset, OFFSET_US - SECOND_US, later_us + 2 * SECOND_US, 500),
        RQLI_CLOCK_OFFSET_FINE);
    assert_int_equal(OFFSET_US - SECOND_US - bound_us(&clock_offset, later_us + 9 * SECOND_US), 30);
}

/* Threads take their readings, and add them when they are scheduled. */
static void a_reading_that_comes_late_is_no_step(void **state)
{
    struct rqli_clock_offset clock_offset = {0};

    (void)state;
    (void)read_clock(&clock_offset, OFFSET_US, NOW_US + 6 * SECOND_US, 200);
    assert_int_equal(read_clock(&clock_offset, OFFSET_US, NOW_US + 5 * SECOND_US, 20),
                     RQLI_CLOCK_OFFSET_FINE);
    assert_int_equal(OFFSET_US - bound_us(&clock_offset, NOW_US + 6 * SECOND_US), 20);
}

/* A server whose clock runs at another rate, and jumps now and then. */
struct world {
    uint32_t seed;
    struct rqli_clock_offset clock_offset;
    int64_t now_us;
    int64_t offset_us;  /* the truth, at the time of its last change */
    int64_t changed_us; /* when that was */
    int64_t drift_ppm;
};

static int64_t truth_us(const struct world *world, int64_t at_us)
{
    return world->offset_us + (at_us - world->changed_us) * world->drift_ppm / PPM;
}

static void jump(struct world *world, int64_t by_us)
{
    world->offset_us = truth_us(world, world->now_us) + by_us;
    world->changed_us = world->now_us;
}

static enum rqli_clock_offset_news exchange(struct world *world, uint32_t slowest_us)
{
    int64_t sent_us = world->now_us;
    int64_t answered_us = sent_us + chance_below(&world->seed, slowest_us);

    world->now_us = answered_us + chance_below(&world->seed, slowest_us);
    return rqli_clock_offset_add(&world->clock_offset, sent_us,
                                 answered_us - truth_us(world, answered_us), world->now_us);
}

/* What is said to be the earliest is not late, and what is said to be the latest not early. */
static void check_bounds(struct world *world)
{
    int64_t at_us = world->now_us + chance_below(&world->seed, 12 * SECOND_US);
    int64_t then_us = world->now_us - truth_us(world, world->now_us);
    int64_t latest_us = rqli_clock_offset_server_latest(&world->clock_offset, world->now_us);
    int64_t local_us;

    assert_true(latest_us >= then_us - DRIFT_US);
    if (rqli_clock_offset_earliest(&world->clock_offset, then_us, at_us, &local_us)) {
        assert_true(local_us <= world->now_us + DRIFT_US);
        assert_true(at_us < world->now_us + 10 * SECOND_US);
    }
}

static void live(uint32_t seed)
{
    struct world world = {.seed = seed, .now_us = NOW_US, .changed_us = NOW_US};

    world.offset_us = (int64_t)chance_below(&world.seed, UINT32_MAX) - UINT32_MAX / 2;
    world.drift_ppm = (int64_t)chance_below(&world.seed, 381) - 190;
    for (int i = 0; i < N_READINGS; i++) {
        /* Far more than three exchanges and the drift of a window can hide. */
        int64_t step_us = SECOND_US + chance_below(&world.seed, 100 * SECOND_US);
        bool jumps = i > 0 && chance_below(&world.seed, 10) == 0;

        world.now_us += chance_below(&world.seed, jumps ? 4 * SECOND_US : 6 * SECOND_US);
        if (jumps) {
            jump(&world, chance_below(&world.seed, 2) ? step_us : -step_us);
        }
        assert_int_equal(exchange(&world, chance_below(&world.seed, 4) ? 400 : 90000),
                         jumps ? RQLI_CLOCK_OFFSET_STEPPED : RQLI_CLOCK_OFFSET_FINE);
        check_bounds(&world);
    }
}

static void bounds_hold_the_truth_and_only_jumps_are_steps(void **state)
{
    for (uint32_t i = 1; i <= N_WORLDS; i++) {
        *(uint32_t *)*state = i * 2654435761U;
        live(*(uint32_t *)*state);
    }
}

static int say_seed(void **state)
{
    print_message("# last seed %u\n", (unsigned)*(uint32_t *)*state);
    return 0;
}

int main(void)
{
    uint32_t seed = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_reading_nothing_is_known),
        cmocka_unit_test(a_machine_that_has_just_started_knows_nothing_either),
        cmocka_unit_test(windows_follow_each_other),
        cmocka_unit_test(one_reading_bounds_both_ways),
        cmocka_unit_test(the_best_bound_of_the_window_counts),
        cmocka_unit_test(a_bound_fades_without_new_readings),
        cmocka_unit_test(after_a_silence_it_begins_anew),
        cmocka_unit_test(steps_beyond_the_bounds_are_recognised),
        cmocka_unit_test(the_best_bound_sees_a_step_that_the_last_would_miss),
        cmocka_unit_test(what_was_known_before_a_step_is_forgotten),
        cmocka_unit_test(a_reading_that_comes_late_is_no_step),
        cmocka_unit_test_prestate_setup_teardown(bounds_hold_the_truth_and_only_jumps_are_steps,
                                                 NULL, say_seed, &seed),
    };

    return cmocka_run_group_tests_name("skew", tests, NULL, NULL);
}
