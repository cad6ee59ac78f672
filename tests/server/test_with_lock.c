#include "clients.h"

#include <semaphore.h>
#include <setjmp.h>

#ifdef TEST_HAS_CPP
/* In test_with_lock_cpp.cpp: what was caught by a caller whose block throws; 0: nothing. */
int throw_out_of_block(rql_client *client, const char *name, int value);
#endif

/* Is the lock held inside of the block, and by us? */
static int add_ten(rql_lock *lock, void *user_data)
{
    int *value = user_data;

    *value += rql_lock_verify(lock, NULL) == RQL_OK ? 10 : 0;
    return *value;
}

static void the_value_of_the_block_is_passed_on(void **state)
{
    int number = 32;
    rql_block block = {.run = add_ten, .user_data = &number};

    (void)state;
    CHECK_OK(rql_with_lock(client, "x", NULL, &block, NULL));
    assert_int_equal(block.value, 42);
    assert_int_equal(number, 42);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void without_the_lock_the_block_does_not_run(void **state)
{
    int number = 32;
    rql_block block = {.run = add_ten, .user_data = &number, .value = -1};
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    rql_error error = {0};

    (void)state;
    options.fail_fast = true;
    assert_int_equal(rql_with_lock(client, "x", &options, &block, NULL), RQL_FAIL_FAST_NO_TRY);
    options.fail_fast = false;
    options.timeout_ms = wait_stretched(20);
    assert_true(has_timed_out(rql_with_lock(client, "x", &options, &block, NULL)));
    assert_int_equal(rql_with_lock(client, "", &options, &block, &error), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_int_equal(rql_with_lock(client, "x", &options, NULL, &error), RQL_E_INVALID);
    assert_int_equal(number, 32);
    assert_int_equal(block.value, -1);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* Stays until the lock's time is over by its own reckoning, as a good block looks at it. */
static int stay_too_long(rql_lock *lock, void *user_data)
{
    int64_t until_us = wait_clock_us() + *(int64_t *)user_data * 1000;

    while (wait_clock_us() < until_us) {
        (void)!rql_lock_verify(lock, NULL);
    }
    return 7;
}

static void a_timed_block_that_overran_is_reported(void **state)
{
    int64_t stay_ms = wait_stretched(300);
    rql_block block = {.run = stay_too_long, .user_data = &stay_ms};
    rql_lock_options options = patient(client);

    (void)state;
    options.timed = true;
    options.ttl_ms = stay_ms * 2 / 3;
    assert_int_equal(rql_with_lock(client, "x", &options, &block, NULL), RQL_BLOCK_OVERRAN);
    assert_int_equal(block.value, 7);
    options.timed = false;
    assert_int_equal(rql_with_lock(client, "x", &options, &block, NULL), RQL_NOT_HELD);
    options.ttl_ms = 60000;
    options.timed = true;
    CHECK_OK(rql_with_lock(client, "x", &options, &block, NULL));
    /* Renewed all the time, and yet longer than its ttl. */
    options.ttl_ms = stay_ms * 2 / 3;
    options.auto_extend = true;
    assert_int_equal(rql_with_lock(client, "x", &options, &block, NULL), RQL_BLOCK_OVERRAN);
}

static int lose_the_lock(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    ask("DEL rql:lock:x");
    return 1;
}

static void a_lock_that_ended_during_the_block_is_reported(void **state)
{
    rql_block block = {.run = lose_the_lock};

    (void)state;
    assert_int_equal(rql_with_lock(client, "x", NULL, &block, NULL), RQL_NOT_HELD);
    assert_int_equal(block.value, 1);
}

static int nest(rql_lock *lock, void *user_data)
{
    int number = 0;
    rql_block inner = {.run = add_ten, .user_data = &number};
    rql_lock_options options = patient(client);

    (void)user_data;
    options.conflict_strategy = RQL_WORK_THROUGH;
    if (rql_with_lock(client, "x", &options, &inner, NULL)) {
        return -1;
    }
    return rql_lock_verify(lock, NULL) == RQL_OK ? inner.value : -2;
}

static void a_block_within_a_block_keeps_the_outer_lock(void **state)
{
    rql_block block = {.run = nest};

    (void)state;
    CHECK_OK(rql_with_lock(client, "x", NULL, &block, NULL));
    assert_int_equal(block.value, 10);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

struct leaver {
    int (*run)(rql_lock *lock, void *user_data);
    sem_t inside;
    bool returned;
    rql_status status;
};

static int exit_thread(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    pthread_exit(NULL);
}

static int wait_to_be_cancelled(rql_lock *lock, void *user_data)
{
    struct leaver *leaver = user_data;

    (void)lock;
    (void)sem_post(&leaver->inside);
    while (pause() != 0) {
    }
    return 0;
}

static void *leave_block(void *data)
{
    struct leaver *leaver = data;
    rql_block block = {.run = leaver->run, .user_data = leaver};

    leaver->status = rql_with_lock(client, "x", NULL, &block, NULL);
    leaver->returned = true;
    return NULL;
}

static void pthread_exit_out_of_the_block_releases(void **state)
{
    struct leaver leaver = {.run = exit_thread};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, leave_block, &leaver), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(leaver.returned);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_true(ask_int("EXISTS rql:fence") == 1); /* and it was held */
}

static void cancellation_of_the_block_releases(void **state)
{
    struct leaver leaver = {.run = wait_to_be_cancelled};
    pthread_t thread;
    void *result = NULL;

    (void)state;
    assert_int_equal(sem_init(&leaver.inside, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, leave_block, &leaver), 0);
    assert_int_equal(sem_wait(&leaver.inside), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_false(leaver.returned);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void *acquire_and_look_for_cancellation(void *data)
{
    struct leaver *leaver = data;
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    options.timeout_ms = wait_stretched(400);
    leaver->status = rql_lock_acquire(client, "x", &options, &lock, NULL);
    leaver->returned = true;
    pthread_testcancel();
    return NULL;
}

/* A cancellation comes into force after the call; the client goes on working (lock.h). */
static void cancellation_waits_for_the_end_of_a_call(void **state)
{
    struct leaver leaver = {.status = RQL_OK};
    rql_lock *held = hold(other, "x");
    pthread_t thread;
    void *result = NULL;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_look_for_cancellation, &leaver), 0);
    await_int(1, "ZCARD rql:lock_queue:x");
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_true(leaver.returned);
    assert_true(has_timed_out(leaver.status));
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
}

static void an_exception_out_of_the_block_releases(void **state)
{
    (void)state;
#ifdef TEST_HAS_CPP
    assert_int_equal(throw_out_of_block(client, "x", 4711), 4711);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(ask_int("EXISTS rql:fence"), 1);
#else
    skip();
#endif
}

static jmp_buf before_block;

static int jump(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    longjmp(before_block, 1);
}

/* As lock.h says. Its thread goes on using the client, and has the lock when its time is over. */
static void longjmp_out_of_the_block_leaves_the_lock_to_its_ttl(void **state)
{
    rql_block block = {.run = jump};
    rql_lock_options options = patient(client);

    (void)state;
    options.ttl_ms = wait_stretched(1000);
    if (setjmp(before_block) == 0) {
        (void)!rql_with_lock(client, "x", &options, &block, NULL);
        fail_msg("the block has returned");
    }
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    options.fail_fast = true;
    assert_int_equal(rql_with_lock(client, "x", &options, &block, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(hold(client, "y"), NULL));
    CHECK_OK(rql_lock_release(hold(other, "x"), NULL));
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(the_value_of_the_block_is_passed_on),
        TEST(without_the_lock_the_block_does_not_run),
        TEST(a_timed_block_that_overran_is_reported),
        TEST(a_lock_that_ended_during_the_block_is_reported),
        TEST(a_block_within_a_block_keeps_the_outer_lock),
        TEST(pthread_exit_out_of_the_block_releases),
        TEST(cancellation_of_the_block_releases),
        TEST(an_exception_out_of_the_block_releases),
        TEST(cancellation_waits_for_the_end_of_a_call),
        TEST(longjmp_out_of_the_block_leaves_the_lock_to_its_ttl),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
