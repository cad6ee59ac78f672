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

/* The shares of dead hosts are ended page by page; the place to go on from is a cursor, which may
 * be any number. The lock counts once, whether or not a waiter was let in on the way. */
TEST(pages_of_shares_come_to_an_end)
{
    static const struct {
        size_t n_steps;
        int64_t served;
        struct rqli_outcome steps[4];
    } table[] = {
        {4, 1, {{0, 0, 96, 130}, {40, 1, 17, 130}, {3, 0, 200, 90}, {0, 0, -1, 87}}},
        {2, 2, {{40, 0, 8, 41}, {1, 2, -1, 1}}}, /* the lock is free then */
        {1, 0, {{0, 0, -1, 3}}},
    };

    EACH (row, table) {
        struct rqli_sweep sweep = {.n_parts = 0};
        struct rqli_sweep_target target = {0};
        const int64_t n_locks = row->n_steps > 1;
        size_t step = 0;

        while (rqli_rule_count(&rqli_rule_zombie_shares, &sweep, &target, &row->steps[step])) {
            assert_true(target.from == row->steps[step].third);
            step++;
        }
        CHECK_ALL(EQ(step + 1, row->n_steps), EQ(sweep.result.released, n_locks),
                  EQ(sweep.result.queues, 0), EQ(sweep.result.requests, 0),
                  EQ(target.served, row->served));
    }
}

/* A server that always names another page is left. */
TEST(pages_of_shares_without_an_end_are_left)
{
    const struct rqli_outcome page = {0, 0, 7, 1};
    struct rqli_sweep sweep = {.n_parts = 0};
    struct rqli_sweep_target target = {0};
    int64_t n_pages = 1;

    while (rqli_rule_count(&rqli_rule_zombie_shares, &sweep, &target, &page) &&
           n_pages <= RQL_SHARE_MAX) {
        n_pages++;
    }
    assert_int_equal(n_pages, RQL_SHARE_MAX);
}
