#include "os.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* of all architectures */
#endif

/* Kernels before 5.9 have no such call. */
void cli_os_close_from(int first)
{
    struct rlimit limit;

    if (syscall(SYS_close_range, first, ~0U, 0) == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    for (int fd = first; (rlim_t)fd < limit.rlim_cur; fd++) {
        (void)close(fd);
    }
}

pid_t cli_os_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

const char *cli_os_strerror(int code, char *text, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(code, text, size); /* GNU's returns the text, which may be elsewhere */
#else
    return strerror_r(code, text, size) == 0 ? text : "unknown error";
#endif
}
