#include "base/fork.h"

#include "base/must.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/*
 * fork() copies one thread only, and every descriptor. The child closes its copies of our sockets,
 * so that the server sees a parent that dies as dead. Handles of the parent stay as they are: the
 * generation tells their calls that they are foreign.
 */

/* pthread_atfork() has no way back: the handlers are installed with the first member and stay. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool installed;
static atomic_uint generation;

static struct {
    pthread_mutex_t mutex;
    struct rqli_fork_member *first;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Held across the fork: the list is whole in the child. */
static void before(void)
{
    (void)pthread_mutex_lock(&shared.mutex);
}

static void in_parent(void)
{
    (void)pthread_mutex_unlock(&shared.mutex);
}

/* Only what is safe behind fork() in a process with threads: no allocation, no lock but this
 * one. */
static void in_child(void)
{
    struct rqli_fork_member *member;

    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    for (member = shared.first; member; member = member->next) {
        member->in_child(member->self);
    }
    (void)pthread_mutex_unlock(&shared.mutex);
}

static void install(void)
{
    installed = pthread_atfork(before, in_parent, in_child) == 0;
}

bool rqli_fork_join(struct rqli_fork_member *member, void (*handler)(void *self), void *self)
{
    (void)pthread_once(&once, install);
    if (!installed) {
        return false;
    }
    *member = (struct rqli_fork_member){.in_child = handler, .self = self};
    (void)pthread_mutex_lock(&shared.mutex);
    /* No fork comes in between: it would wait for the mutex. */
    member->generation = rqli_fork_generation();
    member->next = shared.first;
    if (shared.first) {
        shared.first->previous = member;
    }
    shared.first = member;
    (void)pthread_mutex_unlock(&shared.mutex);
    return true;
}

void rqli_fork_leave(struct rqli_fork_member *member)
{
    (void)pthread_mutex_lock(&shared.mutex);
    if (member->previous) {
        member->previous->next = member->next;
    } else {
        shared.first = member->next;
    }
    if (member->next) {
        member->next->previous = member->previous;
    }
    (void)pthread_mutex_unlock(&shared.mutex);
}

unsigned rqli_fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* Around the start of a thread of ours: it inherits the mask, and signals stay with the threads of
 * the program. */
sigset_t rqli_mask_all(void)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    return before;
}

void rqli_mask_restore(const sigset_t *before)
{
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, before, NULL) == 0);
}
