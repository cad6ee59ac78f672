#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "trace.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses the command line. Flags follow getopt_long(), except that they cannot be abbreviated.
 * Names and commands around "--" follow rules of their own. */

const struct cli_command cli_top = {.name = ""};
const char cli_default_url[] = "local:";

enum {
    FLAGS_MAX = 128,
    LINE_SIZE = 1024,
    LONG_FLAG = 256,   /* getopt_long() returns this plus the index for a long flag, */
    BARE_ARGUMENT = 1, /* this for an argument that is no flag, and a letter for a short flag */
};

/* All flags that a command takes, with the options of the library, in the form that getopt_long()
 * wants. If two have the same name, the first one counts. */
struct flags {
    const struct cli_command *command;
    size_t count;
    struct cli_flag item[FLAGS_MAX];
    struct option longs[FLAGS_MAX + 1];
    char names[FLAGS_MAX][CLI_FLAG_SIZE]; /* names of options, with '-' for '_' */
    char letters[2 * FLAGS_MAX + 3];      /* "-:k:nw:" */
};

void cli_args_init(struct cli_args *args, char **arguments)
{
    *args = (struct cli_args){
        .next = arguments,
        .wait_ms = CLI_UNSET,
        .max_hold_ms = CLI_UNSET,
        .kill_after_ms = CLI_UNSET,
        .add_ms = CLI_UNSET,
        .older_than_ms = CLI_UNSET,
        .max_keys = CLI_UNSET,
        .every_ms = CLI_UNSET,
        .window_ms = CLI_UNSET,
        .for_ms = CLI_UNSET,
        .within_ms = CLI_UNSET,
        .drain_ms = CLI_UNSET,
        .conflict_exit_code = CLI_UNSET,
        .permits = CLI_UNSET,
        .max_waiters = CLI_UNSET,
        .head_start_ms = CLI_UNSET,
        .units = CLI_UNSET,
        .count = CLI_UNSET,
        .days = CLI_UNSET,
    };
    /* An error in the environment is kept until it matters, because the help needs nothing from
     * it. */
    rql_options_init(&args->options);
    /* The program's own defaults come before the environment, which may override them. */
    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (flag->preset && args->env_status == RQL_OK) {
            args->env_status =
                rql_options_set(&args->options, flag->option, flag->preset, &args->env_error);
        }
    }
    if (args->env_status == RQL_OK) {
        args->env_status = rql_options_from_env(&args->options, &args->env_error);
    }
    if (*args->options.url == '\0') {
        args->options.url = cli_default_url;
    }
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

/* ---- values ---- */

/* Parses the three kinds of durations. Only a limit may be forever, and only a change negative. */
static int store_duration(const struct cli_command *command, const struct cli_flag *flag,
                          const char *text, int64_t *field)
{
    int64_t value_ms = 0;

    if (flag->kind == CLI_LIMIT && strcmp(text, "forever") == 0) {
        *field = RQL_FOREVER;
        return CLI_DONE;
    }
    if (rql_duration_parse(text, &value_ms, NULL) == RQL_OK &&
        (value_ms >= 0 || flag->kind == CLI_CHANGE)) {
        *field = value_ms;
        return CLI_DONE;
    }
    cli_say("%s%s--%s %s is not a duration: write it with its unit, such as 500ms, 0.5s or 1h30m%s",
            command->name, *command->name ? ": " : "", flag->name, text,
            flag->kind == CLI_LIMIT ? ", or forever" : "");
    return CLI_USAGE;
}

/* Parses a number. The first character is checked because strtol() accepts blanks and signs,
 * too. */
static int store_number(const struct cli_command *command, const struct cli_flag *flag,
                        const char *text, int64_t *field)
{
    const long most = flag->kind == CLI_CODE ? 255 : 100000000;
    char *end = NULL;
    const long value = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > most) {
        cli_say("%s: --%s %s is no %s: 0 to %ld", command->name, flag->name, text,
                flag->kind == CLI_CODE ? "exit code" : "count", most);
        return CLI_USAGE;
    }
    *field = value;
    return CLI_DONE;
}

static int add_meta(struct cli_args *args, const struct cli_command *command, const char *name,
                    const char *value)
{
    if (args->n_meta == RQL_META_MAX_PAIRS) {
        return cli_misused(command, "too much metadata at ", name);
    }
    if (strcmp(name, "traceparent") == 0) {
        return cli_misused(command, "this metadata is set by --traceparent: ", name);
    }
    args->meta[args->n_meta++] = (rql_meta){.name = name, .value = value};
    return CLI_DONE;
}

