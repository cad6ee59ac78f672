#include "child.h"
#include "output.h"
#include "run.h"
#include "scope.h"
#include "text.h"
#include "watch.h"

const struct cli_flag cli_run_flags[] = {
    {"ttl", "DURATION", "life of the lock between renewals; default 5s", CLI_FIELD(ttl_ms),
     CLI_DURATION, 0},
    {"wait", "LIMIT", "give up after this long; default forever", CLI_FIELD(wait_ms), CLI_LIMIT,
     'w'},
    {"try", NULL, "do not wait at all", CLI_FIELD(fail_fast), CLI_ON, 'n'},
    {"auto-extend", NULL, NULL, CLI_FIELD(auto_extend), CLI_ON, 0},
    {"no-auto-extend", NULL, "do not renew: end it before the ttl ends", CLI_FIELD(auto_extend),
     CLI_OFF, 0},
    {"max-hold", "LIMIT", "end it and release by then; default forever", CLI_FIELD(max_hold_ms),
     CLI_LIMIT, 0},
    {"kill-after", "DURATION", "from SIGTERM to SIGKILL; default ttl / 3", CLI_FIELD(kill_after_ms),
     CLI_DURATION, 'k'},
    {"meta", "NAME=VALUE", "keep this in the lock; may be repeated", 0, CLI_META, 'm'},
    {"conflict-exit-code", "CODE", "exit code when not acquired; default 1",
     CLI_FIELD(conflict_exit_code), CLI_CODE, 'E'},
    CLI_LOG_FLAG,
    {.name = NULL},
};

static int64_t hold_end(const struct cli_args *args)
{
    const bool is_limited = args->max_hold_ms != CLI_UNSET && args->max_hold_ms != RQL_FOREVER;

    return is_limited ? cli_after_ms(args->max_hold_ms) : INT64_MAX;
}

static struct cli_watch_rules make_rules(const struct cli_args *args, const struct cli_held *held)
{
    const bool is_told = args->kill_after_ms != CLI_UNSET;

    return (struct cli_watch_rules){
        .held = held,
        .signal_fd = -1,
        .grace_ms = is_told ? args->kill_after_ms : cli_held_ttl_ms(held) / 3,
        .is_renewed = args->auto_extend,
        .hold_end_ms = hold_end(args),
    };
}

/* Runs the command from its start to its end. *code_out: how it ended. */
static int run_command(const struct cli_args *args, struct cli_watch_rules *rules, bool *lost_out)
{
    CLI_AUTO(cli_free) char *names = cli_held_names(rules->held);
    CLI_AUTO(cli_free) char *tokens = cli_held_tokens(rules->held);
    CLI_AUTO(cli_free) char **environment = cli_child_environment(names, tokens, args->options.url);
    struct cli_child child;
    int code;

    rules->signal_fd = cli_watch_signals();
    if (rules->signal_fd < 0) {
        cli_say("%s: no descriptor for signals", rules->held->label);
        return CLI_FAULT;
    }
    code = cli_child_start(&child, args->command, environment, &rules->held->mask);
    if (code == CLI_DONE) {
        code = cli_watch(rules, &child, lost_out);
        cli_child_fini(&child);
        code = code == CLI_DONE ? cli_child_code(&child) : code;
    }
    (void)close(rules->signal_fd);
    return code;
}

/* A lock that had ended before is a loss that nobody could tell in time. A release without an
 * answer is none: the lock ends by its ttl, the command ran under it. */
static bool release(struct cli_held *held)
{
    rql_error error = {.status = RQL_OK};
    const rql_status status = cli_held_release(held, &error);

    if (status < 0) {
        (void)cli_fault(&error);
    }
    return status != RQL_NOT_HELD;
}

int cli_run_held(const struct cli_args *args, struct cli_held *held)
{
    struct cli_watch_rules rules = make_rules(args, held);
    bool was_ended = false;
    const int code = run_command(args, &rules, &was_ended);
    const bool was_held = release(held);

    if (!was_ended && !was_held) {
        cli_say("%s: the lock had ended before the command did", held->label);
    }
    return was_ended || !was_held ? CLI_LOST : code;
}

static int run(const struct cli_args *args, rql_client *client)
{
    struct cli_held held = {.label = args->name};
    const int code = cli_acquire(args, client, &held);

    return held.lock ? cli_run_held(args, &held) : code;
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
    .flags = cli_run_flags,
    .needs_name = true,
    .takes_command = true,
    .run = run,
};
