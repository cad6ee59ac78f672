#include "clients.h"

/* However an acquisition ends, nothing of it stays in the queue. */

/* `error` and `out` stay as they were. */
static void check_outcome(const rql_lock_options *options, rql_status expected)
{
    rql_lock *lock = NULL;
    rql_error error;
    rql_status status;
    int rounds = 0;

    do {
        error = (rql_error){.status = RQL_E_SERVER, .message = "untouched"};
        status = rql_lock_acquire(client, "x", options, &lock, &error);
    } while (is_cut_short(status, "x", &rounds));
    assert_int_equal(status, expected);
    assert_null(lock);
    assert_int_equal(error.status, RQL_E_SERVER);
    assert_string_equal(error.message, "untouched");
    CHECK_QUEUE_IS_EMPTY("x");
}

static void a_refusal_leaves_the_queue(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);

    (void)state;
    options.timeout_ms = wait_stretched(150);
    check_outcome(&options, RQL_TIMED_OUT);
    options.timeout_ms = 0;
    check_outcome(&options, RQL_TIMED_OUT);
    options.timeout_ms = RQL_FOREVER;
    options.retry_count = 2;
    options.retry_delay_ms = 20;
    check_outcome(&options, RQL_RETRY_LIMIT);
    options.retry_count = 0;
    check_outcome(&options, RQL_RETRY_LIMIT);
    options.fail_fast = true;
    check_outcome(&options, RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(held, NULL));
}

static void fail_fast_behind_others_leaves_the_queue(void **state)
{
    rql_lock_options options = patient(client);

    (void)state;
    ask("ZADD rql:lock_queue:x 1 rql:acq:1/2/3/4/0123456789abcdef");
    options.fail_fast = true;
    options.queue_ttl_ms = RQL_FOREVER;
    for (int i = 0; i < 2; i++) {
        rql_lock *lock = NULL;

        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL),
                         RQL_FAIL_FAST_AFTER_TRY);
        assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
        assert_int_equal(ask_int("HLEN rql:req:x"), 1); /* when the Ruby waiter was first seen */
        assert_int_equal(ask_int("HEXISTS rql:req:x ruby"), 1);
    }
}

