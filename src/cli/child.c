#include "child.h"

#include "cmd.h"
#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
    cli_say_errno(what, errno);
    return CLI_FAULT;
}

/* Learns the group first; then the end of the pipe means that the parent is dead. Being in the
 * group keeps the kernel from giving its number to somebody else. */
_Noreturn static void run_guard(int fd)
{
    pid_t group = 0;
    char end;

    (void)prctl(PR_SET_NAME, "rql-guard");
    if (read(fd, &group, sizeof group) != (ssize_t)sizeof group) {
        _exit(CLI_DONE);
    }
    (void)setpgid(0, group);
    (void)!read(fd, &end, sizeof end);
    (void)kill(-group, SIGKILL);
    _exit(CLI_DONE);
}

/* Nothing but the pipe stays open: the guard must not keep a reader of our output waiting. */
_Noreturn static void become_guard(int fd)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)dup2(fd, STDIN_FILENO);
    (void)close_range(STDOUT_FILENO, ~0U, 0);
    run_guard(STDIN_FILENO);
}

/* Before the command: there is no moment in which it runs unguarded. */
static int start_guard(struct cli_child *self)
{
    int ends[2] = {-1, -1};

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail("pipe");
    }
    self->guard = fork();
    if (self->guard == 0) {
        become_guard(ends[0]);
    }
    (void)close(ends[0]);
    self->guard_fd = ends[1];
    return self->guard > 0 ? CLI_DONE : fail("fork");
}

struct start {
    char **arguments;
    char **environment;
    const sigset_t *mask;
    pid_t parent;
    int report_fd; /* close-on-exec: carries errno when exec fails, closes when it does not */
};

/* Between fork and exec of a process with threads: only what is safe in a signal handler. */
_Noreturn static void become_command(const struct start *start)
{
    int number = 0;

    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == start->parent) {
        (void)pthread_sigmask(SIG_SETMASK, start->mask, NULL);
        cli_broken_pipe_restore();
        (void)execvpe(start->arguments[0], start->arguments, start->environment);
        number = errno;
        (void)!write(start->report_fd, &number, sizeof number);
    }
    _exit(CLI_NO_COMMAND);
}

/* Waits until the command runs, or is known not to. */
static int await_exec(const struct cli_child *self, int fd, const char *program)
{
    int number = 0;
    ssize_t got = read(fd, &number, sizeof number);

    while (got < 0 && errno == EINTR) {
        got = read(fd, &number, sizeof number);
    }
    if (got != (ssize_t)sizeof number) {
        return CLI_DONE;
    }
    (void)waitpid(self->pid, NULL, 0);
    cli_say_errno(program, number);
    return number == ENOENT || number == ENOTDIR ? CLI_NO_COMMAND : CLI_CANNOT_RUN;
}

/* The guard learns the group from the pipe that it watches. */
static int start_command(struct cli_child *self, struct start *start)
{
    int ends[2] = {-1, -1};
    int code;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail("pipe");
    }
    start->report_fd = ends[1];
    self->pid = fork();
    if (self->pid == 0) {
        become_command(start);
    }
    if (self->pid > 0) {
        (void)setpgid(self->pid, self->pid); /* whoever comes first */
        (void)!write(self->guard_fd, &self->pid, sizeof self->pid);
    }
    (void)close(ends[1]);
    code = self->pid > 0 ? await_exec(self, ends[0], start->arguments[0]) : fail("fork");
    (void)close(ends[0]);
    return code;
}

int cli_child_start(struct cli_child *out, char **arguments, char **environment,
                    const sigset_t *mask)
{
    struct start start = {
        .arguments = arguments, .environment = environment, .mask = mask, .parent = getpid()};
    int code;

    *out = (struct cli_child){.pid = -1, .guard = -1, .guard_fd = -1};
    code = start_guard(out);
    if (code == CLI_DONE) {
        code = start_command(out, &start);
    }
    if (code != CLI_DONE) {
        cli_child_fini(out);
    }
    return code;
}

void cli_child_signal(const struct cli_child *self, int signal_number)
{
    (void)kill(-self->pid, signal_number);
}

void cli_child_fini(struct cli_child *self)
{
    if (self->guard > 0) {
        (void)kill(self->guard, SIGKILL); /* it heeds no other signal */
        (void)waitpid(self->guard, NULL, 0);
    }
    if (self->guard_fd >= 0) {
        (void)close(self->guard_fd);
    }
    self->guard_fd = -1;
    self->guard = -1;
}

int cli_child_code(const struct cli_child *self)
{
    if (WIFSIGNALED(self->status)) {
        return CLI_SIGNALLED + WTERMSIG(self->status);
    }
    return WEXITSTATUS(self->status);
}
