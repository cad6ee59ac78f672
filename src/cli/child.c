#include "child.h"

#include "guard.h"
#include "messages.h"
#include "os.h"
#include "outer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBER_SIZE = 16 };

/* Reports that the system lacks a resource. Nothing of the command has run yet. */
static int fail(const char *what)
{
    cli_say_errno(what, errno);
    return CLI_FAULT;
}

/* The data that guard and command need between fork and exec. They can call almost nothing there,
 * so everything is prepared before. */
struct start {
    char **arguments;
    char **environment;
    char **guard_environment;
    const sigset_t *mask;
    int channel[2]; /* this program's end, and the guard's */
    /* This program's end, and the command's. A byte lets the command begin. The command sends back
     * the errno of exec, or nothing if exec succeeds: exec closes its end. */
    int launch[2];
    int agent_fd;  /* the connection that keeps the lock; or -1 */
    bool is_fresh; /* whether the guard becomes a fresh image */
};

/* Runs the command. This code runs between fork and exec in a process with threads, so it may only
 * call functions that are safe in a signal handler. */
_Noreturn static void become_command(const struct start *start, pid_t guard)
{
    int number = 0;
    char go;

    (void)close(start->channel[1]);
    if (start->agent_fd >= 0) {
        (void)fcntl(start->agent_fd, F_SETFD, 0);
    }
    if (cli_os_die_with(guard) && read(start->launch[1], &go, sizeof go) == (ssize_t)sizeof go) {
        (void)pthread_sigmask(SIG_SETMASK, start->mask, NULL);
        cli_broken_pipe_restore();
        (void)execvpe(start->arguments[0], start->arguments, start->environment);
        number = errno;
        (void)!write(start->launch[1], &number, sizeof number);
    }
    _exit(CLI_NO_COMMAND);
}

/* Closes all descriptors but the channel and the connection to an agent, because the guard must not
 * keep a reader of our output waiting. Both are moved out of the way of each other first. */
static void keep_only(int channel, int agent_fd)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int first = fcntl(channel, F_DUPFD_CLOEXEC, CLI_GUARD_AGENT_FD + 1);
    const int second = fcntl(agent_fd, F_DUPFD_CLOEXEC, CLI_GUARD_AGENT_FD + 1);

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        (void)(nothing >= 0 ? dup2(nothing, fd) : close(fd));
    }
    (void)dup2(first, CLI_GUARD_FD);
    if (agent_fd < 0) {
        (void)close(CLI_GUARD_AGENT_FD);
    } else if (second < 0 || dup2(second, CLI_GUARD_AGENT_FD) < 0) {
        _exit(CLI_FAULT); /* rql then starts no command */
    }
    cli_os_close_from(CLI_GUARD_AGENT_FD + 1);
}

/* Forks the command and becomes its guard. The command is forked first: it is a copy of this
 * process, with its memory and descriptors, and stays a child of the fresh image. It waits until
 * the guard is ready. Without /proc, or if the fresh image is refused, the copy is the guard. */
_Noreturn static void become_guard(const struct start *start)
{
    static char name[] = CLI_GUARD_NAME;
    char number[NUMBER_SIZE];
    char *const arguments[] = {name, number, NULL};
    const pid_t guard = getpid();
    sigset_t all;
    pid_t command;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)setpgid(0, 0);
    cli_os_adopt_orphans();
    (void)close(start->channel[0]);
    (void)close(start->launch[0]);
    command = cli_os_fork();
    if (command == 0) {
        become_command(start, guard);
    }
    keep_only(start->channel[1], start->agent_fd);
    if (command > 0 && start->is_fresh) {
        (void)snprintf(number, sizeof number, "%d", (int)command);
        cli_os_exec_self(arguments, start->guard_environment);
    }
    cli_guard_run(command, false);
}

/* Waits for the guard's report. Returns false if the guard has ended, because it could not
 * start. */
static bool await_report(int channel, struct cli_guard_report *out)
{
    return recv(channel, out, sizeof *out, MSG_WAITALL) == (ssize_t)sizeof *out;
}

