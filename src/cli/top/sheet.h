#ifndef TOP_SHEET_H
#define TOP_SHEET_H

/* The lines of a picture. Nothing here knows a terminal. */

#include "cmd.h"

struct top_line {
    char *text; /* owned; fit for a terminal, and no wider than it */

    enum top_style { TOP_PLAIN, TOP_BOLD, TOP_CHOSEN, TOP_FAINT } style;
};

/* Lines that are filled one after the other. */
struct top_sheet {
    struct top_line *lines;
    size_t width, height;
    size_t n_lines;
    size_t n_skipped; /* lines to leave out that come next */
    size_t n_added;   /* lines of the body, those that were left out included */
    size_t chosen;    /* the number of the chosen line among these, from 1; 0: none */
    bool is_cut;      /* a line had no room */
};

enum { TOP_LINE_SIZE = 4096 };

/* Append text that is cut and filled up to so many columns; and text as it is. The text may have
 * any bytes. */
void top_put(char *line, const char *text, size_t columns);
void top_put_whole(char *line, const char *text);

/* Append to the right end of so many columns, with a blank in front. */
void top_put_right(char *line, const char *text, size_t columns);
void top_put_duration(char *line, int64_t ms, size_t columns);

/* Returns the number of columns of a text as it is shown. */
size_t top_shown_width(const char *text);

/* Adds a line, unless it is one of those that are scrolled past, or the sheet is full. */
void top_add(struct top_sheet *self, enum top_style style, const char *text);
void top_add_text(struct top_sheet *self, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds as many lines as the words need, each indented by so many columns. */
void top_add_words(struct top_sheet *self, enum top_style style, const char *text, size_t indent);

/* Drops the last lines, down to so many. */
void top_drop_lines(struct top_sheet *self, size_t n_left);

#endif
