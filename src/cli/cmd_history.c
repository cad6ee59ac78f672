#include "history.h"

#include "counts.h"
#include "format.h"
#include "messages.h"
#include "names.h"

#include <rql/history.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* history: shows who has used locks, and for how long others have waited. */

enum { DAYS = 7, HOLD_DAYS = 7, COUNT = 20, DATE_SIZE = 32, PERCENT_SIZE = 24 };

#define DAY_US INT64_C(86400000000)

/* ---- the usage ---- */

enum by { BY_NAME, BY_USER, BY_HOST, N_BY };

static const char *const by_names[N_BY + 1] = {"name", "user", "host", NULL};

/* Holds of one lock by one user on one host, or all of one of these. The texts are borrowed. */
struct use {
    const char *text[N_BY];
    int64_t holds;
    int64_t held_us;
    int64_t waited_us;
    int64_t lost;
    int64_t n_now; /* of `holds`: those that have not ended yet */
};

struct uses {
    size_t count;
    struct use *item;
};

/* What the server knows. */
struct reading {
    rql_usage_info_list *usage;
    int64_t begin_us; /* of the days that were asked for */
    struct cli_reading now;
    struct cli_names names;
    struct uses uses;
};

static void free_reading_p(struct reading *self)
{
    free(self->uses.item);
    cli_names_free_p(&self->names);
    cli_reading_free_p(&self->now);
    (void)rql_free(self->usage);
}

static void add(struct uses *self, const struct use *use)
{
    self->item = cli_must(reallocarray(self->item, self->count + 1, sizeof *self->item));
    self->item[self->count++] = *use;
}

static void add_ended(struct uses *self, const rql_usage_info *info)
{
    add(self, &(struct use){.text = {info->name, info->user, info->host},
                            .holds = info->holds,
                            .held_us = info->held_us,
                            .waited_us = info->waited_us,
                            .lost = info->lost});
}

/* Returns when these days begin. */
static int64_t begin_of(const rql_usage_info_list *usage, int64_t days)
{
    return (usage->now_us / DAY_US - days + 1) * DAY_US;
}

/* Adds a hold that lasts, as far as it lies in these days. Its user is not known if its client is
 * not listed. */
static void add_held(struct reading *self, const rql_lock_info *lock, const char *acquirer_id,
                     int64_t since_us)
{
    const rql_client_info *client = rql_clients_find(self->names.clients, acquirer_id);
    const int64_t from_us = since_us > self->begin_us ? since_us : self->begin_us;
    const int64_t held_us = since_us >= 0 ? lock->server_us - from_us : 0;

    add(&self->uses,
        &(struct use){.text = {lock->name, client ? client->user : "", client ? client->host : ""},
                      .holds = 1,
                      .held_us = held_us > 0 ? held_us : 0,
                      .n_now = 1});
}

static void add_holders(struct reading *self, size_t index)
{
    const rql_lock_info *lock = self->now.locks->item[index];
    const rql_holder_list *holders = self->now.holders[index];

    if (lock->status != RQL_KEY_ALIVE || lock->is_kept) {
        return;
    }
    if (!holders) {
        add_held(self, lock, lock->acquirer_id, lock->acquired_at_us);
    }
    for (size_t i = 0; holders && i < holders->count; i++) {
        add_held(self, lock, holders->item[i]->acquirer_id, holders->item[i]->acquired_at_us);
    }
}

static bool is_wanted(const struct cli_args *args, const struct use *use)
{
    return cli_glob_matches(args->name, use->text[BY_NAME]) &&
           (!args->user || strcmp(args->user, use->text[BY_USER]) == 0);
}

/* The key of the sorting: there is no argument for it. */
static enum by sorted_by;

static int compare_texts(const void *a, const void *b)
{
    const struct use *left = a;
    const struct use *right = b;

    return strcmp(left->text[sorted_by], right->text[sorted_by]);
}

