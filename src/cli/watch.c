#include "watch.h"

#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "terminal.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* A lock in doubt is looked after every CHECK_MS, all else sleeps until something happens or is
 * due. */
enum { CHECK_MS = 20, LONGEST_SLEEP_MS = 60000 };

/* What a terminal, a shell or a supervisor sends to a job. */
static const int forwarded[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};

struct watch {
    const struct cli_watch_rules *rules;
    struct cli_child *child;
    struct cli_terminal terminal;
    int lost_fd;
    bool is_ending; /* SIGTERM was sent */
    bool was_lost;  /* because the lock was lost: the grace is all that is left */
    bool is_killed; /* SIGKILL was sent */
    int64_t kill_at_ms;
};

int cli_watch_signals(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    struct sigaction action;
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        if (sigaction(forwarded[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, forwarded[i]);
        }
    }
    (void)sigaddset(&set, SIGTTOU);         /* or taking the terminal back would stop us */
    (void)sigaction(SIGCHLD, &plain, NULL); /* whoever ignored it would leave nothing to wait for */
    (void)sigaddset(&set, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)sigdelset(&set, SIGTTOU);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Until the lock ends, or may not be held any longer. */
static int64_t left_ms(const struct watch *self)
{
    const int64_t remaining_ms = cli_held_remaining_ms(self->rules->held);
    const int64_t hold_ms = self->rules->hold_end_ms - cli_now_ms();

    return hold_ms < remaining_ms ? hold_ms : remaining_ms;
}

/* The last renewal lasts to hold_end_ms, no longer. */
static bool is_renewed(const struct watch *self)
{
    return self->rules->is_renewed &&
           cli_now_ms() < self->rules->hold_end_ms - self->rules->grace_ms;
}

static bool is_lost(const struct watch *self)
{
    struct pollfd lost = {.fd = self->lost_fd, .events = POLLIN};

    return cli_held_state(self->rules->held) == RQL_GONE || poll(&lost, 1, 0) > 0;
}

/* Near the end with no renewal to hope for. A healthy lock is renewed long before. */
static bool is_about_to_end(const struct watch *self)
{
    if (left_ms(self) > self->rules->grace_ms) {
        return false;
    }
    return !is_renewed(self) || cli_held_state(self->rules->held) == RQL_DOUBTFUL;
}

/* SIGCONT as well: a stopped command could not react. */
static void terminate(struct watch *self, bool lost)
{
    cli_say_nowait("%s: the lock %s; ending the command", self->rules->held->label,
                   lost ? "is lost" : "cannot be kept");
    self->is_ending = true;
    self->was_lost = lost;
    self->kill_at_ms = cli_now_ms() + self->rules->grace_ms;
    cli_child_signal(self->child, SIGTERM);
    cli_child_signal(self->child, SIGCONT);
}

/* From SIGTERM to SIGKILL. A lock that is renewed meanwhile is held for longer than it is now. */
static int64_t grace_left_ms(const struct watch *self)
{
    const int64_t grace_ms = self->kill_at_ms - cli_now_ms();
    const int64_t lock_ms = self->was_lost ? grace_ms : left_ms(self);

    return lock_ms < grace_ms ? lock_ms : grace_ms;
}

/* Once the end is decided it stays: the command may have begun to clear up. */
static void check_lock(struct watch *self)
{
    bool lost;

    if (!self->is_ending) {
        lost = is_lost(self);
        if (lost || is_about_to_end(self)) {
            terminate(self, lost);
        }
    }
    if (self->is_ending && !self->is_killed && grace_left_ms(self) <= 0) {
        self->is_killed = true;
        cli_child_signal(self->child, SIGKILL);
    }
}

/* The library's thread stops with us: the lock is not renewed until we are continued, and then is
 * checked before the command may go on. */
static void suspend(struct watch *self)
{
    const bool was_given = self->terminal.is_given;
    char left[CLI_DURATION_SIZE];

    cli_say_nowait("%s: stopped; the lock ends in %s unless continued", self->rules->held->label,
                   cli_format_duration(cli_held_remaining_ms(self->rules->held), left));
    cli_terminal_take(&self->terminal);
    cli_terminal_suspend();
    check_lock(self);
    if (was_given) {
        (void)cli_terminal_give(&self->terminal, self->child->pid);
    }
    cli_child_signal(self->child, SIGCONT);
}

/* SIGSTOP is somebody's hand on the command alone: it keeps its lock. */
static void on_stopped(struct watch *self, int signal_number)
{
    const bool wants_terminal = signal_number == SIGTTIN || signal_number == SIGTTOU;

    if (self->terminal.fd < 0 || signal_number == SIGSTOP || self->is_ending) {
        return;
    }
    if (wants_terminal && cli_terminal_give(&self->terminal, self->child->pid)) {
        cli_child_signal(self->child, SIGCONT);
    } else {
        suspend(self);
    }
}

/* SIGCHLD may stand for several changes, and for the guard's. */
static void on_child_changed(struct watch *self)
{
    int status = 0;

    while (!self->child->has_ended &&
           waitpid(self->child->pid, &status, WNOHANG | WUNTRACED) == self->child->pid) {
        if (WIFSTOPPED(status)) {
            on_stopped(self, WSTOPSIG(status));
        } else {
            self->child->has_ended = true;
            self->child->status = status;
        }
    }
}

static void read_signals(struct watch *self)
{
    struct signalfd_siginfo info;

    while (read(self->rules->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            on_child_changed(self);
            continue;
        }
        if (info.ssi_signo == SIGCONT) {
            check_lock(self);
        }
        cli_child_signal(self->child, (int)info.ssi_signo);
    }
}

/* Doubt has no descriptor: check again when the lock could come near its end. */
static int next_check_ms(const struct watch *self)
{
    const int64_t grace_ms = self->rules->grace_ms;
    int64_t wait_ms = left_ms(self) - grace_ms;
    int64_t renewed_ms;

    if (self->is_killed) {
        return -1;
    }
    if (self->is_ending) {
        wait_ms = grace_left_ms(self);
    } else if (is_renewed(self)) {
        renewed_ms = self->rules->hold_end_ms - grace_ms - cli_now_ms();
        wait_ms = wait_ms > CHECK_MS ? wait_ms : CHECK_MS;
        wait_ms = wait_ms < renewed_ms ? wait_ms : renewed_ms;
    }
    wait_ms = wait_ms > 0 ? wait_ms : 0;
    return (int)(wait_ms < LONGEST_SLEEP_MS ? wait_ms : LONGEST_SLEEP_MS);
}

static void watch_until_end(struct watch *self)
{
    struct pollfd fds[] = {
        {.fd = self->rules->signal_fd, .events = POLLIN},
        {.fd = self->lost_fd, .events = POLLIN},
    };

    while (!self->child->has_ended) {
        fds[1].fd = self->was_lost || self->is_killed ? -1 : self->lost_fd;
        (void)poll(fds, sizeof fds / sizeof fds[0], next_check_ms(self));
        read_signals(self);
        if (!self->child->has_ended) {
            check_lock(self);
        }
    }
}

int cli_watch(const struct cli_watch_rules *rules, struct cli_child *child, bool *lost_out)
{
    struct watch watch = {.rules = rules, .child = child, .lost_fd = -1};
    rql_error error = {.status = RQL_OK};

    *lost_out = false;
    if (cli_held_lost_fd(rules->held, &watch.lost_fd, &error) != RQL_OK) {
        cli_child_signal(child, SIGKILL);
        (void)waitpid(child->pid, &child->status, 0);
        child->has_ended = true;
        return cli_fault(&error);
    }
    cli_terminal_init(&watch.terminal);
    watch_until_end(&watch);
    cli_terminal_fini(&watch.terminal);
    if (watch.is_ending) {
        cli_child_signal(child, SIGKILL); /* what the command left behind in its group */
    }
    *lost_out = watch.is_ending;
    return CLI_DONE;
}
