#include "cmd.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

/* The help, and what whoever has mistyped a word may have meant. */

/* LENGTH_MAX: of words that are compared. What is longer is like none that is known. */
enum { FLAG_SIZE = 64, LENGTH_MAX = 64 };

static const char exit_codes[] =
    "Exit codes:\n"
    "  0    done\n"
    "  1    not acquired, not held, not found (run, series, lock: see --conflict-exit-code)\n"
    "  64   wrong usage\n"
    "  69   no server, no rights, no memory\n"
    "  74   the output could not be written\n"
    "  75   run, series: the lock was lost while the command ran\n"
    "  126  run, series: the command cannot be executed\n"
    "  127  run, series: there is no such command\n"
    "  otherwise, from these two: the command's own code, or 128 plus the signal that ended it\n";

static const char option_rules[] =
    "Usage: rql --OPTION VALUE COMMAND ...\n"
    "       rql COMMAND --OPTION VALUE ...\n"
    "Options of the library, which every command takes. The environment variable says the same; "
    "the\n"
    "flag wins. What is counted in ms may be a duration: 500ms, 0.5s, 1h30m, 30d. A password "
    "belongs\n"
    "into RQL_URL or a file that sets it, not into --url: other users can read command lines.\n";

static const char common_rules[] =
    "The server is the one that RQL_URL or --url names: redis://user:pass@host:port/db,\n"
    "rediss://... (TLS), unix:///path?db=n, or local: (default), a private one for each user.\n"
    "A name that looks like a flag stands between two dashes: rql info -- -x\n";

/* The table of the library has the library's default, where this program has another one. */
static bool is_forever(const rql_option_row *row)
{
    size_t i = 0;

    while (cli_forever_options[i] && strcmp(cli_forever_options[i], row->name) != 0) {
        i++;
    }
    return cli_forever_options[i] != NULL;
}

int cli_help_options(void)
{
    const rql_option_row *row;

    (void)printf("%s\n", option_rules);
    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        /* "forever" has no unit. */
        const char *value = is_forever(row) ? "forever" : row->default_value;
        const char *unit = is_forever(row) ? "" : row->unit;

        (void)fputs("  --", stdout);
        for (const char *at = row->name; *at; at++) {
            (void)putchar(*at == '_' ? '-' : *at);
        }
        (void)printf(" VALUE   (%s)\n      %s\n      %s; default %s%s%s\n", row->env, row->help,
                     row->range, value, *unit ? " " : "", unit);
    }
    return CLI_DONE;
}

/* True if the value of one is a duration. What has no help is the default, or stands before the
 * command only. */
static bool add_flags(struct out *out, const struct cli_command *command)
{
    bool has_durations = false;
    char letter[] = "-x, ";
    char text[FLAG_SIZE];

    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (flag->help && cli_flag_is_of(flag, command)) {
            letter[1] = flag->letter;
            (void)snprintf(text, sizeof text, "  %s--%s%s%s", flag->letter != 0 ? letter : "    ",
                           flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
            out_pair(out, text, flag->help);
            has_durations = has_durations || flag->kind == CLI_DURATION ||
                            flag->kind == CLI_LIMIT || flag->kind == CLI_CHANGE;
        }
    }
    return has_durations;
}

int cli_help_command(const struct cli_command *command)
{
    /* The columns are aligned as those of results are. */
    struct out out = out_fields(OUT_TABLE);
    bool has_durations;

    (void)printf("Usage: rql %s %s\n%s.\n\n", command->name, command->usage, command->summary);
    if (command->examples) {
        (void)printf("%s\n", command->examples);
    }
    has_durations = add_flags(&out, command);
    out_print(&out);
    (void)printf("\n%s", command->notes ? command->notes : "");
    if (has_durations) {
        (void)puts("A DURATION is written 500ms, 0.5s, 1h30m or 30d, a LIMIT also \"forever\".");
    }
    (void)puts("More: rql help options (every option and its variable), rql help (exit codes).");
    return CLI_DONE;
}

int cli_help(void)
{
    struct out out = out_fields(OUT_TABLE);
    char text[FLAG_SIZE];

    (void)puts("Usage: rql COMMAND ...\nLocks with a fair queue, on Redis or Valkey.\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        (void)snprintf(text, sizeof text, "  %s", cli_commands[i]->name);
        out_pair(&out, text, cli_commands[i]->summary);
    }
    out_pair(&out, "  help COMMAND", "Flags and examples of one command, as COMMAND --help");
    out_pair(&out, "  help options", "Every option of the library, with its environment variable");
    out_pair(&out, "  --version", "The version");
    out_print(&out);
    (void)printf("\n%s\n%s", common_rules, exit_codes);
    return CLI_DONE;
}

/* ---- guesses ---- */

void cli_guess_init(struct cli_guess *self, const char *word, size_t length)
{
    /* The distance is that of no word: any proposal is nearer. */
    *self = (struct cli_guess){.word = word, .length = length, .distance = LENGTH_MAX};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Options have '-' on the command line and '_' in code: mixing them up does not count. */
static bool is_same(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Letters to add, drop, change or swap with their neighbour to come from one word to the other:
 * cell [i][j] is that of their first i and j letters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t cell[LENGTH_MAX + 1][LENGTH_MAX + 1];

    /* To come to a word from nothing each letter is added; to nothing, each is dropped. */
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

            /* A swap of neighbours costs one, as any of the others. */
            cell[i][j] = least(least(changed, longer), is_swap ? cell[i - 2][j - 2] + 1 : longer);
        }
    }
    return cell[a_length][b_length];
}

/* The first of several that are equally near stays. */
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

/* A quarter of the letters may be wrong, and one in short words; what shares no letter is no guess.
 */
const char *cli_guess_text(struct cli_guess *self, const char *prefix)
{
    if (self->best && self->distance <= 1 + self->length / 4 && self->distance < self->length) {
        (void)snprintf(self->text, sizeof self->text, " (did you mean %s%s?)", prefix, self->best);
    }
    return self->text;
}

/* What rql run gives to its command, and what the server of local: is found and kept by. */
static const char *const own_variables[] = {"RQL_LOCK", "RQL_TOKEN", "RQL_LOCAL_DIR",
                                            "RQL_LOCAL_IDLE"};

/* An entry is "NAME=value". */
static bool is_named(const char *entry, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(entry, name, length) == 0;
}

/* Proposes each option on the way, for the case that it is unknown. */
static bool is_known(const char *entry, size_t length, struct cli_guess *guess)
{
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (is_named(entry, length, row->env)) {
            return true;
        }
        cli_guess_propose(guess, row->env);
    }
    for (size_t i = 0; i < sizeof own_variables / sizeof own_variables[0]; i++) {
        if (is_named(entry, length, own_variables[i])) {
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
            /* The name alone: the value may be a password. */
            cli_say("unknown variable %.*s is ignored%s", (int)length, *entry,
                    cli_guess_text(&guess, ""));
        }
    }
}
