#include "base/fork.h"

#include "base/must.h"
#include "base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/*
 * fork() copies one thread only, and every descriptor. The child closes its copies of our sockets,
 * so that the server notices when the parent dies. Handles of the parent stay unchanged: the
 * generation shows their calls that the handles belong to another process.
 *
 * _Fork() and clone() run no handler. So the generation is on a page that the kernel clears in
 * every child with memory of its own, and the first call in such a child counts the generation up.
 * That call closes nothing, because the child may have closed the parent's descriptors and opened
 * its own under their numbers.
 */

enum { GENERATION_BYTES = sizeof(atomic_uint) }; /* mmap() rounds up to a page */

/* Handlers of pthread_atfork() cannot be removed: they are installed with the first member and
 * stay. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool installed;

/* A kernel before 4.14 cannot clear a page in children: there only children of fork() are
 * noticed. */
static atomic_uint kept = 1;
static _Atomic(atomic_uint *) cleared = &kept; /* 0 in it: a child that has not been noticed yet */
static atomic_uint latest = 1;                 /* the generation of the process that wrote it */

/* The generation of the process whose fork() is in progress. Guarded by shared.mutex. */
static unsigned forking;

static struct {
    pthread_mutex_t mutex;
    struct rqli_dlist members;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Counts a child's generation. Threads that notice the child at the same time get the same result:
 * only the first exchange succeeds, and `latest` is written only with the result of it. */
static unsigned notice_child(atomic_uint *slot)
{
    unsigned next = atomic_load(&latest) + 1;
    unsigned generation = 0;

    if (atomic_compare_exchange_strong(slot, &generation, next)) {
        generation = next;
    }
    atomic_store(&latest, generation);
    return generation;
}

unsigned rqli_fork_generation(void)
{
    atomic_uint *slot = atomic_load_explicit(&cleared, memory_order_acquire);
    unsigned generation = atomic_load_explicit(slot, memory_order_relaxed);

    return generation != 0 ? generation : notice_child(slot);
}

/* Holds the mutex across the fork, so that the list is consistent in the child. */
static void before(void)
{
    (void)pthread_mutex_lock(&shared.mutex);
    forking = rqli_fork_generation();
}

static void in_parent(void)
{
    (void)pthread_mutex_unlock(&shared.mutex);
}

/* Does only what is safe after fork() in a process with threads: no allocation, and no lock but
 * this one. Members that were foreign to the parent were notified in an earlier child, whose own
 * descriptors may have their numbers by now. */
static void in_child(void)
{
    atomic_store(atomic_load(&cleared), 0);
    (void)rqli_fork_generation();
    for (struct rqli_dlink *at = shared.members.first; at; at = at->next) {
        const struct rqli_fork_member *member = (const struct rqli_fork_member *)at;

        if (member->generation == forking) {
            member->in_child(member->self);
        }
    }
    (void)pthread_mutex_unlock(&shared.mutex);
}

/* Maps the page of the generation. It is never unmapped, because other threads may ask for the
 * generation while the process exits. */
static void map_generation(void)
{
    void *page =
        mmap(NULL, GENERATION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return;
    }
    if (!rqli_os_wipe_in_children(page, GENERATION_BYTES)) {
        (void)munmap(page, GENERATION_BYTES);
        return;
    }
    atomic_init((atomic_uint *)page, rqli_fork_generation());
    atomic_store_explicit(&cleared, page, memory_order_release);
}

static void install(void)
{
    installed = pthread_atfork(before, in_parent, in_child) == 0;
    if (installed) {
        map_generation();
    }
}

bool rqli_fork_join(struct rqli_fork_member *member, void (*handler)(void *self), void *self)
{
    (void)pthread_once(&once, install);
    if (!installed) {
        return false;
    }
    *member = (struct rqli_fork_member){.in_child = handler, .self = self};
    (void)pthread_mutex_lock(&shared.mutex);
    /* No fork can come in between, because it would wait for the mutex. */
    member->generation = rqli_fork_generation();
    rqli_dlist_add_first(&shared.members, &member->link);
    (void)pthread_mutex_unlock(&shared.mutex);
    return true;
}

void rqli_fork_leave(struct rqli_fork_member *member)
{
    (void)pthread_mutex_lock(&shared.mutex);
    rqli_dlist_remove(&shared.members, &member->link);
    (void)pthread_mutex_unlock(&shared.mutex);
}

/* A thread inherits the signal mask of the thread that starts it. Synchronous signals are not
 * blocked, because the thread causes them itself: if one is blocked, the kernel ends the process
 * without calling its handler. SIGABRT reaches the crash handlers of the program in the same
 * way. */
sigset_t rqli_mask_asynchronous(void)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked;
    sigset_t before;

    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++) {
        (void)sigdelset(&blocked, synchronous[i]);
    }
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, &blocked, &before) == 0);
    return before;
}

void rqli_mask_restore(const sigset_t *before)
{
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, before, NULL) == 0);
}