/* Splits the argument in place; the pair points to its two halves. */
static int store_meta(struct cli_args *args, const struct cli_command *command, char *text)
{
    char *equals = strchr(text, '=');

    if (!equals || equals == text) {
        return cli_misused(command, "metadata is written NAME=VALUE, not ", text);
    }
    *equals = '\0';
    return add_meta(args, command, text, equals + 1);
}

/* Sets an option of the library. The flag of a duration does not say its unit, as the option's name
 * does, so the value has to. */
static int store_option(struct cli_args *args, const struct cli_command *command,
                        const struct cli_flag *flag, const char *value)
{
    const rql_option_row *row = rql_option_row_at(flag->offset);
    const struct cli_flag limit = {.name = flag->name, .kind = CLI_LIMIT};
    rql_error error = {.status = RQL_OK};
    int64_t value_ms;

    if (strcmp(row->unit, "ms") == 0 &&
        store_duration(command, &limit, value, &value_ms) != CLI_DONE) {
        return CLI_USAGE;
    }
    return rql_options_set(&args->options, row->name, value, &error) == RQL_OK ? CLI_DONE
                                                                               : cli_fault(&error);
}

/* Stores the value of one flag in its field or in the options. A switch has no value: NULL. */
static int store(const struct cli_flag *flag, const struct cli_command *command,
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
    case CLI_COUNT:
        return store_number(command, flag, value, field);
    case CLI_TEXT:
        *(const char **)field = value;
        return CLI_DONE;
    case CLI_MAYBE:
        *(const char **)field = value ? value : "";
        return CLI_DONE;
    case CLI_META:
        return store_meta(args, command, value);
    case CLI_REASON:
        return add_meta(args, command, flag->name, value);
    case CLI_STRING:
        args->shell[2] = value;
        return CLI_DONE;
    case CLI_LOG:
        args->options.logger = strcmp(value, "text") == 0   ? cli_log_text
                               : strcmp(value, "json") == 0 ? cli_log_json
                                                            : NULL;
        return args->options.logger
                   ? CLI_DONE
                   : cli_misused(command, "log lines are written as text or json, not as ", value);
    case CLI_OPTION:
        return store_option(args, command, flag, value);
    }
    return CLI_USAGE;
}

/* ---- flags ---- */

/* Adds a flag to the tables of getopt_long(), which cannot be constant: our table says more, and
 * the flags depend on the command. */
static void add_flag(struct flags *self, const struct cli_flag *flag)
{
    const bool is_switch = flag->kind == CLI_ON || flag->kind == CLI_OFF;
    const size_t length = strlen(self->letters);

    if (self->count == FLAGS_MAX) {
        abort(); /* the tables are larger than FLAGS_MAX */
    }
    self->item[self->count] = *flag;
    self->longs[self->count] = (struct option){
        .name = flag->name,
        .has_arg = is_switch                 ? no_argument
                   : flag->kind == CLI_MAYBE ? optional_argument
                                             : required_argument,
        .val = LONG_FLAG + (int)self->count,
    };
    self->count++;
    if (flag->letter != 0) {
        self->letters[length] = flag->letter;
        /* A colon after the letter means that the flag has a value. */
        self->letters[length + 1] = is_switch ? '\0' : ':';
    }
}

/* Collects the flags of the program before the options of the library, so that they hide an option
 * with the same name. *self must not move afterwards, because it points to names inside itself. */
static void collect_flags(struct flags *self, const struct cli_command *command)
{
    const rql_option_row *row;

    /* '+' stops at the first argument that is no flag, and '-' returns such an argument in its
     * place. ':' distinguishes a missing value from an unknown flag. */
    *self = (struct flags){.command = command, .letters = {command == &cli_top ? '+' : '-', ':'}};
    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (cli_is_listed(command, flag->commands)) {
            add_flag(self, flag);
        }
    }
    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_option_flag(self->names[i], row);
        add_flag(self, &(struct cli_flag){
                           .name = self->names[i],
                           .offset = i,
                           .kind = CLI_OPTION,
                       });
    }
}

