#include "tape.h"

#include <stdatomic.h>

/* What a client tells of the life of a lock: these lines and events, in this order, and no others.
 */

enum { LONG_MS = 3000, QUEUE_TTL_MS = 30 };

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

static void check_begins(void)
{
    tape_check(&tape, "start_lock_obtaining");
    tape_check(&tape, "start_try_to_lock_cycle");
}

static void check_obtained(void)
{
    check_begins();
    tape_check(&tape, "lock_obtained");
    tape_check(&tape, "! lock_obtained");
}

static void check_released(void)
{
    tape_check(&tape, "expire_lock");
    tape_check(&tape, "! lock_hold_and_release");
}

static const struct tape_event *last(rql_event_kind kind)
{
    assert_int_equal(tape.events[kind].event.kind, kind);
    return &tape.events[kind];
}

/* What all events of a held lock say. */
static void check_fields(const rql_event *event, const rql_lock *lock)
{
    rql_lock_facts facts = rql_lock_describe(lock);

    assert_string_equal(event->lock_key, facts.lock_key);
    assert_string_equal(event->acq_id, facts.acq_id);
    assert_string_equal(event->hst_id, facts.hst_id);
    assert_int_equal(event->ttl_ms, facts.ttl_ms);
    assert_true(event->ts_us == facts.ts_us);
    assert_true(event->acq_time_us == facts.waited_us);
    assert_true(event->token == rql_lock_token(lock));
    assert_null(event->lock_queue);
    assert_int_equal(event->n_lock_keys, 0);
    assert_int_equal(event->rel_time_us, -1);
    assert_int_equal(event->rel_key_cnt, -1);
    assert_int_equal(event->tch_queue_cnt, -1);
    assert_int_equal(event->at_us, -1);
}

static void a_lock_is_obtained_and_released(void **state)
{
    rql_lock_options options = patient(client);
    const rql_event *event = &tape.events[RQL_EVENT_LOCK_OBTAINED].event;
    rql_lock *lock;

    (void)state;
    options.instrument = &options;
    lock = hold_with(client, "x", &options);
    check_obtained();
    check_fields(event, lock);
    assert_string_equal(event->name, "redis_queued_locks.lock_obtained");
    assert_int_equal(event->hold_time_us, -1);
    assert_ptr_equal(event->instrument, &options);
    assert_true(pthread_equal(last(RQL_EVENT_LOCK_OBTAINED)->thread, pthread_self()));
    CHECK_OK(rql_lock_release(lock, NULL));
    check_released();
    event = &last(RQL_EVENT_LOCK_HOLD_AND_RELEASE)->event;
    assert_string_equal(event->name, "redis_queued_locks.lock_hold_and_release");
    assert_true(event->hold_time_us > 0);
    assert_int_equal(event->status, RQL_OK);
    assert_ptr_equal(event->instrument, &options);
    tape_check_end(&tape);
}

static int look_at_tape(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    check_obtained();
    tape_check_end(&tape);
    return 0;
}

static void a_block_is_told_of_too(void **state)
{
    rql_block block = {.run = look_at_tape};

    (void)state;
    CHECK_OK(rql_with_lock(client, "x", NULL, &block, NULL));
    check_released();
    tape_check_end(&tape);
}

static void what_is_left_to_its_ttl_is_not_told_of(void **state)
{
    rql_lock *lock = hold(client, "x");

    (void)state;
    check_obtained();
    rql_lock_forget(lock);
    tape_check_end(&tape);
}

static void steps_of_a_try_are_logged_when_wanted(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    options.log_lock_try = true;
    lock = hold_with(client, "x", &options);
    check_begins();
    tape_check(&tape, "try_lock.start");
    tape_check(&tape, "try_lock.rconn_fetched");
    tape_check(&tape, "try_lock.obtain__free_to_acquire");
    tape_check(&tape, "lock_obtained");
    tape_check(&tape, "! lock_obtained");
    tape_check_end(&tape);
    rql_lock_release(lock, NULL);
}

static void a_lock_is_re_entered(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *outer = hold(client, "x");
    rql_lock *inner;

    (void)state;
    check_obtained();
    options.conflict_strategy = RQL_WORK_THROUGH;
    inner = hold_with(client, "x", &options);
    check_begins();
    tape_check(&tape, "reentrant_lock_obtained");
    tape_check(&tape, "! reentrant_lock_obtained");
    check_fields(&last(RQL_EVENT_REENTRANT_LOCK_OBTAINED)->event, inner);
    CHECK_OK(rql_lock_release(inner, NULL));
    tape_check(&tape, "! reentrant_lock_hold_completes");
    CHECK_OK(rql_lock_release(outer, NULL));
    check_released();
    tape_check_end(&tape);
}

