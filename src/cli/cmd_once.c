#include "doctor/doctor.h"
#include "format.h"
#include "held.h"
#include "messages.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* once: a command that is run once in a window of time, whatever number of hosts starts it.
 *
 * The lock is acquired without waiting, and is not free before the window ends
 * (rql_lock_options.hold_at_least_ms). Its metadata `once` is the end of that window: if the lock
 * is held by a run whose window is over, that run is late, and this one waits for it. */

enum {
    ATTEMPTS = 20,  /* the lock may change hands between two looks at it */
    LOOK_MS = 1000, /* from one look at who has the lock to the next */
    GRACE_MS = 5000 /* from SIGTERM to SIGKILL: a third of the usual TTL */
};

static const char once_name[] = "once";

struct window {
    int64_t end_us; /* by the server's clock */
    bool is_period; /* it began at a time that all hosts know */
    char end[CLI_DURATION_SIZE];
};

/* Works out the window that a run begun now belongs to. now_us: the time by the server that has the
 * lock; 0: the server is asked. */
static int begin_window(struct cli_args *args, rql_client *client, int64_t now_us,
                        struct window *out)
{
    const int64_t period_us = args->every_ms * 1000;

    now_us = now_us > 0 ? now_us : doctor_read_clocks(client).server_us;

    if (now_us <= 0) {
        cli_say("%s: the server did not tell its time", args->name);
        return CLI_FAULT;
    }
    out->is_period = args->window_ms == CLI_UNSET;
    out->end_us = args->window_ms != CLI_UNSET ? now_us + args->window_ms * 1000
                                               : (now_us / period_us + 1) * period_us;
    args->hold_at_least_ms = (out->end_us - now_us + 999) / 1000;
    (void)snprintf(out->end, sizeof out->end, "%lld", (long long)out->end_us / 1000);
    return CLI_DONE;
}

/* Gives the lock back if it was granted after the end of the window that it was asked for in, and
 * returns the time of the grant. Otherwise returns 0. */
static int64_t give_back_late(struct cli_held *held, const struct window *window)
{
    rql_lock_facts facts;

    rql_lock_describe(held->lock, &facts);
    if (facts.acquired_at_us < window->end_us) {
        return 0;
    }
    (void)cli_held_release(held, NULL);
    cli_held_unblock(held);
    return facts.acquired_at_us;
}

/* Returns whether the lock is still kept from the period before. It is kept from the arrival of its
 * grant, and so for a little longer than its period; that of this period is kept to its end at
 * least. */
static bool is_kept_from_before(const rql_lock_info *info, const struct window *window)
{
    return info->is_kept && window->is_period &&
           info->server_us + (info->remaining_ms + 1) * 1000 < window->end_us;
}

/* Returns whether the holder runs in a window that is over, or has. */
static bool is_of_before(const rql_lock_info *info, const struct window *window)
{
    const char *end_ms = cli_meta_value(info->meta, info->n_meta, once_name);

    return end_ms && !info->is_kept ? strtoll(end_ms, NULL, 10) * 1000 <= info->server_us
                                    : is_kept_from_before(info, window);
}

/* Waits for the run of a window before this one, until the end of this one, or for LOOK_MS:
 * another host may have acquired the lock meanwhile, for this window, and is not waited for. */
static rql_status await_free(struct cli_session *self, const rql_lock_info *info,
                             const struct window *window, rql_error *error)
{
    const int64_t left_ms = (window->end_us - info->server_us) / 1000;
    rql_lock_options options;

    rql_lock_options_init(self->client, &options);
    options.retry_count = RQL_FOREVER;
    options.timeout_ms = left_ms < LOOK_MS ? left_ms : LOOK_MS;
    return rql_lock_wait_until_free(self->client, info->name, &options, error);
}

/* A run that is over is the reason why this one is not made. */
static void describe(struct cli_session *self, const rql_lock_info *info)
{
    char left[CLI_DURATION_SIZE];

    if (info->is_kept) {
        (void)snprintf(self->error.message, sizeof self->error.message,
                       "%s: has run; the next run can begin in %s", self->args->name,
                       cli_format_duration(info->remaining_ms, left));
    }
}

/* Looks once at why the lock was refused. RQL_TIMED_OUT: a run of the window before is still
 * there. */
static rql_status look(struct cli_session *self, const struct window *window, bool *is_over,
                       rql_error *error)
{
    CLI_AUTO(rql_free) rql_lock_info *info = NULL;
    const rql_status status = rql_lock_inspect(self->client, self->args->name, &info, error);

    if (status != RQL_OK) {
        return status == RQL_NOT_FOUND ? RQL_OK : status;
    }
    *is_over = info->server_us >= window->end_us;
    if (!is_of_before(info, window)) {
        describe(self, info);
        return RQL_FAIL_FAST_NO_TRY;
    }
    return *is_over ? RQL_TIMED_OUT : await_free(self, info, window, error);
}

/* Looks until it is clear whether the lock is to be tried once more. RQL_OK: it is; above 0: the
 * command is not to be run, for the reason in the error; below 0: a fault. */
