#include "check.h"

#include "lock/client.h"

/* How long a call may last beyond its deadline. */

enum { LEAST_US = 50000, FAR_US = 100000, STALL_US = 30000000 };

static rql_client client;

static void take_replies(int count, int64_t took_us)
{
    for (int i = 0; i < count; i++) {
        rqli_client_on_round_trip(&client, took_us);
    }
}

static int set_up(void **state)
{
    (void)state;
    client = (rql_client){0};
    return 0;
}

static void it_is_never_less_than_that(void **state)
{
    (void)state;
    assert_int_equal(rqli_client_grace_us(&client), LEAST_US);
    take_replies(10, 200);
    assert_int_equal(rqli_client_grace_us(&client), LEAST_US);
}

static void it_is_two_round_trips_from_the_first_one_on(void **state)
{
    (void)state;
    take_replies(1, FAR_US);
    assert_int_equal(rqli_client_grace_us(&client), 2 * FAR_US);
    take_replies(5, FAR_US);
    assert_int_equal(rqli_client_grace_us(&client), 2 * FAR_US);
}

static void it_follows_a_way_that_becomes_longer_or_shorter(void **state)
{
    (void)state;
    take_replies(1, 200);
    take_replies(30, FAR_US);
    assert_in_range(rqli_client_grace_us(&client), 2 * FAR_US * 9 / 10, 2 * FAR_US);
    take_replies(5, 200);
    assert_int_equal(rqli_client_grace_us(&client), LEAST_US);
}

static void one_stall_does_not_count_for_much(void **state)
{
    (void)state;
    take_replies(1, 200);
    take_replies(1, STALL_US);
    assert_int_equal(rqli_client_grace_us(&client), LEAST_US);
    take_replies(3, FAR_US);
    take_replies(1, STALL_US);
    assert_true(rqli_client_grace_us(&client) < 2 * FAR_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_is_never_less_than_that, set_up),
        cmocka_unit_test_setup(it_is_two_round_trips_from_the_first_one_on, set_up),
        cmocka_unit_test_setup(it_follows_a_way_that_becomes_longer_or_shorter, set_up),
        cmocka_unit_test_setup(one_stall_does_not_count_for_much, set_up),
    };

    return cmocka_run_group_tests_name("grace", tests, NULL, NULL);
}