static void end_guard(struct cli_child *self)
{
    if (self->guard > 0) {
        (void)kill(self->guard, SIGKILL); /* the guard blocks all other signals */
        (void)waitpid(self->guard, NULL, 0);
    }
    cli_close_p(&self->guard_fd);
    self->guard = -1;
    self->guard_fd = -1;
}

/* Starts the guard before the command, so that the command never runs unguarded. Returns whether
 * the guard is ready; the command then waits to be launched. */
static bool start_guard(struct cli_child *self, struct start *start,
                        struct cli_guard_report *report)
{
    self->guard = fork();
    if (self->guard == 0) {
        become_guard(start);
    }
    (void)close(start->channel[1]);
    (void)close(start->launch[1]);
    self->guard_fd = start->channel[0];
    if (self->guard > 0 && await_report(self->guard_fd, report)) {
        self->pid = report->command;
        self->group = report->group;
        self->pid_fd = cli_os_process(self->pid);
        return true;
    }
    (void)close(start->launch[0]);
    end_guard(self);
    return false;
}

/* Starts a guard with a fresh image, or else with a copy of this process, because the files of the
 * program may have been deleted. */
static int start_some_guard(struct cli_child *self, struct start *start,
                            struct cli_guard_report *report)
{
    for (int i = 0; i < 2; i++) {
        start->is_fresh = i == 0;
        if (!cli_os_socket_pair(start->channel)) {
            return fail("socketpair");
        }
        if (!cli_os_socket_pair(start->launch)) {
            (void)close(start->channel[0]);
            (void)close(start->channel[1]);
            return fail("socketpair");
        }
        if (start_guard(self, start, report)) {
            return CLI_DONE;
        }
    }
    return fail("the guard of the command");
}

/* Explains why the command could not run. A program without a '/' was searched in PATH. A blank or
 * a '$' in it suggests that the line was meant for a shell. */
static void say_why(const char *program, int number)
{
    const bool is_line = program[strcspn(program, " \t\n$|;&<>")] != '\0';

    if (number == ENOENT && is_line) {
        cli_say("%s: command not found; give a line for a shell with -c", program);
    } else if (number == ENOENT && !strchr(program, '/')) {
        cli_say("%s: command not found", program);
    } else {
        cli_say_errno(program, number);
    }
}

/* Lets the command begin, and waits until it runs or has failed. */
static int launch(int fd, const char *program)
{
    int number = 0;
    ssize_t got = send(fd, "", 1, MSG_NOSIGNAL);

    while (got == 1 || (got < 0 && errno == EINTR)) {
        got = read(fd, &number, sizeof number);
    }
    (void)close(fd);
    /* exec has closed it without an error. */
    if (got != (ssize_t)sizeof number) {
        return CLI_DONE;
    }
    say_why(program, number);
    return number == ENOENT || number == ENOTDIR ? CLI_NO_COMMAND : CLI_CANNOT_RUN;
}

static int start_command(struct cli_child *self, struct start *start, const struct cli_args *args,
                         const struct cli_held *held)
{
    struct cli_guard_report report;
    int code;

    /* If the guard is killed, this program becomes the parent of the processes that it has
     * started. */
    cli_os_adopt_orphans();
    code = start_some_guard(self, start, &report);
    if (code != CLI_DONE) {
        return code;
    }
    if (report.can_release) {
        (void)cli_guard_order(self->guard_fd, &args->options, held,
                              !args->at_most_once && !held->agent_lock);
    }
    return launch(start->launch[0], start->arguments[0]);
}

/* The variables that rql sets itself. */
enum { OWN_LOCK, OWN_TOKEN, OWN_OUTER, OWN_SLOTS, OWN_URL, OWN_TRACEPARENT, N_OWN };

static const char *const own_names[N_OWN] = {
    [OWN_LOCK] = "RQL_LOCK=",   [OWN_TOKEN] = "RQL_TOKEN=", [OWN_OUTER] = "RQL_OUTER=",
    [OWN_SLOTS] = "RQL_SLOTS=", [OWN_URL] = "RQL_URL=",     [OWN_TRACEPARENT] = "TRACEPARENT=",
};

/* The command's environment. The texts in `own` are allocated here; all others belong to the
 * process. */
