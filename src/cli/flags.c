#include "cmd.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>

/* In the order in which the help of a command shows them. A flag whose text depends on the command
 * has a row for each text. */
const struct cli_flag cli_flags[] = {
    {"version", NULL, NULL, CLI_ON, 'V', CLI_FIELD(version), ""},
    {"ttl", "DURATION", "life of the lock between renewals; default 5s", CLI_DURATION, 0,
     CLI_FIELD(ttl_ms), "run series"},
    {"ttl", "DURATION", "life of the lock", CLI_DURATION, 0, CLI_FIELD(ttl_ms), "lock"},
    {"wait", "LIMIT", "give up after this long; default forever", CLI_LIMIT, 'w',
     CLI_FIELD(wait_ms), "run series lock"},
    {"try", NULL, "do not wait at all", CLI_ON, 'n', CLI_FIELD(fail_fast), "run series lock"},
    {"auto-extend", NULL, NULL, CLI_ON, 0, CLI_FIELD(auto_extend), "run series"},
    {"no-auto-extend", NULL, "do not renew: end it before the ttl ends", CLI_OFF, 0,
     CLI_FIELD(auto_extend), "run series"},
    {"max-hold", "LIMIT", "end it and release by then; default forever", CLI_LIMIT, 0,
     CLI_FIELD(max_hold_ms), "run series"},
    {"kill-after", "DURATION", "from SIGTERM to SIGKILL; default ttl / 3", CLI_DURATION, 'k',
     CLI_FIELD(kill_after_ms), "run series"},
    {"meta", "NAME=VALUE", "keep this in the lock; may be repeated", CLI_META, 'm', 0,
     "run series"},
    {"meta", "NAME=VALUE", "keep this in the lock, readable by all; may be repeated", CLI_META, 'm',
     0, "lock"},
    {"conflict-exit-code", "CODE", "exit code when not acquired; default 1", CLI_CODE, 'E',
     CLI_FIELD(conflict_exit_code), "run series lock"},
    {"add", "DURATION", "add this to the remaining ttl; -5s shortens it, by force only", CLI_CHANGE,
     'a', CLI_FIELD(add_ms), "extend"},
    {"secret", "SECRET", "of the grant with this secret; - reads it from stdin", CLI_TEXT, 's',
     CLI_FIELD(secret), "extend"},
    {"secret", "SECRET", "release the grant with this secret; - reads it from stdin", CLI_TEXT, 's',
     CLI_FIELD(secret), "unlock"},
    {"queues", NULL, "queues instead of locks", CLI_ON, 'q', CLI_FIELD(queues), "ls"},
    {"keys", NULL, "full names of all keys, of locks and queues", CLI_ON, 'k', CLI_FIELD(keys),
     "ls"},
    {"long", NULL, "details of each", CLI_ON, 'l', CLI_FIELD(details), "ls"},
    {"host", "HOST", "host id of the locks, as rql who shows it", CLI_TEXT, 0, CLI_FIELD(host),
     "clear-of"},
    {"acquirer", "ACQUIRER", "acquirer id of the locks and requests", CLI_TEXT, 0,
     CLI_FIELD(acquirer), "clear-of"},
    {"force", NULL, "whoever holds the lock", CLI_ON, 0, CLI_FIELD(force), "extend"},
    {"force", NULL, "release the lock whoever holds it, and empty its queue", CLI_ON, 0,
     CLI_FIELD(force), "unlock"},
    {"force", NULL, "release them whoever holds them, and empty their queues", CLI_ON, 0,
     CLI_FIELD(force), "clear"},
    {"force", NULL, "release them although others hold them", CLI_ON, 0, CLI_FIELD(force),
     "clear-of"},
    {"older-than", "DURATION", "only requests of this age or more; else --dead-request-ttl-ms",
     CLI_DURATION, 0, CLI_FIELD(older_than_ms), "dead"},
    {"dry-run", NULL, "only show what would be done", CLI_ON, 0, CLI_FIELD(dry_run),
     "clear clear-of dead"},
    {"json", NULL, "print JSON for machines", CLI_ON, 0, CLI_FIELD(json), "swarm"},
    {"log", "FORM", "write what happens on stderr, as text or json", CLI_LOG, 0, 0,
     "run series lock swarm"},
    {"gem", NULL, "take one after the other, in the given order, as the gem's lock_series", CLI_ON,
     0, CLI_FIELD(gem), "series"},
    {"json", NULL, "print JSON for machines", CLI_ON, 0, CLI_FIELD(json),
     "lock unlock extend info queue ls who clear clear-of dead stats"},
    {"openmetrics", NULL, "print gauges in the OpenMetrics text format", CLI_ON, 0,
     CLI_FIELD(openmetrics), "stats"},
    {"help", NULL, "this text", CLI_ON, 'h', CLI_FIELD(help), NULL},
    {.name = NULL},
};

