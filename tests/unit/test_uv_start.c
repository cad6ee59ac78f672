#include "check.h"

#include "base/uv_start.h"
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pool of libuv is started, or is not, but never ends the process: at a limit of threads, while
 * others start it too, and while others take and give back threads of their own. */

enum {
    LEAST = 6,        /* the threads that are there */
    LIMITS = 26,      /* from there on, to more than all need */
    ROUNDS = 10,      /* chance decides when a thread is taken */
    STARTERS = 3,     /* that start the pool at the same time */
    THIEVES = 2,      /* that make one thread after the other */
    USER = 1853193021 /* of the first process: no other on the machine has such an id */
};

static atomic_int n_ready;
static atomic_bool is_over;
static int limit;

static void *be_nothing(void *unused)
{
    return unused;
}

static void *steal(void *unused)
{
    pthread_t thread;

    while (!is_over) {
        if (pthread_create(&thread, NULL, be_nothing, NULL) == 0) {
            (void)pthread_join(thread, NULL);
        }
    }
    return unused;
}

/* All go at once, and behind the limit. */
static void *start(void *unused)
{
    n_ready++;
    while (n_ready <= STARTERS) {
        (void)sched_yield();
    }
    (void)rqli_uv_pool_start();
    return unused;
}

/* 0: the process was not ended, and without a limit the pool starts. Its user is of this process
 * alone: the limit counts all threads of a user, also those of the same test beside it. */
static int start_at_the_limit(void)
{
    const uid_t user = USER + (uid_t)getpid();
    struct rlimit most = {0};
    pthread_t thief[THIEVES];
    pthread_t starter[STARTERS];

    if (setresuid(user, user, user) != 0 || getrlimit(RLIMIT_NPROC, &most) != 0) {
        return 1;
    }
    for (int i = 0; i < THIEVES; i++) {
        (void)pthread_create(&thief[i], NULL, steal, NULL);
    }
    for (int i = 0; i < STARTERS; i++) {
        (void)pthread_create(&starter[i], NULL, start, NULL);
    }
    while (n_ready < STARTERS) {
        (void)sched_yield();
    }
    (void)setrlimit(RLIMIT_NPROC, &(struct rlimit){(rlim_t)limit, most.rlim_max});
    n_ready++;
    for (int i = 0; i < STARTERS; i++) {
        (void)pthread_join(starter[i], NULL);
    }
    is_over = true;
    for (int i = 0; i < THIEVES; i++) {
        (void)pthread_join(thief[i], NULL);
    }
    (void)setrlimit(RLIMIT_NPROC, &most);
    return rqli_uv_pool_start() ? 0 : 2;
}

/* It makes one thread run at a time, so that the threads that wait for each other hardly go on. */
static bool is_under_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");

    return preloaded && strstr(preloaded, "vgpreload");
}

TEST(a_limit_of_threads_never_ends_the_process)
{
    if (!CHILDREN_MAY_MAKE_THREADS || is_under_valgrind()) {
        print_message("# neither under ThreadSanitizer nor under valgrind\n");
        return;
    }
    if (geteuid() != 0 || is_emulated()) {
        print_message("# only root of the machine can become a user whom nobody else is\n");
        return;
    }
    for (int i = 0; i < ROUNDS * LIMITS; i++) {
        pid_t child;
        int status = -1;

        limit = LEAST + i % LIMITS;
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(start_at_the_limit());
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) {
            fail_msg("with %d threads at most the child ended with %x", limit, (unsigned)status);
        }
    }
}
