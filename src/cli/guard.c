#include "guard.h"

#include "format.h"
#include "os.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAUSE_MS = 20, /* between two searches for processes whose end is not reported to the guard */
    N_OPTION_TEXTS = 5,
};

/* ---- orders: the data for a release ---- */

/* Orders are followed by texts that each end in 0: those of the options, then name and secret of
 * each lock. */
struct orders {
    size_t size; /* size of all texts */
    size_t n_locks;
    int64_t longest_ttl_ms;
    int64_t connect_timeout_ms;
    int64_t io_timeout_ms;
    int64_t recovery_delay_ms;
    rql_tls_verify tls_verify;
    rql_history_mode history;
};

/* Returns one of the fields of the options that are texts, in the order of the message. */
static const char **text_of(rql_options *options, size_t index)
{
    const char **const fields[N_OPTION_TEXTS] = {
        &options->url,          &options->tls_ca_file,     &options->tls_cert_file,
        &options->tls_key_file, &options->tls_server_name,
    };

    return fields[index];
}

static void put_text(FILE *out, const char *text)
{
    (void)fputs(text ? text : "", out);
    (void)fputc('\0', out);
}

/* Joins the texts in a buffer of stdio, so that their size is known before they are sent. */
static char *join_texts(rql_options options, const struct cli_held *held, size_t n_locks,
                        size_t *size)
{
    char *text = NULL;
    FILE *out = cli_must(open_memstream(&text, size));

    for (size_t i = 0; i < N_OPTION_TEXTS; i++) {
        put_text(out, *text_of(&options, i));
    }
    for (size_t i = 0; i < n_locks; i++) {
        const rql_lock *lock = cli_held_lock(held, i);

        put_text(out, rql_lock_name(lock));
        put_text(out, rql_lock_secret(lock));
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

static bool send_all(int channel, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        const ssize_t sent = send(channel, at, size, MSG_NOSIGNAL);

        if (sent < 0) {
            return false;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static int64_t longest_ttl_ms(const struct cli_held *held)
{
    int64_t longest_ms = 0;

    for (size_t i = 0; !held->agent_lock && i < cli_held_count(held); i++) {
        rql_lock_facts facts;

        rql_lock_describe(cli_held_lock(held, i), &facts);
        longest_ms = facts.ttl_ms > longest_ms ? facts.ttl_ms : longest_ms;
    }
    return longest_ms;
}

bool cli_guard_order(int channel, const rql_options *options, const struct cli_held *held,
                     bool releases)
{
    struct orders orders = {
        .n_locks = releases ? cli_held_count(held) : 0,
        .longest_ttl_ms = longest_ttl_ms(held),
        .connect_timeout_ms = options->connect_timeout_ms,
        .io_timeout_ms = options->io_timeout_ms,
        .recovery_delay_ms = options->recovery_delay_ms,
        .tls_verify = options->tls_verify,
        .history = options->history,
    };
    CLI_AUTO(cli_free) char *texts = join_texts(*options, held, orders.n_locks, &orders.size);

    return send_all(channel, &orders, sizeof orders) && send_all(channel, texts, orders.size);
}

/* ---- the guard ---- */

struct guard {
    pid_t command;     /* 0: it has ended, and its PID may be reused */
    pid_t leader;      /* leader of the command's group */
    int signal_fd;     /* for SIGCHLD */
    bool has_children; /* besides the leader */
    bool keeps_lock;   /* it has the connection to an agent: its end may release the lock */
    struct orders orders;
    char *texts; /* NULL: the guard does not release */
};

static bool receive(void *out, size_t size)
{
    return recv(CLI_GUARD_FD, out, size, MSG_WAITALL) == (ssize_t)size;
}

static void receive_orders(struct guard *self)
{
    if (receive(&self->orders, sizeof self->orders)) {
        self->texts = cli_must(malloc(self->orders.size));
        if (!receive(self->texts, self->orders.size)) {
            self->texts = NULL;
        }
    }
}

/* Runs the leader of the group. It blocks all signals, as the guard does, and dies with the
 * guard. */
_Noreturn static void lead(pid_t guard)
{
    cli_os_name_process("rql-group");
    cli_os_close_from(0);
    if (cli_os_die_with(guard)) {
        while (true) {
            (void)pause();
        }
    }
    _exit(CLI_DONE);
}

/* Starts the leader of the group. The guard reaps all other children, so that the leader's number
 * stays its own. The command has not run yet, so it can still be put into the group. */
static pid_t start_leader(pid_t command)
{
    const pid_t guard = getpid();
    const pid_t pid = cli_os_fork_unseen();

    if (pid == 0) {
        lead(guard);
    }
    if (pid > 0 && (setpgid(pid, pid) != 0 || setpgid(command, pid) != 0)) {
        return -1; /* the leader dies with the guard */
    }
    return pid;
}

/* Reaps children, and reports to rql when the command stops or ends. */
static void look_at_children(struct guard *self)
{
    int status = 0;
    pid_t pid;

    while (cli_os_signals_take(self->signal_fd) != 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == self->command) {
            (void)send(CLI_GUARD_FD, &status, sizeof status, MSG_NOSIGNAL);
            self->command = WIFSTOPPED(status) ? pid : 0;
        }
    }
    self->has_children = pid == 0;
}

/* Watches until the channel is readable. After its orders rql sends nothing, so this is the end of
 * the channel. */
static void watch_until_rql_ends(struct guard *self)
{
    struct pollfd fds[] = {
        {.fd = CLI_GUARD_FD, .events = POLLIN},
        {.fd = self->signal_fd, .events = POLLIN},
    };

    while (fds[0].revents == 0) {
        look_at_children(self);
        (void)poll(fds, sizeof fds / sizeof fds[0], -1);
    }
}

/* Kills the group and the command. Their numbers cannot have been reused: the leader is never
 * reaped, and the command is not reaped while its number is set. After setsid() the command leads a
 * group of its own. */
static void kill_all(const struct guard *self)
{
    (void)kill(-self->leader, SIGKILL);
    if (self->command > 0) {
        (void)kill(-self->command, SIGKILL);
        (void)kill(self->command, SIGKILL);
    }
}

/* Returns whether no process is left in the group. Without a list of processes that is not
 * known: a lock that an agent holds would then be kept for ever. */
static bool is_all_gone(const struct guard *self)
{
    return !self->has_children &&
           (cli_os_group_is_empty(self->leader) || (self->keeps_lock && !cli_os_sees_processes()));
}

/* Waits until all processes have ended, or the locks have ended by themselves. */
static bool await_end(struct guard *self)
{
    struct pollfd fd = {.fd = self->signal_fd, .events = POLLIN};
    const int64_t end_ms = self->keeps_lock ? INT64_MAX : cli_after_ms(self->orders.longest_ttl_ms);

    while (cli_now_ms() < end_ms) {
        kill_all(self);
        look_at_children(self);
        if (is_all_gone(self)) {
            return true;
        }
        (void)poll(&fd, 1, PAUSE_MS);
    }
    return false;
}

/* ---- the release ---- */

/* Ends the guard after this time, by the default action of a signal, whatever the library does
 * then. */
static void end_after(int64_t ms)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    const struct timespec time = cli_timespec(ms);
    const struct itimerval timer = {
        .it_value = {.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000},
    };
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGALRM);
    (void)sigaction(SIGALRM, &plain, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Returns the next of the texts that follow the orders. */
static const char *take_text(char **at)
{
    const char *text = *at;

    *at += strlen(text) + 1;
    return text;
}

static void release(const struct guard *self)
{
    const struct orders *orders = &self->orders;
    rql_client *client = NULL;
    rql_options options;
    char *at = self->texts;

    rql_options_init(&options);
    options.client_names = false;
    options.local_start = false; /* a server that is gone has no lock to release */
    options.connect_timeout_ms = orders->connect_timeout_ms;
    options.io_timeout_ms = orders->io_timeout_ms;
    options.recovery_delay_ms = orders->recovery_delay_ms;
    options.tls_verify = orders->tls_verify;
    options.history = orders->history;
    for (size_t i = 0; i < N_OPTION_TEXTS; i++) {
        *text_of(&options, i) = take_text(&at);
    }
    end_after(orders->connect_timeout_ms + orders->io_timeout_ms);
    if (rql_client_new(&options, &client, NULL) != RQL_OK) {
        return;
    }
    for (size_t i = 0; i < orders->n_locks; i++) {
        const char *name = take_text(&at);

        /* A lock that cannot be released ends by its ttl. */
        (void)!rql_lock_release_of_killed(client, name, take_text(&at), NULL);
    }
    (void)rql_client_free(client); /* sends its part of the history */
}

void cli_guard_run(pid_t command, bool is_fresh)
{
    struct guard self = {.command = command, .keeps_lock = fcntl(CLI_GUARD_AGENT_FD, F_GETFD) >= 0};
    struct cli_guard_report report = {.command = command, .can_release = is_fresh};
    sigset_t set;
    bool releases;

    cli_os_name_process(CLI_GUARD_NAME);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    self.signal_fd = cli_os_signals(&set);
    self.leader = start_leader(command);
    report.group = self.leader;
    if (self.signal_fd < 0 || self.leader < 0 || !send_all(CLI_GUARD_FD, &report, sizeof report)) {
        _exit(CLI_FAULT);
    }
    if (is_fresh) {
        receive_orders(&self);
    }
    watch_until_rql_ends(&self);
    /* If the leader was killed before, other programs end processes of this group, too. */
    releases = cli_os_unseen_is_alive(self.leader) && self.texts;
    kill_all(&self);
    if ((releases || self.keeps_lock) && await_end(&self) && releases && self.orders.n_locks > 0) {
        release(&self);
    }
    _exit(CLI_DONE);
}
