#include "agent/path.h"
#include "child.h"
#include "format.h"
#include "messages.h"
#include "os.h"
#include "signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* run, series, lock: the commands that acquire, and the watch over a command and its lock.
 *
 * Signals are forwarded to the command. When the lock is lost, or in doubt and about to end, or is
 * to make way, the command gets SIGTERM, and after a grace period SIGKILL. If the end can be
 * foreseen, both come before the deadline. */

/* A lock in doubt is checked every CHECK_MS. Otherwise the watch sleeps until an event or a
 * deadline. */
enum { CHECK_MS = 20, LONGEST_SLEEP_MS = 60000 };

struct watch {
    struct cli_held *held; /* borrowed */
    struct cli_child child;
    int64_t grace_ms;    /* from SIGTERM to SIGKILL */
    bool renews;         /* the lock is renewed until hold_end_ms */
    int64_t hold_end_ms; /* the cli_now_ms() by which the command must have ended, or INT64_MAX */
    int signal_fd;
    int lost_fd;
    int asked_fd;    /* readable when the lock is asked for, or -1 */
    int terminal_fd; /* the controlling terminal, or -1 */
    bool is_given;   /* the command has the terminal */
    bool is_ending;  /* SIGTERM was sent */
    bool was_lost;   /* SIGTERM was sent because the lock was lost: only the grace remains */
    bool is_killed;  /* SIGKILL was sent */
    bool is_refused; /* the command cannot be sent a signal */
    bool is_without; /* the command has also outlived its lock */
    int64_t kill_at_ms;
};

/* ---- the terminal ----
 *
 * The command is in a process group of its own and starts in the background of the terminal, where
 * it can write but not read. When it needs more, the kernel stops it (SIGTTIN, SIGTTOU), and rql
 * then gives it the terminal. Giving it from the start would take the keyboard from `rql run a -- b
 * | less`, whose pager is in our group. Sharing our group would leave no group to kill when the
 * lock is lost. */

/* Gives the terminal to the command. Only the foreground can do that: in the background the
 * terminal belongs to another group. */
static bool give_terminal(struct watch *self)
{
    if (self->terminal_fd < 0 || tcgetpgrp(self->terminal_fd) != getpgrp()) {
        return false;
    }
    self->is_given = tcsetpgrp(self->terminal_fd, self->child.group) == 0;
    return self->is_given;
}

/* Takes the terminal back. SIGTTOU must be blocked. */
static void take_terminal(struct watch *self)
{
    if (self->is_given) {
        (void)tcsetpgrp(self->terminal_fd, getpgrp());
    }
    self->is_given = false;
}

/* Takes the terminal from a command that has ended. If ^C ended it, only its group got the signal,
 * and ours gets it now: a shell in our group is to end its script. */
static void take_terminal_at_end(struct watch *self)
{
    if (self->is_given && cli_child_signal_of_end(&self->child) == SIGINT) {
        self->held->signal = SIGINT;
        (void)kill(0, SIGINT); /* this program has it blocked */
    }
    take_terminal(self);
}

/* ---- the watch ---- */

