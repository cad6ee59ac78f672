#include "out.h"

#include "exit.h"
#include "format.h"
#include "messages.h"

#include <cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 2048, FIRST_CELLS = 64, GAP = 2, REAL_SIZE = 64, RUN_SIZE = 32 };

/* ---- the table ---- */

/* Adds cells, which are kept until the end: the width of a column is known only with its last cell.
 * Returns the first new cell. The next call may move the cells. */
static char **add_cells(struct out *self, size_t count)
{
    /* Doubling is always enough: a row has fewer cells than the first allocation. */
    if (self->n_cells + count > self->capacity) {
        self->capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CELLS;
        self->cells = cli_must(reallocarray(self->cells, self->capacity, sizeof *self->cells));
    }
    for (size_t i = 0; i < count; i++) {
        self->cells[self->n_cells++] = NULL;
    }
    return self->cells + self->n_cells - count;
}

/* Returns the label for a heading: "RE-ENTRIES" is a column, "re-entries" a line. */
static char *label_of(const char *heading)
{
    char *label = cli_text_for_terminal(heading);

    for (char *at = label; *at; at++) {
        if (*at >= 'A' && *at <= 'Z') {
            *at = (char)(*at - 'A' + 'a');
        }
    }
    return label;
}

/* Sets a cell. A field that is set again in a row replaces the one before. A row begins with its
 * first field that has a column, so an object without one leaves no empty row. */
static void set_cell(struct out *self, const char *heading, const char *text)
{
    size_t column = 0;
    char **cell;

    if (!self->headings) {
        cell = add_cells(self, 2);
        cell[0] = label_of(heading);
        cell[1] = cli_text_for_terminal(text);
        return;
    }
    while (column < self->n_columns && strcmp(self->headings[column], heading) != 0) {
        column++;
    }
    if (column < self->n_columns) {
        if (!self->has_row) {
            (void)add_cells(self, self->n_columns);
            self->has_row = true;
        }
        cell = self->cells + self->n_cells - self->n_columns + column;
        free(*cell);
        *cell = cli_text_for_terminal(text);
    }
}

/* Returns the text of a cell. A row that lacks a field has a dash there. */
static const char *cell_at(const struct out *self, size_t index)
{
    return self->cells[index] ? self->cells[index] : "-";
}

/* Returns a variable, or NULL if it is empty or not set. */
static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

bool out_is_plain(void)
{
    return environment("NO_COLOR") != NULL;
}

/* Returns whether the output is a terminal that supports colours and is to have them. */
static bool has_colours(const struct out *self)
{
    const char *terminal = environment("TERM");

    return isatty(fileno(self->to)) && !out_is_plain() && terminal && strcmp(terminal, "dumb") != 0;
}

/* Returns the colour of a label that asks for action, or "". */
static const char *colour_of(const char *label)
{
    return strcmp(label, "FAIL") == 0   ? "\033[1;31m"
           : strcmp(label, "WARN") == 0 ? "\033[1;33m"
                                        : "";
}

/* Prints the table. On a terminal with colours the headings are bold, and the labels of a table
 * whose texts wrap have the colours of colour_of(). */
static void print_table(const struct out *self)
{
    const bool has_colour = has_colours(self);
    const bool is_bright = self->headings && has_colour;
    size_t widths[OUT_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < self->n_cells; i++) {
        /* Width in columns of the terminal, which printf() does not count. */
        const size_t width = cli_text_width(cell_at(self, i));
        size_t *widest = &widths[i % self->n_columns];

        *widest = width > *widest ? width : *widest;
    }
    for (size_t i = 0; i < self->n_cells; i++) {
        const size_t column = i % self->n_columns;
        const bool is_first = i == 0 && is_bright;
        const bool is_last = column + 1 == self->n_columns;
        const char *cell = cell_at(self, i);
        const char *colour = has_colour && self->wraps && column == 0 ? colour_of(cell) : "";

        if (is_last && self->wraps) {
            cli_print_words(self->to, cell, strlen(cell), widths[0] + GAP);
            continue;
        }
        /* The first row is bold from its first cell to its end. */
        (void)fprintf(self->to, "%s%s%s", is_first ? "\033[1m" : colour, cell,
                      *colour ? "\033[0m" : "");
        if (is_last) {
            (void)fputs(i < self->n_columns && is_bright ? "\033[0m\n" : "\n", self->to);
        } else {
            (void)fprintf(self->to, "%*s", (int)(widths[column] - cli_text_width(cell) + GAP), "");
        }
    }
}

/* Prints the table so far, so that the following lines come below it. */
static void flush_table(struct out *self)
{
    if (self->n_cells > 0) {
        print_table(self);
    }
    for (size_t i = 0; i < self->n_cells; i++) {
        free(self->cells[i]);
    }
    /* The memory is kept for the cells that follow. */
    self->n_cells = 0;
}

