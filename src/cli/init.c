#include "init.h"

#include "exit.h"
#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens a descriptor in the place of `fd`. open() returns the lowest free number, and those below
 * `fd` are taken. The command of `rql run` inherits the descriptor. A chroot without /dev has at
 * least a root folder. */
static void open_nothing(int fd)
{
    const int flags = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;

    /* NOLINTNEXTLINE(android-cloexec-open): the command inherits it */
    if (open("/dev/null", flags) < 0) {
        (void)!open("/", O_RDONLY); /* NOLINT(android-cloexec-open) */
    }
}

void cli_open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            open_nothing(fd);
        }
    }
}

/* Returns whether only the first process got the signal. The terminal sends its signals to a whole
 * process group, which includes the child. Only a hang-up is reported to the leader of the session
 * alone. */
static bool is_for_first_only(const siginfo_t *info)
{
    return info->si_code != SI_KERNEL || info->si_signo == SIGHUP;
}

/* Reaps all children that have ended, and ends when `child` has. */
static void reap(pid_t child)
{
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == child) {
            _exit(WIFSIGNALED(status) ? CLI_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
}

/* Serves as the first process. It reaps first, because a child that ended before SIGCHLD was
 * blocked left no signal. */
_Noreturn static void serve(pid_t child, const sigset_t *signals)
{
    siginfo_t info;

    while (true) {
        reap(child);
        if (sigwaitinfo(signals, &info) > 0 && info.si_signo != SIGCHLD &&
            is_for_first_only(&info)) {
            (void)kill(child, info.si_signo);
        }
    }
}

void cli_leave_first_process(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t all;
    sigset_t before;
    pid_t child;

    if (getpid() != 1) {
        return;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    child = fork();
    if (child == 0) {
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return;
    }
    if (child < 0) {
        cli_say_errno("fork", errno);
        exit(CLI_FAULT); /* NOLINT(concurrency-mt-unsafe): there is no other thread yet */
    }
    /* If SIGCHLD were ignored, there would be no status to exit with. */
    (void)sigaction(SIGCHLD, &plain, NULL);
    serve(child, &all);
}