/* Those who held for longest first. */
static int compare_held(const void *a, const void *b)
{
    const struct use *left = a;
    const struct use *right = b;
    const int order = (left->held_us < right->held_us) - (left->held_us > right->held_us);

    return order ? order : compare_texts(a, b);
}

static void merge(struct use *into, const struct use *from)
{
    into->holds += from->holds;
    into->held_us += from->held_us;
    into->waited_us += from->waited_us;
    into->lost += from->lost;
    into->n_now += from->n_now;
}

/* Leaves those that are wanted, added up by name, user or host. */
static void group(struct uses *self, const struct cli_args *args, enum by by)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->count; i++) {
        if (is_wanted(args, &self->item[i])) {
            self->item[kept++] = self->item[i];
        }
    }
    self->count = kept;
    sorted_by = by;
    if (self->count > 1) {
        qsort(self->item, self->count, sizeof *self->item, compare_texts);
    }
    kept = 0;
    for (size_t i = 0; i < self->count; i++) {
        if (kept > 0 && compare_texts(&self->item[kept - 1], &self->item[i]) == 0) {
            merge(&self->item[kept - 1], &self->item[i]);
        } else {
            self->item[kept++] = self->item[i];
        }
    }
    self->count = kept;
    if (self->count > 1) {
        qsort(self->item, self->count, sizeof *self->item, compare_held);
    }
}

/* ---- what is printed ---- */

static const char *mode_name(rql_history_mode mode)
{
    static const char *const names[] = {"off", "long", "all"};

    return names[mode];
}

static void print_use(struct out *out, const struct use *use, enum by by, int64_t window_us)
{
    static const char *const headings[N_BY] = {"NAME", "USER", "HOST"};
    const bool is_other = *use->text[by] == '\0';
    char used[PERCENT_SIZE];

    (void)snprintf(used, sizeof used, "%.1f %%",
                   window_us > 0 ? 100.0 * (double)use->held_us / (double)window_us : 0.0);
    out_begin(out, NULL);
    out_text(out, headings[by], by_names[by], is_other ? NULL : use->text[by]);
    out_number(out, "HOLDS", "holds", OUT_INT, use->holds);
    out_number(out, "NOW", "held_now", OUT_INT, use->n_now);
    out_number(out, "HELD", NULL, OUT_MS, use->held_us / 1000);
    out_number(out, NULL, "held_us", OUT_INT, use->held_us);
    out_text(out, "OF TIME", NULL, used);
    out_number(out, "WAITED", NULL, OUT_MS, use->waited_us / 1000);
    out_number(out, NULL, "waited_us", OUT_INT, use->waited_us);
    out_number(out, "PER HOLD", NULL, OUT_MS,
               use->holds > 0 ? use->waited_us / use->holds / 1000 : 0);
    out_number(out, "LOST", "lost", OUT_INT, use->lost);
    out_end(out);
}

/* Prints since when there are records, which are made, and how many are missing. */
static void print_head(struct out *out, const rql_usage_info_list *usage, int64_t days)
{
    const time_t since_s = (time_t)(usage->since_us / 1000000);
    char date[DATE_SIZE] = "";
    struct tm utc;

    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&since_s, &utc));
    out_number(out, NULL, "since_us", OUT_COUNT, usage->since_us);
    out_number(out, NULL, "now_us", OUT_COUNT, usage->now_us);
    out_number(out, NULL, "days", OUT_INT, days);
    out_text(out, NULL, "mode", mode_name(usage->mode));
    out_number(out, NULL, "dropped", OUT_INT, usage->dropped);
    if (usage->mode == RQL_HISTORY_OFF) {
        return;
    }
    out_line(out, "since %s (UTC), last %lld day%s; history %s; %lld hold%s not recorded", date,
             (long long)days, days == 1 ? "" : "s", mode_name(usage->mode),
             (long long)usage->dropped, usage->dropped == 1 ? "" : "s");
}

