#include "guard.h"

#include "format.h"
#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAUSE_MS = 20, /* between two searches for processes whose end is not reported to the guard */
    STAT_SIZE = 1024,
    PATH_SIZE = 32,
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
    int signal_fd;     /* a signalfd for SIGCHLD */
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
    (void)prctl(PR_SET_NAME, "rql-group");
    cli_os_close_from(0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == guard) {
        while (true) {
            (void)pause();
        }
    }
    _exit(CLI_DONE);
}

/* Starts the leader of the group. A child without an exit signal is ignored by a wait without
 * __WCLONE, so the guard reaps all other children, and this one only on purpose. The command has
 * not run yet, so it can still be put into the group. */
static pid_t start_leader(pid_t command)
{
    const pid_t guard = getpid();
    const pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        lead(guard);
    }
    if (pid > 0 && (setpgid(pid, pid) != 0 || setpgid(command, pid) != 0)) {
        return -1; /* the leader dies with the guard */
    }
    return pid;
}

static bool is_leader_alive(const struct guard *self)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)self->leader, &info, WEXITED | WNOHANG | WNOWAIT | __WCLONE) == 0 &&
           info.si_pid == 0;
}

/* Reaps children, and reports to rql when the command stops or ends. */
static void look_at_children(struct guard *self)
{
    struct signalfd_siginfo info;
    int status = 0;
    pid_t pid;

    while (read(self->signal_fd, &info, sizeof info) > 0) {
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

/* ---- the members of the group ---- */

static const char *skip_fields(const char *at, int count)
{
    for (int i = 0; i < count; i++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return at;
}

/* Parses a line of /proc/PID/stat, see proc(5). A process whose first thread has ended looks like a
 * zombie while its other threads still run. */
static bool is_alive_in(const char *line, pid_t group)
{
    const char *name_end = strrchr(line, ')'); /* the name of a program may contain blanks */
    const char *state = name_end ? skip_fields(name_end, 1) : "";
    const bool is_zombie = *state == 'Z' || *state == 'X';

    return strtol(skip_fields(state, 2), NULL, 10) == (long)group &&
           (!is_zombie || strtol(skip_fields(state, 17), NULL, 10) > 1);
}

/* Returns whether a process is in the group. A process that cannot be read counts as a member,
 * unless it has just ended. */
static bool is_member(const char *number, pid_t group)
{
    char path[PATH_SIZE];
    char line[STAT_SIZE];
    FILE *file;
    size_t length;

    (void)snprintf(path, sizeof path, "/proc/%.10s/stat", number);
    file = fopen(path, "re");
    if (!file) {
        return errno != ENOENT;
    }
    length = fread(line, 1, sizeof line - 1, file); /* the name may contain a line feed, too */
    (void)fclose(file);
    line[length] = '\0';
    return is_alive_in(line, group);
}

/* Returns whether /proc is there and numbers processes as this process does. */
static bool can_see_processes(void)
{
    char link[PATH_SIZE] = "";

    return readlink("/proc/self", link, sizeof link - 1) > 0 &&
           strtol(link, NULL, 10) == (long)getpid();
}

static bool is_group_empty(pid_t group)
{
    DIR *folder = can_see_processes() ? opendir("/proc") : NULL;
    const struct dirent *entry;
    bool is_empty = folder != NULL;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread */
    while (is_empty && (entry = readdir(folder)) != NULL) {
        const long pid = strtol(entry->d_name, NULL, 10);

        is_empty = pid <= 0 || pid == (long)group || !is_member(entry->d_name, group);
    }
    if (folder) {
        (void)closedir(folder);
    }
    return is_empty;
}

/* Returns whether no process is left in the group. Without /proc that is not known: a lock that an
 * agent holds would then be kept for ever. */
static bool is_all_gone(const struct guard *self)
{
    return !self->has_children &&
           (is_group_empty(self->leader) || (self->keeps_lock && !can_see_processes()));
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

    (void)prctl(PR_SET_NAME, CLI_GUARD_NAME);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    self.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
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
    releases = is_leader_alive(&self) && self.texts;
    kill_all(&self);
    if ((releases || self.keeps_lock) && await_end(&self) && releases && self.orders.n_locks > 0) {
        release(&self);
    }
    _exit(CLI_DONE);
}
