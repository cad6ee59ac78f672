#include "cmd.h"
#include "format.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

/* The help, and guesses of the word that a user has mistyped. */

/* LENGTH_MAX: longest word that is compared. A longer word is not near any known word. */
enum { LABEL_SIZE = 64, LENGTH_MAX = 64 };

const struct cli_exit_code cli_exit_codes[] = {
    {CLI_DONE, NULL, "done"},
    {CLI_REFUSED, "run series lock", "not acquired; --conflict-exit-code sets another code"},
    {CLI_REFUSED, "once", "not acquired, because this COMMAND runs under the same lock"},
    {CLI_REFUSED, "unlock extend info", "not held, or held with another --token"},
    {CLI_REFUSED, "queue", "no request waits"},
    {CLI_REFUSED, "drain", "locks are still held, or no client runs on HOST"},
    {CLI_REFUSED, "wait", "still held when the time was over"},
    {CLI_REFUSED, "doctor", "a failure, a warning (with --strict a note), or no time"},
    {CLI_REFUSED, "bench", "not begun, because others use the server"},
    {CLI_USAGE, NULL, "wrong usage"},
    {CLI_FAULT, NULL, "no server, no rights, no memory, a key of another type"},
    {CLI_CANNOT_WRITE, NULL, "the output could not be written"},
    {CLI_LOST, "run series once elect", "the lock was lost while the command ran"},
    {CLI_LOST, "lock", "the lock was lost as soon as it was acquired"},
    {CLI_CANNOT_RUN, "run series once elect", "the command cannot be executed"},
    {CLI_NO_COMMAND, "run series once elect", "there is no such command"},
    {CLI_SIGNALLED, "run series once elect", "signal N ended it; other codes are its own"},
    {.text = NULL},
};

const struct cli_word cli_help_words[] = {
    {"help COMMAND", "Flags and examples of one command"},
    {"help options", "All options of the library and their variables"},
    {"help --roff [COMMAND]", "The manual page, for man(1)"},
    {"help --completion SHELL", "The completion script for bash, zsh or fish"},
    {.name = NULL},
};

const struct cli_word cli_variables[] = {
    {"RQL_AGENT", "1, or a socket: rql run has its locks held by that agent, as with --agent"},
    {"RQL_LOCK", "what rql run and series tell their command: the name of the lock"},
    {"RQL_OUTER", "the locks of runs around that one, each behind its token"},
    {"RQL_TOKEN", "the same: its token"},
    {"RQL_SLOTS", "the numbers of its permits, such as 0,3, with rql run --slots"},
    {"TRACEPARENT", "the span that a lock is taken in (W3C Trace Context), kept in its metadata"},
    {"RQL_PROFILE", "gem: the defaults of the Ruby gem, before all other variables"},
    {"RQL_LOCAL_DIR", "folder of the private server of local:; default /tmp/rql-UID"},
    {"RQL_LOCAL_IDLE", "seconds for which that server stays when it is not used; default 60"},
    {.name = NULL},
};

const char cli_purpose[] = "Locks with a fair queue, on Redis or Valkey";

const char cli_option_rules[] =
    "Options of the library, which every command takes. The environment variable sets the same "
    "option; the flag wins. A duration is written 500ms, 0.5s, 1h30m or 30d; in a variable a "
    "plain number counts milliseconds. A URL with a password belongs in RQL_URL or in a file that "
    "sets it, because other users can read command lines: --url refuses it. An empty variable "
    "counts as not set.\n";

const char cli_server_rules[] =
    "RQL_URL or --url names the server:\n"
    "  redis://user:pass@host:port/db    rediss://... with TLS\n"
    "  redis+sentinel://h:p,h:p/master   the master that these sentinels name\n"
    "  redis+cluster://h:p,h:p           a cluster\n"
    "  redis+shards://h:p,h:p/db         independent servers\n"
    "  unix:///path?db=n                 a socket\n"
    "  local:                            a private server of this user, the default\n"
    "The server of local: is in /tmp/rql-UID, or in the folder RQL_LOCAL_DIR. Commands that take "
    "locks start it if it does not run. "
    "A name that looks like a flag stands behind two dashes: rql info -- -x\n";

