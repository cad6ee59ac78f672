#include "cmd.h"
#include "format.h"

#include <stdio.h>
#include <string.h>

/* Writes manual pages in the language of man(7), from the tables that the help is made of. */

enum { WIDTH = 78, SENTENCE_SIZE = 512 };

/* ---- text ---- */

/* Returns the escape for a letter that roff would interpret, or print as another letter: a command
 * that is copied from a page must be unchanged. Returns NULL if the letter stands for itself. */
static const char *escape_of(char letter)
{
    switch (letter) {
    case '\\':
        return "\\e";
    case '-':
        return "\\-";
    case '\'':
        return "\\(aq";
    case '`':
        return "\\(ga";
    case '^':
        return "\\(ha";
    case '~':
        return "\\(ti";
    default:
        return NULL;
    }
}

static void put(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const char *escape = escape_of(text[i]);

        if (escape) {
            (void)fputs(escape, stdout);
        } else {
            (void)putchar(text[i]);
        }
    }
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static size_t width_of(const char *text, size_t length)
{
    size_t width = length;

    for (size_t i = 0; i < length; i++) {
        const char *escape = escape_of(text[i]);

        width += escape ? strlen(escape) - 1 : 0;
    }
    return width;
}

/* Writes words as lines of their own. A sentence ends its line, so that roff recognizes its end. */
static void put_prose(const char *text, size_t length)
{
    const char *const end = text + length;
    size_t column = 0;

    while (text < end) {
        const size_t word = strcspn(text, " \n");
        const size_t width = width_of(text, word);
        const bool ends_sentence = strchr(".?!", text[word - 1]);

        if (column > 0 && column + 1 + width > WIDTH) {
            (void)putchar('\n');
            column = 0;
        }
        /* At the beginning of a line a point would make it a request. */
        (void)fputs(column > 0 ? " " : *text == '.' ? "\\&" : "", stdout);
        put(text, word);
        column += 1 + width;
        text += word;
        text += strspn(text, " \n");
        if (ends_sentence || text >= end) {
            (void)putchar('\n');
            column = 0;
        }
    }
}

/* Writes paragraphs. Indented lines, such as examples, stay unchanged. */
static void put_lines(const char *text)
{
    const char *end;

    for (; *text; text = end) {
        end = cli_paragraph_end(text);
        if (*text == ' ') {
            (void)puts(".EX");
            put(text, (size_t)(end - text));
            (void)puts(".EE");
        } else {
            put_prose(text, (size_t)(end - text));
        }
        if (*end) {
            (void)puts(".PP");
        }
    }
}

static char upper(char letter)
{
    return (char)(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
}

/* Writes the text of a table as a sentence. */
static void put_sentence(const char *text)
{
    char sentence[SENTENCE_SIZE];
    const int length = snprintf(sentence, sizeof sentence, "%s.", text);

    sentence[0] = upper(sentence[0]);
    put_prose(sentence, length < SENTENCE_SIZE ? (size_t)length : SENTENCE_SIZE - 1);
}

/* ---- sections ---- */

/* Writes the head, with "rql-run - Run a command under a lock", which apropos(1) reads. */
static void put_head(const char *name, const char *purpose)
{
    char line[SENTENCE_SIZE];

    (void)fputs(".TH ", stdout);
    for (const char *at = name; *at; at++) {
        (void)putchar(upper(*at));
    }
    /* No word is hyphenated: it may be a flag, or a URL. */
    (void)printf(" 1 %s \"rql %s\"\n.nr HY 0\n.nh\n.ad l\n.SH NAME\n", CLI_DATE, rql_version());
    (void)snprintf(line, sizeof line, "%s - %s", name, purpose);
    put_prose(line, strlen(line));
}

/* Writes the synopsis. .B applies to the words of its line. */
static void put_synopsis(const char *line)
{
    (void)fputs(".B ", stdout);
    put_text(line);
    (void)putchar('\n');
}

/* Writes the flag and its value, each in its font. */
static void put_flag(const struct cli_flag *flag)
{
    const bool may_miss = flag->kind == CLI_MAYBE;

    (void)puts(".TP");
    if (flag->letter != 0) {
        (void)printf("\\fB\\-%c\\fR, ", flag->letter);
    }
    (void)fputs("\\fB\\-\\-", stdout);
    put_text(flag->name);
    (void)fputs("\\fR", stdout);
    if (flag->value) {
        (void)printf("%s\\fI", may_miss ? "[=" : " ");
        put_text(flag->value);
        (void)printf("\\fR%s", may_miss ? "]" : "");
    }
    (void)putchar('\n');
}

static void put_flags(const struct cli_command *command)
{
    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (flag->help && cli_is_listed(command, flag->commands)) {
            put_flag(flag);
            put_sentence(flag->help);
        }
    }
}

