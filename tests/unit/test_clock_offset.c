#include "check.h"

#include "net/conn/clock_offset.h"

enum {
    NOW_US = 900000000,
    SECOND_US = 1000000,
    DRIFT_US = 2000,
    STEPS_MAX = 8,
    NONE = -1,
    FINE = RQLI_CLOCK_OFFSET_FINE,
    STEPPED = RQLI_CLOCK_OFFSET_STEPPED,
};

/* Local minus server; Unix time is far ahead of any boot. */
#define OFFSET_US (NOW_US - INT64_C(1795254268468100))
#define HOUR_US (INT64_C(3600) * SECOND_US)

/* A reading whose two ways took `half_us` each. */
static enum rqli_clock_offset_news read_clock(struct rqli_clock_offset *clock_offset,
                                              int64_t offset_us, int64_t at_us, int64_t half_us)
{
    return rqli_clock_offset_add(clock_offset, at_us - half_us, at_us - offset_us, at_us + half_us);
}

/* The lower bound of the offset, as the caller of rqli_clock_offset_earliest() sees it. */
static int64_t bound_us(const struct rqli_clock_offset *clock_offset, int64_t at_us)
{
    const int64_t server_us = NOW_US - OFFSET_US;
    int64_t local_us = 0;

    assert_true(rqli_clock_offset_earliest(clock_offset, server_us, at_us, &local_us));
    return local_us - server_us;
}

/* Three seconds after a machine has started a reading of nothing would lie within the window. */
TEST(nothing_is_known_before_the_first_reading)
{
    static const int64_t times_us[] = {NOW_US, 3 * SECOND_US};

    EACH (at_us, times_us) {
        struct rqli_clock_offset clock_offset = {0};
        int64_t local_us = 77;

        assert_false(rqli_clock_offset_earliest(&clock_offset, 1, *at_us, &local_us));
        assert_int_equal(local_us, 77);
        assert_true(rqli_clock_offset_server_latest(&clock_offset, *at_us) == INT64_MAX);
        assert_int_equal(read_clock(&clock_offset, -SECOND_US, *at_us, 50), FINE);
        assert_int_equal(bound_us(&clock_offset, *at_us), -SECOND_US - 50);
    }
}

/* A reading, when and how slow, after a step of the offset (< 0 when the server's clock goes
 * forward), and what it says; half_us 0: none is taken. Then, unless 0, by how much the bound is
 * off, and the latest time of the server. */
struct step {
    int64_t at_us;
    int64_t half_us;
    int64_t step_us;
    int news;
    int64_t bound_us;
    int64_t latest_us;
};