/* In place of cli_duration_rule and the line about more: the help of a command is one screen. */
static const char short_rule[] =
    "DURATION: 500ms, 1h30m or 30d; LIMIT: also forever. More: rql help options.";

const char cli_duration_rule[] =
    "A DURATION is written 500ms, 0.5s, 1h30m or 30d; a LIMIT may also be forever.\n";

bool cli_takes_durations(const struct cli_command *command)
{
    bool found = false;

    for (const struct cli_flag *flag = cli_flags; flag->name && !found; flag++) {
        found = cli_is_listed(command, flag->commands) &&
                (flag->kind == CLI_DURATION || flag->kind == CLI_LIMIT || flag->kind == CLI_CHANGE);
    }
    return found;
}

/* Prints paragraphs. Indented lines, such as examples, stay unchanged. */
static void print_lines(const char *text)
{
    const char *end;

    for (; *text; text = end) {
        end = cli_paragraph_end(text);
        if (*text == ' ') {
            (void)printf("%.*s", (int)(end - text), text);
        } else {
            cli_print_words(stdout, text, (size_t)(end - text), 0);
        }
    }
}

static void print_set_in(const char *text)
{
    (void)fputs("      ", stdout);
    cli_print_words(stdout, text, strlen(text), 6);
}

int cli_help_options(void)
{
    const rql_option_row *row;
    char flag[CLI_FLAG_SIZE];
    char range[CLI_RANGE_SIZE];

    (void)puts("Usage: rql --OPTION VALUE COMMAND ...\n"
               "       rql COMMAND --OPTION VALUE ...");
    print_lines(cli_option_rules);
    (void)puts("");
    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_option_flag(flag, row);
        cli_option_range(range, row);
        (void)printf("  --%s VALUE   (%s)\n", flag, row->env);
        print_set_in(row->help);
        print_set_in(range);
    }
    return CLI_DONE;
}

/* Adds the flags that have a help text. A flag without one only states the default. */
static void add_flags(struct out *out, const struct cli_command *command)
{
    char letter[] = "-x, ";
    char value[CLI_FLAG_SIZE];
    char text[2 * LABEL_SIZE];

    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (flag->help && cli_is_listed(command, flag->commands)) {
            letter[1] = flag->letter;
            cli_flag_value(value, flag);
            (void)snprintf(text, sizeof text, "  %s--%s%s", flag->letter != 0 ? letter : "    ",
                           flag->name, value);
            out_pair(out, text, flag->help);
        }
    }
}

int cli_help_command(const struct cli_command *command)
{
    /* The columns are aligned like those of results. */
    struct out out = out_fields(OUT_TABLE);

    out.wraps = true;
    (void)printf("Usage: rql %s %s\n%s.\n\n", command->name, command->usage, command->summary);
    if (command->examples) {
        (void)printf("%s\n", command->examples);
    }
    add_flags(&out, command);
    out_print(&out);
    (void)puts("");
    print_lines(command->notes ? command->notes : "");
    (void)puts(
        cli_takes_durations(command)
            ? short_rule
            : "More: rql help options (every option and its variable), rql help (exit codes).");
    return CLI_DONE;
}

/* Writes "run, series: " in front of a code that only these commands return. */
void cli_exit_text(char out[CLI_EXIT_SIZE], const struct cli_exit_code *row)
{
    size_t length = 0;

    for (const char *at = row->commands; at && *at; at++) {
        length +=
            (size_t)snprintf(out + length, CLI_EXIT_SIZE - length, *at == ' ' ? ",%c" : "%c", *at);
    }
    (void)snprintf(out + length, CLI_EXIT_SIZE - length, "%s%s", length > 0 ? ": " : "", row->text);
}

