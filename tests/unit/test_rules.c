#include "check.h"

#include "admin/rules.h"
#include "lock/client.h"
#include "reply_tree.h"

TEST(ages_are_counted_from_the_servers_clock)
{
    static const struct {
        int64_t now_us, ttl_ms;
        int64_t oldest_us;
        const char *seconds;
    } rows[] = {
        {1795254268468100, 86400000, 1795167868468100, "1795167868.468100"},
        {1795254268000007, 0, 1795254268000007, "1795254268.000007"},
        {5, 315360000000, 0, "0.000000"}, /* a server in 1970 */
    };

    EACH_BY (row, rows, row->seconds) {
        struct rqli_sweep_age age;

        rqli_sweep_age_init(&age, row->now_us, row->ttl_ms);
        assert_true(age.oldest_us == row->oldest_us);
        assert_string_equal(age.seconds, row->seconds);
    }
}

/* Steps go on from where the last one ended, and a queue is touched once. */
TEST(steps_through_a_queue_come_to_an_end)
{
    static const struct {
        int64_t counted;
        int64_t removed;
        struct rqli_outcome steps[4];
        bool goes_on[4];
        bool dry_run;
    } table[] = {
        {400, 143, {{0, 100, 0}, {40, 160, 0}, {100, 160, 0}, {3, -1, 1}}, {1, 1, 1, 0}, false},
        {400, 143, {{0, 100, 0}, {40, 200, 0}, {100, 300, 0}, {3, -1, 1}}, {1, 1, 1, 0}, true},
        /* all seen */
        {300, 140, {{0, 100, 0}, {40, 160, 0}, {100, 160, 0}, {0, 260, 1}}, {1, 1, 1, 0}, false},
        /* no step forward: no server does so */
        {300, 1, {{1, 99, 0}, {0, 99, 1}}, {1, 0}, false},
        {300, 41, {{1, 50, 0}, {40, 9, 1}}, {1, 0}, false},
    };

    EACH (row, table) {
        const rql_sweep_options options = {.dry_run = row->dry_run};
        const struct rqli_reply seen = tree_int(row->counted);
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {.seen = &seen};
        size_t step = 0;

        while (rqli_rule_count(&rqli_rule_dead_requests, &sweep, &target, &row->steps[step])) {
            assert_true(row->goes_on[step]);
            assert_true(target.from == row->steps[step].second);
            step++;
        }
        CHECK_ALL(EQ(row->goes_on[step], false), EQ(sweep.result.requests, row->removed),
                  EQ(sweep.result.queues, 1), EQ(target.served, 1));
    }
}
