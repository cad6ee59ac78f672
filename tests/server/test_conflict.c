#include "fixture.h"

/* What happens when the acquirer already holds the lock it asks for. */

enum { OUTER_MS = 50000, SHORT_TTL_MS = 1000 };

static rql_client *client;
static rql_lock_options again; /* how the second acquisition asks */
static rql_lock *outer;

static int set_up(void **state)
{
    rql_lock_options options;

    (void)state;
    ask("FLUSHALL");
    client = new_client();
    options = patient(client);
    options.ttl_ms = OUTER_MS;
    outer = hold_with(client, "x", &options);
    again = patient(client);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rql_lock_forget(outer);
    client = rql_client_free(client);
    return 0;
}

/* Microseconds as in a field of the lock. */
static int64_t field_us(const char *field)
{
    char text[TEXT_SIZE];

    return (int64_t)(strtod(ask_text(text, "HGET rql:lock:x %s", field), NULL) * 1e6 + 0.5);
}

/* When the lock ends, by the server's clock. */
static int64_t end_ms(void)
{
    return ask_int("PEXPIRETIME rql:lock:x");
}

static void work_through_shares_the_lock(void **state)
{
    int64_t ts_us = field_us("ts");
    int64_t before_ms = end_ms();
    rql_lock *inner;
    int i;

    (void)state;
    again.conflict_strategy = RQL_WORK_THROUGH;
    again.ttl_ms = 999999;
    for (i = 1; i <= 2; i++) {
        inner = hold_with(client, "x", &again);
        assert_int_equal(rql_lock_describe(inner).process, RQL_CONFLICT_WORK_THROUGH);
        assert_int_equal(rql_lock_token(inner), rql_lock_token(outer));
        assert_string_equal(rql_lock_secret(inner), rql_lock_secret(outer));
        assert_int_equal(ask_int("HGET rql:lock:x spc_cnt"), i);
        assert_int_equal(field_us("l_spc_ts"), rql_lock_describe(inner).ts_us);
        assert_true(field_us("l_spc_ts") > ts_us);
        assert_in_range(rql_lock_remaining_ms(inner), 1, OUTER_MS);
        CHECK_OK(rql_lock_release(inner, NULL));
    }
    assert_int_equal(field_us("ts"), ts_us);
    assert_int_equal(ask_int("HGET rql:lock:x ini_ttl"), OUTER_MS);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:x rql:req:x"), 0);
    assert_int_equal(ask_int("HEXISTS rql:lock:x spc_ext_ttl"), 0);
    assert_int_equal(end_ms(), before_ms);
    CHECK_OK(rql_lock_verify(outer, NULL));
}

struct span {
    int64_t begin_us;
    int64_t end_us;
};

/* Notes between which instants it was taken. */
static rql_lock *extend_for(int64_t ttl_ms, struct span *taken)
{
    rql_lock *inner;

    again.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    again.ttl_ms = ttl_ms;
    taken->begin_us = wait_clock_us();
    inner = hold_with(client, "x", &again);
    taken->end_us = wait_clock_us();
    return inner;
}

/* A server that is stalled within a script adds to the ttl. */
static void check_added(int64_t before_ms, int64_t ttl_ms, const struct span *taken)
{
    int64_t more_ms = end_ms() - before_ms - ttl_ms;

    assert_true(more_ms >= 0);
    assert_true(more_ms <= (taken->end_us - taken->begin_us) / 1000 + 1);
}

static void extendable_work_through_adds_its_ttl(void **state)
{
    int64_t before_ms = end_ms();
    struct span taken;
    rql_lock *second = extend_for(20000, &taken);
    rql_lock *third;

    (void)state;
    assert_int_equal(rql_lock_describe(second).process, RQL_EXTENDABLE_CONFLICT_WORK_THROUGH);
    assert_int_equal(rql_lock_token(second), rql_lock_token(outer));
    check_added(before_ms, 20000, &taken);
    assert_int_equal(ask_int("HGET rql:lock:x spc_cnt"), 1);
    assert_int_equal(ask_int("HGET rql:lock:x spc_ext_ttl"), 20000);
    assert_int_equal(ask_int("HGET rql:lock:x l_spc_ext_ini_ttl"), 20000);
    assert_int_equal(field_us("l_spc_ext_ts"), rql_lock_describe(second).ts_us);
    before_ms = end_ms();
    third = extend_for(10000, &taken);
    check_added(before_ms, 10000, &taken);
    assert_int_equal(ask_int("HGET rql:lock:x spc_cnt"), 2);
    assert_int_equal(ask_int("HGET rql:lock:x spc_ext_ttl"), 30000);
    assert_int_equal(ask_int("HGET rql:lock:x l_spc_ext_ini_ttl"), 10000);
    assert_int_equal(ask_int("HGET rql:lock:x ini_ttl"), OUTER_MS);
    assert_int_equal(ask_int("HEXISTS rql:lock:x l_spc_ts"), 0);
    before_ms = end_ms();
    rql_lock_forget(third); /* without a block the extension stays */
    rql_lock_forget(second);
    assert_int_equal(end_ms(), before_ms);
}

