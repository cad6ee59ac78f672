#include "cmd.h"
#include "guess.h"
#include "logger.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_common_flags[] = {
    {.name = "help", .letter = 'h', .help = "this text", .offset = CLI_FIELD(help), .kind = CLI_ON},
    {.name = NULL},
};

static const struct cli_flag top_flags[] = {
    {.name = "version", .letter = 'V', .offset = CLI_FIELD(version), .kind = CLI_ON},
    {.name = NULL},
};

const char *const cli_forever_options[] = {"try_to_lock_timeout_ms", "retry_count",
                                           "default_queue_ttl_ms", NULL};

enum { LINE_SIZE = 1024 };

/* What stands before the command's name. */
static const struct cli_command top = {.flags = top_flags};

/* One flag as it stands on the command line. */
struct word {
    const char *text;   /* as written */
    size_t name_length; /* of the part before "=" */
    const char *value;  /* what follows "=", or NULL */
};

static int misused(const struct cli_command *command, const char *what, const char *word)
{
    if (command->name) {
        cli_say("%s: %s%s; see rql %s --help", command->name, what, word, command->name);
    } else {
        cli_say("%s%s; see rql --help", what, word);
    }
    return CLI_USAGE;
}

void cli_args_init(struct cli_args *args, char **words)
{
    size_t i;

    *args = (struct cli_args){
        .next = words,
        .auto_extend = true,
        .ttl_ms = CLI_UNSET,
        .wait_ms = CLI_UNSET,
        .max_hold_ms = CLI_UNSET,
        .kill_after_ms = CLI_UNSET,
        .add_ms = CLI_UNSET,
        .older_than_ms = CLI_UNSET,
        .conflict_exit_code = CLI_REFUSED,
    };
    rql_options_init(&args->options);
    for (i = 0; cli_forever_options[i] && args->env_status == RQL_OK; i++) {
        args->env_status =
            rql_options_set(&args->options, cli_forever_options[i], "forever", &args->env_error);
    }
    if (args->env_status == RQL_OK) {
        args->env_status = rql_options_from_env(&args->options, &args->env_error);
    }
}

static struct word split(const char *text)
{
    const char *equals = strchr(text, '=');

    return (struct word){
        .text = text,
        .name_length = equals ? (size_t)(equals - text) : strlen(text),
        .value = equals ? equals + 1 : NULL,
    };
}

static bool is_named(const struct word *word, const char *name)
{
    return strlen(name) + 2 == word->name_length &&
           strncmp(word->text + 2, name, word->name_length - 2) == 0;
}

static bool is_flag(const struct word *word, const struct cli_flag *flag)
{
    if (word->text[1] != '-') {
        return flag->letter != 0 && flag->letter == word->text[1];
    }
    return is_named(word, flag->name);
}

static const struct cli_flag *find_in(const struct cli_flag *flags, const struct word *word)
{
    for (; flags->name; flags++) {
        if (is_flag(word, flags)) {
            return flags;
        }
    }
    return NULL;
}

static const struct cli_flag *find_flag(const struct cli_command *command, const struct word *word)
{
    const struct cli_flag *flag = find_in(command->flags, word);

    if (!flag && command->more_flags) {
        flag = find_in(command->more_flags, word);
    }
    return flag ? flag : find_in(cli_common_flags, word);
}

/* Is this word of the command line the option's name, with '-' for '_'? */
static bool is_option(const struct word *word, const char *name)
{
    size_t i;

    if (strlen(name) + 2 != word->name_length) {
        return false;
    }
    for (i = 0; name[i] != '\0'; i++) {
        if (word->text[i + 2] != (name[i] == '_' ? '-' : name[i])) {
            return false;
        }
    }
    return true;
}

/* The library's name of the option that a word such as "--retry-count" means, or NULL. */
static const char *find_option(const struct word *word)
{
    const rql_option_row *row;
    size_t i;

    for (i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (is_option(word, row->name)) {
            return row->name;
        }
    }
    return NULL;
}

/* Names that this flag may have been meant to have. */
static int unknown_flag(const struct cli_command *command, const struct word *word)
{
    const struct cli_flag *const tables[] = {command->flags, command->more_flags, cli_common_flags};
    const bool is_long = word->text[1] == '-';
    struct cli_guess guess;
    char said[LINE_SIZE];
    char meant[CLI_GUESS_SIZE];
    const rql_option_row *row;
    size_t i;

    cli_guess_init(&guess, word->text + 2, is_long ? word->name_length - 2 : 0);
    for (i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const struct cli_flag *flag = tables[i];

        for (; flag && flag->name; flag++) {
            cli_guess_propose(&guess, flag->name);
        }
    }
    for (i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_guess_propose(&guess, row->name);
    }
    (void)snprintf(said, sizeof said, "%.*s%s", (int)word->name_length, word->text,
                   cli_guess_text(&guess, "--", true, meant));
    return misused(command, "unknown flag ", said); /* without its value: that may be a secret */
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

/* Cuts the word in two where it stands: the pair refers to its halves. */
static int store_meta(struct cli_args *args, const struct cli_command *command, char *text)
{
    char *equals = strchr(text, '=');

    if (!equals || equals == text) {
        return misused(command, "metadata is written NAME=VALUE, not ", text);
    }
    if (args->n_meta == RQL_META_MAX_PAIRS) {
        return misused(command, "too much metadata at ", text);
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
        return misused(command, "log lines are written as text or json, not as ", form);
    }
    return CLI_DONE;
}

static int store(struct cli_args *args, const struct cli_command *command,
                 const struct cli_flag *flag, char *value)
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
    }
    return CLI_USAGE;
}

