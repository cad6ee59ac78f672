#include "async_fixture.h"

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

static void a_lock_is_extended(void **state)
{
    struct asked asked = asked_for();
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    (void)state;
    asked.options.ttl_ms = 30000;
    start_asking(&asked, "x");
    await_asked(&asked);
    CHECK_OK(rql_extend_async(loop, asked.lock, 600000, &done, NULL));
    assert_int_equal(status, INT_MAX);
    run_until(is_told, &status);
    CHECK_OK(status);
    assert_in_range(ask_int("PTTL rql:lock:x"), 300000, 600000);
    assert_true(rql_lock_remaining_ms(asked.lock) > 300000);
    ask("DEL rql:lock:x");
    status = INT_MAX;
    CHECK_OK(rql_extend_async(loop, asked.lock, 600000, &done, NULL));
    run_until(is_told, &status);
    assert_int_equal(status, RQL_NOT_HELD);
    assert_int_equal(release_and_wait(asked.lock), RQL_NOT_HELD);
}

static void locks_of_threads_are_released_and_extended_too(void **state)
{
    rql_lock *lock = hold(client, "x");
    struct asked asked = asked_for();

    (void)state;
    CHECK_OK(release_and_wait(lock));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    CHECK_OK(release_and_wait(NULL));
    start_asking(&asked, "x");
    await_asked(&asked);
    CHECK_OK(rql_lock_extend(asked.lock, 90000, NULL));
    CHECK_OK(rql_lock_verify(asked.lock, NULL));
    CHECK_OK(rql_lock_release(asked.lock, NULL));
}

static void metadata_are_copied(void **state)
{
    struct asked asked = asked_for();
    char name[] = "colour";
    char value[] = "blue";
    rql_meta pairs[] = {{name, value}, {"shape", "round"}};
    char text[TEXT_SIZE];

    (void)state;
    asked.options.meta = pairs;
    asked.options.n_meta = 2;
    start_asking(&asked, "x");
    memset(name, 'x', strlen(name));
    memset(value, 'x', strlen(value));
    memset(pairs, 0, sizeof pairs);
    await_asked(&asked);
    CHECK_OK(asked.status);
    assert_string_equal(ask_text(text, "HGET rql:lock:x colour"), "blue");
    assert_string_equal(ask_text(text, "HGET rql:lock:x shape"), "round");
    CHECK_OK(release_and_wait(asked.lock));
}

/* ---- blocks ---- */

struct blocked {
    rql_async_block block;
    rql_hold *hold;
    rql_lock *lock;
    int n_done;
    rql_status status;
    int value;
    bool ends; /* in its function */
};

static void run_block(rql_hold *hold, rql_lock *lock, void *data)
{
    struct blocked *blocked = data;

    check_callback();
    blocked->hold = hold;
    blocked->lock = lock;
    if (blocked->ends) {
        CHECK_OK(rql_hold_end(hold, 11));
    }
}

static void on_block_done(rql_status status, int value, const rql_error *error, void *data)
{
    struct blocked *blocked = data;

    (void)error;
    check_callback();
    blocked->n_done++;
    blocked->status = status;
    blocked->value = value;
}

static bool is_running(const void *data)
{
    return ((const struct blocked *)data)->hold != NULL;
}

static bool is_block_done(const void *data)
{
    return ((const struct blocked *)data)->n_done > 0;
}

static void start_block(struct blocked *blocked, const rql_lock_options *options)
{
    blocked->block = (rql_async_block){run_block, on_block_done, blocked, NULL};
    CHECK_OK(rql_with_async(loop, "x", options, &blocked->block, NULL));
    assert_null(blocked->hold);
}

