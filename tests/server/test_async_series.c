#include "series_fixture.h" /* whose parameters are named as variables of the next one */

#include "async_fixture.h"

/* What a program sees of a series on a loop that no scenario can tell. */

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
        LOOP_TEST(a_lock_after_a_series_bears_the_names_of_its_thread),
        LOOP_TEST(what_is_given_is_copied),
        LOOP_TEST(nonsense_is_refused_at_the_call),
        LOOP_TEST(closing_gives_up_what_waits_and_what_is_half_taken),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
