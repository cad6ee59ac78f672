#include "check.h"

#include "base/clock.h"
#include "net/conn/subscription.h"

/* When a subscriber connection that brings nothing is put to the test, and given up: a PING proves
 * the socket, not that pushes arrive. */

enum { SECOND_US = 1000000, LOOK_US = 5 * SECOND_US / 3 };

static int64_t timeout_ms;
static struct rqli_subscription subscription;

static void begin_with(int64_t io_timeout_ms)
{
    timeout_ms = io_timeout_ms;
    subscription = (struct rqli_subscription){.heard_us = SECOND_US};
}

/* A waiter looks again and again, and the server says each time how many heard the test. The time
 * at which the connection is given up; RQLI_NEVER_US: within ten minutes it is not. */
static int64_t give_up_us(int64_t n_heard)
{
    for (int64_t now_us = SECOND_US; now_us < 600 * SECOND_US; now_us += LOOK_US) {
        if (rqli_subscription_is_silent(&subscription, now_us)) {
            return now_us;
        }
        if (rqli_subscription_wants_ping(&subscription, now_us)) {
            rqli_subscription_on_pinged(&subscription, n_heard, timeout_ms, now_us);
        }
    }
    return RQLI_NEVER_US;
}

/* The least and the most that there may be, and what is longer than the pause between tests. */
TEST(one_that_brings_nothing_is_given_up_after_the_timeout_and_one_that_is_unknown_at_once)
{
    static const struct {
        int64_t io_timeout_ms, n_heard, after_ms;
    } rows[] = {{1, 1, 1},         {1000, 1, 1000},     {4999, 1, 4999},
                {5000, 1, 5000},   {5001, 1, 5001},     {8000, 1, 8000},
                {20000, 1, 20000}, {500000, 1, 500000}, {20000, 0, 0}};

    EACH (row, rows) {
        int64_t gone_us = 6 * SECOND_US + row->after_ms * 1000;

        begin_with(row->io_timeout_ms);
        assert_in_range(give_up_us(row->n_heard), gone_us, gone_us + 2 * LOOK_US);
    }
}

TEST(what_is_heard_in_time_ends_the_test)
{
    begin_with(20000);
    assert_true(rqli_subscription_wants_ping(&subscription, 6 * SECOND_US));
    rqli_subscription_on_pinged(&subscription, 1, timeout_ms, 6 * SECOND_US);
    assert_false(rqli_subscription_wants_ping(&subscription, 12 * SECOND_US));
    subscription.heard_us = 13 * SECOND_US;
    assert_false(rqli_subscription_is_silent(&subscription, 60 * SECOND_US));
    assert_false(rqli_subscription_wants_ping(&subscription, 17 * SECOND_US));
    assert_true(
        rqli_subscription_wants_ping(&subscription, 18 * SECOND_US)); /* and the next one begins */
}

/* No test has an answer, as when the command connection broke: nobody knows whether the server has
 * heard of it. Who relies on one that delivers polls seldom. */
TEST(a_test_without_answer_is_repeated_and_one_delivers_that_has_brought_something_since)
{
    static const struct {
        const char *name;
        int64_t now_s, heard_s;
        bool is_tested, delivers;
    } rows[] = {
        {"it is opened", 0, 0, false, false},
        {"it was quiet for long", 6, 0, true, false},
        {"its test may have an answer yet", 10, 0, false, false},
        {"its test had no answer", 11, 0, true, false},
        {"nor had the next", 60, 0, true, false},
        {"it has brought something", 60, 60, false, true},
        {"it is tested again", 70, 60, true, false},
        {"it has brought more", 71, 71, false, true},
    };

    begin_with(20000);
    EACH_ROW (row, rows) {
        subscription.heard_us = row->heard_s * SECOND_US;
        assert_int_equal(rqli_subscription_wants_ping(&subscription, row->now_s * SECOND_US),
                         row->is_tested);
        assert_int_equal(rqli_subscription_delivers(&subscription), row->delivers);
        assert_false(rqli_subscription_is_silent(&subscription, row->now_s * SECOND_US));
    }
}
