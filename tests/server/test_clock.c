#include "clock_fixture.h"
#include "series_fixture.h"

/* A server whose clock is set while locks are held. */

enum { HOUR_S = 3600 };

static rql_client *client;

static int start_stepping_server(void **state)
{
    return start_server_with_clock_at(state, 0);
}

static int set_up(void **state)
{
    (void)state;
    *server_clock_us = 0;
    ask("FLUSHALL");
    client = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static void set_forward(int64_t seconds)
{
    *server_clock_us += seconds * 1000000;
}

static bool is_held(void *lock)
{
    return rql_lock_get_state(lock) == RQL_HELD;
}

static bool is_gone(void *lock)
{
    return rql_lock_get_state(lock) == RQL_GONE;
}

static void hear_of_it_by_a_lock(void)
{
    CHECK_OK(rql_lock_release(hold(client, "y"), NULL));
}

static void hear_of_it_by_a_series(void)
{
    CHECK_OK(rql_series_release(take_series(client, abc, 3), NULL, NULL));
}

/* The lock has ended on the server; its holder would rely on it for a minute. */
static void a_clock_set_forward_makes_holders_ask(void **state)
{
    static void (*const hear_of_it[])(void) = {hear_of_it_by_a_lock, hear_of_it_by_a_series};

    (void)state;
    for (size_t i = 0; i < sizeof hear_of_it / sizeof hear_of_it[0]; i++) {
        rql_lock *lock = hold(client, "x");

        assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
        set_forward(HOUR_S);
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
        hear_of_it[i]();
        assert_false(is_held(lock));
        assert_true(wait_until(is_gone, lock, AWAIT_MS));
        assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    }
}

/* It lives for longer there now: who asks is reassured. */
static void a_clock_set_back_leaves_locks_to_their_holders(void **state)
{
    rql_lock *lock = hold(client, "x");
    int64_t left_ms;

    (void)state;
    set_forward(-HOUR_S);
    CHECK_OK(rql_lock_release(hold(client, "y"), NULL));
    assert_true(wait_until(is_held, lock, AWAIT_MS));
    left_ms = rql_lock_remaining_ms(lock);
    assert_true(left_ms > HOUR_S * 1000);
    CHECK_OK(rql_lock_release(lock, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_clock_set_forward_makes_holders_ask),
        TEST(a_clock_set_back_leaves_locks_to_their_holders),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_stepping_server, stop_server_with_clock);
}