/* Blocks the signals that are to be forwarded and returns a descriptor that reports them, or -1. */
static int open_signals(void)
{
    /* The signals that a terminal, a shell or a supervisor sends to a job. */
    static const int forwarded[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                                    SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t set = cli_signals(forwarded, sizeof forwarded / sizeof forwarded[0]);

    (void)sigaddset(&set, SIGTTOU);         /* or taking the terminal back would stop us */
    (void)sigaction(SIGCHLD, &plain, NULL); /* if it is ignored, there is no status to wait for */
    (void)sigaddset(&set, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)sigdelset(&set, SIGTTOU);
    return cli_os_signals(&set);
}

/* Returns the time until the lock ends, or may not be held any longer. */
static int64_t left_ms(const struct watch *self)
{
    const int64_t remaining_ms = cli_held_remaining_ms(self->held);
    const int64_t hold_ms = self->hold_end_ms - cli_now_ms();

    return hold_ms < remaining_ms ? hold_ms : remaining_ms;
}

/* Returns whether the lock is still renewed. The last renewal lasts until hold_end_ms, no
 * longer. */
static bool is_renewed(const struct watch *self)
{
    return self->renews && cli_now_ms() < self->hold_end_ms - self->grace_ms;
}

/* Signals the command. A refusal is reported once, because nothing else shows that the command does
 * not get the signals. */
static void signal_child(struct watch *self, int signal_number)
{
    if (!cli_child_signal(&self->child, signal_number) && !self->is_refused) {
        self->is_refused = true;
        cli_say_nowait("%s: the command has other rights than rql, which may not signal it: it "
                       "runs until it ends by itself",
                       self->held->label);
    }
}

/* Sends SIGTERM, and SIGCONT as well: a stopped command could not react. */
static void terminate(struct watch *self, const char *why)
{
    cli_say_nowait("%s: %s; ending the command", self->held->label, why);
    self->is_ending = true;
    self->kill_at_ms = cli_now_ms() + self->grace_ms;
    signal_child(self, SIGTERM);
    signal_child(self, SIGCONT);
}

/* Returns the time left until SIGKILL. If the lock is renewed meanwhile, it is held for longer than
 * it is now. */
static int64_t grace_left_ms(const struct watch *self)
{
    const int64_t grace_ms = self->kill_at_ms - cli_now_ms();
    const int64_t lock_ms = self->was_lost ? grace_ms : left_ms(self);

    return lock_ms < grace_ms ? lock_ms : grace_ms;
}

/* Reports a command that runs without its lock. This happens only if it cannot be signalled. */
static void check_without(struct watch *self)
{
    if (self->is_killed && self->is_refused && !self->is_without &&
        (self->was_lost || left_ms(self) <= 0)) {
        self->is_without = true;
        cli_say_nowait("%s: the lock has ended; the command runs on without it", self->held->label);
    }
}

static bool is_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, 0) > 0;
}

/* Returns whether the lock ends because of --max-hold. An agent counts that from the grant, which
 * this program learns of later, and renews the lock until then less a margin: together that is less
 * than a tenth of the TTL. */
static bool is_held_to_limit(const struct watch *self)
{
    const int64_t early_ms =
        self->held->agent_lock ? CHECK_MS + cli_held_ttl_ms(self->held) / 10 : 0;

    return self->hold_end_ms - cli_now_ms() <= self->grace_ms + early_ms;
}

/* Returns why the lock has ended or is about to: as its user has asked, or against that. An agent
 * closes the connection at any loss, and at its own end. */
static const char *why_it_ends(const struct watch *self, rql_lock_state state)
{
    return is_held_to_limit(self)                             ? "its --max-hold is nearly over"
           : state == RQL_GONE                                ? "the lock is lost"
           : !self->renews && left_ms(self) <= self->grace_ms ? "its ttl is nearly over"
           : cli_held_is_cut(self->held) ? "the lock is lost, or the agent has ended"
                                         : "the lock cannot be kept";
}

/* Ends the command when the lock is lost, about to end, or asked for. The end is near when no
 * renewal can be expected: a healthy lock is renewed long before. The decision is final, because
 * the command may have begun to clean up. */
static void check_lock(struct watch *self)
{
    const rql_lock_state state = cli_held_state(self->held);

    if (!self->is_ending) {
        self->was_lost = state == RQL_GONE;
        if (self->was_lost || cli_held_is_cut(self->held) ||
            (left_ms(self) <= self->grace_ms && (!is_renewed(self) || state == RQL_DOUBTFUL))) {
            terminate(self, why_it_ends(self, state));
        } else if (is_readable(self->asked_fd)) {
            terminate(self, "this host is drained");
        }
    }
    if (self->is_ending && !self->is_killed && grace_left_ms(self) <= 0) {
        self->is_killed = true;
        signal_child(self, SIGKILL);
    }
    check_without(self);
}

