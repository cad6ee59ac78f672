#include "check.h"

#include "observe/histogram.h"
#include "observe/stats.h"

#include <math.h>

#define LONGEST_US ((INT64_C(1) << 42) - 1)

TEST(what_is_out_of_range_goes_to_the_ends)
{
    static const struct {
        int64_t us;
        size_t bucket;
    } rows[] = {
        {INT64_MIN, 0},
        {-1, 0},
        {0, 0},
        {LONGEST_US + 1, RQL_HISTOGRAM_BUCKETS - 1},
        {INT64_MAX, RQL_HISTOGRAM_BUCKETS - 1},
    };

    EACH (row, rows) {
        print_message("# %lld us\n", (long long)row->us);
        assert_int_equal(rqli_histogram_bucket(row->us), row->bucket);
    }
    assert_true(rqli_histogram_upper(RQL_HISTOGRAM_BUCKETS) == LONGEST_US);
    assert_true(rqli_histogram_upper(SIZE_MAX) == LONGEST_US);
}

/* All times that are the first, the last or in the midst of a bucket, and many others. */
TEST(a_time_is_known_to_an_eighth)
{
    for (int64_t time_us = 1; time_us <= LONGEST_US; time_us += time_us / 97 + 1) {
        int64_t over_us = rqli_histogram_upper(rqli_histogram_bucket(time_us)) - time_us;

        assert_true(over_us >= 0);
        assert_true(over_us * 8 <= time_us);
    }
}

static void add(rql_histogram *histogram, int64_t time_us, int64_t count)
{
    histogram->bucket[rqli_histogram_bucket(time_us)] += count;
    histogram->count += count;
    histogram->sum_us += time_us * count;
}

TEST(quantiles_are_those_of_the_times)
{
    static const struct {
        double share;
        int64_t us;
    } rows[] = {
        {0, 3},           {-1, 3},      {0.5, 3},     {0.51, 1023},      {0.99, 1023},
        {0.991, 1048575}, {1, 1048575}, {7, 1048575}, {(double)NAN, -1},
    };

    rql_histogram histogram = {0};

    assert_int_equal(rql_stats_quantile(&histogram, 0.5), -1);
    add(&histogram, 3, 50);
    add(&histogram, 1000, 49);
    add(&histogram, 1000000, 1);
    EACH (row, rows) {
        print_message("# share %f\n", row->share);
        assert_int_equal(rql_stats_quantile(&histogram, row->share), row->us);
    }
}

TEST(readings_add_up)
{
    rql_stats a = {.size = sizeof a, .acquisitions = 1, .pushes = 3};
    rql_stats b = {.size = sizeof b, .acquisitions = 2};
    rql_stats older = {.size = offsetof(rql_stats, hand_overs), .acquisitions = 5};

    add(&a.wait, 3, 1);
    add(&b.wait, 1000, 2);
    add(&b.hand_off, LONGEST_US, 1);
    rql_stats_add(&a, &b);
    CHECK_ALL(EQ(a.size, sizeof a), EQ(a.acquisitions, 3), EQ(a.pushes, 3), EQ(a.wait.count, 3),
              EQ(a.wait.sum_us, 2003));
    assert_int_equal(rql_stats_quantile(&a.wait, 0.3), 3);
    assert_int_equal(rql_stats_quantile(&a.wait, 0.4), 1023);
    assert_int_equal(a.hand_off.bucket[RQL_HISTOGRAM_BUCKETS - 1], 1);
    rql_stats_add(&older, &a); /* of a shorter struct only what it has */
    assert_int_equal(older.acquisitions, 8);
    assert_int_equal(older.hand_overs, 0);
}

TEST(every_count_is_read_from_every_shard)
{
    struct rqli_stats *stats = rqli_stats_new();
    rql_stats read = {.size = sizeof read};

    assert_non_null(stats);
    for (unsigned shard = 0; shard < 9; shard++) {
        rqli_stats_count(stats, shard, RQLI_STAT_ACQUISITIONS, 2);
        rqli_stats_count(stats, shard, RQLI_STAT_SWEPT_KEYS, 1);
        rqli_stats_refusal(stats, shard, RQL_CONFLICT);
        rqli_stats_refusal(stats, shard, RQL_E_IO);
        rqli_stats_refusal(stats, shard, RQL_E_UNSUPPORTED);
        rqli_stats_refusal(stats, shard, RQL_OK);
        rqli_stats_time(stats, shard, RQLI_STAT_HOLD, 5);
        rqli_stats_time(stats, shard, RQLI_STAT_HAND_OFF, -5);
    }
    rqli_stats_read(stats, &read);
    CHECK_ALL(EQ(read.acquisitions, 18), EQ(read.swept_keys, 9), EQ(read.conflicts, 9),
              EQ(read.faults[-RQL_E_IO], 9), EQ(read.faults[-RQL_E_UNSUPPORTED], 9),
              EQ(read.hold.count, 9), EQ(read.hold.sum_us, 45), EQ(read.hand_off.bucket[0], 9),
              EQ(read.hand_off.sum_us, 0), EQ(read.wait.count, 0), EQ(read.timed_out, 0));
    rqli_stats_free(stats);
}
