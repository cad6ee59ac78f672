#include "sheet.h"

#include "format.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTER_SIZE = 8 /* of UTF-8 */ };

/* Returns how many bytes of the text, which is UTF-8, fit into so many columns. */
static size_t fitting(const char *text, size_t columns)
{
    char letter[LETTER_SIZE];
    size_t size = 0;
    size_t used = 0;

    while (text[size] != '\0') {
        size_t length = 1;

        while (length + 1 < sizeof letter && ((unsigned char)text[size + length] & 0xc0) == 0x80) {
            length++;
        }
        (void)snprintf(letter, sizeof letter, "%.*s", (int)length, text + size);
        used += cli_text_width(letter);
        if (used > columns) {
            break;
        }
        size += length;
    }
    return size;
}

void top_put(char *line, const char *text, size_t columns)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(text);
    const bool is_cut = cli_text_width(safe) > columns;
    const size_t size = fitting(safe, is_cut && columns > 0 ? columns - 1 : columns);
    const size_t length = strlen(line);
    size_t width;

    (void)snprintf(line + length, TOP_LINE_SIZE - length, "%.*s%s", (int)size, safe,
                   is_cut ? "…" : "");
    width = cli_text_width(line + length);
    for (size_t at = strlen(line); width < columns && at + 1 < TOP_LINE_SIZE; at++, width++) {
        line[at] = ' ';
        line[at + 1] = '\0';
    }
}

size_t top_shown_width(const char *text)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(text);

    return cli_text_width(safe);
}

void top_put_whole(char *line, const char *text)
{
    top_put(line, text, top_shown_width(text));
}

void top_put_right(char *line, const char *text, size_t columns)
{
    const size_t width = cli_text_width(text);
    const size_t room = columns - 1;

    top_put(line, "", width < room ? columns - width : 1);
    top_put(line, text, width < room ? width : room);
}

void top_put_duration(char *line, int64_t ms, size_t columns)
{
    char text[CLI_DURATION_SIZE];

    top_put_right(line, cli_format_duration(ms, text), columns);
}

void top_add(struct top_sheet *self, enum top_style style, const char *text)
{
    char line[TOP_LINE_SIZE] = "";

    self->n_added++;
    self->chosen = style == TOP_CHOSEN ? self->n_added : self->chosen;
    if (self->n_skipped > 0) {
        self->n_skipped--;
        return;
    }
    if (self->n_lines == self->height) {
        self->is_cut = true;
        return;
    }
    top_put(line, text, self->width);
    self->lines[self->n_lines++] =
        (struct top_line){.text = cli_must(strdup(line)), .style = style};
}

void top_add_text(struct top_sheet *self, enum top_style style, const char *format, ...)
{
    char text[TOP_LINE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    top_add(self, style, text);
}

/* Returns the length of the longest beginning that fits and ends before a blank; the whole length
 * if all of it fits, and what fits if there is no blank. */
static size_t line_of(const char *text, size_t columns)
{
    const size_t size = fitting(text, columns > 0 ? columns : 1);
    size_t end = size;

    if (text[size] == '\0') {
        return size;
    }
    while (end > 0 && text[end] != ' ') {
        end--;
    }
    return end > 0 ? end : size > 0 ? size : 1;
}

void top_add_words(struct top_sheet *self, enum top_style style, const char *text, size_t indent)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(text);
    const char *at = safe;

    while (*at != '\0') {
        const size_t size = line_of(at, self->width > indent ? self->width - indent : 1);

        top_add_text(self, style, "%*s%.*s", (int)indent, "", (int)size, at);
        at += size;
        at += strspn(at, " ");
    }
}

void top_drop_lines(struct top_sheet *self, size_t n_left)
{
    while (self->n_lines > n_left) {
        free(self->lines[--self->n_lines].text);
    }
}
