#include "cmd.h"

#include <stdio.h>
#include <string.h>

/* The flags of all commands. */

#define FLAG(row_name, row_value, row_help, row_kind, row_letter, row_offset, row_commands)        \
    {                                                                                              \
        .name = (row_name), .value = (row_value), .help = (row_help), .kind = (row_kind),          \
        .letter = (row_letter), .offset = (row_offset), .commands = (row_commands)                 \
    }

/* The flags, in the order in which the help of a command shows them. A flag whose text depends on
 * the command has a row for each text. */
const struct cli_flag cli_flags[] = {
    FLAG("version", NULL, "print the version", CLI_ON, 'V', CLI_FIELD(version), ""),
    FLAG("window", "DURATION", "run it once in this time, from its start", CLI_DURATION, 0,
         CLI_FIELD(window_ms), "once"),
    FLAG("every", "DURATION", "run it once in each period of this length", CLI_DURATION, 0,
         CLI_FIELD(every_ms), "once"),
    FLAG("unless-failed", NULL, "a run that fails does not count", CLI_ON, 0,
         CLI_FIELD(unless_failed), "once"),
    FLAG("at-most-once", NULL, "do not repeat a run whose host has died", CLI_ON, 0,
         CLI_FIELD(at_most_once), "once"),
    FLAG("again", NULL, "wait for the next turn when COMMAND has ended", CLI_ON, 0,
         CLI_FIELD(again), "elect"),
    FLAG("ttl", "DURATION", "TTL of the lock between renewals; default 15s", CLI_DURATION, 0,
         CLI_FIELD(options.ttl_ms), "run once elect series"),
    FLAG("ttl", "DURATION", "TTL of the lock; default 15s", CLI_DURATION, 0,
         CLI_FIELD(options.ttl_ms), "lock"),
    {.name = "wait",
     .value = "LIMIT",
     .help = "give up after this long; default forever",
     .kind = CLI_LIMIT,
     .letter = 'w',
     .offset = CLI_FIELD(wait_ms),
     .commands = "run series lock wait",
     .option = "timeout_ms",
     .preset = "forever"},
    FLAG("try", NULL, "do not wait at all", CLI_ON, 'n', CLI_FIELD(fail_fast), "run series lock"),
    FLAG("auto-extend", NULL, NULL, CLI_ON, 0, CLI_FIELD(options.auto_extend),
         "run once elect series"),
    FLAG("no-auto-extend", NULL, "do not renew: stop COMMAND before the TTL ends", CLI_OFF, 0,
         CLI_FIELD(options.auto_extend), "run once elect series"),
    FLAG("max-hold", "LIMIT", "stop COMMAND after this long; default forever", CLI_LIMIT, 0,
         CLI_FIELD(max_hold_ms), "run once elect series"),
    FLAG("hold-at-least", "DURATION", "no other gets the lock sooner; default 0", CLI_DURATION, 0,
         CLI_FIELD(hold_at_least_ms), "run"),
    FLAG("shared", NULL, "hold it together with other readers", CLI_ON, 0, CLI_FIELD(shared),
         "run lock"),
    FLAG("permits", "N", "let N hold it at once; all give the same N", CLI_COUNT, 0,
         CLI_FIELD(permits), "run lock"),
    FLAG("units", "M", "take M of the N permits; default 1", CLI_COUNT, 0, CLI_FIELD(units),
         "run lock"),
    FLAG("slots", NULL, "number the permits: RQL_SLOTS has the numbers", CLI_ON, 0,
         CLI_FIELD(slots), "run"),
    FLAG("slots", NULL, "number the permits, and print the numbers", CLI_ON, 0, CLI_FIELD(slots),
         "lock"),
    FLAG("max-waiters", "N", "fail if N others wait already", CLI_COUNT, 0, CLI_FIELD(max_waiters),
         "run lock"),
    FLAG("priority", "high|urgent", "wait as if it had come earlier", CLI_TEXT, 0,
         CLI_FIELD(priority), "run lock"),
    FLAG("head-start", "DURATION", "the same, by this time; up to 1h", CLI_DURATION, 0,
         CLI_FIELD(head_start_ms), "run lock"),
    FLAG("agent", "SOCKET", "let the agent of this host hold it", CLI_MAYBE, 0, CLI_FIELD(agent),
         "run"),
    FLAG("kill-after", "DURATION", "time from SIGTERM to SIGKILL; default TTL / 3", CLI_DURATION,
         'k', CLI_FIELD(kill_after_ms), "run once elect series"),
    FLAG("verbose", NULL, "say why COMMAND is not run", CLI_ON, 'v', CLI_FIELD(verbose), "once"),
    FLAG("verbose", NULL, "show place and holder on a terminal at once", CLI_ON, 'v',
         CLI_FIELD(verbose), "run elect series lock"),
    FLAG("meta", "NAME=VALUE", "keep this in the lock; may be repeated", CLI_META, 'm', 0,
         "run once elect series"),
    FLAG("meta", "NAME=VALUE", "keep this in the lock, readable by all; may be repeated", CLI_META,
         'm', 0, "lock"),
    FLAG("reason", "TEXT", "why it is taken: shown by rql who", CLI_REASON, 0, 0,
         "run once elect series lock"),
    FLAG("trace", "FILE", "append spans for OpenTelemetry to this file", CLI_TEXT, 0,
         CLI_FIELD(trace_file), "run once elect series"),
    FLAG("traceparent", "ID", "span of the caller; default TRACEPARENT", CLI_TEXT, 0,
         CLI_FIELD(traceparent), "run once elect series lock"),
    FLAG("command", "STRING", "run this by sh -c, in place of -- COMMAND", CLI_STRING, 'c', 0,
         "run once elect series"),
    FLAG("conflict-exit-code", "CODE", "exit code when COMMAND is not run; default 0", CLI_CODE,
         'E', CLI_FIELD(conflict_exit_code), "once"),
    FLAG("conflict-exit-code", "CODE", "exit code when not acquired; default 1", CLI_CODE, 'E',
         CLI_FIELD(conflict_exit_code), "run series lock"),
    FLAG("add", "DURATION", "add this to the TTL; with --force -5s shortens it", CLI_CHANGE, 'a',
         CLI_FIELD(add_ms), "extend"),
    FLAG("secret", "SECRET", "of the grant with this secret; - reads it from stdin", CLI_TEXT, 's',
         CLI_FIELD(secret), "extend"),
    FLAG("secret", "SECRET", "release the grant with this secret; - reads it from stdin", CLI_TEXT,
         's', CLI_FIELD(secret), "unlock"),
    FLAG("token", "TOKEN", "with --force, only the grant with this token; the queue stays",
         CLI_TEXT, 0, CLI_FIELD(token), "unlock"),
    FLAG("queues", NULL, "list queues instead of locks", CLI_ON, 'q', CLI_FIELD(queues), "ls"),
    FLAG("why", NULL, "say what its holder waits for itself", CLI_ON, 0, CLI_FIELD(why), "queue"),
    FLAG("keys", NULL, "list the keys of locks and queues", CLI_ON, 'k', CLI_FIELD(keys), "ls"),
    FLAG("long", NULL, "show details of each", CLI_ON, 'l', CLI_FIELD(details), "ls"),
    FLAG("node", NULL, "show details of each, and its server", CLI_ON, 0, CLI_FIELD(node), "ls"),
    FLAG("node", NULL, "show its server, too", CLI_ON, 0, CLI_FIELD(node), "info who"),
    FLAG("node", NULL, "count for each server, too", CLI_ON, 0, CLI_FIELD(node), "stats"),
    FLAG("host", "HOST", "host id of the locks, as rql who --ids shows it", CLI_TEXT, 0,
         CLI_FIELD(host), "clear-of"),
    FLAG("acquirer", "ACQUIRER", "acquirer id of the locks and requests", CLI_TEXT, 0,
         CLI_FIELD(acquirer), "clear-of"),
    FLAG("force", NULL, "do so although another client holds the lock", CLI_ON, 0, CLI_FIELD(force),
         "extend"),
    FLAG("force", NULL, "release it although another client holds it, and empty its queue", CLI_ON,
         0, CLI_FIELD(force), "unlock"),
    FLAG("force", NULL, "release them although others hold them, and empty their queues", CLI_ON, 0,
         CLI_FIELD(force), "clear"),
    FLAG("force", NULL, "release them although others hold them", CLI_ON, 0, CLI_FIELD(force),
         "clear-of"),
    FLAG("listen", "PATH|ADDRESS", "path of the socket, or 127.0.0.1:PORT", CLI_TEXT, 0,
         CLI_FIELD(listen), "agent"),
    FLAG("listen", "ADDRESS|unix:PATH", "where; default 127.0.0.1:9775", CLI_TEXT, 0,
         CLI_FIELD(listen), "serve"),
    FLAG("listen", "ADDRESS|unix:PATH", "run: serve HTTP there, as rql serve does", CLI_TEXT, 0,
         CLI_FIELD(listen), "swarm"),
    FLAG("http", "ADDRESS|unix:PATH", "serve HTTP there, as rql serve does", CLI_TEXT, 0,
         CLI_FIELD(http), "agent"),
    FLAG("page", NULL, "serve the page as well", CLI_ON, 0, CLI_FIELD(page), "serve swarm agent"),
    FLAG("password-file", "FILE", "what clients send by AUTH: its first line", CLI_TEXT, 0,
         CLI_FIELD(password_file), "agent"),
    FLAG("drain", "DURATION", "at SIGTERM, time to release; default 30s", CLI_DURATION, 0,
         CLI_FIELD(drain_ms), "agent"),
    FLAG("within", "DURATION", "time to release them; default 30s", CLI_DURATION, 0,
         CLI_FIELD(within_ms), "drain"),
    FLAG("force", NULL, "then release what is left, although others hold it", CLI_ON, 0,
         CLI_FIELD(force), "drain"),
    FLAG("force", NULL, "remove them", CLI_ON, 0, CLI_FIELD(force), "dead"),
    FLAG("force", NULL, "measure although others use the server", CLI_ON, 0, CLI_FIELD(force),
         "bench"),
    FLAG("for", "DURATION", "measure for this long; default 10s", CLI_DURATION, 0,
         CLI_FIELD(for_ms), "bench"),
    FLAG("older-than", "DURATION", "remove requests of this age or more; default 1d", CLI_DURATION,
         0, CLI_FIELD(older_than_ms), "dead"),
    FLAG("dry-run", NULL, "only show what would be done", CLI_ON, 0, CLI_FIELD(dry_run),
         "clear clear-of dead"),
    FLAG("json", NULL, "print JSON for machines", CLI_ON, 0, CLI_FIELD(json), "swarm"),
    FLAG("log", "text|json", "log on stderr", CLI_LOG, 0, 0, "run once elect series lock swarm"),
    FLAG("gem", NULL, "take one lock after the other in the given order, as the gem does", CLI_ON,
         0, CLI_FIELD(gem), "series"),
    FLAG("sorted", NULL, "in a cluster: take the locks of one partition after those of another",
         CLI_ON, 0, CLI_FIELD(sorted), "series"),
    FLAG("json", NULL, "print JSON for machines", CLI_ON, 0, CLI_FIELD(json),
         "lock unlock extend info queue ls who top watch history clear clear-of drain dead stats "
         "hosts ping doctor bench"),
    FLAG("ids", NULL, "show ids in place of the names of clients", CLI_ON, 0, CLI_FIELD(ids),
         "info queue ls who top watch drain hosts swarm"),
    FLAG("all", NULL, "show passed checks, too", CLI_ON, 'a', CLI_FIELD(all), "doctor"),
    FLAG("strict", NULL, "exit with 1 for a note, too", CLI_ON, 0, CLI_FIELD(strict), "doctor"),
    FLAG("quick", NULL, "begin no check after 1 s, instead of 5 s", CLI_ON, 'q', CLI_FIELD(quick),
         "doctor"),
    FLAG("max-keys", "COUNT", "examine about this many keys; default 100000", CLI_COUNT, 0,
         CLI_FIELD(max_keys), "doctor"),
    FLAG("openmetrics", NULL, "print gauges in the OpenMetrics text format", CLI_ON, 0,
         CLI_FIELD(openmetrics), "stats"),
    FLAG("out", "FILE", "write to this file in place of its content", CLI_TEXT, 'o',
         CLI_FIELD(out_file), "stats"),
    FLAG("every", "DURATION", "repeat after this pause, of 1s or more, until it is ended",
         CLI_DURATION, 0, CLI_FIELD(every_ms), "stats"),
    FLAG("sort", "waiting|held|left|served|name", "largest first; default waiting", CLI_TEXT, 0,
         CLI_FIELD(sort), "top"),
    FLAG("every", "DURATION", "time from one look to the next; default 1s", CLI_DURATION, 0,
         CLI_FIELD(every_ms), "top"),
    FLAG("count", "N", "end after N looks", CLI_COUNT, 'n', CLI_FIELD(count), "top"),
    FLAG("batch", NULL, "print a table for each look", CLI_ON, 'b', CLI_FIELD(batch), "top"),
    FLAG("older-than", "DURATION", "only locks held, or waited for, this long", CLI_DURATION, 0,
         CLI_FIELD(older_than_ms), "top"),
    FLAG("read-only", NULL, "offer no key that changes something", CLI_ON, 0, CLI_FIELD(read_only),
         "top"),
    FLAG("all", NULL, "watch all locks", CLI_ON, 0, CLI_FIELD(all), "watch"),
    FLAG("event", "LIST", "only these events, separated by a comma", CLI_TEXT, 0, CLI_FIELD(event),
         "watch"),
    FLAG("count", "N", "end after N changes", CLI_COUNT, 'n', CLI_FIELD(count), "watch"),
    FLAG("by", "name|user|host", "add up by this; default user for a NAME, or name", CLI_TEXT, 0,
         CLI_FIELD(by), "history"),
    FLAG("days", "N", "how many days, 1 to 35, with today; default 7", CLI_COUNT, 0,
         CLI_FIELD(days), "history"),
    FLAG("user", "USER", "holds of this user alone", CLI_TEXT, 0, CLI_FIELD(user), "history"),
    FLAG("list", NULL, "show single holds, the latest first", CLI_ON, 0, CLI_FIELD(list),
         "history"),
    FLAG("slowest", NULL, "show single holds, the longest wait first", CLI_ON, 0,
         CLI_FIELD(slowest), "history"),
    FLAG("count", "N", "single holds to show, at most; default 20", CLI_COUNT, 'n',
         CLI_FIELD(count), "history"),
    FLAG("forget", NULL, "remove what is recorded of NAME, or of --user", CLI_ON, 0,
         CLI_FIELD(forget), "history"),
    FLAG("classes", "FILE", "classes of locks: lines such as orders:* orders", CLI_TEXT, 0,
         CLI_FIELD(classes_file), "stats serve swarm agent"),
    FLAG("no-color", NULL, "as NO_COLOR: nothing is coloured, bold or faint", CLI_ON, 0,
         CLI_FIELD(no_color), "info queue ls who top history drain stats hosts ping doctor bench"),
    FLAG("json", NULL, NULL, CLI_ON, 0, CLI_FIELD(json), ""),
    FLAG("help", NULL, "print the help", CLI_ON, 'h', CLI_FIELD(help), NULL),
    {.name = NULL},
};