static rql_status read_uses(struct reading *self, struct cli_session *session, int64_t days)
{
    const rql_status status = cli_reading_read(&self->now, session->client, &session->error);

    if (status != RQL_OK) {
        return status;
    }
    cli_names_read(&self->names, session);
    self->begin_us = begin_of(self->usage, days);
    for (size_t i = 0; i < self->usage->count; i++) {
        add_ended(&self->uses, self->usage->item[i]);
    }
    for (size_t i = 0; i < self->now.locks->count; i++) {
        add_holders(self, i);
    }
    return RQL_OK;
}

static bool is_pattern(const char *name)
{
    return name && strcspn(name, "*?[\\") < strlen(name);
}

static enum by by_of(const struct cli_args *args)
{
    const bool is_one = args->name && !is_pattern(args->name);
    int i = 0;

    while (args->by && by_names[i] && strcmp(by_names[i], args->by) != 0) {
        i++;
    }
    return args->by ? (enum by)i : is_one ? BY_USER : BY_NAME;
}

/* Returns the time of these days for which there are records. */
static int64_t window_us(const rql_usage_info_list *usage, int64_t days)
{
    const int64_t begin_us = begin_of(usage, days);

    return usage->now_us - (usage->since_us > begin_us ? usage->since_us : begin_us);
}

static int show_usage(struct cli_session *self, struct reading *reading)
{
    static const char *const headings[N_BY][9] = {
        {"NAME", "HOLDS", "NOW", "HELD", "OF TIME", "WAITED", "PER HOLD", "LOST", NULL},
        {"USER", "HOLDS", "NOW", "HELD", "OF TIME", "WAITED", "PER HOLD", "LOST", NULL},
        {"HOST", "HOLDS", "NOW", "HELD", "OF TIME", "WAITED", "PER HOLD", "LOST", NULL},
    };
    const struct cli_args *args = self->args;
    const enum by by = by_of(args);
    const rql_usage_info_list *usage = reading->usage;

    if (read_uses(reading, self, args->days) != RQL_OK) {
        return cli_fault(&self->error);
    }
    group(&reading->uses, args, by);
    out_begin(&self->out, NULL);
    print_head(&self->out, usage, args->days);
    out_columns(&self->out, headings[by]);
    out_begin_list(&self->out, "usage");
    for (size_t i = 0; i < reading->uses.count; i++) {
        print_use(&self->out, &reading->uses.item[i], by, window_us(usage, args->days));
    }
    out_end(&self->out);
    out_end(&self->out);
    return CLI_DONE;
}

/* ---- for the page ---- */

/* Prints the sums by name, user or host, of all. The uses stay as they are. */
static void print_by(struct out *out, const struct cli_args *args, const struct reading *reading,
                     enum by by, int64_t window_us)
{
    const size_t count = reading->uses.count;
    struct uses uses = {.count = count, .item = cli_must(calloc(count + 1, sizeof *uses.item))};

    if (count > 0) {
        memcpy(uses.item, reading->uses.item, count * sizeof *uses.item);
    }
    group(&uses, args, by);
    for (size_t i = 0; i < uses.count; i++) {
        print_use(out, &uses.item[i], by, window_us);
    }
    free(uses.item);
}

static struct use sum_of_day(const rql_usage_info_list *usage, int64_t day_us)
{
    struct use sum = {.holds = 0};

    for (size_t i = 0; i < usage->count; i++) {
        const rql_usage_info *info = usage->item[i];

        if (info->day_us == day_us) {
            merge(&sum, &(struct use){.holds = info->holds,
                                      .held_us = info->held_us,
                                      .waited_us = info->waited_us,
                                      .lost = info->lost});
        }
    }
    return sum;
}

/* Prints the sums of each day, also of those without a hold. */
static void print_days(struct out *out, const rql_usage_info_list *usage, int64_t days)
{
    for (int64_t day_us = begin_of(usage, days); day_us <= usage->now_us; day_us += DAY_US) {
        const struct use sum = sum_of_day(usage, day_us);

        out_begin(out, NULL);
        out_number(out, NULL, "day_us", OUT_INT, day_us);
        out_number(out, NULL, "holds", OUT_INT, sum.holds);
        out_number(out, NULL, "held_us", OUT_INT, sum.held_us);
        out_number(out, NULL, "waited_us", OUT_INT, sum.waited_us);
        out_number(out, NULL, "lost", OUT_INT, sum.lost);
        out_end(out);
    }
}