/* Metadata, and what another version or language may have written. */
static void re_entries_keep_what_they_do_not_know(void **state)
{
    char text[TEXT_SIZE];

    (void)state;
    ask("HSET rql:lock:x job 42 rql_newer 7 l_spc_newer odd");
    again.conflict_strategy = RQL_WORK_THROUGH;
    CHECK_OK(rql_lock_release(hold_with(client, "x", &again), NULL));
    again.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    CHECK_OK(rql_lock_release(hold_with(client, "x", &again), NULL));
    assert_int_equal(ask_int("HGET rql:lock:x spc_cnt"), 2);
    assert_int_equal(ask_int("HGET rql:lock:x job"), 42);
    assert_int_equal(ask_int("HGET rql:lock:x rql_newer"), 7);
    assert_string_equal(ask_text(text, "HGET rql:lock:x l_spc_newer"), "odd");
    assert_string_equal(ask_text(text, "HGET rql:lock:x rql_nonce"), rql_lock_secret(outer));
}

/* What was used stays, ttl - elapsed - 2 ms goes, as in the gem. */
static void check_taken_back(rql_lock *inner, int64_t ttl_ms, const struct span *taken)
{
    int64_t shortest_ms = (wait_clock_us() - taken->end_us) / 1000;
    int64_t before_ms = end_ms();
    int64_t back_ms;

    CHECK_OK(rql_lock_release(inner, NULL));
    back_ms = before_ms - end_ms();
    assert_true(back_ms <= ttl_ms - shortest_ms - 1);
    assert_true(back_ms >= ttl_ms - (wait_clock_us() - taken->begin_us) / 1000 - 4);
}

static bool has_passed(void *until_us)
{
    return wait_clock_us() >= *(int64_t *)until_us;
}

static void await_ms(int64_t ms)
{
    int64_t until_us = wait_clock_us() + ms * 1000;

    assert_true(wait_until(has_passed, &until_us, AWAIT_MS));
}

static void the_end_of_an_extension_takes_back_what_was_not_used(void **state)
{
    struct span of_second;
    struct span of_third;
    rql_lock *second = extend_for(20000, &of_second);
    rql_lock *third = extend_for(10000, &of_third);

    (void)state;
    await_ms(100);
    check_taken_back(third, 10000, &of_third);
    check_taken_back(second, 20000, &of_second);
    assert_int_equal(ask_int("HGET rql:lock:x spc_cnt"), 2);
    assert_int_equal(ask_int("HGET rql:lock:x spc_ext_ttl"), 30000);
    CHECK_OK(rql_lock_verify(outer, NULL));
}