static rql_status decide(struct cli_session *self, const struct window *window)
{
    rql_error error = {.status = RQL_OK};
    bool is_over = false;
    rql_status status;

    do {
        status = look(self, window, &is_over, &error);
    } while (status == RQL_TIMED_OUT && !is_over);
    if (status == RQL_TIMED_OUT) {
        (void)snprintf(self->error.message, sizeof self->error.message,
                       "%s: the run of the window before went on until the end of this one",
                       self->args->name);
    } else if (status < 0) {
        self->error = error;
    }
    return status;
}

static int skip(const struct cli_session *self)
{
    if (self->args->verbose) {
        cli_say("%s", self->error.message);
    }
    return cli_code_of_refusal(self->args, CLI_DONE);
}

static int once(struct cli_session *session)
{
    struct cli_args args = *session->args;
    struct cli_session self = *session;
    struct window window;
    int64_t late_us = 0;

    self.args = &args;
    args.meta[0].value = window.end; /* of the pair that check_once() has put there */
    for (int i = 0; i < ATTEMPTS; i++) {
        struct cli_held held = {.label = args.name, .is_quiet = true};
        int code = begin_window(&args, self.client, late_us, &window);
        rql_status status;

        code = code == CLI_DONE ? cli_acquire(&self, &held) : code;
        late_us = held.lock ? give_back_late(&held, &window) : 0;
        if (late_us > 0) {
            continue;
        }
        if (held.lock) {
            return cli_run_held(&args, &held);
        }
        if (!held.is_refused) {
            return code;
        }
        status = decide(&self, &window);
        if (status != RQL_OK) {
            return status > 0 ? skip(&self) : cli_fault(&self.error);
        }
    }
    if (late_us > 0) {
        cli_say("%s: not run: each of %d grants came after the end of its window", args.name,
                ATTEMPTS);
        return CLI_FAULT;
    }
    return skip(&self);
}

/* Puts the pair that tells the end of the window in front of those of the user. */
static int put_window_first(struct cli_args *args)
{
    if (args->n_meta == RQL_META_MAX_PAIRS) {
        return cli_misused(&cli_once, "there is no room for one more ", "--meta");
    }
    if (cli_meta_value(args->meta, args->n_meta, once_name)) {
        return cli_misused(&cli_once, "rql once itself sets the metadata ", once_name);
    }
    memmove(args->meta + 1, args->meta, args->n_meta * sizeof *args->meta);
    args->meta[0] = (rql_meta){once_name, ""};
    args->n_meta++;
    return CLI_DONE;
}

static int check_once(struct cli_args *args)
{
    const bool has_window = args->window_ms != CLI_UNSET;
    const bool has_every = args->every_ms != CLI_UNSET;
    const int64_t ms = has_window ? args->window_ms : args->every_ms;

    if (has_window == has_every) {
        return cli_misused(&cli_once, "which time? one of --window and --every", "");
    }
    if (ms < 1 || ms > RQL_TTL_MAX_MS) {
        return cli_misused(&cli_once,
                           "it must be 1ms to 30d: ", has_window ? "--window" : "--every");
    }
    if (args->at_most_once && !args->options.auto_extend && args->kill_after_ms >= ms) {
        return cli_misused(&cli_once, "--kill-after has to be shorter than ",
                           has_window ? "--window" : "--every");
    }
    args->fail_fast = true;
    if (args->at_most_once) {
        args->options.ttl_ms = ms;
    }
    if (args->at_most_once &&
        args->kill_after_ms == CLI_UNSET) { /* a third of the ttl is too long */
        args->kill_after_ms = ms / 3 < GRACE_MS ? ms / 3 : GRACE_MS;
    }
    return put_window_first(args);
}

static const char *const once_details[] = {cli_trace_details, NULL};

const struct cli_command cli_once = {
    .name = "once",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "NAME --window|--every DURATION [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command once in a time, on one of many hosts",
    .examples = "  rql once digest --window 23h -- ./digest.sh       from a daily crontab\n"
                "  rql once poll --window 50s --unless-failed -- ./poll.sh\n",
    .notes = "For a crontab of many hosts: the first one runs COMMAND, the others exit with 0 at "
             "once. With --window the time counts from the start of the run: it is to be somewhat "
             "shorter than the interval of the crontab, by more than the clocks of the hosts "
             "differ. With --every the periods are those of the server's clock, in UTC; it is for "
             "hosts that try more often than that, because a crontab fires where a period begins, "
             "and there two hosts can be in two periods. While a run of an earlier period goes on, "
             "the next one waits for it, until its own "
             "period is over at most.\n"
             "If the host dies during the run, another one may run COMMAND; with --at-most-once "
             "only when the time is over. If COMMAND fails, the run counts; with --unless-failed "
             "it does not. rql unlock NAME --force lets it run again.\n",
    .details = once_details,
    .needs_name = true,
    .takes_command = true,
    .prepare = check_once,
    .run = once,
};