rql_status cli_history_read(struct cli_session *session, int64_t days, struct out *out)
{
    static const char *const keys[] = {[BY_NAME] = "by_name", [BY_USER] = "by_user"};
    __attribute__((cleanup(free_reading_p))) struct reading reading = {.usage = NULL};
    rql_status status = rql_usage_list(session->client, days, &reading.usage, &session->error);

    status = status ? status : read_uses(&reading, session, days);
    if (status) {
        return status;
    }
    out_begin(out, NULL);
    print_head(out, reading.usage, days);
    for (enum by by = BY_NAME; by <= BY_USER; by++) {
        out_begin_list(out, keys[by]);
        print_by(out, session->args, &reading, by, window_us(reading.usage, days));
        out_end(out);
    }
    out_begin_list(out, "by_day");
    print_days(out, reading.usage, days);
    out_end(out);
    out_end(out);
    return RQL_OK;
}

/* ---- single holds ---- */

/* Those that were waited for longest first. */
static int compare_waits(const void *a, const void *b)
{
    const rql_history_info *left = *(const rql_history_info *const *)a;
    const rql_history_info *right = *(const rql_history_info *const *)b;

    return (left->waited_us < right->waited_us) - (left->waited_us > right->waited_us);
}

static void print_hold(struct out *out, const rql_history_info *info, int64_t now_us)
{
    out_begin(out, NULL);
    out_age(out, "AGO", "at_us", info->at_us, now_us);
    out_text(out, "NAME", "name", info->name);
    out_number(out, "WAITED", NULL, OUT_MS, info->waited_us < 0 ? -1 : info->waited_us / 1000);
    out_number(out, NULL, "waited_us", OUT_COUNT, info->waited_us);
    out_number(out, "HELD", NULL, OUT_MS, info->held_us < 0 ? -1 : info->held_us / 1000);
    out_number(out, NULL, "held_us", OUT_COUNT, info->held_us);
    out_text(out, "ENDED", "ended", info->ended);
    out_text(out, NULL, "user", info->user);
    out_text(out, NULL, "host", info->host);
    out_text(out, "BY", "client", info->client);
    out_text(out, "REASON", "reason", info->reason);
    out_number(out, NULL, "units", OUT_INT, info->units);
    out_number(out, NULL, "token", OUT_COUNT, info->token);
    out_end(out);
}

static bool is_wanted_hold(const struct cli_args *args, const rql_history_info *info,
                           int64_t begin_us)
{
    return info->at_us >= begin_us && cli_glob_matches(args->name, info->name) &&
           (!args->user || strcmp(args->user, info->user) == 0);
}

