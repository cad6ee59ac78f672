#include "stall.h"

#include "wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT_US = 2000, MAX_PROCESSES = 16 };

struct watched {
    pid_t pid; /* 0: free */
    int fd;    /* kept open: what counts descriptors finds the same number at all times */
    int64_t delayed_us;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int n_users;
static pthread_t watcher;
static atomic_bool is_watching;
static _Atomic int64_t worst_us;
static pthread_mutex_t processes_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct watched processes[MAX_PROCESSES];

static void note(int64_t stall_us)
{
    if (stall_us > worst_us) {
        worst_us = stall_us;
    }
}

/* How long it was ready and did not run, in all; the second number of "run delay slices". */
static int64_t delayed_us(int fd, int64_t if_ended)
{
    char text[96];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    char *second;

    if (length <= 0) {
        return if_ended;
    }
    text[length] = '\0';
    (void)strtoll(text, &second, 10);
    return strtoll(second, NULL, 10) / 1000;
}

static void look_at_processes(void)
{
    (void)pthread_mutex_lock(&processes_mutex);
    for (struct watched *process = processes; process < processes + MAX_PROCESSES; process++) {
        if (process->pid > 0) {
            int64_t now_us = delayed_us(process->fd, process->delayed_us);

            note(now_us - process->delayed_us);
            process->delayed_us = now_us;
        }
    }
    (void)pthread_mutex_unlock(&processes_mutex);
}

static struct watched *find(pid_t pid)
{
    struct watched *process = processes;

    while (process < processes + MAX_PROCESSES && process->pid != pid) {
        process++;
    }
    return process < processes + MAX_PROCESSES ? process : NULL;
}

void stall_watch(pid_t process)
{
    struct watched *place;
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", (int)process);
    (void)pthread_mutex_lock(&processes_mutex);
    place = find(0);
    if (place) {
        place->fd = open(path, O_RDONLY | O_CLOEXEC);
        place->pid = place->fd >= 0 ? process : 0;
        place->delayed_us = place->pid > 0 ? delayed_us(place->fd, 0) : 0;
    }
    (void)pthread_mutex_unlock(&processes_mutex);
}

void stall_unwatch(pid_t process)
{
    struct watched *place;

    (void)pthread_mutex_lock(&processes_mutex);
    place = process > 0 ? find(process) : NULL;
    if (place) {
        (void)close(place->fd);
        place->pid = 0;
    }
    (void)pthread_mutex_unlock(&processes_mutex);
}

static void *watch(void *data)
{
    const struct timespec moment = {.tv_nsec = MOMENT_US * 1000L};

    (void)data;
    while (is_watching) {
        int64_t begun_us = wait_clock_us();

        (void)nanosleep(&moment, NULL);
        note(wait_clock_us() - begun_us - MOMENT_US);
        look_at_processes();
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
    stall_watch(getpid());
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
        stall_unwatch(getpid());
    }
    (void)pthread_mutex_unlock(&mutex);
}

int64_t stall_worst_us(void)
{
    return worst_us;
}

/* Of a thread of this process. */
static int64_t delayed_of(const char *thread)
{
    char path[64];
    int64_t us;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.16s/schedstat", thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    us = delayed_us(fd, 0);
    (void)close(fd);
    return us;
}

int64_t stall_total_us(void)
{
    DIR *threads = opendir("/proc/self/task");
    int64_t total_us = 0;

    for (struct dirent *one; threads && (one = readdir(threads));) {
        total_us += one->d_name[0] == '.' ? 0 : delayed_of(one->d_name);
    }
    if (threads) {
        (void)closedir(threads);
    }
    (void)pthread_mutex_lock(&processes_mutex);
    for (const struct watched *process = processes; process < processes + MAX_PROCESSES;
         process++) {
        total_us += process->pid > 0 && process->pid != getpid()
                        ? delayed_us(process->fd, process->delayed_us)
                        : 0;
    }
    (void)pthread_mutex_unlock(&processes_mutex);
    return total_us;
}
