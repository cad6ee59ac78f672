#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"

enum { PAIRS = 8, ROUNDS = 10 };

/* One acquisition of a series on the loop. */
struct taken {
    rql_series_acquiring what;
    struct wish wish;
    rql_series *series;
    int n_done;
    rql_status status;
    rql_error error;
    bool releases; /* at once, in its callback */
    int n_released;
    rql_status release_status;
};

static void on_series_released(rql_status status, const rql_error *error, void *data)
{
    struct taken *taken = data;

    (void)error;
    check_callback();
    taken->n_released++;
    taken->release_status = status;
}

static void on_taken(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    struct taken *taken = data;
    const rql_done done = {on_series_released, taken};

    check_callback();
    taken->n_done++;
    taken->status = status;
    taken->series = series;
    if (error) {
        taken->error = *error;
    }
    if (taken->releases && series) {
        CHECK_OK(rql_series_release_async(loop, series, NULL, &done, NULL));
    }
}

static void start_taking(struct taken *taken)
{
    taken->what = (rql_series_acquiring){.done = on_taken, .user_data = taken};
    inside_call = true;
    CHECK_OK(rql_series_acquire_async(loop, &taken->wish.options, &taken->what, NULL));
    inside_call = false;
}

static bool is_taken(const void *data)
{
    return ((const struct taken *)data)->n_done > 0;
}

static bool is_given_back(const void *data)
{
    return ((const struct taken *)data)->n_released > 0;
}

static void await_taken(struct taken *taken)
{
    run_until(is_taken, taken);
    assert_int_equal(taken->n_done, 1);
    assert_int_equal(taken->wish.result.reason, taken->status);
}

static void give_back(struct taken *taken)
{
    const rql_done done = {on_series_released, taken};

    CHECK_OK(rql_series_release_async(loop, taken->series, &taken->wish.result, &done, NULL));
    run_until(is_given_back, taken);
    CHECK_OK(taken->release_status);
    assert_int_equal(taken->wish.result.ending, RQL_SERIES_BY_RELEASE);
}

static rql_lock *acquire_on_loop(const char *name)
{
    struct asked asked = asked_for();

    start_asking(&asked, name);
    await_asked(&asked);
    CHECK_OK(asked.status);
    return asked.lock;
}

static void a_free_series_is_taken(rql_series_mode mode)
{
    struct taken taken = {.n_done = 0};

    wish_for(&taken.wish, client, cba, 3);
    taken.wish.options.mode = mode;
    start_taking(&taken);
    assert_int_equal(taken.n_done, 0);
    await_taken(&taken);
    CHECK_OK(taken.status);
    assert_int_equal(taken.wish.result.n_acquired, 3);
    assert_int_equal(rql_series_count(taken.series), 3);
    assert_string_equal(rql_lock_describe(rql_series_lock(taken.series, 0)).name, "c");
    assert_int_equal(ask_int("EXISTS rql:lock:a rql:lock:b rql:lock:c"), 3);
    give_back(&taken);
    CHECK_NOTHING_OF_ABC();
}