static const struct story {
    const char *name;
    struct step steps[STEPS_MAX];
} stories[] = {
    {"one reading bounds both ways", .steps = {{0, 50}, {100, 0, 0, 0, 50, 50}}},
    {"the latest time of the server is known for good, however long ago it was read",
     .steps = {{0, 10}, {6 * SECOND_US, 80}, {60 * SECOND_US, 0, 0, 0, NONE, 80}}},
    {"windows follow each other: a reading at the end of one begins the next",
     .steps = {{0, 10}, {5 * SECOND_US - 20, 30}, {12 * SECOND_US, 0, 0, 0, 30}}},
    {"the best bound of the window counts",
     .steps = {{0, 300, 0, FINE, 300},
               {1 * SECOND_US, 500, 0, FINE, 300}, /* slower: says nothing new */
               {2 * SECOND_US, 40, 0, FINE, 40},   /* faster */
               {6 * SECOND_US, 900, 0, FINE, 40},  /* the five seconds before still count */
               {9 * SECOND_US, 200, 0, FINE, 40},
               {11 * SECOND_US, 700, 0, FINE, 200}, /* those are forgotten now */
               {12 * SECOND_US, 100, 0, FINE, 100}}},
    /* The windows begin when the first answer came: 10 us after its time. */
    {"a bound fades without new readings", .steps = {{0, 10},
                                                     {6 * SECOND_US, 80},
                                                     {10 * SECOND_US + 9, 0, 0, 0, 10},
                                                     {10 * SECOND_US + 10, 0, 0, 0, 80},
                                                     {15 * SECOND_US + 9, 0, 0, 0, 80},
                                                     {15 * SECOND_US + 10, 0, 0, 0, NONE}}},
    {"after a silence it begins anew", .steps = {{0, 10}, {10 * SECOND_US, 400, 0, FINE, 400}}},
    /* Bounds 100 us wide: a step is seen when it takes the offset out of them, drift included. */
    {"no step", .steps = {{0, 100}, {SECOND_US, 100, 0, FINE, 100}}},
    {"back within the bounds", .steps = {{0, 100}, {SECOND_US, 100, DRIFT_US + 200, FINE}}},
    {"back beyond the bounds", .steps = {{0, 100}, {SECOND_US, 100, DRIFT_US + 201, STEPPED, 100}}},
    {"forward within the bounds", .steps = {{0, 100}, {SECOND_US, 100, -DRIFT_US - 200, FINE}}},
    {"forward beyond the bounds",
     .steps = {{0, 100}, {SECOND_US, 100, -DRIFT_US - 201, STEPPED, 100}}},
    {"back by an hour, nine seconds later",
     .steps = {{0, 100}, {9 * SECOND_US, 100, HOUR_US, STEPPED, 100}}},
    {"forward by an hour, nine seconds later",
     .steps = {{0, 100}, {9 * SECOND_US, 100, -HOUR_US, STEPPED, 100}}},
    {"by an hour when there is nothing left to compare with",
     .steps = {{0, 100}, {10 * SECOND_US, 100, HOUR_US, FINE, 100}}},
    {"the best bound sees a step that the last would miss",
     .steps = {{0, 10}, {SECOND_US, 900000}, {2 * SECOND_US, 10, -5000, STEPPED, 10}}},
    {"what was known before a step is forgotten",
     .steps = {{0, 10},
               {4 * SECOND_US, 30, -SECOND_US, STEPPED, 30},
               {6 * SECOND_US, 500, -SECOND_US, FINE, 30},
               {13 * SECOND_US, 0, -SECOND_US, 0, 30}}},
    /* Threads take their readings, and add them when they are scheduled. */
    {"a reading that comes late is no step",
     .steps = {{6 * SECOND_US, 200}, {5 * SECOND_US, 20, 0, FINE}, {6 * SECOND_US, 0, 0, 0, 20}}},
};

static void check_step(const struct rqli_clock_offset *clock_offset, const struct step *step)
{
    int64_t at_us = NOW_US + step->at_us;
    int64_t local_us;

    if (step->bound_us == NONE) {
        assert_false(rqli_clock_offset_earliest(clock_offset, 0, at_us, &local_us));
    } else if (step->bound_us) {
        assert_int_equal(OFFSET_US + step->step_us - bound_us(clock_offset, at_us), step->bound_us);
    }
    if (step->latest_us) {
        assert_int_equal(rqli_clock_offset_server_latest(clock_offset, at_us),
                         at_us - OFFSET_US - step->step_us + step->latest_us);
    }
}

TEST(readings_bound_the_offset_and_show_its_steps)
{
    EACH_ROW (row, stories) {
        struct rqli_clock_offset clock_offset = {0};

        for (size_t k = 0; k < STEPS_MAX; k++) {
            const struct step *step = &row->steps[k];

            if (step->half_us > 0) {
                assert_int_equal(read_clock(&clock_offset, OFFSET_US + step->step_us,
                                            NOW_US + step->at_us, step->half_us),
                                 step->news);
            }
            check_step(&clock_offset, step);
        }
    }
}

/* The newest reading counts, slower or faster than those before it; while it grows old the clocks
 * may part by 200 ppm. */
TEST(the_earliest_time_of_the_server_follows_from_the_newest_reading)
{
    static const struct {
        const char *name;
        int64_t half_us, age_us, early_us;
    } rows[] = {
        {"just now", 50, 0, 50},
        {"a slower one", 400, 0, 400},
        {"a faster one", 20, 1000, 20},
        {"a second ago", 20, SECOND_US, 20 + 200},
        {"an hour ago", 20, HOUR_US, 20 + 720000},
        {"said by a thread that was late to say it", 20, -30, 20},
    };
    struct rqli_clock_offset clock_offset = {0};

    assert_int_equal(rqli_clock_offset_server_earliest(&clock_offset, NOW_US), 0);
    EACH_ROW (row, rows) {
        int64_t at_us = NOW_US + row->half_us + row->age_us;

        (void)read_clock(&clock_offset, OFFSET_US, NOW_US, row->half_us);
        assert_int_equal(rqli_clock_offset_server_earliest(&clock_offset, at_us),
                         at_us - OFFSET_US - row->early_us);
    }
}