int cli_help(void)
{
    struct out commands = out_fields(OUT_TABLE);
    struct out codes = out_fields(OUT_TABLE);
    char label[LABEL_SIZE];
    char text[CLI_EXIT_SIZE];

    commands.wraps = true;
    codes.wraps = true;
    (void)printf("Usage: rql COMMAND ...\n%s.\n\n", cli_purpose);
    for (size_t i = 0; cli_commands[i]; i++) {
        (void)snprintf(label, sizeof label, "  %s", cli_commands[i]->name);
        out_pair(&commands, label, cli_commands[i]->summary);
    }
    for (const struct cli_word *row = cli_help_words; row->name; row++) {
        (void)snprintf(label, sizeof label, "  %s", row->name);
        out_pair(&commands, label, row->text);
    }
    add_flags(&commands, &cli_top);
    out_print(&commands);
    (void)puts("");
    print_lines(cli_server_rules);
    (void)puts("\nExit codes:");
    for (const struct cli_exit_code *row = cli_exit_codes; row->text; row++) {
        (void)snprintf(label, sizeof label, "  %d%s", row->code,
                       row->code == CLI_SIGNALLED ? "+N" : "");
        cli_exit_text(text, row);
        out_pair(&codes, label, text);
    }
    out_print(&codes);
    return CLI_DONE;
}

/* ---- guesses ---- */

void cli_guess_init(struct cli_guess *self, const char *word, size_t length)
{
    /* The initial distance is that of no word: any proposal is nearer. */
    *self = (struct cli_guess){.word = word, .length = length, .distance = LENGTH_MAX};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns whether two letters count as the same. Options have '-' on the command line and '_' in
 * code, so mixing them up is no error. */
static bool is_same(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Returns the number of letters to add, drop, change or swap with their neighbour to turn one word
 * into the other. Cell [i][j] is the distance between their first i and j letters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t cell[LENGTH_MAX + 1][LENGTH_MAX + 1];

    /* From an empty word each letter is added; to an empty word, each is dropped. */
    for (size_t j = 0; j <= b_length; j++) {
        cell[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        cell[i][0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const bool is_swap =
                i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]);
            const size_t changed = cell[i - 1][j - 1] + !is_same(a[i - 1], b[j - 1]);
            const size_t longer = least(cell[i - 1][j], cell[i][j - 1]) + 1;

            /* A swap of neighbours costs one, like any other change. */
            cell[i][j] = least(least(changed, longer), is_swap ? cell[i - 2][j - 2] + 1 : longer);
        }
    }
    return cell[a_length][b_length];
}

/* If several words are equally near, the first one stays. */
void cli_guess_propose(struct cli_guess *self, const char *word)
{
    const size_t length = strlen(word);
    size_t found;

    if (self->length > LENGTH_MAX || length > LENGTH_MAX) {
        return;
    }
    found = distance(self->word, self->length, word, length);
    if (found < self->distance) {
        self->distance = found;
        self->best = word;
    }
}

/* Accepts a guess if at most a quarter of the letters are wrong, or one in short words. A word that
 * shares no letter is no guess. */
const char *cli_guess_text(struct cli_guess *self, const char *prefix)
{
    if (self->best && self->distance <= 1 + self->length / 4 && self->distance < self->length) {
        (void)snprintf(self->text, sizeof self->text, " (did you mean %s%s?)", prefix, self->best);
    }
    return self->text;
}

/* Returns whether this variable is set by the entry "NAME=value". */
static bool is_named(const char *entry, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(entry, name, length) == 0;
}

/* Proposes an option. Its flag has no unit in its name, so the unit is forgotten most easily. */
static void propose(struct cli_guess *guess, const char *option)
{
    cli_guess_propose(guess, option);
    if (strncmp(option, guess->word, guess->length) == 0 &&
        strcmp(option + guess->length, "_MS") == 0) {
        guess->distance = 0;
        guess->best = option;
    }
}

/* Returns whether the variable is known. Proposes each option on the way, in case it is unknown. */
static bool is_known(const char *entry, size_t length, struct cli_guess *guess)
{
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (is_named(entry, length, row->env)) {
            return true;
        }
        propose(guess, row->env);
    }
    for (const struct cli_word *own = cli_variables; own->name; own++) {
        if (is_named(entry, length, own->name)) {
            return true;
        }
    }
    return false;
}

void cli_say_unknown_variables(void)
{
    for (char **entry = environ; *entry; entry++) {
        const size_t length = strcspn(*entry, "=");
        struct cli_guess guess;

        cli_guess_init(&guess, *entry, length);
        if (strncmp(*entry, "RQL_", 4) == 0 && !is_known(*entry, length, &guess)) {
            /* Only the name is shown, because the value may be a password. */
            cli_say("unknown variable %.*s is ignored%s", (int)length, *entry,
                    cli_guess_text(&guess, ""));
        }
    }
}
