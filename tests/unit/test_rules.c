#include "check.h"

#include "admin/rules.h"
#include "lock/client.h"

/* Steps go on from where the last one ended, and a queue is touched once. The answer is {removed,
 * served, place to go on from, length}. */
TEST(steps_through_a_queue_come_to_an_end)
{
    static const struct {
        int64_t removed;
        struct rqli_outcome steps[4];
        bool goes_on[4];
        bool dry_run;
    } table[] = {
        {143,
         {{0, 0, 100, 400}, {40, 0, 160, 400}, {100, 0, 160, 360}, {3, 1, -1, 260}},
         {1, 1, 1, 0},
         false},
        {143,
         {{0, 0, 100, 400}, {40, 0, 200, 400}, {100, 0, 300, 400}, {3, 1, -1, 400}},
         {1, 1, 1, 0},
         true},
        /* all that was there at first is seen, though others have come */
        {140,
         {{0, 0, 100, 300}, {40, 0, 160, 300}, {100, 0, 160, 900}, {0, 1, 260, 900}},
         {1, 1, 1, 0},
         false},
        /* no step forward: no server does so */
        {1, {{1, 0, 99, 300}, {0, 1, 99, 300}}, {1, 0}, false},
        {41, {{1, 0, 50, 300}, {40, 1, 9, 300}}, {1, 0}, false},
    };

    EACH (row, table) {
        const rql_sweep_options options = {.dry_run = row->dry_run};
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {0};
        size_t step = 0;

        while (rqli_rule_count(&rqli_rule_dead_requests, &sweep, &target, &row->steps[step])) {
            assert_true(row->goes_on[step]);
            assert_true(target.from == row->steps[step].third);
            step++;
        }
        CHECK_ALL(EQ(row->goes_on[step], false), EQ(sweep.result.requests, row->removed),
                  EQ(sweep.result.queues, 1), EQ(target.served, 1));
    }
}