static int show_holds(struct cli_session *self, const rql_usage_info_list *usage)
{
    static const char *const headings[] = {"AGO",   "NAME", "WAITED", "HELD",
                                           "ENDED", "BY",   "REASON", NULL};
    CLI_AUTO(rql_free) rql_history_info_list *holds = NULL;
    const struct cli_args *args = self->args;
    const int64_t most = args->count == CLI_UNSET ? COUNT : args->count;
    const int64_t begin_us = begin_of(usage, args->days);
    int64_t n_shown = 0;

    if (rql_history_list(self->client, INT64_MAX, &holds, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (args->slowest && holds->count > 1) {
        qsort(holds->item, holds->count, sizeof(void *), compare_waits);
    }
    out_begin(&self->out, NULL);
    print_head(&self->out, usage, args->days);
    out_columns(&self->out, headings);
    out_begin_list(&self->out, "holds");
    for (size_t i = 0; i < holds->count && n_shown < most; i++) {
        if (is_wanted_hold(args, holds->item[i], begin_us)) {
            print_hold(&self->out, holds->item[i], usage->now_us);
            n_shown++;
        }
    }
    out_end(&self->out);
    out_end(&self->out);
    return CLI_DONE;
}

/* ---- the command ---- */

static int forget(struct cli_session *self)
{
    const struct cli_args *args = self->args;
    int64_t n_removed = 0;

    if (rql_history_forget(self->client, args->name, args->user, &n_removed, &self->error) !=
        RQL_OK) {
        return cli_fault(&self->error);
    }
    out_begin(&self->out, NULL);
    out_number(&self->out, NULL, "removed", OUT_INT, n_removed);
    out_end(&self->out);
    out_line(&self->out, "history: %lld record%s removed", (long long)n_removed,
             n_removed == 1 ? "" : "s");
    if (n_removed == 0 && is_pattern(args->name)) {
        cli_say("history: --forget takes the name of one lock, not a pattern; nothing is recorded "
                "of a lock with exactly this name");
    }
    return CLI_DONE;
}

static int run(struct cli_session *self)
{
    __attribute__((cleanup(free_reading_p))) struct reading reading = {.usage = NULL};
    const struct cli_args *args = self->args;

    if (args->forget) {
        return forget(self);
    }
    if (rql_usage_list(self->client, args->days, &reading.usage, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (reading.usage->mode == RQL_HISTORY_OFF) {
        cli_say("history: nothing was recorded in these days; a hold is recorded when it ends, if "
                "RQL_HISTORY=long is set where locks are taken");
    }
    return args->list || args->slowest ? show_holds(self, reading.usage)
                                       : show_usage(self, &reading);
}

static int prepare(struct cli_args *args)
{
    const bool has_days = args->days != CLI_UNSET;

    args->days = has_days ? args->days : DAYS;
    if (args->days < 1 || args->days > RQL_USAGE_DAYS) {
        return cli_misused(&cli_history, "--days is 1 to 35", "");
    }
    if (by_of(args) == N_BY) {
        return cli_misused(&cli_history, "--by is name, user or host, not ", args->by);
    }
    if (args->forget && !args->name && !args->user) {
        return cli_misused(&cli_history, "--forget needs NAME or --user", "");
    }
    if (args->forget && (has_days || args->by || args->list || args->slowest)) {
        return cli_misused(
            &cli_history,
            "--forget removes all that is recorded of NAME or --user, and has no other flag", "");
    }
    if ((args->list || args->slowest) && args->days > HOLD_DAYS) {
        return cli_misused(&cli_history, "single holds are kept for 7 days", "");
    }
    return CLI_DONE;
}

const struct cli_command cli_history = {
    .name = "history",
    .usage = "[NAME|GLOB] [--by name|user|host]",
    .summary = "Show who has used locks, and how long others waited",
    .examples = "  rql history                          all locks, the last 7 days\n"
                "  rql history gpu --by user --days 30\n"
                "  rql history --slowest                the longest waits\n",
    .notes =
        "There is a history if those that take locks have RQL_HISTORY=long or all. A hold counts "
        "on the day on which it ended; days are those of UTC. HELD is the time for which a lock "
        "was held, by all its holders together, and OF TIME its share of the time since the "
        "beginning of the first day with a record: more than 100 % if several held it at once, or "
        "one for longer. NOW "
        "is how many hold it at this moment: they are counted, too. PER HOLD is the mean wait of "
        "those that got the lock. LOST holds did not end by a release. A hold that ended by its "
        "TTL because its process was killed is only recorded if a swarm runs, or if rql run held "
        "it.\n"
        "--list shows single holds of the last 7 days, 20000 at most. With RQL_HISTORY=long they "
        "are those that lasted a second or were waited for as long, and all that did not end by a "
        "release. AGO is the time since a hold ended.\n"
        "--forget takes NAME as it is: it is no pattern there.\n",
    .takes_glob = true,
    .prepare = prepare,
    .run = run,
};