/* Says for how long a lock lasts whose holder is stopped. The library's thread stops, too, so the
 * lock is not renewed until we are continued. An agent renews it all the same. */
static void say_suspended(const struct watch *self)
{
    char left[CLI_DURATION_SIZE];

    if (self->held->agent_lock) {
        cli_say_nowait("%s: stopped; the agent keeps the lock meanwhile", self->held->label);
    } else {
        cli_say_nowait("%s: stopped; the lock ends in %s unless continued", self->held->label,
                       cli_format_duration(cli_held_remaining_ms(self->held), left));
    }
}

/* Returns whether this program has been stopped and continued. */
static bool was_continued(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

/* Suspends this program with its command. The lock is checked before the command may go on. It
 * cannot be suspended if the signal is ignored, or if no shell is there to continue it: then a
 * command that waits for the terminal stays stopped, and any other one goes on. */
static void suspend(struct watch *self, bool wants_terminal)
{
    const bool was_given = self->is_given;
    bool was_stopped;
    sigset_t stop;

    say_suspended(self);
    take_terminal(self);
    /* Stops this program's whole group as ^Z does, so that the shell notices. The signal is
     * blocked, so it takes effect at once when it is unblocked. */
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)kill(0, SIGTSTP);
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
    was_stopped = was_continued();
    if (!was_stopped) {
        cli_say_nowait("%s: not stopped: no shell could continue it; %s", self->held->label,
                       wants_terminal ? "the command waits for the terminal" : "it goes on");
    }
    check_lock(self);
    if (was_given) {
        (void)give_terminal(self);
    }
    if (was_stopped || !wants_terminal) {
        signal_child(self, SIGCONT);
    }
}

/* Handles a stopped command. SIGSTOP was sent by a user to the command alone: it keeps its lock. */
static void on_stopped(struct watch *self, int signal_number)
{
    const bool wants_terminal = signal_number == SIGTTIN || signal_number == SIGTTOU;

    if (self->terminal_fd < 0 || signal_number == SIGSTOP || self->is_ending) {
        return;
    }
    if (wants_terminal && give_terminal(self)) {
        signal_child(self, SIGCONT);
    } else {
        suspend(self, wants_terminal);
    }
}

static void read_child(struct watch *self)
{
    int stop;

    while ((stop = cli_child_read_stop(&self->child)) != 0) {
        on_stopped(self, stop);
    }
}

/* Reads all pending signals. A SIGCONT may end a stop of any length, so the lock is checked before
 * the command goes on. */
static void read_signals(struct watch *self)
{
    int number;

    while ((number = cli_os_signals_take(self->signal_fd)) != 0) {
        if (number == SIGCONT) {
            check_lock(self);
        }
        if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
            self->held->signal = number;
        }
        if (number != SIGCHLD) {
            signal_child(self, number);
        }
    }
}

/* Returns the time until the next check. No descriptor reports doubt, so the lock is checked again
 * when it could come near its end. */
static int next_check_ms(const struct watch *self)
{
    const int64_t grace_ms = self->grace_ms;
    const int64_t next_ms = cli_held_next_ms(self->held) - cli_now_ms();
    int64_t wait_ms = left_ms(self) - grace_ms;
    int64_t renewed_ms;

    if (self->is_killed && (!self->is_refused || self->is_without)) {
        return -1;
    }
    if (self->is_killed) {
        wait_ms = left_ms(self);
    } else if (self->is_ending) {
        wait_ms = grace_left_ms(self);
    } else if (is_renewed(self)) {
        renewed_ms = self->hold_end_ms - grace_ms - cli_now_ms();
        wait_ms = wait_ms > CHECK_MS ? wait_ms : CHECK_MS;
        wait_ms = wait_ms < renewed_ms ? wait_ms : renewed_ms;
    }
    wait_ms = wait_ms < next_ms ? wait_ms : next_ms;
    wait_ms = wait_ms > 0 ? wait_ms : 0;
    return (int)(wait_ms < LONGEST_SLEEP_MS ? wait_ms : LONGEST_SLEEP_MS);
}