static void a_re_entry_adds_its_ttl_and_takes_it_back(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *outer = hold(client, "x");
    rql_lock *inner;

    (void)state;
    check_obtained();
    options.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    options.ttl_ms = 20000;
    inner = hold_with(client, "x", &options);
    check_begins();
    tape_check(&tape, "extendable_reentrant_lock_obtained");
    tape_check(&tape, "! extendable_reentrant_lock_obtained");
    check_fields(&last(RQL_EVENT_EXTENDABLE_REENTRANT_LOCK_OBTAINED)->event, inner);
    CHECK_OK(rql_lock_release(inner, NULL));
    tape_check(&tape, "decrease_lock");
    tape_check(&tape, "! reentrant_lock_hold_completes");
    assert_int_equal(last(RQL_EVENT_REENTRANT_LOCK_HOLD_COMPLETES)->event.ttl_ms, 20000);
    CHECK_OK(rql_lock_release(outer, NULL));
    check_released();
    tape_check_end(&tape);
}

static void a_lock_is_extended(void **state)
{
    rql_lock *lock = hold(client, "x");

    (void)state;
    check_obtained();
    CHECK_OK(rql_lock_extend(lock, 90000, NULL));
    tape_check(&tape, "! lock_extended");
    assert_int_equal(last(RQL_EVENT_LOCK_EXTENDED)->event.ttl_ms, 90000);
    assert_string_equal(last(RQL_EVENT_LOCK_EXTENDED)->event.name, "rql.lock_extended");
    CHECK_OK(rql_lock_release(lock, NULL));
    check_released();
    tape_check_end(&tape);
}

static void check_refused(const rql_lock_options *options, rql_status status, rql_event_kind kind)
{
    const rql_event *event = &tape.events[kind].event;
    rql_lock *lock = NULL;
    rql_status outcome = rql_lock_acquire(client, "x", options, &lock, NULL);

    for (int rounds = 0; is_cut_short(outcome, "x", &rounds);) {
        tape_skip(&tape);
        outcome = rql_lock_acquire(client, "x", options, &lock, NULL);
    }
    assert_int_equal(outcome, status);
    check_begins();
    if (status != RQL_FAIL_FAST_NO_TRY && status > 0) {
        tape_check(&tape, "fail_fast_or_limits_reached_or_deadlock__dequeue");
    }
    tape_check(&tape, kind == RQL_EVENT_LOCK_TIMED_OUT ? "! lock_timed_out" : "! lock_failed");
    tape_check_end(&tape);
    assert_int_equal(event->status, status);
    assert_string_equal(event->lock_key, "rql:lock:x");
    assert_int_equal(event->ttl_ms, options->ttl_ms);
    assert_true(event->acq_time_us >= 0);
    assert_int_equal(event->token, -1);
    assert_int_equal(event->ts_us, -1);
}

static void a_refusal_says_why(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");

    (void)state;
    options.fail_fast = true;
    check_refused(&options, RQL_FAIL_FAST_NO_TRY, RQL_EVENT_LOCK_FAILED);
    options = patient(client);
    options.timeout_ms = wait_stretched(200);
    check_refused(&options, RQL_TIMED_OUT, RQL_EVENT_LOCK_TIMED_OUT);
    options = patient(client);
    options.retry_count = 1;
    check_refused(&options, RQL_RETRY_LIMIT, RQL_EVENT_LOCK_FAILED);
    CHECK_OK(rql_lock_release(held, NULL));
    ask("SET rql:lock:x text");
    options = patient(client);
    check_refused(&options, RQL_E_WRONG_TYPE, RQL_EVENT_LOCK_FAILED);
    ask("DEL rql:lock:x"); /* so that the request can be withdrawn */
}

static void a_conflict_is_a_refusal(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = hold(client, "x");

    (void)state;
    check_obtained();
    options.conflict_strategy = RQL_DEAD_LOCKING;
    check_refused(&options, RQL_CONFLICT, RQL_EVENT_LOCK_FAILED);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void a_wait_for_oneself_that_never_began_has_queued_nothing(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;
    rql_lock *held;

    (void)state;
    options.auto_extend = true;
    held = hold_with(client, "x", &options);
    check_obtained();
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_CONFLICT);
    tape_check(&tape, "start_lock_obtaining");
    tape_check(&tape, "! lock_failed");
    tape_check_end(&tape);
    CHECK_OK(rql_lock_release(held, NULL));
}

