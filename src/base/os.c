#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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