struct environment {
    char **items;     /* ends in NULL */
    char *own[N_OWN]; /* NULL: no slots, an agent's server that is not known, or no trace */
};

/* Returns "RQL_LOCK=a\nb": names or tokens, one per line, in the given order. */
static char *join(const char *variable, const struct cli_held *held, bool as_tokens)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = cli_must(open_memstream(&text, &size));

    (void)fputs(variable, out);
    for (size_t i = 0; i < cli_held_count(held); i++) {
        (void)fputs(i > 0 ? "\n" : "", out);
        if (as_tokens) {
            (void)fprintf(out, "%lld", (long long)cli_held_token(held, i));
        } else {
            (void)fputs(cli_held_name(held, i), out);
        }
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

/* Returns whether rql sets this variable itself. An outer `rql run` has set it, too: its value is
 * replaced, not duplicated. Slots of an outer lock are left out, as they do not belong to RQL_LOCK.
 */
static bool is_own(const struct environment *self, const char *entry)
{
    for (size_t i = 0; i < N_OWN; i++) {
        if ((self->own[i] || i == OWN_SLOTS) &&
            strncmp(entry, own_names[i], strlen(own_names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns "RQL_URL=value", malloc'd; NULL without a value. */
static char *append(const char *variable, const char *value)
{
    char *text = NULL;

    if (value && asprintf(&text, "%s%s", variable, value) < 0) {
        cli_die_nomem();
    }
    return text;
}

/* Builds the command's environment. All other texts are borrowed, because this program never
 * changes its environment. */
static void init_environment(struct environment *self, const struct cli_held *held, const char *url)
{
    size_t count = 0;
    const int *numbers = cli_held_slots(held, &count);
    CLI_AUTO(cli_free) char *slots = cli_join_slots(numbers, count);
    CLI_AUTO(cli_free) char *outer = cli_outer_locks();

    count = 0;
    self->own[OWN_LOCK] = join(own_names[OWN_LOCK], held, false);
    self->own[OWN_TOKEN] = join(own_names[OWN_TOKEN], held, true);
    self->own[OWN_OUTER] = append(own_names[OWN_OUTER], outer);
    self->own[OWN_SLOTS] = append(own_names[OWN_SLOTS], slots);
    self->own[OWN_URL] = append(own_names[OWN_URL], held->agent_lock ? NULL : url);
    self->own[OWN_TRACEPARENT] = append(own_names[OWN_TRACEPARENT], cli_trace_parent(&held->trace));
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
    for (size_t i = 0; i < N_OWN; i++) {
        if (self->own[i]) {
            self->items[count++] = self->own[i];
        }
    }
}

static void fini_environment(struct environment *self)
{
    for (size_t i = 0; i < N_OWN; i++) {
        free(self->own[i]);
    }
    free(self->items);
}

/* ---- its words ---- */

/* Returns the word with this number in place of each "{slot}", malloc'd. */
static char *put_slot(const char *word, int slot)
{
    static const char mark[] = "{slot}";
    char *text = NULL;
    size_t size = 0;
    FILE *out = cli_must(open_memstream(&text, &size));
    const char *found;

    for (; (found = strstr(word, mark)) != NULL; word = found + strlen(mark)) {
        (void)fprintf(out, "%.*s%d", (int)(found - word), word, slot);
    }
    (void)fputs(word, out);
    return cli_must(fclose(out) == 0 ? text : NULL);
}

/* Returns the words of the command, to be freed by free_words(). A lock without slots changes none
 * of them. */
static char **make_words(char *const *command, const struct cli_held *held)
{
    size_t count = 0;
    const int *slots = cli_held_slots(held, &count);
    size_t n_words = 0;
    char **words;

    while (command[n_words]) {
        n_words++;
    }
    words = cli_must(calloc(n_words + 1, sizeof *words));
    for (size_t i = 0; i < n_words; i++) {
        words[i] = slots ? put_slot(command[i], slots[0]) : cli_must(strdup(command[i]));
    }
    return words;
}

static void free_words(char **words)
{
    for (char **word = words; *word; word++) {
        free(*word);
    }
    free(words);
}

/* ---- the guard's environment ---- */

/* Returns whether this variable sets an option of the library, such as the URL. */
static bool is_option(const char *entry)
{
    const size_t length = strcspn(entry, "=");
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (strlen(row->env) == length && strncmp(entry, row->env, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the environment without options. The guard gets the options over its channel, which other
 * users cannot read. */
static char **without_options(void)
{
    size_t count = 0;
    char **items;

    while (environ[count]) {
        count++;
    }
    items = cli_must(calloc(count + 1, sizeof *items));
    count = 0;
    for (char **entry = environ; *entry; entry++) {
        if (!is_option(*entry)) {
            items[count++] = *entry;
        }
    }
    return items;
}

int cli_child_start(struct cli_child *out, const struct cli_args *args, const struct cli_held *held)
{
    struct environment environment;
    struct start start = {.mask = &held->mask,
                          .agent_fd = held->agent_lock ? cli_agent_lock_fd(held->agent_lock) : -1};
    int code;

    init_environment(&environment, held, args->options.url);
    start.arguments = make_words(args->command, held);
    start.environment = environment.items;
    start.guard_environment = without_options();
    code = start_command(out, &start, args, held);
    if (code != CLI_DONE) {
        cli_child_fini(out);
    }
    free_words(start.arguments);
    free(start.guard_environment);
    fini_environment(&environment);
    return code;
}

/* Signals the command by its descriptor, because the guard may have reaped it, and its number may
 * belong to another process. Signal 0 sends nothing, but tests for the permission. */
static bool may_signal_command(const struct cli_child *self, int signal_number)
{
    const bool is_sent = self->pid_fd >= 0 ? cli_os_process_signal(self->pid_fd, signal_number)
                                           : kill(self->pid, signal_number) == 0;

    return is_sent || errno != EPERM;
}

bool cli_child_signal(const struct cli_child *self, int signal_number)
{
    /* kill() succeeds if it may signal one process of the group, and it may always signal the
     * leader. */
    (void)kill(-self->group, signal_number);
    if (self->has_ended) {
        return true;
    }
    if (getpgid(self->pid) == self->group) {
        return may_signal_command(self, 0); /* it got the signal with its group */
    }
    /* After setsid() the command leads a group of its own. */
    return cli_os_process_signal_group(self->pid_fd, signal_number) ||
           may_signal_command(self, signal_number);
}

/* Handles a guard that ended before the command. The kernel has then killed the command, unless the
 * command has other rights. Surviving processes have become our children. */
static void lose_guard(struct cli_child *self)
{
    cli_say_nowait("the guard of the command has been killed; ending the command");
    end_guard(self);
    (void)cli_child_signal(self, SIGKILL);
}

static bool is_changed(struct cli_child *self, int *status)
{
    pid_t pid;
    ssize_t got = -1;

    if (self->guard_fd >= 0) {
        got = recv(self->guard_fd, status, sizeof *status, MSG_DONTWAIT);
        if (got == (ssize_t)sizeof *status) {
            return true;
        }
        if (got < 0 && errno == EAGAIN) {
            return false;
        }
        lose_guard(self);
    }
    pid = waitpid(self->pid, status, WNOHANG | WUNTRACED);
    if (pid < 0) {
        *status = SIGKILL; /* the guard had reaped it without reporting its status */
    }
    return pid != 0;
}

int cli_child_read_stop(struct cli_child *self)
{
    int status = 0;

    if (self->has_ended || !is_changed(self, &status)) {
        return 0;
    }
    if (WIFSTOPPED(status)) {
        return WSTOPSIG(status);
    }
    self->has_ended = true;
    self->status = status;
    return 0;
}

void cli_child_fini(struct cli_child *self)
{
    end_guard(self);
    cli_close_p(&self->pid_fd);
    self->pid_fd = -1;
}

int cli_child_signal_of_end(const struct cli_child *self)
{
    return WIFSIGNALED(self->status) ? WTERMSIG(self->status) : 0;
}

/* Counts signals as a shell does, so that scripts that test for 130 or 143 keep working under
 * rql. */
int cli_child_code(const struct cli_child *self)
{
    const int signal_number = cli_child_signal_of_end(self);

    return signal_number > 0 ? CLI_SIGNALLED + signal_number : WEXITSTATUS(self->status);
}
