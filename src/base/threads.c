#include "base/threads.h"

#include "base/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

/*
 * Each thread has a mark in its own storage. The mark is in the list of living threads until the
 * thread ends: then the destructor of a thread-specific value removes it. Nothing is allocated.
 *
 * The destructor of another value may use the library after ours has run. Such a thread keeps its
 * number and counts as ended: a lock that it acquires is not renewed.
 */

enum { BUCKETS = 64 };

struct mark {
    struct rqli_dlink link; /* first */
    uint64_t number;        /* 0: the thread has not asked for it yet */
};

static _Thread_local struct mark mine;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool installed;
static pthread_key_t at_end; /* its value is &mine while the mark is listed */

static struct {
    pthread_mutex_t mutex;
    struct rqli_dlist living[BUCKETS];
    uint64_t latest;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct rqli_fork_member member;

/* Caller holds shared.mutex. */
static struct rqli_dlist *bucket_of(uint64_t number)
{
    return &shared.living[number % BUCKETS];
}

/* Caller holds shared.mutex. */
static void list(struct mark *mark)
{
    rqli_dlist_add_first(bucket_of(mark->number), &mark->link);
}

/* Runs on the thread that ends. */
static void unlist(void *value)
{
    struct mark *mark = value;

    (void)pthread_mutex_lock(&shared.mutex);
    rqli_dlist_remove(bucket_of(mark->number), &mark->link);
    (void)pthread_mutex_unlock(&shared.mutex);
}

/* The forking thread is the only one in the child. Another thread may have held the mutex, or may
 * have been changing the list. */
static void in_child(void *unused)
{
    (void)unused;
    shared.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(shared.living, 0, sizeof shared.living);
    if (pthread_getspecific(at_end)) {
        list(&mine);
    }
    member.generation = rqli_fork_generation(); /* so that the next child is notified, too */
}

static void install(void)
{
    installed = pthread_key_create(&at_end, unlist) == 0 && rqli_fork_join(&member, in_child, NULL);
}

/* Sets the value first, because a mark whose thread ends unnoticed would be a dangling pointer. */
static uint64_t take_number(void)
{
    (void)pthread_once(&once, install);
    if (!installed || pthread_setspecific(at_end, &mine) != 0) {
        return 0;
    }
    (void)pthread_mutex_lock(&shared.mutex);
    mine.number = ++shared.latest;
    list(&mine);
    (void)pthread_mutex_unlock(&shared.mutex);
    return mine.number;
}

uint64_t rqli_thread_number(void)
{
    return mine.number != 0 ? mine.number : take_number();
}

bool rqli_thread_lives(uint64_t number)
{
    const struct rqli_dlink *at;

    (void)pthread_mutex_lock(&shared.mutex);
    at = bucket_of(number)->first;
    while (at && ((const struct mark *)at)->number != number) {
        at = at->next;
    }
    (void)pthread_mutex_unlock(&shared.mutex);
    return at != NULL;
}

void rqli_threads_each(void (*each)(uint64_t number, void *context), void *context)
{
    (void)pthread_mutex_lock(&shared.mutex);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct rqli_dlink *at = shared.living[i].first; at; at = at->next) {
            each(((const struct mark *)at)->number, context);
        }
    }
    (void)pthread_mutex_unlock(&shared.mutex);
}