static void watch_until_end(struct watch *self)
{
    struct pollfd fds[] = {
        {.fd = self->signal_fd, .events = POLLIN},
        {.fd = self->lost_fd, .events = POLLIN},
        {.events = POLLIN},
        {.events = POLLIN},
    };

    while (!self->child.has_ended) {
        /* What is known is not polled for again: the descriptors stay readable, and poll() would
         * return at once. */
        fds[1].fd =
            self->was_lost || self->is_killed || cli_held_is_cut(self->held) ? -1 : self->lost_fd;
        fds[2].fd = self->child.guard_fd;
        fds[3].fd = self->is_ending ? -1 : self->asked_fd;
        (void)poll(fds, sizeof fds / sizeof fds[0], next_check_ms(self));
        read_signals(self);
        read_child(self);
        if (!self->child.has_ended) {
            check_lock(self);
        }
    }
}

/* Returns the exit code of the command. If a signal to rql ended the command, rql ends by it as
 * well: a shell stops its script at ^C, and systemd takes SIGTERM for a normal end. */
static int code_of_end(const struct watch *self)
{
    const int signal_number = cli_child_signal_of_end(&self->child);

    return signal_number > 0 && signal_number == self->held->signal ? -signal_number
                                                                    : cli_child_code(&self->child);
}

/* Starts the command and watches it until it has ended. Returns its exit code, or minus the signal
 * that is to end this program. */