/* Returns the flag that getopt_long() has found, so it exists. */
static const struct cli_flag *find_flag(const struct flags *self, int found)
{
    size_t i = 0;

    if (found >= LONG_FLAG) {
        return &self->item[found - LONG_FLAG];
    }
    while (self->item[i].letter != found) {
        i++;
    }
    return &self->item[i];
}

/* Returns whether the argument is a long flag that is unknown. getopt_long() would accept "--sec"
 * for "--secret". A flag that is added later would then change the meaning of an abbreviation in a
 * script, or make it fail. */
static bool is_unknown(const struct flags *self, const char *argument)
{
    const size_t length = strcspn(argument, "=");

    if (length <= 2 || strncmp(argument, "--", 2) != 0) {
        return false;
    }
    for (size_t i = 0; i < self->count; i++) {
        if (strlen(self->item[i].name) == length - 2 &&
            strncmp(self->item[i].name, argument + 2, length - 2) == 0) {
            return false;
        }
    }
    return true;
}

/* Returns whether any command takes this flag. */
static bool is_of_commands(const char *argument, size_t length)
{
    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (strlen(flag->name) + 2 == length &&
            strncmp(flag->name, argument + 2, length - 2) == 0) {
            return true;
        }
    }
    return false;
}

/* Reports an unknown flag without its value, which may be a secret: `length` ends before the
 * value. */
static int unknown_flag(const struct flags *self, const char *argument, size_t length)
{
    struct cli_guess guess;
    char said[LINE_SIZE];

    if (self->command == &cli_top && is_of_commands(argument, length)) {
        cli_say("%.*s belongs behind the command; see rql --help", (int)length, argument);
        return CLI_USAGE;
    }
    cli_guess_init(&guess, argument + 2, length - 2);
    for (size_t i = 0; i < self->count; i++) {
        cli_guess_propose(&guess, self->item[i].name);
    }
    (void)snprintf(said, sizeof said, "%.*s%s", (int)length, argument,
                   cli_guess_text(&guess, "--"));
    return cli_misused(self->command, "unknown flag ", said);
}

/* Takes a name. A command must come after "--", because names and commands look alike, and because
 * its flags could not be distinguished from ours otherwise. */
static int take_name(struct cli_args *args, const struct cli_command *command, const char *name)
{
    const bool is_first = cli_takes_name(command) && !args->name;

    /* What was given to --agent behind a blank is a name. */
    if (!is_first && args->agent && *args->agent == '\0') {
        return cli_misused(command, "write --agent=SOCKET, and -- in front of the command, at ",
                           name);
    }
    if (!is_first && !command->takes_names) {
        return cli_misused(command,
                           command->takes_command ? "put -- in front of the command, at "
                                                  : "one too many: ",
                           name);
    }
    if (is_first) {
        args->name = name;
    }
    if (command->takes_names) {
        if (args->n_names == RQL_SERIES_MAX) {
            return cli_misused(command, "too many names at ", name);
        }
        /* The first name is stored here, too: for a series `name` is only used in messages. */
        args->names[args->n_names++] = name;
    }
    return CLI_DONE;
}

/* Takes a "--". If it comes before any name, it begins names that may look like flags, up to the
 * next "--". The second one begins the command. */
static int take_dashes(struct cli_args *args, const struct cli_command *command)
{
    if (cli_takes_name(command) && !args->name && !args->only_names) {
        args->only_names = true;
        return CLI_DONE;
    }
    if (command->takes_command) {
        args->command = args->next;
        return CLI_DONE;
    }
    if (args->only_names) {
        args->only_names = false;
        return CLI_DONE;
    }
    return cli_misused(command, "nothing can follow ", "--");
}

/* Handles the result of getopt_long() for this argument. */
static int take_found(struct cli_args *args, const struct flags *flags, int found,
                      const char *argument)
{
    const char letter[] = {'-', (char)optopt, '\0'};

    switch (found) {
    case BARE_ARGUMENT:
        return take_name(args, flags->command, optarg);
    case ':':
        return cli_misused(flags->command, "a value is missing after ", argument);
        /* optopt is a long flag that takes no value but was given one, or an unknown letter.
         * Unknown long flags do not get this far. */
    case '?':
        return optopt >= LONG_FLAG ? cli_misused(flags->command, "no value is wanted in ", argument)
                                   : unknown_flag(flags, letter, 2);
    default:
        return store(find_flag(flags, found), flags->command, args, optarg);
    }
}