/* Is the command's name in the list? */
bool cli_flag_is_of(const struct cli_flag *self, const struct cli_command *command)
{
    const size_t length = strlen(command->name);
    const char *at = self->commands;

    while (at &&
           (strncmp(at, command->name, length) != 0 || (at[length] != '\0' && at[length] != ' '))) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at || !self->commands;
}

int cli_misused(const struct cli_command *command, const char *what, const char *argument)
{
    if (*command->name != '\0') {
        cli_say("%s: %s%s; see rql %s --help", command->name, what, argument, command->name);
    } else {
        cli_say("%s%s; see rql --help", what, argument);
    }
    return CLI_USAGE;
}

static int store_duration(const struct cli_command *command, const struct cli_flag *flag,
                          const char *text, int64_t *field)
{
    int64_t value_ms = 0;

    if (flag->kind == CLI_LIMIT && strcmp(text, "forever") == 0) {
        *field = RQL_FOREVER;
        return CLI_DONE;
    }
    if (rql_parse_duration(text, &value_ms, NULL) == RQL_OK &&
        (value_ms >= 0 || flag->kind == CLI_CHANGE)) {
        *field = value_ms;
        return CLI_DONE;
    }
    cli_say("%s: --%s %s is no duration: write it with its unit, such as 500ms, 0.5s or 1h30m%s",
            command->name, flag->name, text, flag->kind == CLI_LIMIT ? ", or forever" : "");
    return CLI_USAGE;
}

/* strtol() would take blanks and signs, too. */
static int store_code(const struct cli_command *command, const struct cli_flag *flag,
                      const char *text, int64_t *field)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > 255) {
        cli_say("%s: --%s %s is no exit code: 0 to 255", command->name, flag->name, text);
        return CLI_USAGE;
    }
    *field = value;
    return CLI_DONE;
}

/* Cuts the argument in two where it stands: the pair refers to its halves. */
static int store_meta(struct cli_args *args, const struct cli_command *command, char *text)
{
    char *equals = strchr(text, '=');

    if (!equals || equals == text) {
        return cli_misused(command, "metadata is written NAME=VALUE, not ", text);
    }
    if (args->n_meta == RQL_META_MAX_PAIRS) {
        return cli_misused(command, "too much metadata at ", text);
    }
    *equals = '\0';
    args->meta[args->n_meta++] = (rql_meta){.name = text, .value = equals + 1};
    return CLI_DONE;
}

static int store_log(struct cli_args *args, const struct cli_command *command, const char *form)
{
    if (strcmp(form, "text") == 0) {
        args->options.logger = cli_log_text;
    } else if (strcmp(form, "json") == 0) {
        args->options.logger = cli_log_json;
    } else {
        return cli_misused(command, "log lines are written as text or json, not as ", form);
    }
    return CLI_DONE;
}

static int store_option(struct cli_args *args, size_t row, const char *value)
{
    rql_error error = {.status = RQL_OK};
    const char *name = rql_option_row_at(row)->name;

    return rql_options_set(&args->options, name, value, &error) == RQL_OK ? CLI_DONE
                                                                          : cli_fault(&error);
}

int cli_flag_store(const struct cli_flag *flag, const struct cli_command *command,
                   struct cli_args *args, char *value)
{
    void *field = (char *)args + flag->offset;

    switch (flag->kind) {
    case CLI_ON:
    case CLI_OFF:
        *(bool *)field = flag->kind == CLI_ON;
        return CLI_DONE;
    case CLI_DURATION:
    case CLI_LIMIT:
    case CLI_CHANGE:
        return store_duration(command, flag, value, field);
    case CLI_CODE:
        return store_code(command, flag, value, field);
    case CLI_TEXT:
        *(const char **)field = value;
        return CLI_DONE;
    case CLI_META:
        return store_meta(args, command, value);
    case CLI_LOG:
        return store_log(args, command, value);
    case CLI_OPTION:
        return store_option(args, flag->offset, value);
    }
    return CLI_USAGE;
}
