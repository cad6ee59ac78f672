#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "names.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* drain: asks a host to release what it holds, waits for that, and shows what is left. */

enum {
    LOOK_MS = 1000,   /* from one look at what is held to the next */
    LOOK_SHARE = 5,   /* or as many times as long as the look itself took */
    REASON_SIZE = 192 /* of a refusal */
};

static void pause_ms(int64_t ms)
{
    const struct timespec pause = cli_timespec(ms);

    (void)nanosleep(&pause, NULL);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t count(const rql_hold_list *holds)
{
    return holds ? holds->count : 0;
}

static int64_t count_asked(const rql_hold_list *holds)
{
    int64_t count = 0;

    for (size_t i = 0; i < holds->count; i++) {
        count += holds->item[i]->is_asked;
    }
    return count;
}

static void say_asked(const struct cli_args *args, const rql_hold_list *holds)
{
    char within[CLI_DURATION_SIZE];

    cli_say("%s: holds %zu lock%s; asked for %lld; waiting for up to %s", args->name, holds->count,
            holds->count == 1 ? "" : "s", (long long)count_asked(holds),
            cli_format_duration(args->within_ms, within));
}

/* Asks once. At a later look the last client that was listed for the host may have gone: then
 * nothing is held, and *out is NULL. */
static rql_status look(struct cli_session *self, int64_t left_ms, bool is_later,
                       rql_hold_list **out)
{
    const rql_status status =
        rql_host_drain(self->client, self->args->name, left_ms, out, &self->error);

    return status == RQL_NOT_FOUND && is_later ? RQL_OK : status;
}

static int64_t left_until_ms(int64_t end_ms)
{
    const int64_t now_ms = cli_now_ms();

    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* Asks again until nothing is held or the time is over; *out is what was held then, NULL if nothing
 * was. */
static rql_status await_release(struct cli_session *self, rql_hold_list **out)
{
    int64_t left_ms = self->args->within_ms;
    int64_t end_ms = 0;

    for (;;) {
        const int64_t begun_ms = cli_now_ms();
        rql_hold_list *holds = NULL;
        const rql_status status = look(self, left_ms, end_ms > 0, &holds);
        const int64_t pause = LOOK_SHARE * (cli_now_ms() - begun_ms);

        if (status == RQL_OK) {
            (void)rql_free(*out);
            *out = holds;
        }
        if (left_ms == 0 || (status == RQL_OK && count(holds) == 0) ||
            (status != RQL_OK && (end_ms == 0 || !cli_may_pass(status)))) {
            return status;
        }
        if (end_ms == 0) {
            end_ms = cli_after_ms(left_ms);
            say_asked(self->args, holds);
        }
        pause_ms(smaller(pause > LOOK_MS ? pause : LOOK_MS, left_until_ms(end_ms)));
        left_ms = left_until_ms(end_ms);
    }
}

static bool has_same_owner(const rql_hold_info *hold, const rql_hold_info *other)
{
    return strcmp(hold->holder->acquirer_id, other->holder->acquirer_id) == 0 &&
           strcmp(hold->holder->host_id, other->holder->host_id) == 0;
}

/* Ends what is left, owner by owner. Returns the exit code. */
static int end_all(struct cli_session *self, const rql_hold_list *holds, int64_t *n_ended)
{
    for (size_t i = 0; i < holds->count; i++) {
        const rql_sweep_owner owner = {.acquirer_id = holds->item[i]->holder->acquirer_id,
                                       .host_id = holds->item[i]->holder->host_id};
        rql_sweep_result result;
        size_t first = 0;

        while (!has_same_owner(holds->item[first], holds->item[i])) {
            first++;
        }
        if (first < i) {
            continue;
        }
        rql_result_init(&result);
        if (rql_locks_clear_of(self->client, &owner, NULL, &result, &self->error) != RQL_OK) {
            return cli_fault(&self->error);
        }
        *n_ended += result.released;
    }
    return CLI_DONE;
}

static void print_hold(struct out *out, const struct cli_names *names, const rql_hold_info *hold)
{
    const rql_holder_info *holder = hold->holder;

    out_begin(out, NULL);
    out_text(out, "LOCK", "name", hold->name);
    out_number(out, "LEFT", "remaining_ms", OUT_MS, holder->remaining_ms);
    out_text(out, "ASKED", NULL, hold->is_asked ? "yes" : "no");
    out_bool(out, "is_asked", hold->is_asked);
    cli_print_acquirer(out, names, "HOLDER", holder->acquirer_id,
                       cli_holder_in(holder->meta, holder->n_meta));
    cli_print_host(out, names, NULL, holder->host_id);
    out_number(out, NULL, "token", OUT_COUNT, holder->token);
    out_end(out);
}

/* Prints what is left, or that nothing is. n_ended: below 0: nothing was ended by force. */
static void print(struct cli_session *self, const rql_hold_list *holds, int64_t n_ended)
{
    static const char *const headings[] = {"LOCK", "LEFT", "ASKED", "HOLDER", NULL};
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};
    struct out *out = &self->out;
    const bool is_over = count(holds) == 0 || n_ended >= 0;

    cli_names_read(&names, self);
    if (!is_over) {
        out_columns(out, headings);
    }
    out_begin(out, NULL);
    out_text(out, NULL, "host", self->args->name);
    out_number(out, NULL, "ended", OUT_INT, n_ended >= 0 ? n_ended : 0);
    out_begin_list(out, "holds");
    for (size_t i = 0; !is_over && i < holds->count; i++) {
        print_hold(out, &names, holds->item[i]);
    }
    out_end(out);
    out_end(out);
    if (n_ended >= 0) {
        out_line(out, "%s: locks ended: %lld", self->args->name, (long long)n_ended);
    } else if (is_over) {
        out_line(out, "%s holds no lock", self->args->name);
    }
}

static int drain(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_hold_list *holds = NULL;
    const rql_status status = await_release(self, &holds);
    char reason[REASON_SIZE];
    int64_t n_ended = 0;
    int code = CLI_DONE;

    if (status == RQL_NOT_FOUND) {
        out_print(&self->out);
        cli_say("%s", self->error.message);
        return CLI_REFUSED;
    }
    if (status != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (self->args->force && count(holds) > 0) {
        code = end_all(self, holds, &n_ended);
        print(self, holds, n_ended);
        return code;
    }
    print(self, holds, -1);
    if (count(holds) == 0) {
        return CLI_DONE;
    }
    (void)snprintf(reason, sizeof reason,
                   "%zu of its locks are still held; %lld of them could not be asked for, because "
                   "their programs do not set on_wanted",
                   holds->count, (long long)holds->count - (long long)count_asked(holds));
    return cli_refuse(self, reason);
}

static int set_time(struct cli_args *args)
{
    enum { WITHIN_MS = 30000 };

    args->within_ms = args->within_ms == CLI_UNSET ? WITHIN_MS : args->within_ms;
    return CLI_DONE;
}

const struct cli_command cli_drain = {
    .name = "drain",
    .usage = "HOST [--within DURATION] [--force]",
    .summary = "Ask a host to release all that it holds",
    .examples = "  rql drain web-1 --within 2m && ssh web-1 reboot\n",
    .notes =
        "HOST is a machine, as rql who shows it, or a host id of rql who --ids. Programs that set "
        "on_wanted are asked, within a third of their TTL: give them more time than that. So is "
        "rql elect, which ends its command; others, such as rql run, are only waited for. Stop new "
        "work on HOST first, and candidates of rql elect that wait there. Clients that do not "
        "report their machine, such as the gem, are not found by its name. Exits with 1 if locks "
        "are still held when the time is over.\n",
    .name_is = "which host? ",
    .needs_name = true,
    .prepare = set_time,
    .run = drain,
};