static int run_command(struct watch *self, const struct cli_args *args)
{
    rql_error error = {.status = RQL_OK};
    int code;

    if (self->signal_fd < 0) {
        cli_say("%s: no descriptor for signals", self->held->label);
        return CLI_FAULT;
    }
    if (cli_held_lost_fd(self->held, &self->lost_fd, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    code = cli_child_start(&self->child, args, self->held);
    if (code != CLI_DONE) {
        return code;
    }
    /* -1 without a controlling terminal, as under cron: then there is no terminal to give, and a
     * stopped command is left alone. */
    self->terminal_fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    self->held->frees = false;
    watch_until_end(self);
    take_terminal_at_end(self);
    cli_close_p(&self->terminal_fd);
    if (self->is_ending) {
        signal_child(self, SIGKILL); /* for processes that it left in its group */
    }
    return code_of_end(self);
}

/* ---- the commands ---- */

/* Returns what a trace says of the end of a hold. */
static const char *outcome_of(rql_status released)
{
    return released == RQL_OK ? "released" : released == RQL_NOT_HELD ? "lost" : "unknown";
}

/* Runs the command while this is held, then releases it. If the lock had ended before, it was lost
 * without a report in time. A release without a reply is no loss: the lock ends by its ttl, and the
 * command ran under it. */
int cli_run_held(const struct cli_args *args, struct cli_held *held)
{
    const bool has_grace = args->kill_after_ms != CLI_UNSET;
    const bool is_limited = args->max_hold_ms != CLI_UNSET && args->max_hold_ms != RQL_FOREVER;
    struct watch watch = {
        .held = held,
        .child = CLI_CHILD_NONE,
        .grace_ms = has_grace ? args->kill_after_ms : cli_held_ttl_ms(held) / 3,
        .renews = args->options.auto_extend,
        .hold_end_ms = is_limited ? cli_after_ms(args->max_hold_ms) : INT64_MAX,
        .signal_fd = open_signals(),
        .lost_fd = -1,
        .asked_fd = held->asked ? held->asked->fd : -1,
        .terminal_fd = -1,
    };
    rql_error error = {.status = RQL_OK};
    const int code = run_command(&watch, args);
    rql_status released;

    held->frees = held->frees || (args->unless_failed && code != CLI_DONE);
    released = cli_held_release(held, &error);
    cli_child_fini(&watch.child); /* until here its guard releases if this program is killed */
    cli_close_p(&watch.signal_fd);
    cli_trace_end_hold(&held->trace, outcome_of(released), &error);
    if (released < 0) {
        (void)cli_fault(&error);
    } else if (released == RQL_NOT_HELD && !watch.is_ending) {
        cli_say("%s: the lock had ended before the command did", held->label);
    }
    held->is_cut_off = watch.is_ending || released == RQL_NOT_HELD;
    return held->is_cut_off ? CLI_LOST : code;
}

static int run(struct cli_session *self)
{
    const struct cli_args *args = self->args;
    struct cli_held held = {.label = args->name};
    const int code = args->agent ? cli_acquire_from_agent(args, &held) : cli_acquire(self, &held);

    return held.lock || held.agent_lock ? cli_run_held(args, &held) : code;
}

/* Returns whether a number of tries decides when the wait is over. --wait overrides it. */
static bool is_limited_by_tries(const struct cli_args *args)
{
    return args->options.retry_count != RQL_FOREVER && args->wait_ms == CLI_UNSET &&
           !args->fail_fast;
}

/* Returns a flag or option that an agent does not take, or NULL. The agent's server is its own
 * business; RQL_URL is there for what COMMAND starts. */
static const char *find_other(const struct cli_args *args)
{
    const rql_options *options = &args->options;
    const bool has_url = options->url != cli_default_url &&
                         options->url != secure_getenv("RQL_URL"); /* as in cli_url_check() */

    return has_url                                  ? "--url"
           : args->hold_at_least_ms > 0             ? "--hold-at-least"
           : args->max_waiters != CLI_UNSET         ? "--max-waiters"
           : args->priority                         ? "--priority"
           : args->head_start_ms != CLI_UNSET       ? "--head-start"
           : options->replicas > 0                  ? "--replicas"
           : options->fsync                         ? "--fsync"
           : options->access_strategy != RQL_QUEUED ? "--access-strategy"
           : is_limited_by_tries(args)
               ? "--retry-count, which RQL_PROFILE=gem sets, too; give --wait in its place"
               : NULL;
}

/* Finds out whether an agent is to hold the lock, and which one. */
static int prepare_run(struct cli_args *args)
{
    const char *wanted = getenv("RQL_AGENT"); /* NOLINT(concurrency-mt-unsafe) */
    const char *other = find_other(args);

    if (!args->agent && wanted && *wanted && strcmp(wanted, "0") != 0) {
        args->agent = strcmp(wanted, "1") == 0 ? "" : wanted;
    }
    if (args->agent && *args->agent != '\0' && !strchr(args->agent, '/')) {
        return cli_misused(&cli_run, "the socket of an agent is a path with a slash, not ",
                           args->agent);
    }
    if (args->agent && *args->agent == '\0' && agent_check_folder() != CLI_DONE) {
        return CLI_USAGE;
    }
    if (args->agent && other) {
        return cli_misused(&cli_run, "an agent does not take ", other);
    }
    if (args->agent && (args->options.ttl_ms < 1 || args->options.ttl_ms > RQL_TTL_MAX_MS)) {
        return cli_misused(&cli_run, "it must be 1ms to 30d: ", "--ttl");
    }
    return CLI_DONE;
}

/* Returns "a, b, c", malloc'd: a series has no other name in messages. */
static char *join_names(const struct cli_args *args)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = cli_must(open_memstream(&text, &size));

    for (size_t i = 0; i < args->n_names; i++) {
        (void)fprintf(out, "%s%s", i > 0 ? ", " : "", args->names[i]);
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

static int run_series(struct cli_session *self)
{
    CLI_AUTO(cli_free) char *label = join_names(self->args);
    struct cli_held held = {.label = label};
    const int code = cli_acquire(self, &held);

    return held.series ? cli_run_held(self->args, &held) : code;
}

/* Acquires a lock that outlives this program: it is neither renewed nor released. */
static int lock(struct cli_session *self)
{
    CLI_AUTO(rql_lock_forget) rql_lock *lock = NULL;
    CLI_AUTO(cli_free) char *slots_text = NULL;
    struct cli_held held = {.label = self->args->name};
    const int code = cli_acquire(self, &held);
    struct out *out = &self->out;
    size_t n_slots = 0;
    const int *slots;
    rql_lock_facts facts;

    lock = held.lock;
    if (!lock) {
        return code;
    }
    rql_lock_describe(lock, &facts);
    slots = rql_lock_slots(lock, &n_slots);
    slots_text = cli_join_slots(slots, n_slots);
    out_begin(out, NULL);
    out_text(out, "NAME", "name", facts.name);
    out_text(out, NULL, "key", facts.key);
    out_number(out, "TOKEN", "token", OUT_INT, rql_lock_token(lock));
    out_text(out, "SECRET", "secret", rql_lock_secret(lock));
    out_text(out, slots ? "SLOTS" : NULL, NULL, slots_text);
    out_numbers(out, NULL, "slots", slots, n_slots);
    out_text(out, NULL, "acquirer_id", facts.acquirer_id);
    out_text(out, NULL, "host_id", facts.host_id);
    out_number(out, NULL, "acquired_at_us", OUT_INT, facts.acquired_at_us);
    out_number(out, NULL, "ttl_ms", OUT_INT, facts.ttl_ms);
    out_number(out, "LEFT", "remaining_ms", OUT_MS, rql_lock_remaining_ms(lock));
    out_number(out, NULL, "waited_us", OUT_INT, facts.waited_us);
    out_number(out, NULL, "tries", OUT_INT, facts.tries);
    out_bool(out, "handed_over", facts.handed_over);
    out_end(out);
    return CLI_DONE;
}

static const char shares[] =
    "With --shared any number of commands hold the lock at the same time, as readers. With "
    "--permits up to N commands hold it at the same time, or fewer if some of them take more than "
    "one unit. All commands should give the same N, because the server compares the units in use "
    "with the N of the command that asks. A command with neither flag holds the lock alone, as a "
    "writer. All commands wait in one queue, so readers that keep coming do not starve a writer.\n"
    "With --slots each unit has a number from 0 to N - 1 that no other command has before this "
    "one has ended: the number of a device, a port or a licence.\n";

static const char places[] =
    "With --max-waiters N a command that finds N requests in the queue is not run, and the exit "
    "code is 1, or that of -E. With --priority a command waits as if it had come earlier: high by "
    "a minute, urgent by ten. So it is in front of all that came within this time, and commands "
    "that come later than that after it do not overtake it. --head-start sets another time, up to "
    "1h.\n";

/* Of run. Those after the first one are also of series. */
static const char *const run_details[] = {
    shares,
    places,

    "COMMAND runs without a shell, finds RQL_LOCK, RQL_TOKEN and RQL_URL in its environment, and "
    "gets rql's signals; one that ends it ends rql, too. With --slots RQL_SLOTS has its numbers, "
    "such as 0,3, and each {slot} in its words is the first of them. If the lock is lost, COMMAND "
    "gets SIGTERM, then SIGKILL, and the exit code is 75; otherwise it is COMMAND's. If rql is "
    "killed, so is COMMAND, and the lock is free.",

    "An rql inside COMMAND that asks for a lock that COMMAND runs under is refused at once, "
    "because the two would wait for each other.",

    "COMMAND is in a process group of its own, which it does not lead, so it may call "
    "setsid(2). When the lock is lost, this group gets SIGTERM and then SIGKILL, and so does "
    "COMMAND if it has left the group. Other processes that have left the group are not ended.",

    "The parent of COMMAND is the process rql-guard. If rql is killed, rql-guard kills COMMAND "
    "and its group, waits until all descendants of COMMAND have ended, and then releases the "
    "lock. It does not kill descendants that have left the group. It cannot kill processes of "
    "other users. It waits for both, but no longer than the ttl: the lock has ended by then. "
    "The release takes no longer than connect and io timeout. Without /proc the guard kills, "
    "but does not release.",

    "The guard does not see what another service does for COMMAND, such as a container or a "
    "unit of systemd. If rql and rql-guard are both killed, the kernel kills COMMAND, but not "
    "what COMMAND has started.",

    "With --agent, or with RQL_AGENT=1 in the environment, the agent of this host (rql-agent(7)) "
    "holds the lock; --agent=SOCKET, or RQL_AGENT=SOCKET, names another one than this user's. The "
    "lock is then free as soon as rql, rql-guard, COMMAND and all that COMMAND has started have "
    "ended, even if all of them were killed at once: they have the connection to the agent. What "
    "has closed it does not count once rql-guard has ended. No server is needed but the agent's, "
    "RQL_URL stays as it is, and no progress is shown.",

    "A COMMAND with other rights than rql, such as sudo(8), cannot be signalled. rql says so, "
    "and renews the lock until COMMAND ends. With --max-hold or --no-auto-extend the lock ends "
    "at its limit although COMMAND runs on. rql says so, waits for COMMAND, and exits with 75. "
    "If a shell is the COMMAND and starts sudo(8), rql ends the shell alone.",

    cli_trace_details,
    NULL,
};

const struct cli_command cli_run = {
    .name = "run",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "NAME [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command under a lock",
    .examples = "  rql run nightly -- ./backup.sh                    waits for its turn\n"
                "  rql run nightly --try -E 0 -- ./backup.sh         skips it if it runs already\n"
                "  rql run gpu --permits 8 --slots -c 'CUDA_VISIBLE_DEVICES=$RQL_SLOTS ./train'\n",
    .notes = "COMMAND finds RQL_LOCK, RQL_TOKEN and RQL_SLOTS. A lost lock ends it: code 75.\n",
    .details = run_details,
    .needs_name = true,
    .takes_command = true,
    .prepare = prepare_run,
    .run = run,
};

const struct cli_command cli_series = {
    .name = "series",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "NAME... [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command under several locks: all or none",
    .examples = "  rql series disk net -- ./migrate.sh\n",
    .notes = "As rql run, but for up to 64 locks at once. While a series waits it holds none of "
             "them, so it cannot deadlock with another series, in whatever order their names are "
             "given. The command finds the names in RQL_LOCK and the tokens in RQL_TOKEN, one on "
             "each line, in the given order.\n"
             "A free lock can be reserved for the series at the head of its queue, for 2 s at "
             "first and for up to 60 s later. An rql under rql run or rql series already holds a "
             "lock, and passes the series at once.\n"
             "In a cluster all names must be in one partition, as names with the same {tag} are. "
             "With --sorted they need not be: then a series holds the locks that it has while it "
             "waits for the next, and cannot deadlock with other sorted series.\n"
             "With --gem a series also holds what it has while it waits, but two series in "
             "opposite orders wait for each other. The TTL of each lock grows with the number of "
             "locks behind it. If a series is killed, its locks stay until that TTL is over.\n",
    .details = run_details + 1,
    .needs_name = true,
    .takes_names = true,
    .takes_command = true,
    .run = run_series,
};

static const char *const lock_details[] = {shares, places, NULL};

const struct cli_command cli_lock = {
    .name = "lock",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "NAME [flags]",
    .summary = "Take a lock and leave it to its TTL",
    .notes =
        "Prints the token, and the secret that rql unlock NAME --secret accepts. The lock is not "
        "renewed: it ends after its TTL. With --json a lock that was not acquired is null.\n",
    .details = lock_details,
    .needs_name = true,
    .run = lock,
};
