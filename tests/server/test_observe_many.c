#include "series_fixture.h"
#include "tape.h"

/* What a client tells of series and of calls for operators. */

static struct tape tape;
static rql_client *client; /* recorded */
static rql_client *other;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    tape_init(&tape);
    client = tape_client(&tape);
    other = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    other = rql_client_free(other);
    return 0;
}

static void check_series_fields(const rql_event *event, const rql_series *series)
{
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];

    (void)series;
    assert_null(event->lock_key);
    assert_int_equal(event->n_lock_keys, 3);
    assert_string_equal(tape.events[event->kind].lock_keys, "rql:lock:a rql:lock:b rql:lock:c ");
    assert_string_equal(event->acq_id, rql_current_acquirer_id(client, 0, acquirer));
    assert_string_equal(event->hst_id, rql_current_host_id(client, host));
    assert_int_equal(event->ttl_ms, 60000);
    assert_true(event->acq_time_us >= 0);
    assert_int_equal(event->token, -1);
}

static void check_series_released(void)
{
    const rql_event *event = &tape.events[RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE].event;

    tape_check(&tape, "expire_lock_series");
    tape_check(&tape, "! lock_series_hold_and_release");
    check_series_fields(event, NULL);
    assert_true(event->hold_time_us >= 0);
    assert_true(event->ts_us > tape.events[RQL_EVENT_LOCK_SERIES_OBTAINED].event.ts_us);
    assert_int_equal(event->status, RQL_OK);
    tape_check_end(&tape);
}

static void a_series_of_one_step(void **state)
{
    rql_series *series = take_series(client, abc, 3);

    (void)state;
    tape_check(&tape, "start_lock_series_obtaining");
    for (int i = 0; i < 3; i++) {
        tape_check(&tape, "lock_obtained");
        tape_check(&tape, "! lock_obtained");
    }
    tape_check(&tape, "lock_series_obtained");
    tape_check(&tape, "! lock_series_obtained");
    tape_check_end(&tape);
    check_series_fields(&tape.events[RQL_EVENT_LOCK_SERIES_OBTAINED].event, series);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    check_series_released();
}

static void a_series_of_many_steps(void **state)
{
    struct wish wish;
    rql_series *series;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.options.mode = RQL_SERIES_GEM;
    series = take_series_with(client, &wish);
    tape_check(&tape, "start_lock_series_obtaining");
    for (int i = 0; i < 3; i++) {
        tape_check(&tape, "start_lock_obtaining");
        tape_check(&tape, "start_try_to_lock_cycle");
        tape_check(&tape, "lock_obtained");
        tape_check(&tape, "! lock_obtained");
    }
    tape_check(&tape, "lock_series_obtained");
    tape_check(&tape, "! lock_series_obtained");
    tape_check_end(&tape);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    check_series_released();
}

static void a_series_that_fails(void **state)
{
    rql_lock *held = hold(other, "b");
    rql_series *series = NULL;
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    assert_int_equal(rql_series_try(client, &wish.options, &series, NULL), RQL_FAIL_FAST_NO_TRY);
    tape_check(&tape, "start_lock_series_obtaining");
    tape_check(&tape, "! lock_failed");
    tape_check_end(&tape);
    check_series_fields(&tape.events[RQL_EVENT_LOCK_FAILED].event, NULL);
    assert_int_equal(tape.events[RQL_EVENT_LOCK_FAILED].event.status, RQL_FAIL_FAST_NO_TRY);
    wish.options.mode = RQL_SERIES_GEM;
    assert_int_equal(rql_series_try(client, &wish.options, &series, NULL), RQL_FAIL_FAST_NO_TRY);
    tape_check(&tape, "start_lock_series_obtaining");
    tape_check(&tape, "start_lock_obtaining");
    tape_check(&tape, "start_try_to_lock_cycle");
    tape_check(&tape, "lock_obtained");
    tape_check(&tape, "! lock_obtained");
    tape_check(&tape, "start_lock_obtaining");
    tape_check(&tape, "start_try_to_lock_cycle");
    tape_check(&tape, "! lock_failed");
    tape_check_end(&tape);
    assert_string_equal(tape.events[RQL_EVENT_LOCK_FAILED].event.lock_key, "rql:lock:b");
    CHECK_OK(rql_lock_release(held, NULL));
}

static void all_locks_are_cleared(void **state)
{
    const rql_event *event = &tape.events[RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE].event;
    rql_lock *held = hold(other, "x");
    rql_sweep_options options;

    (void)state;
    rql_sweep_options_init(client, &options);
    options.dry_run = true;
    CHECK_OK(rql_clear_locks(client, &options, NULL, NULL));
    tape_check_end(&tape);
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    tape_check(&tape, "! explicit_all_locks_release");
    tape_check_end(&tape);
    assert_int_equal(event->rel_key_cnt, 1);
    assert_int_equal(event->tch_queue_cnt, -1);
    assert_true(event->rel_time_us > 0);
    assert_true(event->at_us > 0);
    assert_int_equal(event->status, RQL_OK);
    rql_lock_release(held, NULL);
}

static void the_locks_of_one_are_cleared(void **state)
{
    const rql_event *event = &tape.events[RQL_EVENT_RELEASE_LOCKS_OF].event;
    rql_lock *held = hold(other, "x");
    rql_lock_facts facts = rql_lock_describe(held);
    const rql_sweep_owner owner = {facts.acq_id, facts.hst_id};

    (void)state;
    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, NULL, NULL));
    tape_check(&tape, "! release_locks_of");
    tape_check_end(&tape);
    assert_string_equal(event->acq_id, owner.acq_id);
    assert_string_equal(event->hst_id, owner.hst_id);
    assert_int_equal(event->rel_key_cnt, 1);
    assert_int_equal(event->tch_queue_cnt, 0);
    rql_lock_release(held, NULL);
}

static void dead_requests_are_swept(void **state)
{
    const rql_event *event = &tape.events[RQL_EVENT_SWEPT].event;

    (void)state;
    ask("ZADD rql:lock_queue:x 1.5 rql:acq:1/2/3/4/0123456789abcdef");
    CHECK_OK(rql_clear_dead_requests(client, NULL, NULL, NULL, NULL));
    tape_check(&tape, "! swept");
    tape_check_end(&tape);
    assert_string_equal(event->name, "rql.swept");
    assert_int_equal(event->rel_key_cnt, -1);
    assert_int_equal(event->tch_queue_cnt, 1);
}

static bool stop_at_once(int64_t done, int64_t found, void *user_data)
{
    (void)done;
    (void)found;
    (void)user_data;
    return false;
}

static void a_sweep_that_ended_early_says_so(void **state)
{
    rql_sweep_options options;

    (void)state;
    rql_sweep_options_init(client, &options);
    options.on_progress = stop_at_once;
    assert_int_equal(rql_clear_locks(client, &options, NULL, NULL), RQL_STOPPED);
    tape_check(&tape, "! explicit_all_locks_release");
    assert_int_equal(tape.events[RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE].event.status, RQL_STOPPED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_series_of_one_step),
        TEST(a_series_of_many_steps),
        TEST(a_series_that_fails),
        TEST(all_locks_are_cleared),
        TEST(the_locks_of_one_are_cleared),
        TEST(dead_requests_are_swept),
        TEST(a_sweep_that_ended_early_says_so),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("observe_many", tests, start_server, stop_server);
}