static void a_conflict_leaves_the_queue(void **state)
{
    rql_lock *held = hold(client, "x");
    rql_lock_options options = patient(client);

    (void)state;
    options.conflict_strategy = RQL_DEAD_LOCKING;
    check_outcome(&options, RQL_CONFLICT);
    options.conflict_strategy = RQL_WAIT_FOR_LOCK;
    options.retry_count = 2;
    options.retry_delay_ms = 20;
    check_outcome(&options, RQL_RETRY_LIMIT);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* An error reply of the server; the error names the lock. */
static void check_fault(const rql_lock_options *options, rql_status expected)
{
    rql_error error = {0};
    rql_lock *lock = NULL;
    rql_status status = rql_lock_acquire(client, "x", options, &lock, &error);

    if (status != expected || error.status != expected || !strstr(error.message, "x")) {
        fail_msg("%s %s", rql_status_text(status), error.message);
    }
    assert_null(lock);
}

static void a_foreign_lock_key_is_an_error(void **state)
{
    rql_lock_options options = patient(client);

    (void)state;
    ask("SET rql:lock:x foreign");
    check_fault(&options, RQL_E_WRONG_TYPE);
    CHECK_QUEUE_IS_EMPTY("x");
    assert_int_equal(ask_int("STRLEN rql:lock:x"), 7);
}

static void a_foreign_queue_key_is_an_error(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);

    (void)state;
    ask("SET rql:lock_queue:x foreign");
    check_fault(&options, RQL_E_WRONG_TYPE);
    assert_int_equal(ask_int("HLEN rql:req:x"), 0);
    assert_int_equal(ask_int("STRLEN rql:lock_queue:x"), 7);
    ask("DEL rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
}

/* Its request has left, and nothing goes on in the background. */
static void a_foreign_queue_key_keeps_no_client(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_options options = client_options();
    rql_client *third;
    rql_lock *lock = NULL;

    (void)state;
    options.io_timeout_ms = 600000;
    third = new_client_with(&options);
    ask("SET rql:lock_queue:x foreign");
    assert_int_equal(rql_lock_acquire(third, "x", NULL, &lock, NULL), RQL_E_WRONG_TYPE);
    rql_client_free(third);
    ask("DEL rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
}

/* What is no queue has nobody to serve: the lock is free, and that is what the holder is told. */
static void a_foreign_queue_key_is_no_fault_of_a_release(void **state)
{
    rql_lock *held = hold(client, "x");

    (void)state;
    ask("SET rql:lock_queue:x foreign");
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(ask_int("STRLEN rql:lock_queue:x"), 7);
}

/* Nor of the end of a re-entry that is the end of the lock, nor of what comes too late. */
static void a_foreign_queue_key_hides_no_end(void **state)
{
    rql_lock *held = hold(client, "x");
    rql_lock_options options = patient(client);
    rql_lock *inner;

    (void)state;
    options.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    inner = hold_with(client, "x", &options);
    ask("HDEL rql:lock:x rql_end");
    ask("PEXPIRE rql:lock:x 30000"); /* less than what is taken back */
    ask("SET rql:lock_queue:x foreign");
    CHECK_OK(rql_lock_release(inner, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_lock_extend(held, 60000, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    assert_int_equal(ask_int("STRLEN rql:lock_queue:x"), 7);
}

static void a_foreign_request_key_is_an_error(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);

    (void)state;
    ask("SET rql:req:x foreign");
    check_fault(&options, RQL_E_WRONG_TYPE);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
    assert_int_equal(ask_int("STRLEN rql:req:x"), 7);
    ask("DEL rql:req:x");
    CHECK_OK(rql_lock_release(held, NULL));
}

static void a_full_server_is_tried_until_the_deadline(void **state)
{
    rql_lock_options options = patient(client);
    int64_t begun_us;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    ask("CONFIG SET maxmemory 1");
    options.timeout_ms = wait_stretched(300);
    begun_us = wait_clock_us();
    check_fault(&options, RQL_E_UNAVAILABLE);
    assert_true(wait_clock_us() - begun_us >= options.timeout_ms * 1000 - 10000);
    ask("CONFIG SET maxmemory 0");
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
}

static void a_replica_is_told_apart(void **state)
{
    rql_lock_options options = patient(client);

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    ask("REPLICAOF 127.0.0.1 1");
    options.timeout_ms = wait_stretched(300);
    check_fault(&options, RQL_E_READ_ONLY);
    ask("REPLICAOF NO ONE");
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
}

/* The holder ends while the replica is one: the client must find its way back by itself. */
static void a_full_server_that_recovers_ends_the_wait(void **state)
{
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    ask("CONFIG SET maxmemory 1");
    waiter.releases = true;
    waiter_start(&waiter);
    await_int(1, "EVAL return(redis.call('info','errorstats'):find('OOM')and(1)or(0)) 0");
    ask("CONFIG SET maxmemory 0");
    CHECK_OK(waiter_join(&waiter));
    CHECK_QUEUE_IS_EMPTY("x");
}

/* Every acquirer of a crowd goes. */
static void a_crowd_leaves_nothing_behind(void **state)
{
    enum { CROWD = 12 };

    struct waiter crowd[CROWD];
    rql_lock *held = hold(other, "x");
    int i;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "warm"), NULL)); /* all find a connection */
    for (i = 0; i < CROWD; i++) {
        crowd[i] = (struct waiter){.client = client, .name = "x", .options = patient(client)};
        crowd[i].options.timeout_ms = wait_stretched(100) + 10 * i;
        waiter_start(&crowd[i]);
    }
    for (i = 0; i < CROWD; i++) {
        assert_true(has_timed_out(waiter_join(&crowd[i])));
    }
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* The hand-over that comes at the very moment of the time-out is either taken or given back. */
static void a_timeout_that_meets_a_hand_over_leaks_nothing(void **state)
{
    int round;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "warm"), NULL));
    for (round = 0; round < 30; round++) {
        struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
        rql_lock *held = hold(other, "x");
        int64_t until_us;

        waiter.options.timeout_ms = wait_stretched(30);
        waiter.releases = true;
        waiter_start(&waiter);
        until_us = wait_clock_us() + waiter.options.timeout_ms * 1000 - 4000 + 300 * round;
        while (wait_clock_us() < until_us) {
            CHECK_OK(rql_lock_verify(held, NULL));
        }
        CHECK_OK(rql_lock_release(held, NULL));
        assert_true(waiter_join(&waiter) == RQL_OK || has_timed_out(waiter.status));
        await_int(0, "EXISTS rql:lock:x");
        CHECK_QUEUE_IS_EMPTY("x");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_refusal_leaves_the_queue),
        TEST(fail_fast_behind_others_leaves_the_queue),
        TEST(a_conflict_leaves_the_queue),
        TEST(a_foreign_lock_key_is_an_error),
        TEST(a_foreign_queue_key_is_an_error),
        TEST(a_foreign_queue_key_keeps_no_client),
        TEST(a_foreign_queue_key_is_no_fault_of_a_release),
        TEST(a_foreign_queue_key_hides_no_end),
        TEST(a_foreign_request_key_is_an_error),
        TEST(a_full_server_is_tried_until_the_deadline),
        TEST(a_full_server_that_recovers_ends_the_wait),
        TEST(a_replica_is_told_apart),
        TEST(a_crowd_leaves_nothing_behind),
        TEST(a_timeout_that_meets_a_hand_over_leaks_nothing),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
