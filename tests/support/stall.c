#include "stall.h"

#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { MOMENT_US = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int n_users;
static pthread_t watcher;
static atomic_bool is_watching;
static _Atomic int64_t worst_us;

static void *watch(void *data)
{
    const struct timespec moment = {.tv_nsec = MOMENT_US * 1000L};

    (void)data;
    while (is_watching) {
        int64_t begun_us = wait_clock_us();
        int64_t stall_us;

        (void)nanosleep(&moment, NULL);
        stall_us = wait_clock_us() - begun_us - MOMENT_US;
        if (stall_us > worst_us) {
            worst_us = stall_us;
        }
    }
    return NULL;
}

/* Signals are for the test's own threads. */
static void start(void)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    is_watching = true;
    is_watching = pthread_create(&watcher, NULL, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stall_begin(void)
{
    (void)pthread_mutex_lock(&mutex);
    if (n_users++ == 0) {
        start();
    }
    (void)pthread_mutex_unlock(&mutex);
}

void stall_end(void)
{
    (void)pthread_mutex_lock(&mutex);
    if (--n_users == 0 && is_watching) {
        is_watching = false;
        (void)pthread_join(watcher, NULL);
    }
    (void)pthread_mutex_unlock(&mutex);
}

int64_t stall_worst_us(void)
{
    return worst_us;
}