bool cli_is_listed(const struct cli_command *command, const char *commands)
{
    const size_t length = strlen(command->name);
    const char *at = commands;

    while (at &&
           (strncmp(at, command->name, length) != 0 || (at[length] != '\0' && at[length] != ' '))) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at || !commands;
}

void cli_option_flag(char out[CLI_FLAG_SIZE], const rql_option_row *row)
{
    (void)snprintf(out, CLI_FLAG_SIZE, "%s", row->name);
    for (char *at = out; (at = strchr(at, '_')) != NULL;) {
        *at = '-';
    }
    if (strcmp(row->unit, "ms") == 0) {
        out[strlen(out) - strlen("-ms")] = '\0';
    }
}

void cli_flag_value(char out[CLI_FLAG_SIZE], const struct cli_flag *flag)
{
    const bool may_miss = flag->kind == CLI_MAYBE;
    const char *space = flag->value ? " " : "";

    (void)snprintf(out, CLI_FLAG_SIZE, "%s%s%s", may_miss ? "[=" : space,
                   flag->value ? flag->value : "", may_miss ? "]" : "");
}

/* Returns the default of this option in this program. */
static const char *default_of(const rql_option_row *row)
{
    const struct cli_flag *flag = cli_flags;

    while (flag->name && (!flag->preset || strcmp(flag->option, row->name) != 0)) {
        flag++;
    }
    return flag->name ? flag->preset : row->default_value;
}

void cli_option_range(char out[CLI_RANGE_SIZE], const rql_option_row *row)
{
    const char *value = default_of(row);
    const bool is_number = *value >= '0' && *value <= '9'; /* no other value has a unit */

    (void)snprintf(out, CLI_RANGE_SIZE, "%s; default %s%s%s", row->range, *value ? value : "empty",
                   is_number && *row->unit ? " " : "", is_number ? row->unit : "");
}
