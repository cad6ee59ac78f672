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

/* open() returns the lowest number that is free, and those below `fd` are taken. The command of
 * `rql run` inherits what is opened here. A chroot without /dev has at least a root folder. */
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

/* The terminal sends its signals to a whole process group, which the child is in as well. Only a
 * hang-up it reports to the leader of the session alone. */
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

/* It reaps first: of what ended before SIGCHLD was blocked no signal is left. */
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
    /* An ignored SIGCHLD would leave no status to end with. */
    (void)sigaction(SIGCHLD, &plain, NULL);
    serve(child, &all);
}
