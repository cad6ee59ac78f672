#include "unit.h"

#include "base/clock.h"
#include "net/subscription.h"

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
TEST(one_that_brings_nothing_is_given_up_whatever_the_timeout)
{
    static const int64_t io_timeout_ms[] = {1, 1000, 4999, 5000, 5001, 8000, 20000, 500000};

    EACH (row, io_timeout_ms) {
        int64_t gone_us;

        begin_with(*row);
        gone_us = give_up_us(1);
        assert_in_range(gone_us, 6 * SECOND_US + *row * 1000,
                        6 * SECOND_US + *row * 1000 + 2 * LOOK_US);
    }
}

TEST(one_that_the_server_does_not_know_is_given_up_at_once)
{
    begin_with(20000);
    assert_in_range(give_up_us(0), 6 * SECOND_US, 6 * SECOND_US + 2 * LOOK_US);
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

/* The command connection broke: nobody knows whether the server has heard of it. */
TEST(a_test_without_answer_is_repeated)
{
    begin_with(20000);
    assert_true(rqli_subscription_wants_ping(&subscription, 6 * SECOND_US));
    assert_false(rqli_subscription_wants_ping(&subscription, 10 * SECOND_US));
    assert_false(rqli_subscription_is_silent(&subscription, 10 * SECOND_US));
    assert_true(rqli_subscription_wants_ping(&subscription, 11 * SECOND_US));
}

/* Who relies on it polls seldom. */
TEST(one_delivers_that_has_brought_something_since_its_last_test)
{
    begin_with(20000);
    subscription.heard_us = 0; /* as it is opened */
    assert_false(rqli_subscription_delivers(&subscription));
    assert_true(rqli_subscription_wants_ping(&subscription, 60 * SECOND_US));
    assert_false(rqli_subscription_delivers(&subscription));
    subscription.heard_us = 60 * SECOND_US;
    assert_true(rqli_subscription_delivers(&subscription));
    assert_true(rqli_subscription_wants_ping(&subscription, 70 * SECOND_US));
    assert_false(rqli_subscription_delivers(&subscription));
    subscription.heard_us = 71 * SECOND_US;
    assert_true(rqli_subscription_delivers(&subscription));
}