static void an_extension_that_is_used_up_takes_nothing_back(void **state)
{
    struct span taken;
    rql_lock *inner = extend_for(20, &taken);
    int64_t before_ms = end_ms();

    (void)state;
    await_ms(20);
    CHECK_OK(rql_lock_release(inner, NULL));
    assert_int_equal(end_ms(), before_ms);
    inner = extend_for(20, &taken);
    await_ms(20);
    ask("DEL rql:lock:x");
    assert_int_equal(rql_lock_verify(inner, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(inner, NULL), RQL_NOT_HELD);
}

/* Whoever shares the grant must not rely on what an extension will take back. */
static void check_relied_on(const rql_lock *lock)
{
    int64_t left_ms = ask_int("PTTL rql:lock:x");

    assert_true(rql_lock_remaining_ms(lock) <= left_ms);
}

static void what_was_promised_outlives_the_end_of_an_extension(void **state)
{
    struct span taken;
    rql_lock *inner = extend_for(20000, &taken);
    int64_t begun_us = wait_clock_us();
    int64_t left_ms;

    (void)state;
    CHECK_OK(rql_lock_extend(outer, 60000, NULL));
    CHECK_OK(rql_lock_release(inner, NULL));
    check_relied_on(outer);
    left_ms = rql_lock_remaining_ms(outer);
    /* The way of the release to the server is taken off once more. */
    assert_true(left_ms >= 59398 - 2 * ((wait_clock_us() - begun_us) / 1000 + 1));
}

static void the_end_of_an_extension_is_the_end_for_all_who_share_it(void **state)
{
    struct span taken;
    rql_lock *inner = extend_for(20000, &taken);
    rql_lock *sharing;

    (void)state;
    again.conflict_strategy = RQL_WORK_THROUGH;
    sharing = hold_with(client, "x", &again);
    assert_true(rql_lock_remaining_ms(sharing) > rql_lock_remaining_ms(outer));
    CHECK_OK(rql_lock_release(inner, NULL));
    check_relied_on(sharing);
    check_relied_on(outer);
    assert_int_equal(rql_lock_get_state(sharing), RQL_HELD);
    CHECK_OK(rql_lock_release(sharing, NULL));
}

/* It was to last a minute: without the extension it ends with the outer hold. */
static void who_relied_on_an_extension_is_told_of_its_end(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *first;
    rql_lock *extending;
    rql_lock *sharing;
    int lost_fd = -1;

    (void)state;
    options.ttl_ms = wait_stretched(SHORT_TTL_MS);
    first = hold_with(client, "y", &options);
    again.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    extending = hold_with(client, "y", &again);
    again.conflict_strategy = RQL_WORK_THROUGH;
    sharing = hold_with(client, "y", &again);
    CHECK_OK(rql_lock_lost_fd(sharing, &lost_fd, NULL));
    assert_true(rql_lock_remaining_ms(sharing) > again.ttl_ms / 2);
    CHECK_OK(rql_lock_release(extending, NULL));
    assert_true(wait_readable(lost_fd, AWAIT_MS));
    assert_int_equal(rql_lock_release(sharing, NULL), RQL_NOT_HELD);
    rql_lock_forget(first);
}

static void dead_locking_is_a_conflict(void **state)
{
    rql_lock *inner = NULL;

    (void)state;
    again.conflict_strategy = RQL_DEAD_LOCKING;
    assert_int_equal(rql_lock_acquire(client, "x", &again, &inner, NULL), RQL_CONFLICT);
    assert_int_equal(rql_lock_try(client, "x", &again, &inner, NULL), RQL_CONFLICT);
    assert_null(inner);
    assert_int_equal(ask_int("HEXISTS rql:lock:x spc_cnt"), 0);
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_verify(outer, NULL));
}

/* Conflict strategies come before fail_fast. */
static void fail_fast_matters_only_to_those_who_would_wait(void **state)
{
    rql_lock *inner = NULL;

    (void)state;
    assert_int_equal(rql_lock_try(client, "x", &again, &inner, NULL), RQL_FAIL_FAST_NO_TRY);
    again.conflict_strategy = RQL_WORK_THROUGH;
    CHECK_OK(rql_lock_try(client, "x", &again, &inner, NULL));
    CHECK_OK(rql_lock_release(inner, NULL));
}

