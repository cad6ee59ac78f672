#include "output.h"

#include "cmd.h"
#include "scope.h"
#include "text.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 2048, NUMBER_SIZE = 24, FIRST_CELLS = 64, GAP = 2 };

_Noreturn void cli_die_nomem(void)
{
    static const char line[] = "rql: out of memory\n";

    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _Exit(CLI_FAULT);
}

void *cli_must(void *memory)
{
    if (!memory) {
        cli_die_nomem();
    }
    return memory;
}

static void __attribute__((format(printf, 1, 0))) say(const char *format, va_list list)
{
    CLI_AUTO(cli_free) char *safe = NULL;
    char line[LINE_SIZE];

    (void)vsnprintf(line, sizeof line, format, list);
    safe = cli_text_for_terminal(line);
    (void)fflush(stdout); /* so that the two appear in order */
    (void)fprintf(stderr, "rql: %s\n", safe);
}

void cli_say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(format, list);
    va_end(list);
}

bool cli_is_heard(void)
{
    struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&reader, 1, 0) == 1;
}

void cli_tell(const char *format, ...)
{
    va_list list;

    if (!cli_is_heard()) {
        return;
    }
    va_start(list, format);
    say(format, list);
    va_end(list);
}

int cli_fault(const rql_error *error)
{
    cli_say("%s", error->message[0] != '\0' ? error->message : rql_status_text(error->status));
    return error->status == RQL_E_INVALID ? CLI_USAGE : CLI_FAULT;
}

const char *cli_errno_text(int number, char *buffer, size_t size)
{
    return strerror_r(number, buffer, size);
}

static void add_owned(struct cli_table *self, char *text)
{
    const size_t capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CELLS;

    if (self->n_cells == self->capacity) {
        self->cells = cli_must(reallocarray(self->cells, capacity, sizeof *self->cells));
        self->capacity = capacity;
    }
    self->cells[self->n_cells++] = cli_must(text);
}

void cli_table_add(struct cli_table *self, const char *text)
{
    add_owned(self, cli_text_for_terminal(text ? text : "-"));
}

void cli_table_add_raw(struct cli_table *self, const char *text)
{
    add_owned(self, strdup(text));
}

void cli_table_add_int(struct cli_table *self, int64_t value)
{
    char text[NUMBER_SIZE];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    add_owned(self, strdup(text));
}

void cli_table_add_duration(struct cli_table *self, int64_t value_ms)
{
    char text[CLI_DURATION_SIZE];

    add_owned(self, strdup(cli_format_duration(value_ms, text)));
}

void cli_table_add_pair(struct cli_table *self, const char *label, const char *text)
{
    cli_table_add(self, label);
    cli_table_add(self, text);
}

static size_t column_width(const struct cli_table *self, size_t column)
{
    size_t width = 0;
    size_t i;

    for (i = column; i < self->n_cells; i += self->n_columns) {
        const size_t cell = cli_text_width(self->cells[i]);

        width = cell > width ? cell : width;
    }
    return width;
}

static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

static bool wants_colour(void)
{
    const char *terminal = environment("TERM");

    return isatty(STDOUT_FILENO) && !environment("NO_COLOR") && terminal &&
           strcmp(terminal, "dumb") != 0;
}

static void print_row(const struct cli_table *self, size_t first, const size_t *widths)
{
    const size_t last = first + self->n_columns - 1;
    size_t i;

    for (i = first; i < last; i++) {
        const size_t pad = widths[i - first] - cli_text_width(self->cells[i]) + GAP;

        (void)printf("%s%*s", self->cells[i], (int)pad, "");
    }
    (void)printf("%s", self->cells[last]);
}

void cli_table_print(const struct cli_table *self, bool has_heading)
{
    size_t widths[CLI_COLUMNS_MAX] = {0};
    const bool is_bright = has_heading && wants_colour();
    size_t i;

    for (i = 0; i < self->n_columns && i < CLI_COLUMNS_MAX; i++) {
        widths[i] = column_width(self, i);
    }
    for (i = 0; i + self->n_columns <= self->n_cells; i += self->n_columns) {
        (void)fputs(i == 0 && is_bright ? "\033[1m" : "", stdout);
        print_row(self, i, widths);
        (void)puts(i == 0 && is_bright ? "\033[0m" : "");
    }
}

void cli_table_fini_p(struct cli_table *self)
{
    size_t i;

    for (i = 0; i < self->n_cells; i++) {
        free(self->cells[i]);
    }
    free(self->cells);
    *self = (struct cli_table){0};
}