static int store_option(struct cli_args *args, const char *name, const char *value)
{
    rql_error error = {.status = RQL_OK};

    return rql_options_set(&args->options, name, value, &error) == RQL_OK ? CLI_DONE
                                                                          : cli_fault(&error);
}

/* The value of a flag: after "=" or after the letter, else the next word, whatever it starts with.
 */
static char *take_value(struct cli_args *args, const char *inner)
{
    if (inner) {
        return args->next[-1] + (inner - args->next[-1]);
    }
    return *args->next ? *args->next++ : NULL;
}

static const char *inner_value(const struct word *word)
{
    if (word->text[1] == '-') {
        return word->value;
    }
    return word->text[2] != '\0' ? word->text + 2 : NULL;
}

static int take_flag(struct cli_args *args, const struct cli_command *command)
{
    const struct word word = split(*args->next++);
    const struct cli_flag *flag = find_flag(command, &word);
    const char *option = flag || word.text[1] != '-' ? NULL : find_option(&word);
    const bool is_switch = flag && (flag->kind == CLI_ON || flag->kind == CLI_OFF);
    const char *inner = inner_value(&word);
    char *value;

    if (!flag && !option) {
        return unknown_flag(command, &word);
    }
    if (is_switch) {
        return inner ? misused(command, "no value is wanted in ", word.text)
                     : store(args, command, flag, NULL);
    }
    value = take_value(args, inner);
    if (!value) {
        return misused(command, "a value is missing after ", word.text);
    }
    return option ? store_option(args, option, value) : store(args, command, flag, value);
}

static int take_name(struct cli_args *args, const struct cli_command *command, const char *name)
{
    if (!args->name) {
        args->name = name;
    }
    if (command->takes_names) {
        if (args->n_names == RQL_SERIES_MAX) {
            return misused(command, "too many names at ", name);
        }
        args->names[args->n_names++] = name;
    }
    return CLI_DONE;
}

/* A "--" before any name begins names that may look like flags, up to the next "--". The other one
 * begins the command. */
static int take_dashes(struct cli_args *args, const struct cli_command *command)
{
    const bool can_name = command->needs_name || command->takes_glob;

    args->next += 1;
    if (can_name && !args->name && !args->only_names) {
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
    return misused(command, "nothing can follow ", "--");
}

static int take_word(struct cli_args *args, const struct cli_command *command)
{
    char *word = *args->next;

    if (strcmp(word, "--") == 0) {
        return take_dashes(args, command);
    }
    if (!args->only_names && word[0] == '-' && word[1] != '\0') {
        return take_flag(args, command);
    }
    args->next += 1;
    if (command->takes_names || ((command->needs_name || command->takes_glob) && !args->name)) {
        return take_name(args, command, word);
    }
    return misused(
        command,
        command->takes_command ? "put -- in front of the command, at " : "one too many: ", word);
}

/* The command would be told to end before it begins. */
static const char *find_too_short(const struct cli_args *args)
{
    const int64_t ttl_ms =
        args->ttl_ms != CLI_UNSET ? args->ttl_ms : args->options.default_lock_ttl_ms;

    if (args->max_hold_ms >= 0 && args->kill_after_ms >= args->max_hold_ms) {
        return "--max-hold";
    }
    return !args->auto_extend && args->kill_after_ms >= ttl_ms ? "--ttl" : NULL;
}

static int check_words(const struct cli_args *args, const struct cli_command *command)
{
    if (args->help) {
        return CLI_DONE;
    }
    if (command->needs_name && !args->name) {
        return misused(command, command->name_is ? command->name_is : "which lock? ",
                       command->usage);
    }
    if (command->takes_command && (!args->command || !args->command[0])) {
        return misused(command, "which command? ", command->usage);
    }
    if (args->max_hold_ms == 0) {
        return misused(command, "nothing can be done within ", "--max-hold 0");
    }
    if (find_too_short(args)) {
        return misused(command, "--kill-after has to be shorter than ", find_too_short(args));
    }
    if (args->fail_fast && args->wait_ms != CLI_UNSET) {
        return misused(command, "--try does not go with ", "--wait");
    }
    return CLI_DONE;
}

static int parse_top(struct cli_args *args)
{
    int code = CLI_DONE;

    while (code == CLI_DONE && *args->next && (*args->next)[0] == '-') {
        code = take_word(args, &top);
    }
    return code;
}

int cli_args_parse(struct cli_args *args, const struct cli_command *command)
{
    int code = CLI_DONE;

    if (!command) {
        return parse_top(args);
    }
    while (code == CLI_DONE && *args->next && !args->command) {
        code = take_word(args, command);
    }
    return code == CLI_DONE ? check_words(args, command) : code;
}
