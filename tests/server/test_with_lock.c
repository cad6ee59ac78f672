#include "fixture.h"

#include <semaphore.h>
#include <setjmp.h>

#ifdef TEST_HAS_CPP
/* In test_with_lock_cpp.cpp: what was caught by a caller whose block throws; 0: nothing. */
int throw_out_of_block(rql_client *client, const char *name, int value);
#endif

struct leaver {
    int (*run)(rql_lock *lock, void *user_data);
    sem_t inside;
    bool returned;
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

    (void)!rql_lock_run(client, "x", NULL, &block, NULL);
    leaver->returned = true;
    return NULL;
}

/* Runs with a series what the leaver says of a lock. */
static int leave_series(rql_series *series, void *user_data)
{
    const struct leaver *leaver = user_data;

    (void)series;
    return leaver->run(NULL, user_data);
}

static void *leave_block_of_series(void *data)
{
    static const char *const names[] = {"x", "y"};
    struct leaver *leaver = data;
    rql_series_block block = {.run = leave_series, .user_data = leaver};
    rql_series_options options = series_of(names, 2);

    (void)!rql_series_run(client, &options, &block, NULL);
    leaver->returned = true;
    return NULL;
}

enum { N_LEAVE = 2 };

static void *(*const leave[N_LEAVE])(void *) = {leave_block, leave_block_of_series};

TEST(pthread_exit_out_of_the_block_releases)
{
    for (size_t i = 0; i < N_LEAVE; i++) {
        struct leaver leaver = {.run = exit_thread};
        pthread_t thread;

        ask("FLUSHALL");
        assert_int_equal(pthread_create(&thread, NULL, leave[i], &leaver), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(leaver.returned);
        assert_int_equal(ask_int("EXISTS rql:lock:x rql:lock:y"), 0);
        assert_true(ask_int("EXISTS rql:fence") == 1); /* and it was held */
    }
}

TEST(cancellation_of_the_block_releases)
{
    for (size_t i = 0; i < N_LEAVE; i++) {
        struct leaver leaver = {.run = wait_to_be_cancelled};
        pthread_t thread;
        void *result = NULL;

        assert_int_equal(sem_init(&leaver.inside, 0, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, leave[i], &leaver), 0);
        assert_int_equal(sem_wait(&leaver.inside), 0);
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_false(leaver.returned);
        assert_int_equal(ask_int("EXISTS rql:lock:x rql:lock:y"), 0);
    }
}

/* The second block ends the thread. */
static int run_within(rql_lock *lock, void *user_data)
{
    int *n_blocks = user_data;
    rql_block block = {.run = run_within, .user_data = n_blocks};

    (void)lock;
    if (++*n_blocks == 2) {
        pthread_exit(NULL);
    }
    (void)!rql_lock_run(client, "y", NULL, &block, NULL);
    return 0;
}

static int do_nothing(rql_lock *lock, void *user_data)
{
    (void)lock;
    (void)user_data;
    return 0;
}

/* The end of the thread meets the blocks that are open, and none that has ended before. */
static void *leave_two_blocks(void *data)
{
    rql_block ended = {.run = do_nothing};
    rql_block block = {.run = run_within, .user_data = data};

    (void)!rql_lock_run(client, "z", NULL, &ended, NULL);
    (void)!rql_lock_run(client, "x", NULL, &block, NULL);
    return data;
}

TEST(the_end_of_a_thread_releases_all_locks_of_its_blocks)
{
    int n_blocks = 0;
    pthread_t thread;
    void *result = &n_blocks;

    assert_int_equal(pthread_create(&thread, NULL, leave_two_blocks, &n_blocks), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    assert_int_equal(n_blocks, 2);
    assert_int_equal(ask_int("EXISTS rql:lock:x rql:lock:y rql:lock:z"), 0);
}

#ifdef TEST_HAS_CPP
TEST(an_exception_out_of_the_block_releases)
{
    assert_int_equal(throw_out_of_block(client, "x", 4711), 4711);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(ask_int("EXISTS rql:fence"), 1);
}
#endif

static jmp_buf before_block;

static int jump(rql_lock *lock, void *user_data)
{
    *(rql_lock **)user_data = lock;
    longjmp(before_block, 1);
}

/* As lock.h says. Its thread goes on using the client, and has the lock when its time is over. */
TEST(longjmp_out_of_the_block_leaves_the_lock_to_its_ttl)
{
    static rql_lock *left; /* its handle, which nobody frees else */
    rql_block block = {.run = jump, .user_data = &left};
    rql_lock_options options = patient(client);

    options.ttl_ms = wait_stretched(1000);
    if (setjmp(before_block) == 0) {
        (void)!rql_lock_run(client, "x", &options, &block, NULL);
        fail_msg("the block has returned");
    }
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    options.fail_fast = true;
    assert_int_equal(rql_lock_run(client, "x", &options, &block, NULL), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(hold(client, "y"), NULL));
    CHECK_OK(rql_lock_release(hold(other, "x"), NULL));
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    (void)rql_lock_forget(left);
}

FIXTURE(start_server, stop_server, make_clients, free_clients);
