#include "child.h"

#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Variables that the command gets from us. */
enum { N_OWN = 3 };

/* Something that the system has too little of: nothing of the command has run. */
static int fail(const char *what)
{
    cli_say_errno(what, errno);
    return CLI_FAULT;
}

/* Nothing but the pipe stays open: the guard must not keep a reader of our output waiting. From the
 * pipe it learns the group first; then the end of the pipe means that the parent is dead. Being in
 * the group keeps the kernel from giving its number to somebody else. */
_Noreturn static void become_guard(int fd)
{
    sigset_t all;
    pid_t group = 0;
    char end;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)dup2(fd, STDIN_FILENO);
    (void)close_range(STDOUT_FILENO, ~0U, 0);
    (void)prctl(PR_SET_NAME, "rql-guard");
    if (read(STDIN_FILENO, &group, sizeof group) == (ssize_t)sizeof group) {
        (void)setpgid(0, group);
        (void)!read(STDIN_FILENO, &end, sizeof end);
        (void)kill(-group, SIGKILL);
    }
    _exit(CLI_DONE);
}

/* Before the command: there is no moment in which it runs unguarded. */
static int start_guard(struct cli_child *self)
{
    int ends[2] = {-1, -1};

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail("pipe");
    }
    /* Only this program keeps the end that is written to: the guard closes it, and exec does for
     * the command. So its death closes the pipe. */
    self->guard = fork();
    if (self->guard == 0) {
        become_guard(ends[0]);
    }
    (void)close(ends[0]);
    self->guard_fd = ends[1];
    return self->guard > 0 ? CLI_DONE : fail("fork");
}

/* What the child needs between fork and exec, where it can call next to nothing: all is made
 * before. */
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
    /* In this order: a parent that dies after the call kills us, and one that died before is not
     * ours any more. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == start->parent) {
        (void)pthread_sigmask(SIG_SETMASK, start->mask, NULL);
        cli_broken_pipe_restore();
        (void)execvpe(start->arguments[0], start->arguments, start->environment);
        number = errno;
        (void)!write(start->report_fd, &number, sizeof number);
    }
    _exit(CLI_NO_COMMAND);
}

/* Without a '/' it was looked for in PATH. A blank or a '$' in it are meant for a shell. */
static void say_why(const char *program, int number)
{
    const bool is_line = program[strcspn(program, " \t\n$|;&<>")] != '\0';

    if (number == ENOENT && is_line) {
        cli_say("%s: command not found; a line for a shell is written sh -c '...'", program);
    } else if (number == ENOENT && !strchr(program, '/')) {
        cli_say("%s: command not found", program);
    } else {
        cli_say_errno(program, number);
    }
}

/* Waits until the command runs, or is known not to. */
static int await_exec(const struct cli_child *self, int fd, const char *program)
{
    int number = 0;
    ssize_t got = read(fd, &number, sizeof number);

    while (got < 0 && errno == EINTR) {
        got = read(fd, &number, sizeof number);
    }
    /* exec has closed the pipe without a word. */
    if (got != (ssize_t)sizeof number) {
        return CLI_DONE;
    }
    (void)waitpid(self->pid, NULL, 0);
    say_why(program, number);
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

/* The command's environment: the texts in `own` are ours, all others belong to the process. */
struct environment {
    char **items; /* ends in NULL */
    char *own[N_OWN];
};

/* "RQL_LOCK=a\nb": names or tokens, one a line, in the given order. */
static char *join(const char *variable, const struct cli_held *held, bool as_tokens)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = cli_must(open_memstream(&text, &size));

    (void)fputs(variable, out);
    for (size_t i = 0; i < cli_held_count(held); i++) {
        const rql_lock *lock = cli_held_lock(held, i);

        (void)fputs(i > 0 ? "\n" : "", out);
        if (as_tokens) {
            (void)fprintf(out, "%lld", (long long)rql_lock_token(lock));
        } else {
            (void)fputs(rql_lock_describe(lock).name, out);
        }
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

/* An outer `rql run` has set them, too: theirs are replaced, not doubled. */
static bool is_own(const struct environment *self, const char *entry)
{
    for (size_t i = 0; i < N_OWN; i++) {
        /* Up to the equals sign and with it. */
        if (strncmp(entry, self->own[i], strcspn(self->own[i], "=") + 1) == 0) {
            return true;
        }
    }
    return false;
}

/* The rest is borrowed: nobody changes the environment of this program. */
static void init_environment(struct environment *self, const struct cli_held *held, const char *url)
{
    size_t count = 0;

    self->own[0] = join("RQL_LOCK=", held, false);
    self->own[1] = join("RQL_TOKEN=", held, true);
    if (asprintf(&self->own[2], "RQL_URL=%s", url) < 0) {
        cli_die_nomem();
    }
    while (environ[count]) {
        count++;
    }
    self->items = cli_must(calloc(count + N_OWN + 1, sizeof *self->items));
    count = 0;
    for (char **entry = environ; *entry; entry++) {
        if (!is_own(self, *entry)) {
            self->items[count++] = *entry;
        }
    }
    (void)memcpy(self->items + count, self->own, sizeof self->own);
}

static void fini_environment(struct environment *self)
{
    for (size_t i = 0; i < N_OWN; i++) {
        free(self->own[i]);
    }
    free(self->items);
}

int cli_child_start(struct cli_child *out, const struct cli_args *args, const struct cli_held *held)
{
    struct environment environment;
    struct start start = {.arguments = args->command, .mask = &held->mask, .parent = getpid()};
    int code;

    /* Nothing is open yet: on a fault cli_child_fini() ends what there is. */
    *out = (struct cli_child){.pid = -1, .guard = -1, .guard_fd = -1};
    init_environment(&environment, held, args->options.url);
    start.environment = environment.items;
    code = start_guard(out);
    if (code == CLI_DONE) {
        code = start_command(out, &start);
    }
    if (code != CLI_DONE) {
        cli_child_fini(out);
    }
    fini_environment(&environment);
    return code;
}

void cli_child_signal(const struct cli_child *self, int signal_number)
{
    (void)kill(-self->pid, signal_number);
}

/* The guard has to be gone before its pipe closes: it would take that for our death. */
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

/* As a shell counts them: scripts that test for 130 or 143 go on working under rql. */
int cli_child_code(const struct cli_child *self)
{
    if (WIFSIGNALED(self->status)) {
        return CLI_SIGNALLED + WTERMSIG(self->status);
    }
    return WEXITSTATUS(self->status);
}
