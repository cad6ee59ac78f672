#include "check.h"

#include "base/threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Numbers of threads: never used twice, and dead when the thread has ended. */

enum { THREADS = 200 };

static bool lives_itself; /* what a thread found while it ran */

static void *note_number(void *number)
{
    *(uint64_t *)number = rqli_thread_number();
    lives_itself = rqli_thread_lives(*(uint64_t *)number);
    return NULL;
}

static uint64_t number_of_a_new_thread(void)
{
    uint64_t number = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, note_number, &number) != 0 ||
        pthread_join(thread, NULL) != 0) {
        return 0;
    }
    return number;
}

TEST(a_number_is_one_threads_and_dies_with_it)
{
    uint64_t latest = rqli_thread_number();

    assert_true(latest > 0);
    for (int i = 0; i < THREADS; i++) {
        uint64_t number = number_of_a_new_thread();

        assert_int_equal(number, latest + 1);
        assert_true(lives_itself);
        assert_false(rqli_thread_lives(number));
        latest = number;
    }
    assert_true(rqli_thread_lives(rqli_thread_number()));
}

struct listed {
    uint64_t sum;
    int count;
};

static void add(uint64_t number, void *context)
{
    struct listed *self = context;

    self->sum += number;
    self->count++;
}

static struct {
    pthread_barrier_t all_are_there;
    pthread_barrier_t all_may_go;
    uint64_t number[THREADS];
} crowd;

static void *stand_in_the_crowd(void *number)
{
    *(uint64_t *)number = rqli_thread_number();
    (void)pthread_barrier_wait(&crowd.all_are_there);
    (void)pthread_barrier_wait(&crowd.all_may_go);
    return NULL;
}

/* The middle of a bucket's list, its head and its end: all are found, and all leave. */
TEST(all_who_live_are_listed)
{
    struct listed before = {0};
    struct listed during = {0};
    struct listed after = {0};
    pthread_t thread[THREADS];
    uint64_t sum = 0;

    (void)rqli_thread_number();
    rqli_threads_each(add, &before);
    assert_int_equal(pthread_barrier_init(&crowd.all_are_there, NULL, THREADS + 1), 0);
    assert_int_equal(pthread_barrier_init(&crowd.all_may_go, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, stand_in_the_crowd, &crowd.number[i]), 0);
    }
    (void)pthread_barrier_wait(&crowd.all_are_there);
    rqli_threads_each(add, &during);
    for (int i = 0; i < THREADS; i++) {
        assert_true(rqli_thread_lives(crowd.number[i]));
        sum += crowd.number[i];
    }
    (void)pthread_barrier_wait(&crowd.all_may_go);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_false(rqli_thread_lives(crowd.number[i]));
    }
    rqli_threads_each(add, &after);
    assert_int_equal(during.count, before.count + THREADS);
    assert_int_equal(during.sum, before.sum + sum);
    assert_int_equal(after.count, before.count);
    (void)pthread_barrier_destroy(&crowd.all_are_there);
    (void)pthread_barrier_destroy(&crowd.all_may_go);
}

static pthread_key_t late;
static uint64_t late_number;
static bool lived_late;

static void use_it_late(void *unused)
{
    (void)unused;
    late_number = rqli_thread_number();
    lived_late = rqli_thread_lives(late_number);
}

static void *end_late(void *number)
{
    *(uint64_t *)number = rqli_thread_number();
    (void)pthread_setspecific(late, number);
    return NULL;
}

/* Destructors of keys run in the order of the keys, and this one is behind the library's. */
TEST(a_thread_that_uses_it_while_it_ends_counts_as_ended)
{
    uint64_t number = 0;
    pthread_t thread;

    (void)rqli_thread_number();
    assert_int_equal(pthread_key_create(&late, use_it_late), 0);
    assert_int_equal(pthread_create(&thread, NULL, end_late, &number), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late_number, number);
    assert_false(lived_late);
    assert_false(rqli_thread_lives(number));
    assert_int_equal(pthread_key_delete(late), 0);
}

/* What `body` returns in a child. */
static int in_child(int (*body)(uint64_t parents, uint64_t others), uint64_t others)
{
    uint64_t parents = rqli_thread_number();
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        _exit(body(parents, others));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

static int is_alone(uint64_t parents, uint64_t others)
{
    struct listed listed = {0};

    rqli_threads_each(add, &listed);
    return rqli_thread_number() == parents && listed.count == 1 && listed.sum == parents &&
           !rqli_thread_lives(others);
}

/* What a child finds whose parent has another thread, on which no assert may fail. */
static int fork_beside_a_thread(uint64_t parents, uint64_t others)
{
    pthread_t thread;
    int found = -1;

    (void)parents;
    (void)others;
    (void)pthread_barrier_init(&crowd.all_are_there, NULL, 2);
    (void)pthread_barrier_init(&crowd.all_may_go, NULL, 2);
    if (pthread_create(&thread, NULL, stand_in_the_crowd, &crowd.number[0]) == 0) {
        (void)pthread_barrier_wait(&crowd.all_are_there);
        found = rqli_thread_lives(crowd.number[0]) && in_child(is_alone, crowd.number[0]) == 1;
        (void)pthread_barrier_wait(&crowd.all_may_go);
        (void)pthread_join(thread, NULL);
    }
    (void)pthread_barrier_destroy(&crowd.all_are_there);
    (void)pthread_barrier_destroy(&crowd.all_may_go);
    return found;
}

/* Also in a grandchild, whose parent has made a thread. */
TEST(of_a_childs_threads_only_the_one_that_forked_lives)
{
    assert_int_equal(fork_beside_a_thread(0, 0), 1);
    assert_int_equal(in_child(fork_beside_a_thread, 0), 1);
}

static int counts_on(uint64_t parents, uint64_t others)
{
    uint64_t number = number_of_a_new_thread();

    (void)parents;
    return number == others + 1 && lives_itself && !rqli_thread_lives(number);
}

TEST(threads_of_a_child_have_numbers_that_no_thread_of_its_parent_had)
{
    assert_int_equal(in_child(counts_on, number_of_a_new_thread()), 1);
}