/* ---- JSON ---- */

/* Returns the text for JSON. cJSON writes bytes unchanged, so they are made valid before. */
static cJSON *json_text(const char *text)
{
    CLI_AUTO(cli_free) char *valid = text ? cli_text_for_json(text) : NULL;

    return cli_must(valid ? cJSON_CreateString(valid) : cJSON_CreateNull());
}

/* Adds an item under the key, or to the array if there is none; the first item is the root. */
static void add_json(struct out *self, const char *key, cJSON *item)
{
    cJSON *parent = self->depth > 0 ? self->open[self->depth - 1] : NULL;
    CLI_AUTO(cli_free) char *valid = key ? cli_text_for_json(key) : NULL;

    if (!parent) {
        self->root = item;
    } else if (!(key ? cJSON_AddItemToObject(parent, valid, item)
                     : cJSON_AddItemToArray(parent, item))) {
        cli_die_nomem();
    }
}

/* Opens an object or an array. It belongs to its parent at once, so freeing the root frees all. */
static void open_json(struct out *self, const char *key, cJSON *item)
{
    /* The deepest nesting is that of a list of texts in a span (trace.c): OUT_DEPTH_MAX. */
    add_json(self, key, cli_must(item));
    if (self->depth == OUT_DEPTH_MAX) {
        abort();
    }
    self->open[self->depth++] = item;
}

/* ---- the sink ---- */

struct out out_fields(enum out_form form)
{
    return (struct out){.form = form, .to = stdout, .n_columns = 2};
}

/* Sets the columns. The headings are cells of the first row, and count for the widths; other forms
 * do not show them. */
void out_columns(struct out *self, const char *const *headings)
{
    self->headings = headings;
    self->n_columns = 0;
    while (headings[self->n_columns] && self->n_columns < OUT_COLUMNS_MAX) {
        self->n_columns++;
    }
    for (size_t i = 0; self->form == OUT_TABLE && i < self->n_columns; i++) {
        *add_cells(self, 1) = cli_text_for_terminal(headings[i]);
    }
}

void out_begin(struct out *self, const char *key)
{
    if (!key) {
        /* Only an object without a key is a row; "meta" is a part of one. */
        self->has_row = false;
    }
    if (self->form == OUT_JSON) {
        open_json(self, key, cJSON_CreateObject());
    }
}

/* Begins a list. The table has no lists, because their items are its rows. So it has nothing to
 * begin or end. */
void out_begin_list(struct out *self, const char *key)
{
    if (self->form == OUT_JSON) {
        open_json(self, key, cJSON_CreateArray());
    }
}

void out_end(struct out *self)
{
    if (self->form == OUT_JSON) {
        self->depth--;
    }
}

/* Prints a text. The table needs a heading, JSON a key; without it the field is not in that
 * form. */
void out_text(struct out *self, const char *heading, const char *key, const char *text)
{
    if (self->form == OUT_JSON && key) {
        add_json(self, key, json_text(text));
    } else if (self->form == OUT_TABLE && heading) {
        set_cell(self, heading, text ? text : "-");
    }
}

/* Prints a number. cJSON keeps numbers as double, and prints large ones with an exponent, so
 * integers are added as raw text. */
void out_number(struct out *self, const char *heading, const char *key, enum out_kind kind,
                int64_t value)
{
    char text[CLI_DURATION_SIZE];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    if (self->form == OUT_JSON && key) {
        add_json(
            self, key,
            cli_must(kind == OUT_INT || value >= 0 ? cJSON_CreateRaw(text) : cJSON_CreateNull()));
    } else if (self->form == OUT_TABLE && heading) {
        set_cell(self, heading, kind == OUT_MS ? cli_format_duration(value, text) : text);
    }
}

void out_age(struct out *self, const char *heading, const char *key, int64_t time_us,
             int64_t server_us)
{
    if (self->form == OUT_JSON) {
        out_number(self, NULL, key, OUT_COUNT, time_us);
    } else {
        out_number(self, heading, NULL, OUT_MS, cli_age_ms(time_us, server_us));
    }
}

/* Prints three decimals: cJSON would print all digits of a double. */
void out_real(struct out *self, const char *key, double value)
{
    char text[REAL_SIZE];

    if (self->form == OUT_JSON) {
        (void)snprintf(text, sizeof text, "%.3f", value);
        add_json(self, key, cli_must(value >= 0 ? cJSON_CreateRaw(text) : cJSON_CreateNull()));
    }
}

void out_bool(struct out *self, const char *key, bool value)
{
    if (self->form == OUT_JSON) {
        add_json(self, key, cli_must(cJSON_CreateBool(value)));
    }
}

