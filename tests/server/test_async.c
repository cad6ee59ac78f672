#include "async_fixture.h"

enum { CROWD = 16 };

static void a_free_lock_is_granted_at_once(void **state)
{
    struct asked asked = asked_for();
    rql_lock_facts facts;

    (void)state;
    start_asking(&asked, "x");
    assert_int_equal(asked.n_done, 0);
    await_asked(&asked);
    CHECK_OK(asked.status);
    facts = rql_lock_describe(asked.lock);
    assert_string_equal(facts.name, "x");
    assert_true(rql_lock_remaining_ms(asked.lock) > 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    CHECK_OK(release_and_wait(asked.lock));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static bool all_released(const void *data)
{
    const struct asked *crowd = data;

    for (size_t i = 0; i < CROWD; i++) {
        if (crowd[i].n_released == 0) {
            return false;
        }
    }
    return true;
}

static void the_queue_is_served_in_the_order_of_the_calls(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];

    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        start_asking(&crowd[i], "x");
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(all_released, crowd);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK_OK(crowd[i].status);
        CHECK_OK(crowd[i].release_status);
        assert_int_equal(crowd[i].n_done, 1);
        assert_true(i == 0 || crowd[i].order > crowd[i - 1].order);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_free_lock_is_granted_at_once),
        LOOP_TEST(the_queue_is_served_in_the_order_of_the_calls),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