/* Reads arguments up to and including a "--", or all of them. Before the command's name it reads
 * only the flags. */
static int take_flags(struct cli_args *args, const struct flags *flags)
{
    char **const arguments = args->next - 1; /* getopt_long() skips the first argument */
    int count = 1;
    int code = CLI_DONE;

    while (arguments[count]) {
        count++;
    }
    opterr = 0; /* its messages would show the value of an unknown flag */
    optind = 0; /* starts again, because its state belongs to another array */
    while (code == CLI_DONE) {
        /* For messages: the argument that getopt_long() is about to read. */
        const char *argument = arguments[optind > 0 ? optind : 1];
        int found;

        if (argument && is_unknown(flags, argument)) {
            return unknown_flag(flags, argument, strcspn(argument, "="));
        }
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet */
        found = getopt_long(count, arguments, flags->letters, flags->longs, NULL);
        if (found < 0) {
            args->next = arguments + optind;
            return argument && strcmp(argument, "--") == 0 ? take_dashes(args, flags->command)
                                                           : CLI_DONE;
        }
        code = take_found(args, flags, found, argument);
    }
    return code;
}

/* Returns the flag whose time is too short, or NULL. The grace period between SIGTERM and SIGKILL
 * must be shorter than the time for which the lock is certainly held. With a longer one the command
 * would be ended before it begins. */
static const char *find_too_short(const struct cli_args *args)
{
    if (args->max_hold_ms >= 0 && args->kill_after_ms >= args->max_hold_ms) {
        return "--max-hold";
    }
    /* With --at-most-once the TTL is another one (cmd_once.c). */
    return !args->at_most_once && !args->options.auto_extend &&
                   args->kill_after_ms >= args->options.ttl_ms
               ? "--ttl"
               : NULL;
}

/* Returns whether the command takes the flag that sets this field. */
static bool takes_flag(const struct cli_command *command, size_t offset)
{
    const struct cli_flag *flag = cli_flags;

    while (flag->name && (flag->offset != offset || !cli_is_listed(command, flag->commands))) {
        flag++;
    }
    return flag->name != NULL;
}

/* Makes the string of --command the command. */
static int use_shell(struct cli_args *args, const struct cli_command *command)
{
    static char shell[] = "sh";
    static char flag[] = "-c";

    if (args->command) {
        return cli_misused(command, "--command does not go with ", "-- COMMAND");
    }
    args->shell[0] = shell;
    args->shell[1] = flag;
    args->command = args->shell;
    return CLI_DONE;
}

/* Checks the flags of a lock that several hold together. */
static int check_share(const struct cli_args *args, const struct cli_command *command)
{
    const bool has_permits = args->permits != CLI_UNSET;
    const bool has_units = args->units != CLI_UNSET;
    const int64_t units = has_units ? args->units : 1;

    if (!has_permits && (has_units || args->slots)) {
        return cli_misused(command, has_units ? "--units needs " : "--slots needs ", "--permits");
    }
    if (!has_permits) {
        return CLI_DONE;
    }
    if (args->shared) {
        return cli_misused(command, "--shared does not go with ", "--permits");
    }
    if (args->permits < 1 || args->permits > RQL_SHARE_MAX) {
        return cli_misused(command, "--permits must be 1 to ", "4096");
    }
    if (units < 1 || units > args->permits) {
        return cli_misused(command, "--units must be 1 to the number of ", "--permits");
    }
    if (args->slots && (args->permits > RQL_SLOT_LIMIT_MAX || units > RQL_SLOT_UNITS_MAX)) {
        return cli_misused(command, "at most 64 units of 1024 permits can have ", "--slots");
    }
    return CLI_DONE;
}

enum { WAITERS_MAX = 1000000 }; /* of rql_lock_options::max_waiters */

/* Head starts, in milliseconds, of the words of --priority. */
static const struct {
    const char *name;
    int64_t head_start_ms;
} priorities[] = {{"normal", 0}, {"high", 60000}, {"urgent", 600000}};

int64_t cli_head_start_ms(const struct cli_args *args)
{
    for (size_t i = 0; args->priority && i < sizeof priorities / sizeof priorities[0]; i++) {
        if (strcmp(args->priority, priorities[i].name) == 0) {
            return priorities[i].head_start_ms;
        }
    }
    return args->priority ? CLI_UNSET : args->head_start_ms;
}