static void a_lock_is_handed_over(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    const rql_event *event = &tape.events[RQL_EVENT_LOCK_HANDED_OVER].event;

    (void)state;
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    check_begins();
    tape_check(&tape, "lock_obtained");
    tape_check(&tape, "! lock_handed_over");
    tape_check(&tape, "! lock_obtained");
    tape_check_end(&tape);
    check_fields(event, waiter.lock);
    assert_true(pthread_equal(last(RQL_EVENT_LOCK_OBTAINED)->thread, waiter.thread));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void a_request_is_requeued(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    const rql_event *event = &tape.events[RQL_EVENT_REQUEST_REQUEUED].event;

    (void)state;
    waiter.options.queue_ttl_ms = QUEUE_TTL_MS;
    waiter.options.retry_delay_ms = 10;
    waiter_start_as(&waiter, 1);
    tape_await(&tape, RQL_EVENT_REQUEST_REQUEUED);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    check_begins();
    tape_check(&tape, "dead_score_reached__reset_acquirer_position");
    tape_check(&tape, "! request_requeued");
    assert_string_equal(event->lock_key, "rql:lock:x");
    assert_string_equal(event->acq_id, waiter.acquirer);
    assert_int_equal(event->token, -1);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

struct loss {
    atomic_int told;
    atomic_int seen; /* events by then */
    atomic_int status;
};

/* The event comes first; the library may be called. */
static void on_lost(rql_lock *lock, void *user_data)
{
    struct loss *self = user_data;
    rql_text_list *names = NULL;

    atomic_store(&self->seen, tape.events[RQL_EVENT_LOCK_LOST].count);
    atomic_store(&self->status, (int)rql_acquired_locks(client, &names, NULL));
    rql_text_list_free(names);
    (void)lock;
    atomic_fetch_add(&self->told, 1);
}

static bool is_told(void *self)
{
    return atomic_load(&((struct loss *)self)->told) > 0;
}

static void a_lock_is_lost(void **state)
{
    rql_lock_options options = patient(client);
    struct loss loss = {0};
    rql_lock *lock;

    (void)state;
    options.ttl_ms = LONG_MS;
    options.auto_extend = true;
    options.on_lost = on_lost;
    options.user_data = &loss;
    lock = hold_with(client, "x", &options);
    check_obtained();
    ask("DEL rql:lock:x");
    assert_true(wait_until(is_told, &loss, AWAIT_MS));
    tape_check(&tape, "! lock_lost");
    assert_int_equal(atomic_load(&loss.seen), 1);
    assert_int_equal(atomic_load(&loss.status), RQL_OK);
    check_fields(&last(RQL_EVENT_LOCK_LOST)->event, lock);
    assert_false(pthread_equal(last(RQL_EVENT_LOCK_LOST)->thread, pthread_self()));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    check_released();
    assert_int_equal(last(RQL_EVENT_LOCK_HOLD_AND_RELEASE)->event.status, RQL_NOT_HELD);
    tape_check_end(&tape);
}

static void the_event_of_a_loss_needs_no_callback(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    options.ttl_ms = LONG_MS;
    options.auto_extend = true;
    lock = hold_with(client, "x", &options);
    ask("DEL rql:lock:x");
    tape_await(&tape, RQL_EVENT_LOCK_LOST);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    assert_int_equal(last(RQL_EVENT_LOCK_LOST)->count, 1);
}

static void a_lock_is_unlocked_by_force(void **state)
{
    const rql_event *event = &tape.events[RQL_EVENT_EXPLICIT_LOCK_RELEASE].event;
    rql_lock *held = hold(other, "x");

    (void)state;
    CHECK_OK(rql_force_unlock(client, "x", NULL, NULL));
    tape_check(&tape, "! explicit_lock_release");
    tape_check_end(&tape);
    assert_string_equal(event->lock_key, "rql:lock:x");
    assert_true(event->rel_time_us > 0);
    assert_true(event->at_us > 0);
    assert_null(event->acq_id);
    rql_lock_release(held, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_obtained_and_released),
        TEST(a_block_is_told_of_too),
        TEST(what_is_left_to_its_ttl_is_not_told_of),
        TEST(steps_of_a_try_are_logged_when_wanted),
        TEST(a_lock_is_re_entered),
        TEST(a_re_entry_adds_its_ttl_and_takes_it_back),
        TEST(a_lock_is_extended),
        TEST(a_refusal_says_why),
        TEST(a_conflict_is_a_refusal),
        TEST(a_wait_for_oneself_that_never_began_has_queued_nothing),
        TEST(a_lock_is_handed_over),
        TEST(a_request_is_requeued),
        TEST(a_lock_is_lost),
        TEST(the_event_of_a_loss_needs_no_callback),
        TEST(a_lock_is_unlocked_by_force),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("observe", tests, start_server, stop_server);
}
