#include "child.h"
#include "format.h"
#include "held.h"
#include "messages.h"
#include "release.h"
#include "watch.h"

#include <stdio.h>
#include <string.h>

/* run, series, lock: the commands that acquire. */

/* Runs the command from its start to its end. Returns how it ended. */
static int run_command(const struct cli_args *args, struct cli_watch_rules *rules, bool *lost_out)
{
    __attribute__((cleanup(cli_environment_fini_p))) struct cli_environment environment;
    __attribute__((cleanup(cli_close_p))) int signal_fd = cli_watch_signals();
    struct cli_child child;
    int code;

    cli_environment_init(&environment, rules->held, args->options.url);
    if (signal_fd < 0) {
        cli_say("%s: no descriptor for signals", rules->held->label);
        return CLI_FAULT;
    }
    rules->signal_fd = signal_fd;
    code = cli_child_start(&child, args->command, environment.items, &rules->held->mask);
    if (code == CLI_DONE) {
        code = cli_watch(rules, &child, lost_out);
        cli_child_fini(&child);
        code = code == CLI_DONE ? cli_child_code(&child) : code;
    }
    return code;
}

/* Runs the command while this is held, then releases it. A lock that had ended before is a loss
 * that nobody could report in time. A release without a reply is none: the lock ends by its ttl,
 * the command ran under it. */
static int run_held(const struct cli_args *args, struct cli_held *held)
{
    const bool has_grace = args->kill_after_ms != CLI_UNSET;
    const bool is_limited = args->max_hold_ms != CLI_UNSET && args->max_hold_ms != RQL_FOREVER;
    struct cli_watch_rules rules = {
        .held = held,
        .grace_ms = has_grace ? args->kill_after_ms : cli_held_ttl_ms(held) / 3,
        .is_renewed = args->auto_extend,
        .hold_end_ms = is_limited ? cli_after_ms(args->max_hold_ms) : INT64_MAX,
    };
    rql_error error = {.status = RQL_OK};
    bool was_ended = false;
    const int code = run_command(args, &rules, &was_ended);
    const rql_status released = cli_held_release(held, &error);

    if (released < 0) {
        (void)cli_fault(&error);
    } else if (released == RQL_NOT_HELD && !was_ended) {
        cli_say("%s: the lock had ended before the command did", held->label);
    }
    return was_ended || released == RQL_NOT_HELD ? CLI_LOST : code;
}

static int run(struct cli_session *self)
{
    struct cli_held held = {.label = self->args->name};
    const int code = cli_acquire(self, &held);

    return held.lock ? run_held(self->args, &held) : code;
}

/* "a, b, c", malloc'd: a series has no other name in messages. */
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

    return held.series ? run_held(self->args, &held) : code;
}

/* The lock outlives this program: it is neither renewed nor released. */
static int lock(struct cli_session *self)
{
    CLI_AUTO(rql_lock_forget) rql_lock *lock = NULL;
    struct cli_held held = {.label = self->args->name};
    const int code = cli_acquire(self, &held);
    struct out *out = &self->out;
    rql_lock_facts facts;

    lock = held.lock;
    if (!lock) {
        return code;
    }
    facts = rql_lock_describe(lock);
    out_begin(out, NULL);
    out_text(out, "NAME", "name", facts.name);
    out_text(out, NULL, "lock_key", facts.lock_key);
    out_number(out, "TOKEN", "token", OUT_INT, rql_lock_token(lock));
    out_text(out, "SECRET", "secret", rql_lock_secret(lock));
    out_text(out, NULL, "acq_id", facts.acq_id);
    out_text(out, NULL, "hst_id", facts.hst_id);
    out_number(out, NULL, "ts_us", OUT_INT, facts.ts_us);
    out_number(out, NULL, "ttl_ms", OUT_INT, facts.ttl_ms);
    out_number(out, "LEFT", "remaining_ms", OUT_MS, rql_lock_remaining_ms(lock));
    out_number(out, NULL, "waited_us", OUT_INT, facts.waited_us);
    out_number(out, NULL, "tries", OUT_INT, facts.tries);
    out_bool(out, "handed_over", facts.handed_over);
    out_end(out);
    return CLI_DONE;
}

const struct cli_command cli_run = {
    .name = "run",
    .usage = "NAME [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command under a lock",
    .examples = "  rql run nightly -- ./backup.sh                    waits for its turn\n"
                "  rql run nightly --try -E 0 -- ./backup.sh         or leaves it to who is at it\n"
                "  rql run deploy --wait 5m --ttl 30s -- make deploy\n",
    .notes = "COMMAND runs without a shell, finds RQL_LOCK, RQL_TOKEN and RQL_URL, and gets\n"
             "the signals that rql gets. When the lock is lost it gets SIGTERM, then SIGKILL,\n"
             "and the exit code is 75; otherwise it is COMMAND's own.\n",
    .needs_name = true,
    .takes_command = true,
    .run = run,
};

const struct cli_command cli_series = {
    .name = "series",
    .usage = "NAME... [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command under several locks: all or none",
    .examples = "  rql series disk net -- ./migrate.sh\n",
    .notes =
        "As rql run, but for up to 64 locks at once. While it waits it holds none of them, and it\n"
        "cannot deadlock with another series, in whatever order their names are given. The "
        "command\n"
        "finds names in RQL_LOCK and tokens in RQL_TOKEN, one a line, in the given order.\n"
        "A free lock is kept for the series that is first in line, from others that wait: for 2 s\n"
        "at most, and twice as long each time that one of them was let past, up to 60 s. An rql\n"
        "under rql run or rql series holds a lock already, and is let past at once.\n"
        "With --gem a series holds what it has got so far while it waits for the next, and two in\n"
        "opposite orders wait for each other; the ttl of each lock grows with those that follow.\n"
        "What it has got when it is killed is held until that ttl is over.\n",
    .needs_name = true,
    .takes_names = true,
    .takes_command = true,
    .run = run_series,
};

const struct cli_command cli_lock = {
    .name = "lock",
    .usage = "NAME [flags]",
    .summary = "Take a lock and leave it to its ttl",
    .notes =
        "Prints the token, and the secret that `rql unlock NAME --secret` accepts. Nobody renews\n"
        "the lock: it ends after its ttl. Waits for ever unless told otherwise. Prints null with\n"
        "--json when it was not acquired.\n",
    .needs_name = true,
    .run = lock,
};