int cli_code_of_refusal(const struct cli_args *args, int preset)
{
    return args->conflict_exit_code == CLI_UNSET ? preset : (int)args->conflict_exit_code;
}

/* Checks the flags of a request's place in the queue. */
static int check_place(const struct cli_args *args, const struct cli_command *command)
{
    if (args->priority && args->head_start_ms != CLI_UNSET) {
        return cli_misused(command, "--priority does not go with ", "--head-start");
    }
    if (args->priority && cli_head_start_ms(args) == CLI_UNSET) {
        return cli_misused(command, "--priority is normal, high or urgent, not ", args->priority);
    }
    if (args->head_start_ms > RQL_HEAD_START_MAX_MS) {
        return cli_misused(command, "at most 1h can be the ", "--head-start");
    }
    if (args->max_waiters > WAITERS_MAX) {
        return cli_misused(command, "at most 1000000 can be the ", "--max-waiters");
    }
    return CLI_DONE;
}

static int check_arguments(const struct cli_args *args, const struct cli_command *command)
{
    if (args->help) {
        return CLI_DONE;
    }
    /* --json may also stand in front of a command. */
    if (args->json && !takes_flag(command, CLI_FIELD(json))) {
        return cli_misused(command, "it prints no JSON: ", "--json");
    }
    if (command->needs_name && !args->name) {
        return cli_misused(command, command->name_is ? command->name_is : "which lock? ",
                           command->usage);
    }
    if (command->takes_glob && !args->forget && args->name && !cli_glob_is_valid(args->name)) {
        return cli_misused(command, "bad pattern, with a [ or \\ that does not end: ", args->name);
    }
    if (command->takes_command && (!args->command || !args->command[0])) {
        return cli_misused(command, "which command? ", command->usage);
    }
    if (args->max_hold_ms == 0) {
        return cli_misused(command, "nothing can be done within ", "--max-hold 0");
    }
    if (find_too_short(args)) {
        return cli_misused(command, "--kill-after has to be shorter than ", find_too_short(args));
    }
    if (args->fail_fast && args->wait_ms != CLI_UNSET) {
        return cli_misused(command, "--try does not go with ", "--wait");
    }
    if (args->gem && args->sorted) {
        return cli_misused(command, "--gem does not go with ", "--sorted");
    }
    if (args->traceparent && !cli_is_traceparent(args->traceparent)) {
        return cli_misused(command,
                           "no traceparent of W3C Trace Context, version 00: ", args->traceparent);
    }
    if (args->hold_at_least_ms > 0 && (args->shared || args->permits != CLI_UNSET)) {
        return cli_misused(command, "--hold-at-least does not go with ",
                           args->shared ? "--shared" : "--permits");
    }
    return check_place(args, command) == CLI_DONE ? check_share(args, command) : CLI_USAGE;
}

/* Takes the trace that this program was started in. One that is ill-formed is not worth a failure:
 * the job was started by a program that this one's user may not know. */
static void read_traceparent(struct cli_args *args)
{
    const char *given = getenv("TRACEPARENT"); /* NOLINT(concurrency-mt-unsafe) */

    if (args->traceparent || !given || *given == '\0') {
        return;
    }
    if (cli_is_traceparent(given)) {
        args->traceparent = given;
    } else {
        cli_say("TRACEPARENT is ignored: it is none of W3C Trace Context, version 00");
    }
}

int cli_args_parse(struct cli_args *args, const struct cli_command *command)
{
    struct flags flags;
    int code = CLI_DONE;

    collect_flags(&flags, command ? command : &cli_top);
    if (!command) {
        return take_flags(args, &flags);
    }
    /* Each "--" ends a round, because the arguments after it follow other rules. The arguments of a
     * command are not parsed at all. */
    while (code == CLI_DONE && *args->next && !args->command) {
        if (!args->only_names) {
            code = take_flags(args, &flags);
        } else if (strcmp(*args->next, "--") == 0) {
            args->next++;
            code = take_dashes(args, command);
        } else {
            code = take_name(args, command, *args->next++);
        }
    }
    if (code == CLI_DONE && args->shell[2]) {
        code = use_shell(args, command);
    }
    code = code == CLI_DONE ? check_arguments(args, command) : code;
    if (code == CLI_DONE && !args->help && takes_flag(command, CLI_FIELD(traceparent))) {
        read_traceparent(args);
    }
    return code;
}
