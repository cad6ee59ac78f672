#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t rqli_os_thread_id(void)
{
    return (pid_t)syscall(SYS_gettid);
}

bool rqli_os_thread_lives(pid_t thread)
{
    return syscall(SYS_tgkill, getpid(), thread, 0) == 0;
}

/* Exec closes most of them anyway. One that another thread opens without O_CLOEXEC from now on is
 * missed. */
int rqli_os_close_in_child(posix_spawn_file_actions_t *actions, int first)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int code = 0;

    if (!folder) {
        return errno;
    }
    /* Each folder is read by one thread. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (code == 0 && (entry = readdir(folder)) != NULL) {
        const int fd = (int)strtol(entry->d_name, NULL, 10); /* 0 for the entries with dots */

        if (fd >= first && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
            code = posix_spawn_file_actions_addclose(actions, fd);
        }
    }
    (void)closedir(folder);
    return code;
}

const char *rqli_os_strerror(int code, char *text, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(code, text, size); /* GNU's returns the text, which may be elsewhere */
#else
    return strerror_r(code, text, size) == 0 ? text : "unknown error";
#endif
}

#ifdef __GLIBC__

void rqli_os_cleanup_push(struct rqli_os_cleanup *self, void (*run)(void *), void *data)
{
    (void)self;
    (void)run;
    (void)data;
}

void rqli_os_cleanup_pop(struct rqli_os_cleanup *self)
{
    (void)self;
}

#else

/* The macros of POSIX want push and pop in one block of one function. */
void rqli_os_cleanup_push(struct rqli_os_cleanup *self, void (*run)(void *), void *data)
{
    _pthread_cleanup_push(&self->frame, run, data);
}

void rqli_os_cleanup_pop(struct rqli_os_cleanup *self)
{
    _pthread_cleanup_pop(&self->frame, 0);
}

#endif

/* ---- events and futexes ---- */

int rqli_os_event(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void rqli_os_event_set(int event)
{
    (void)eventfd_write(event, 1);
}

void rqli_os_event_clear(int event)
{
    eventfd_t unused;

    (void)eventfd_read(event, &unused);
}

/* Returns the number of the system call that reads this program's struct timespec. A 32-bit kernel
 * interface has two: `futex` reads a 32-bit time_t, `futex_time64` a 64-bit one. The size of time_t
 * decides, because headers name both numbers whichever size was chosen. The wrong call takes the
 * upper half of the seconds for the nanoseconds, and waits for no time at all. */
static long futex_number(void)
{
#ifdef SYS_futex_time64
    if (sizeof(time_t) > sizeof(long)) {
        return SYS_futex_time64;
    }
#endif
#ifdef SYS_futex
    return SYS_futex;
#else
    return SYS_futex_time64; /* newer 32-bit systems have this one only */
#endif
}

/* A kernel before 5.1 lacks futex_time64 and returns ENOSYS; the sandbox of an old container engine
 * returns EPERM. The time is then passed to `futex` in two longs: no caller's time has more than 32
 * bits of seconds. */
static void call_futex(_Atomic int32_t *word, int operation, int32_t value,
                       const struct timespec *left)
{
    const long code = syscall(futex_number(), word, operation, value, left, NULL, 0);

#ifdef SYS_futex
    if (code == -1 && (errno == ENOSYS || errno == EPERM) && futex_number() != SYS_futex) {
        const long words[] = {left ? (long)left->tv_sec : 0, left ? (long)left->tv_nsec : 0};

        (void)syscall(SYS_futex, word, operation, value, left ? words : NULL, NULL, 0);
    }
#else
    (void)code;
#endif
}

void rqli_os_futex_wait(_Atomic int32_t *word, int32_t seen, const struct timespec *left)
{
    call_futex(word, FUTEX_WAIT_PRIVATE, seen, left);
}

void rqli_os_futex_wake(_Atomic int32_t *word)
{
    call_futex(word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/* ---- sockets, random bytes, memory ---- */

int rqli_os_socket(int family, bool is_blocking)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | (is_blocking ? 0 : SOCK_NONBLOCK), 0);
}

bool rqli_os_random(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size;
}

void rqli_os_leave_out_of_dumps(void *pages, size_t size)
{
    (void)madvise(pages, size, MADV_DONTDUMP);
}

bool rqli_os_wipe_in_children(void *pages, size_t size)
{
    return madvise(pages, size, MADV_WIPEONFORK) == 0;
}
