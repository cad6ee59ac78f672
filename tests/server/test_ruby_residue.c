#include "clients.h"

#include "dead.h"
#include "ruby.h"

/* The gem's queues have no ttl. One that ours have joined must not stay when all of them have died.
 */

static void wait_for_x(void)
{
    wait_for_ever_in_child("x");
}

static bool leaves_no_residue(void *data)
{
    (void)data;
    return (ask_int("EXISTS rql:lock_queue:x") == 0 || ask_int("PTTL rql:lock_queue:x") > 0) &&
           (ask_int("EXISTS rql:req:x") == 0 || ask_int("PTTL rql:req:x") > 0);
}

static void check_no_residue(void)
{
    assert_true(wait_until(leaves_no_residue, NULL, SHORT_MS));
    assert_true(ask_int("PTTL rql:lock_queue:x") <= 120000);
}

static void a_queue_that_ruby_began_ends_after_both_died(void **state)
{
    struct ruby ruby;
    pid_t child;

    (void)state;
    ask("HSET rql:lock:x acq_id a hst_id h ts 1.0 ini_ttl 60000");
    ask("PEXPIRE rql:lock:x 600000");
    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    child = start_child(wait_for_x);
    await_int(2, "ZCARD rql:lock_queue:x");
    ruby_close(&ruby);
    kill_child(child);
    check_no_residue();
}

/* Two of ours, that the last who comes is not the one that polls. */
static void a_queue_that_ruby_began_ends_after_all_died(void **state)
{
    struct ruby ruby;
    pid_t children[2];

    (void)state;
    ask("HSET rql:lock:x acq_id a hst_id h ts 1.0 ini_ttl 60000");
    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    for (int i = 0; i < 2; i++) {
        children[i] = start_child(wait_for_x);
        await_int(2 + i, "ZCARD rql:lock_queue:x");
    }
    ruby_close(&ruby);
    kill_child(children[1]);
    kill_child(children[0]);
    check_no_residue();
}

/* What serves the queue finds Ruby in front. */
static void a_queue_that_ruby_joined_ends_after_both_died(void **state)
{
    struct ruby ruby;
    rql_lock *held = hold(client, "x");
    pid_t child;

    (void)state;
    ruby_open(&ruby, 1);
    ruby.score = ruby_now() - 1;
    child = start_child(wait_for_x);
    await_int(1, "ZCARD rql:lock_queue:x");
    assert_false(ruby_try(&ruby, "x", 60000));
    ruby_close(&ruby);
    kill_child(child);
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    check_no_residue();
}

static void a_queue_of_ruby_alone_stays_as_it_is(void **state)
{
    struct ruby ruby;
    rql_lock *held = hold(client, "x");

    (void)state;
    ruby_open(&ruby, 1);
    assert_false(ruby_try(&ruby, "x", 60000));
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("TTL rql:lock_queue:x"), -1);
    assert_true(ruby_try(&ruby, "x", 60000));
    assert_int_equal(ask_int("EXISTS rql:lock_queue:x"), 0);
    ruby_close(&ruby);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_queue_that_ruby_began_ends_after_both_died),
        TEST(a_queue_that_ruby_began_ends_after_all_died),
        TEST(a_queue_that_ruby_joined_ends_after_both_died),
        TEST(a_queue_of_ruby_alone_stays_as_it_is),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