static void wait_for_lock_waits_for_the_own_lock_to_end(void **state)
{
    rql_lock *second;

    (void)state;
    ask("PEXPIRE rql:lock:x 300");
    second = hold_with(client, "x", &again);
    assert_int_equal(rql_lock_describe(second).process, RQL_LOCK_OBTAINING);
    assert_true(rql_lock_token(second) > rql_lock_token(outer));
    assert_int_equal(rql_lock_verify(outer, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(second, NULL));
}

static void waiting_for_a_lock_that_one_keeps_extending_is_a_conflict(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *second = NULL;
    rql_lock *kept;

    (void)state;
    options.auto_extend = true;
    kept = hold_with(client, "kept", &options);
    assert_int_equal(rql_lock_acquire(client, "kept", &again, &second, NULL), RQL_CONFLICT);
    again.task = 1; /* another acquirer: it waits */
    again.timeout_ms = wait_stretched(50);
    assert_true(has_timed_out(rql_lock_acquire(client, "kept", &again, &second, NULL)));
    again.task = 0;
    CHECK_OK(rql_lock_release(kept, NULL));
    CHECK_OK(rql_lock_acquire(client, "kept", &again, &second, NULL));
    CHECK_OK(rql_lock_release(second, NULL));
}

/* A handle that was lost keeps nothing any more. */
static void a_lost_lock_is_no_conflict(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *second;
    rql_lock *kept;

    (void)state;
    options.auto_extend = true;
    kept = hold_with(client, "kept", &options);
    ask("DEL rql:lock:kept");
    assert_int_equal(rql_lock_verify(kept, NULL), RQL_NOT_HELD);
    second = hold_with(client, "kept", &again);
    CHECK_OK(rql_lock_release(second, NULL));
    assert_int_equal(rql_lock_release(kept, NULL), RQL_NOT_HELD);
}

static void a_re_entry_of_a_lost_lock_is_a_grant_of_its_own(void **state)
{
    rql_lock *second;

    (void)state;
    again.conflict_strategy = RQL_WORK_THROUGH;
    ask("DEL rql:lock:x");
    second = hold_with(client, "x", &again);
    assert_int_equal(rql_lock_describe(second).process, RQL_LOCK_OBTAINING);
    assert_int_equal(ask_int("HEXISTS rql:lock:x spc_cnt"), 0);
    CHECK_OK(rql_lock_release(second, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void a_re_entry_ends_with_the_outer_hold(void **state)
{
    rql_lock *extension;
    rql_lock *sharing;

    (void)state;
    again.conflict_strategy = RQL_WORK_THROUGH;
    sharing = hold_with(client, "x", &again);
    again.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    extension = hold_with(client, "x", &again);
    CHECK_OK(rql_lock_release(outer, NULL));
    outer = NULL;
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_lock_verify(sharing, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(sharing, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(extension, NULL), RQL_NOT_HELD);
}

/* The end of an extension never touches what somebody else holds by then. */
static void an_extension_that_was_lost_shortens_nobody(void **state)
{
    rql_lock_options options;
    rql_client *other = new_client();
    int64_t before_ms;
    rql_lock *inner;
    rql_lock *taken;

    (void)state;
    again.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    inner = hold_with(client, "x", &again);
    ask("DEL rql:lock:x");
    options = patient(other);
    taken = hold_with(other, "x", &options);
    before_ms = end_ms();
    assert_int_equal(rql_lock_release(inner, NULL), RQL_NOT_HELD);
    assert_int_equal(end_ms(), before_ms);
    CHECK_OK(rql_lock_release(taken, NULL));
    rql_client_free(other);
}

/* By an operator's PERSIST, for one. It cannot be relied on, and asking at once does not help. */
static void a_lock_without_ttl_is_not_asked_for_in_a_loop(void **state)
{
    rql_lock *lock = NULL;
    int64_t calls;

    (void)state;
    ask("PERSIST rql:lock:x");
    again.conflict_strategy = RQL_WORK_THROUGH;
    again.timeout_ms = wait_stretched(500);
    calls = calls_of("evalsha");
    assert_true(has_timed_out(rql_lock_acquire(client, "x", &again, &lock, NULL)));
    assert_true(calls_of("evalsha") - calls < again.timeout_ms / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(work_through_shares_the_lock),
        TEST(extendable_work_through_adds_its_ttl),
        TEST(re_entries_keep_what_they_do_not_know),
        TEST(the_end_of_an_extension_takes_back_what_was_not_used),
        TEST(an_extension_that_is_used_up_takes_nothing_back),
        TEST(what_was_promised_outlives_the_end_of_an_extension),
        TEST(the_end_of_an_extension_is_the_end_for_all_who_share_it),
        TEST(who_relied_on_an_extension_is_told_of_its_end),
        TEST(dead_locking_is_a_conflict),
        TEST(fail_fast_matters_only_to_those_who_would_wait),
        TEST(wait_for_lock_waits_for_the_own_lock_to_end),
        TEST(waiting_for_a_lock_that_one_keeps_extending_is_a_conflict),
        TEST(a_lost_lock_is_no_conflict),
        TEST(a_re_entry_of_a_lost_lock_is_a_grant_of_its_own),
        TEST(a_re_entry_ends_with_the_outer_hold),
        TEST(an_extension_that_was_lost_shortens_nobody),
        TEST(a_lock_without_ttl_is_not_asked_for_in_a_loop),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