static void put_options(void)
{
    const rql_option_row *row;
    char flag[CLI_FLAG_SIZE];
    char range[CLI_RANGE_SIZE];
    char text[SENTENCE_SIZE];

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_option_flag(flag, row);
        cli_option_range(range, row);
        put_flag(&(struct cli_flag){.name = flag, .value = "VALUE", .kind = CLI_OPTION});
        (void)snprintf(text, sizeof text, "%s Values: %s. Variable: %s.", row->help, range,
                       row->env);
        put_prose(text, strlen(text));
    }
}

/* Writes the exit codes of all commands (NULL), or of one. */
static void put_exit_codes(const struct cli_command *command)
{
    char text[CLI_EXIT_SIZE];

    (void)puts(".SH EXIT STATUS");
    for (const struct cli_exit_code *row = cli_exit_codes; row->text; row++) {
        if (!command || cli_is_listed(command, row->commands)) {
            (void)printf(".TP\n.B %d%s\n", row->code, row->code == CLI_SIGNALLED ? "+N" : "");
            cli_exit_text(text, row);
            put_sentence(command ? row->text : text);
        }
    }
}

static void put_table(const struct cli_word *table, const char *prefix)
{
    for (const struct cli_word *row = table; row->name; row++) {
        (void)printf(".TP\n\\fB%s", prefix);
        put_text(row->name);
        (void)puts("\\fR");
        put_sentence(row->text);
    }
}

/* ---- pages ---- */

static void put_program(void)
{
    put_head("rql", cli_purpose);
    (void)puts(".SH SYNOPSIS");
    put_synopsis("rql [--OPTION VALUE ...] COMMAND [ARGUMENT ...]");
    (void)puts(".SH DESCRIPTION");
    put_lines(cli_server_rules);
    (void)puts(".SH COMMANDS");
    for (size_t i = 0; cli_commands[i]; i++) {
        (void)fputs(".TP\n\\fBrql\\-", stdout);
        put_text(cli_commands[i]->name);
        (void)puts("\\fR(1)");
        put_sentence(cli_commands[i]->summary);
    }
    put_table(cli_help_words, "rql ");
    (void)puts(".SH OPTIONS");
    put_flags(&cli_top);
    (void)puts(".SS Of the library");
    put_lines(cli_option_rules);
    put_options();
    put_exit_codes(NULL);
    (void)puts(".SH ENVIRONMENT\nEach option of the library has a variable, which is named there.");
    put_table(cli_variables, "");
    (void)puts(".SH SEE ALSO\n.BR librql (3),\n.BR rql (7)");
}

static void put_page(const struct cli_command *command)
{
    char line[SENTENCE_SIZE];

    (void)snprintf(line, sizeof line, "rql-%s", command->name);
    put_head(line, command->summary);
    (void)puts(".SH SYNOPSIS");
    (void)snprintf(line, sizeof line, "rql %s %s", command->name, command->usage);
    put_synopsis(line);
    (void)puts(".SH DESCRIPTION");
    put_sentence(command->summary);
    if (command->notes) {
        (void)puts(".PP");
        put_lines(command->notes);
    }
    for (size_t i = 0; command->details && command->details[i]; i++) {
        (void)puts(".PP");
        put_lines(command->details[i]);
    }
    if (command->examples) {
        (void)puts(".SH EXAMPLES");
        put_lines(command->examples);
    }
    (void)puts(".SH OPTIONS");
    put_flags(command);
    (void)puts(".PP");
    if (cli_takes_durations(command)) {
        put_lines(cli_duration_rule);
    }
    (void)puts("Every option of the library is taken, too;\n.BR rql (1)\nhas them.");
    put_exit_codes(command);
    (void)puts(".SH SEE ALSO\n.BR rql (1),\n.BR rql (7)");
}

int cli_page(const struct cli_command *command)
{
    if (command) {
        put_page(command);
    } else {
        put_program();
    }
    return CLI_DONE;
}