/* The handles of a series are used again by whoever takes a lock next. */
static void a_lock_after_a_series_bears_the_names_of_its_thread(void **state)
{
    struct taken taken = {.n_done = 0};
    char acquirer[RQL_ID_SIZE];
    rql_lock *lock;

    (void)state;
    wish_for(&taken.wish, client, cba, 3);
    start_taking(&taken);
    await_taken(&taken);
    CHECK_OK(taken.status);
    give_back(&taken);
    lock = hold(client, "a");
    (void)rql_current_acquirer_id(client, 0, acquirer);
    assert_string_equal(rql_lock_describe(lock).acq_id, acquirer);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void all_are_taken_in_one_step(void **state)
{
    (void)state;
    a_free_series_is_taken(RQL_SERIES_ATOMIC);
}

static void all_are_taken_in_turn(void **state)
{
    (void)state;
    a_free_series_is_taken(RQL_SERIES_GEM);
}

/* What the caller's names, metadata and options were is its own again after the call. */
static void what_is_given_is_copied(void **state)
{
    struct taken taken = {.n_done = 0};
    char name[] = "a";
    char colour[] = "blue";
    const char *names[] = {name, "b", "c"};
    rql_meta meta[] = {{"colour", colour}};
    char text[TEXT_SIZE];

    (void)state;
    wish_for(&taken.wish, client, names, 3);
    taken.wish.lock.meta = meta;
    taken.wish.lock.n_meta = 1;
    start_taking(&taken);
    name[0] = 'x';
    colour[0] = 'x';
    names[1] = NULL;
    meta[0] = (rql_meta){NULL, NULL};
    await_taken(&taken);
    CHECK_OK(taken.status);
    assert_string_equal(ask_text(text, "HGET rql:lock:a colour"), "blue");
    give_back(&taken);
    CHECK_NOTHING_OF_ABC();
}

static void a_series_waits_for_the_last_of_its_locks(void **state)
{
    rql_lock *held = hold(other, "b");
    struct taken taken = {.n_done = 0};

    (void)state;
    wish_for(&taken.wish, client, abc, 3);
    start_taking(&taken);
    run_until_int(1, "ZCARD rql:lock_queue:c");
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    CHECK_OK(rql_lock_release(held, NULL));
    await_taken(&taken);
    CHECK_OK(taken.status);
    give_back(&taken);
    CHECK_NOTHING_OF_ABC();
}

static void cancelling_leaves_nothing(rql_series_mode mode)
{
    rql_lock *held = hold(other, "b");
    struct taken taken = {.n_done = 0};

    wish_for(&taken.wish, client, abc, 3);
    taken.wish.options.mode = mode;
    start_taking(&taken);
    run_until_int(1, "ZCARD rql:lock_queue:b");
    CHECK_OK(rql_request_cancel(taken.what.request));
    await_taken(&taken);
    assert_int_equal(taken.status, RQL_CANCELLED);
    assert_null(taken.series);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void a_waiting_series_is_cancelled(void **state)
{
    (void)state;
    cancelling_leaves_nothing(RQL_SERIES_ATOMIC);
    cancelling_leaves_nothing(RQL_SERIES_GEM);
}

/* One place in a queue is one request's: a second one would take it along when it goes. */
static void a_named_task_waits_once(void **state)
{
    rql_lock *held = hold(other, "b");
    struct taken first = {.n_done = 0};
    struct taken second = {.n_done = 0};
    struct asked single = asked_for();

    (void)state;
    wish_for(&first.wish, client, abc, 3);
    wish_for(&second.wish, client, cba, 2);
    first.wish.lock.task = 7;
    second.wish.lock.task = 7;
    single.options.task = 7;
    start_taking(&first);
    start_taking(&second);
    start_asking(&single, "c");
    await_taken(&second);
    assert_int_equal(second.status, RQL_E_BUSY);
    assert_int_equal(second.error.status, RQL_E_BUSY);
    await_asked(&single);
    assert_int_equal(single.status, RQL_E_BUSY);
    CHECK_OK(rql_lock_release(held, NULL));
    await_taken(&first);
    CHECK_OK(first.status);
    give_back(&first);
    CHECK_NOTHING_OF_ABC();
}

/* Until its time is over, because of that lock. */
static void take_in_vain(struct taken *taken, const char *held_name)
{
    int rounds = 0;

    do {
        taken->n_done = 0;
        start_taking(taken);
        await_taken(taken);
    } while (is_cut_short(taken->status, held_name, &rounds));
    assert_int_equal(taken->status, RQL_TIMED_OUT);
}

static void refusals_tell_what_stood_against_it(void **state)
{
    rql_lock *held = hold(other, "b");
    rql_refusal refusal = {0};
    struct taken taken = {.n_done = 0};

    (void)state;
    wish_for(&taken.wish, client, abc, 3);
    taken.wish.lock.timeout_ms = wait_stretched(50);
    taken.wish.lock.detailed_acq_timeout_error = true;
    taken.wish.lock.refusal = &refusal;
    take_in_vain(&taken, "b");
    assert_int_equal(taken.wish.result.failed_on, 1);
    assert_int_equal(taken.wish.result.fate[1], RQL_SERIES_HELD);
    assert_non_null(refusal.holder);
    assert_string_equal(refusal.holder->lock_key, "rql:lock:b");
    rql_refusal_clear(&refusal);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

/* Cancelled when the request is with the server already, which grants all, and takes them back. */
static void a_series_that_was_granted_too_late_tells_what_it_had(void **state)
{
    struct taken taken = {.n_done = 0};

    (void)state;
    CHECK_OK(release_and_wait(acquire_on_loop("warm")));
    wish_for(&taken.wish, client, abc, 3);
    redis_server_pause(&server);
    start_taking(&taken);
    run_for_ms(20);
    CHECK_OK(rql_request_cancel(taken.what.request));
    run_for_ms(20);
    redis_server_resume(&server);
    await_taken(&taken);
    assert_int_equal(taken.status, RQL_CANCELLED);
    assert_int_equal(taken.wish.result.n_acquired, 3);
    CHECK_NOTHING_OF_ABC();
}

static void the_gems_way_keeps_nothing_when_it_fails(void **state)
{
    rql_lock *held = hold(other, "c");
    struct taken taken = {.n_done = 0};

    (void)state;
    wish_for(&taken.wish, client, abc, 3);
    taken.wish.options.mode = RQL_SERIES_GEM;
    taken.wish.lock.timeout_ms = wait_stretched(50);
    take_in_vain(&taken, "c");
    assert_int_equal(taken.wish.result.n_acquired, 2);
    assert_int_equal(taken.wish.result.failed_on, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

static bool all_given_back(const void *data)
{
    const struct taken *pairs = data;

    for (size_t i = 0; i < PAIRS; i++) {
        if (pairs[i].n_released == 0) {
            return false;
        }
    }
    return true;
}

/* In opposite orders, beside requests for one of the locks. */
static void series_never_wait_in_a_circle(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct taken pairs[PAIRS] = {0};
        struct asked asked = asked_for();

        asked.releases = true;
        for (size_t i = 0; i < PAIRS; i++) {
            wish_for(&pairs[i].wish, client, i % 2 ? abc : cba, 3);
            pairs[i].releases = true;
            start_taking(&pairs[i]);
        }
        start_asking(&asked, "b");
        run_until(all_given_back, pairs);
        run_until(is_released, &asked);
        for (size_t i = 0; i < PAIRS; i++) {
            CHECK_OK(pairs[i].status);
            CHECK_OK(pairs[i].release_status);
        }
        CHECK_NOTHING_OF_ABC();
    }
}

static void a_series_that_was_lost_is_told_so(void **state)
{
    struct taken taken = {.n_done = 0};
    const rql_done done = {on_series_released, &taken};

    (void)state;
    wish_for(&taken.wish, client, abc, 3);
    start_taking(&taken);
    await_taken(&taken);
    ask("DEL rql:lock:b");
    CHECK_OK(rql_series_release_async(loop, taken.series, NULL, &done, NULL));
    run_until(is_given_back, &taken);
    assert_int_equal(taken.release_status, RQL_NOT_HELD);
    CHECK_NOTHING_OF_ABC();
}

static void nonsense_is_refused_at_the_call(void **state)
{
    struct taken taken = {.n_done = 0};
    rql_series_acquiring nobody = {0};
    rql_series *foreign;

    (void)state;
    wish_for(&taken.wish, client, abc, 0);
    taken.what.done = on_taken;
    assert_int_equal(rql_series_acquire_async(loop, &taken.wish.options, &taken.what, NULL),
                     RQL_E_INVALID);
    wish_for(&taken.wish, client, abc, 3);
    assert_int_equal(rql_series_acquire_async(loop, &taken.wish.options, &nobody, NULL),
                     RQL_E_INVALID);
    foreign = take_series(other, abc, 3);
    assert_int_equal(rql_series_release_async(loop, foreign, NULL, NULL, NULL), RQL_E_INVALID);
    CHECK_OK(rql_series_release(foreign, NULL, NULL));
}

static void closing_gives_up_what_waits_and_what_is_half_taken(void **state)
{
    rql_lock *held = hold(other, "c");
    struct taken atomic = {.n_done = 0};
    struct taken gem = {.n_done = 0};

    (void)state;
    wish_for(&atomic.wish, client, abc, 3);
    wish_for(&gem.wish, client, abc, 3);
    gem.wish.options.mode = RQL_SERIES_GEM;
    start_taking(&gem);
    run_until_int(1, "ZCARD rql:lock_queue:c");
    start_taking(&atomic);
    run_until_int(2, "ZCARD rql:lock_queue:c");
    close_loop();
    assert_int_equal(atomic.status, RQL_CANCELLED);
    assert_int_equal(gem.status, RQL_CANCELLED);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(all_are_taken_in_one_step),
        LOOP_TEST(a_lock_after_a_series_bears_the_names_of_its_thread),
        LOOP_TEST(all_are_taken_in_turn),
        LOOP_TEST(what_is_given_is_copied),
        LOOP_TEST(a_series_waits_for_the_last_of_its_locks),
        LOOP_TEST(a_waiting_series_is_cancelled),
        LOOP_TEST(a_series_that_was_granted_too_late_tells_what_it_had),
        LOOP_TEST(a_named_task_waits_once),
        LOOP_TEST(refusals_tell_what_stood_against_it),
        LOOP_TEST(the_gems_way_keeps_nothing_when_it_fails),
        LOOP_TEST(series_never_wait_in_a_circle),
        LOOP_TEST(a_series_that_was_lost_is_told_so),
        LOOP_TEST(nonsense_is_refused_at_the_call),
        LOOP_TEST(closing_gives_up_what_waits_and_what_is_half_taken),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
