#ifndef CHILDREN_H
#define CHILDREN_H

/* Children of a test program that are no copies of the test: they do one thing and end. */

#include "fixture.h"
#include "threads.h"

enum {
    LIMIT_S = 20,
    LEAST_CODE = 10, /* given to must() */
};

/* A child that hangs is ended by its alarm. */
static inline pid_t start_limited_child_by(pid_t (*make)(void), void (*body)(void))
{
    pid_t child = make();

    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(LIMIT_S * (unsigned)wait_slowness());
        body();
        (void)execlp("true", "true", (char *)NULL); /* a leak checker would count our copies */
        _exit(127);
    }
    return child;
}

static inline pid_t start_limited_child(void (*body)(void))
{
    return start_limited_child_by(fork, body);
}

static inline void expect_good_end(pid_t child)
{
    int status = -1;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the child ended with %x", (unsigned)status);
    }
}

/* In children cmocka's asserts would run the rest of the tests a second time. */
static inline void must(bool holds, int code)
{
    if (!holds) {
        _exit(code);
    }
}

static inline rql_client *new_client_in_child(void)
{
    rql_options options = client_options();
    rql_client *own = NULL;

    must(rql_client_new(&options, &own, NULL) == RQL_OK, 20);
    return own;
}

static inline void use_own_client(void)
{
    rql_client *own = new_client_in_child();
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;

    must(rql_lock_acquire(own, "of the child", &options, &lock, NULL) == RQL_OK, 21);
    must(rql_lock_release(lock, NULL) == RQL_OK, 22);
    rql_client_free(own);
}

#endif