/* Prints an item. An array of texts in JSON is a table of one column without a heading. */
void out_item(struct out *self, const char *text)
{
    if (self->form == OUT_JSON) {
        add_json(self, NULL, json_text(text));
    } else {
        self->n_columns = 1;
        *add_cells(self, 1) = cli_text_for_terminal(text);
    }
}

void out_list(struct out *self, const char *key, const rql_text_list *list)
{
    out_begin_list(self, key);
    for (size_t i = 0; self->form == OUT_JSON && list && i < list->count; i++) {
        out_item(self, list->item[i]);
    }
    out_end(self);
}

/* Returns the index behind the numbers that follow each other from `first` on. */
static size_t end_of_run(const int *numbers, size_t count, size_t first)
{
    size_t end = first + 1;

    while (end < count && numbers[end] == numbers[end - 1] + 1) {
        end++;
    }
    return end;
}

void out_numbers(struct out *self, const char *heading, const char *key, const int *numbers,
                 size_t count)
{
    char text[LINE_SIZE] = "";
    size_t length = 0;

    if (self->form == OUT_JSON) {
        add_json(self, key,
                 cli_must(cJSON_CreateIntArray(count > 0 ? numbers : &(int){0}, (int)count)));
        return;
    }
    for (size_t i = 0; i < count && length < sizeof text - RUN_SIZE;) {
        const size_t end = end_of_run(numbers, count, i);

        length += (size_t)snprintf(text + length, RUN_SIZE, end - i > 1 ? "%s%d-%d" : "%s%d",
                                   i > 0 ? "," : "", numbers[i], numbers[end - 1]);
        i = end;
    }
    out_text(self, heading, NULL, count > 0 ? text : NULL);
}

/* Prints a pair. Unlike the label of a field, its label keeps its capitals. It has no key: JSON
 * leaves it out. */
void out_pair(struct out *self, const char *label, const char *text)
{
    char **cell;

    if (self->form == OUT_TABLE && !self->headings) {
        cell = add_cells(self, 2);
        cell[0] = cli_text_for_terminal(label);
        cell[1] = cli_text_for_terminal(text);
    }
}

/* Writes a family. OpenMetrics is written at once, because it has no columns to be aligned. */
void out_family(struct out *self, const char *name, const char *type, const char *help)
{
    if (self->form == OUT_OPENMETRICS) {
        (void)fprintf(self->to, "# TYPE rql_%s %s\n# HELP rql_%s %s\n", name, type, name, help);
    }
}

/* Prints a label as valid UTF-8, which JSON requires, too. */
static void print_label(const struct out *self, const char *label, const char *text)
{
    CLI_AUTO(cli_free) char *valid = cli_text_for_json(text);

    (void)fprintf(self->to, "{%s=\"", label);
    for (const char *at = valid; *at; at++) {
        (void)fprintf(self->to, "%s%c", *at == '"' || *at == '\\' || *at == '\n' ? "\\" : "",
                      *at == '\n' ? 'n' : *at);
    }
    (void)fputs("\"}", self->to);
}

/* Writes a sample. Fifteen digits are exact for bytes, counts and times. */
void out_sample(struct out *self, const char *name, const char *label, const char *text,
                double value)
{
    if (self->form != OUT_OPENMETRICS) {
        return;
    }
    (void)fprintf(self->to, "rql_%s", name);
    if (label) {
        print_label(self, label, text);
    }
    (void)fprintf(self->to, " %.15g\n", value);
}

void out_gauge(struct out *self, const char *label, const char *name, const char *help,
               int64_t value)
{
    out_family(self, name, "gauge", help);
    out_sample(self, name, NULL, NULL, (double)value);
    out_number(self, label, name, OUT_INT, value);
}

void out_line(struct out *self, const char *format, ...)
{
    CLI_AUTO(cli_free) char *safe = NULL;
    char line[LINE_SIZE];
    va_list list;

    if (self->form != OUT_TABLE) {
        return;
    }
    flush_table(self);
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    safe = cli_text_for_terminal(line);
    (void)fprintf(self->to, "%s\n", safe);
}

void out_print(struct out *self)
{
    char *text;

    if (self->form == OUT_JSON) {
        /* If nothing was begun, there is no answer, and JSON has null. */
        text = cli_must(!self->root     ? strdup("null")
                        : self->is_line ? cJSON_PrintUnformatted(self->root)
                                        : cJSON_Print(self->root));
        (void)fprintf(self->to, "%s\n", text);
        free(text);
        cJSON_Delete(self->root);
    } else if (self->form == OUT_OPENMETRICS) {
        (void)fputs("# EOF\n", self->to);
    }
    flush_table(self);
    free(self->cells);
    *self = (struct out){.form = self->form, .to = self->to, .is_printed = true};
}
