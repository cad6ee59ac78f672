#include "format.h"
#include "held.h"
#include "messages.h"
#include "os.h"
#include "signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* elect: one of several hosts runs a command at a time, and another host follows if it cannot. It
 * is `run` without an end: after a loss of the lock it waits for the lock again. When its host is
 * drained, it gives the lock up, and waits for it again when the time of the drain is over. */

enum { PAUSE_MS = 1000 }; /* between two commands, if the first one ended sooner */

/* Returns whether to stand again: the lock was lost, or the command has ended and is to be started
 * again. A signal that was sent to end this program ends it. The exit code does not decide: that of
 * a lost lock can be the command's own. */
static bool stands_again(const struct cli_args *args, const struct cli_held *held)
{
    return held->signal == 0 && (held->is_cut_off || args->again);
}

/* The signals that end the program are unblocked meanwhile. One that it outlives only begins the
 * pause again. */
static void pause_until(int64_t until_ms)
{
    int64_t left_ms;

    while ((left_ms = until_ms - cli_now_ms()) > 0) {
        const struct timespec pause = cli_timespec(left_ms);

        (void)nanosleep(&pause, NULL);
    }
}

/* Returns when to stand again. A drain that asked for the lock is to find nothing held, also if no
 * other host waits. */
static int64_t next_turn_ms(const struct cli_args *args, struct cli_asked *asked, int64_t begun_ms)
{
    const int64_t soonest_ms = begun_ms + PAUSE_MS;
    char pause[CLI_DURATION_SIZE];
    int64_t until_ms;

    if (!cli_os_event_take(asked->fd)) {
        return soonest_ms;
    }
    until_ms = atomic_load(&asked->until_ms);
    if (until_ms > cli_now_ms()) {
        cli_say_nowait("%s: makes way for %s", args->name,
                       cli_format_duration(until_ms - cli_now_ms(), pause));
    }
    return until_ms > soonest_ms ? until_ms : soonest_ms;
}

static int run_terms(struct cli_session *self, struct cli_asked *asked)
{
    for (;;) {
        struct cli_held held = {.label = self->args->name, .asked = asked};
        int code = cli_acquire(self, &held);
        const int64_t begun_ms = cli_now_ms();

        if (held.is_missed) { /* the server was away for a moment: the next turn may be soon */
            pause_until(begun_ms + PAUSE_MS);
            continue;
        }
        if (!held.lock) {
            return code;
        }
        code = cli_run_held(self->args, &held);
        if (!stands_again(self->args, &held)) {
            return code;
        }
        cli_held_unblock(&held);
        pause_until(next_turn_ms(self->args, asked, begun_ms));
    }
}

static int elect(struct cli_session *self)
{
    struct cli_asked asked = {.fd = cli_os_event()};
    int code;

    if (asked.fd < 0) {
        cli_say("%s: no descriptor for the requests of rql drain", self->args->name);
        return CLI_FAULT;
    }
    /* They are for the command, and between two turns there is none. */
    cli_outlive(SIGUSR1);
    cli_outlive(SIGUSR2);
    code = run_terms(self, &asked);
    (void)close(asked.fd);
    return code;
}

static int wait_for_ever(struct cli_args *args)
{
    args->wait_ms = RQL_FOREVER;
    return CLI_DONE;
}

static const char *const elect_details[] = {cli_trace_details, NULL};

const struct cli_command cli_elect = {
    .name = "elect",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "NAME [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command on one of many hosts at a time",
    .examples = "  rql elect scheduler -- ./scheduler\n"
                "  rql elect scheduler --again --max-hold 1d -- ./scheduler\n",
    .notes =
        "Start it on each host. It waits for its turn, for ever, and runs COMMAND as rql run "
        "does, with the lock's token in RQL_TOKEN: the number of this term, larger than those "
        "of all terms before. If the lock is lost, COMMAND is ended, and rql waits for its "
        "next turn. It does the same when --max-hold is over, and when rql drain asks this host "
        "for the lock, but waits until "
        "the time of that drain is over before it stands again. It ends when COMMAND does, with "
        "its exit code, unless --again is given, and at SIGINT, SIGTERM and SIGHUP, which COMMAND "
        "gets, too. SIGUSR1 and SIGUSR2 are passed to COMMAND, and do nothing while rql waits.\n",
    .details = elect_details,
    .needs_name = true,
    .takes_command = true,
    .prepare = wait_for_ever,
    .run = elect,
};