static void a_block_runs_under_its_lock(void **state)
{
    struct blocked blocked = {.ends = true};

    (void)state;
    start_block(&blocked, NULL);
    run_until(is_block_done, &blocked);
    CHECK_OK(blocked.status);
    assert_int_equal(blocked.value, 11);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void a_block_may_last(void **state)
{
    struct blocked blocked = {0};

    (void)state;
    start_block(&blocked, NULL);
    run_until(is_running, &blocked);
    run_for_ms(30);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(blocked.n_done, 0);
    CHECK_OK(rql_hold_end(blocked.hold, -3));
    run_until(is_block_done, &blocked);
    CHECK_OK(blocked.status);
    assert_int_equal(blocked.value, -3);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void a_block_that_overran_is_reported(void **state)
{
    rql_lock_options options = patient(client);

    (void)state;
    options.ttl_ms = 20;
    for (int is_timed = 0; is_timed <= 1; is_timed++) {
        struct blocked blocked = {0};

        options.timed = is_timed;
        start_block(&blocked, &options);
        run_until(is_running, &blocked);
        run_for_ms(40);
        CHECK_OK(rql_hold_end(blocked.hold, 0));
        run_until(is_block_done, &blocked);
        assert_int_equal(blocked.status, is_timed ? RQL_BLOCK_OVERRAN : RQL_NOT_HELD);
    }
}

static void a_block_may_be_cancelled_before_it_runs(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    struct blocked blocked = {0};

    (void)state;
    start_block(&blocked, &options);
    run_until_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_request_cancel(blocked.block.request));
    run_until(is_block_done, &blocked);
    assert_int_equal(blocked.status, RQL_CANCELLED);
    assert_null(blocked.hold);
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
}

/* ---- blocking calls aside ---- */

struct listing {
    rql_text_list *locks;
    pthread_t thread;
    int n_done;
    rql_status status;
    char message[RQL_ERROR_MESSAGE_SIZE];
};

static rql_status list_locks(void *data, rql_error *error)
{
    struct listing *listing = data;

    listing->thread = pthread_self();
    return rql_list_locks(client, &listing->locks, error);
}

static rql_status list_nothing(void *data, rql_error *error)
{
    (void)data;
    return rql_list_locks(NULL, NULL, error);
}

static void on_listed(rql_status status, const rql_error *error, void *data)
{
    struct listing *listing = data;

    check_callback();
    listing->status = status;
    (void)snprintf(listing->message, sizeof listing->message, "%s", error ? error->message : "");
    listing->n_done++;
}

static bool is_listed(const void *data)
{
    return ((const struct listing *)data)->n_done > 0;
}

static void an_inspection_runs_aside(void **state)
{
    rql_lock *lock = hold(client, "x");
    struct listing listing = {0};
    rql_work work = {list_locks, on_listed, &listing};

    (void)state;
    CHECK_OK(rql_run_async(loop, &work, NULL));
    run_until(is_listed, &listing);
    CHECK_OK(listing.status);
    assert_false(pthread_equal(listing.thread, pthread_self()));
    assert_int_equal(listing.locks->count, 1);
    assert_string_equal(listing.locks->item[0], "rql:lock:x");
    rql_text_list_free(listing.locks);
    listing = (struct listing){0};
    work.run = list_nothing;
    CHECK_OK(rql_run_async(loop, &work, NULL));
    run_until(is_listed, &listing);
    assert_int_equal(listing.status, RQL_E_INVALID);
    assert_true(listing.message[0] != '\0');
    CHECK_OK(release_and_wait(lock));
}

/* ---- what is refused at the call ---- */

static void nonsense_is_refused_at_the_call(void **state)
{
    rql_acquiring nobody = {0};
    rql_acquiring what = {.done = on_asked};
    rql_lock_options options = patient(client);
    rql_lock *foreign = hold(other, "x");
    rql_work work = {0};
    rql_async_block block = {0};
    rql_loop *made = NULL;

    (void)state;
    assert_int_equal(rql_loop_open(NULL, client, &uv, NULL), RQL_E_INVALID);
    assert_int_equal(rql_loop_open(&made, NULL, &uv, NULL), RQL_E_INVALID);
    assert_int_equal(rql_loop_close(NULL, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_acquire_async(NULL, "x", NULL, &what, NULL), RQL_E_INVALID);
    assert_int_equal(rql_acquire_async(loop, "", NULL, &what, NULL), RQL_E_INVALID);
    assert_int_equal(rql_acquire_async(loop, "x", NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_acquire_async(loop, "x", NULL, &nobody, NULL), RQL_E_INVALID);
    options.ttl_ms = 0;
    assert_int_equal(rql_acquire_async(loop, "x", &options, &what, NULL), RQL_E_INVALID);
    assert_int_equal(rql_request_cancel(NULL), RQL_E_INVALID);
    assert_int_equal(rql_release_async(loop, foreign, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_extend_async(loop, foreign, 1000, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_extend_async(loop, foreign, 0, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_extend_async(loop, NULL, 1000, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_with_async(loop, "x", NULL, &block, NULL), RQL_E_INVALID);
    assert_int_equal(rql_hold_end(NULL, 0), RQL_E_INVALID);
    assert_int_equal(rql_run_async(loop, &work, NULL), RQL_E_INVALID);
    CHECK_OK(rql_lock_verify(foreign, NULL));
    CHECK_OK(rql_lock_release(foreign, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_free_lock_is_granted_at_once),
        LOOP_TEST(a_lock_is_extended),
        LOOP_TEST(locks_of_threads_are_released_and_extended_too),
        LOOP_TEST(metadata_are_copied),
        LOOP_TEST(a_block_runs_under_its_lock),
        LOOP_TEST(a_block_may_last),
        LOOP_TEST(a_block_that_overran_is_reported),
        LOOP_TEST(a_block_may_be_cancelled_before_it_runs),
        LOOP_TEST(an_inspection_runs_aside),
        LOOP_TEST(nonsense_is_refused_at_the_call),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
