#include "base/futex.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/os.h"

#include <poll.h>
#include <string.h>
#include <time.h>

/*
 * Threads sleep on a futex instead of a condition variable: a thread never sleeps on a word that a
 * waker has changed, and a waker needs no mutex. The deadline is a time of our own clock, but the
 * kernel counts the remaining time without the time that the machine is suspended. A sleeper is
 * then late by that much.
 */

/* ---- polling in place of a futex ---- */

/*
 * A thread cannot sleep on a futex and poll a descriptor at the same time. So a thread whose call
 * can be cancelled polls an event and the descriptor that cancels the call, and is listed here
 * under the address of its word. A waker wakes the futex, and then sets the events that are listed
 * under the address. While no thread polls, a waker only looks at the number of them.
 *
 * A child of fork() has one thread, and its list is empty: what it finds is the parent's. The mutex
 * is not held across a fork, because a thread of the program that is about to wake another may have
 * a lock that a handler of the program waits for before the fork.
 */

enum {
    LISTS_BITS = 6, /* a waker goes through one list of 64 */
    N_LISTS = 1 << LISTS_BITS,
    WITHOUT_FD = 10000, /* microseconds between two looks at the word if there is no event */
};

struct poller {
    struct poller *next;
    const rqli_signal *signal;
    int fd;
};

static struct {
    atomic_uint count;
    pthread_mutex_t mutex;
    unsigned generation;           /* of the process that the lists belong to */
    struct poller *lists[N_LISTS]; /* by address; the mutex guards these two */
} pollers = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rqli_fork_member member;

/* The forking thread is the only one in the child. Another thread may have held the mutex. */
static void in_child(void *unused)
{
    (void)unused;
    pollers.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    member.generation = rqli_fork_generation(); /* so that the next child is notified, too */
}

/* A client has installed the handlers, so this does not fail. */
static void join_forks(void)
{
    (void)rqli_fork_join(&member, in_child, NULL);
}

/* Returns the list for an address. Words on the stacks of threads differ in some of their bits
 * only, so all bits count. Caller holds the mutex. */
static struct poller **list_for(const rqli_signal *signal)
{
    unsigned generation = rqli_fork_generation();

    if (pollers.generation != generation) {
        memset(pollers.lists, 0, sizeof pollers.lists);
        atomic_store(&pollers.count, 0);
        pollers.generation = generation;
    }
    return &pollers.lists[(uint64_t)(uintptr_t)signal * UINT64_C(0x9E3779B97F4A7C15) >>
                          (64 - LISTS_BITS)];
}

/* A thread that is counted looks at its word afterwards. A waker has changed the word before it
 * looks at the count: one of them sees what the other has done. */
static void add_poller(struct poller *self)
{
    struct poller **list;

    (void)pthread_once(&once, join_forks);
    (void)pthread_mutex_lock(&pollers.mutex);
    list = list_for(self->signal);
    self->next = *list;
    *list = self;
    (void)pthread_mutex_unlock(&pollers.mutex);
    (void)atomic_fetch_add(&pollers.count, 1);
}

static void remove_poller(const struct poller *self)
{
    struct poller **link;

    (void)atomic_fetch_sub(&pollers.count, 1);
    (void)pthread_mutex_lock(&pollers.mutex);
    link = list_for(self->signal);
    while (*link && *link != self) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = self->next;
    }
    (void)pthread_mutex_unlock(&pollers.mutex);
}

/* An event is open as long as it is listed. */
static void wake_pollers(const rqli_signal *signal)
{
    (void)pthread_mutex_lock(&pollers.mutex);
    for (const struct poller *at = *list_for(signal); at; at = at->next) {
        if (at->signal == signal && at->fd >= 0) {
            rqli_os_event_set(at->fd);
        }
    }
    (void)pthread_mutex_unlock(&pollers.mutex);
}

/* If there is no event, the caller looks at the word again and again. */
static void poll_signal(struct rqli_cancel_fd *cancel, rqli_signal *signal, int32_t seen,
                        int64_t left_us)
{
    struct poller self = {.signal = signal};
    struct pollfd wanted = {.events = POLLIN};

    if (cancel->wake_fd < 0) {
        cancel->wake_fd = rqli_fd_lift(rqli_os_event());
    }
    self.fd = cancel->wake_fd;
    wanted.fd = self.fd;
    add_poller(&self);
    if (atomic_load(signal) == seen) {
        (void)rqli_poll(&wanted, 1, self.fd >= 0 ? left_us : rqli_earlier(left_us, WITHOUT_FD));
    }
    remove_poller(&self);
    rqli_os_event_clear(self.fd); /* else it would end the next sleep at once */
}

/* ---- sleeping and waking ---- */

/* May return early, for example after a signal: the caller checks its condition again. */
void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us)
{
    struct rqli_cancel_fd *cancel = rqli_cancel_fd();
    struct timespec left;
    int64_t left_us;

    if (cancel) {
        poll_signal(cancel, signal, seen, until_us - rqli_now_us());
        return;
    }
    if (until_us == RQLI_NEVER_US) {
        rqli_os_futex_wait(signal, seen, NULL);
        return;
    }
    /* A time_t may have 32 bits. Callers look again after a wait that was too short. */
    left_us = rqli_earlier(until_us - rqli_now_us(), INT32_MAX * INT64_C(1000000));
    if (left_us > 0) {
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
        rqli_os_futex_wait(signal, seen, &left);
    }
}

void rqli_signal_wake(rqli_signal *signal)
{
    rqli_os_futex_wake(signal);
    if (atomic_fetch_add(&pollers.count, 0) > 0) {
        wake_pollers(signal);
    }
}

/* A signal ends a poll, but not the sleep. Most calls do not sleep, and read no clock. */
void rqli_sleep_until(int64_t until_us)
{
    while (until_us > 0 && !rqli_time_is_up(until_us)) {
        (void)rqli_poll(NULL, 0, until_us - rqli_now_us());
    }
}

/* There are usually one or two. A signal that does not fit is woken at once, which is only
 * slower. */
void rqli_wake_list_add(struct rqli_wake_list *self, rqli_signal *signal)
{
    if (self->count == RQLI_WAKE_LIST) {
        rqli_signal_wake(signal);
    } else {
        self->signals[self->count++] = signal;
    }
}

void rqli_wake_list_unlock(struct rqli_wake_list *self, pthread_mutex_t *mutex)
{
    rqli_signal *signals[RQLI_WAKE_LIST];
    size_t count = self->count;

    memcpy(signals, self->signals, count * sizeof signals[0]);
    self->count = 0;
    (void)pthread_mutex_unlock(mutex);
    while (count > 0) {
        rqli_signal_wake(signals[--count]);
    }
}
