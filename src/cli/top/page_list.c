#include "format.h"
#include "locks.h"
#include "page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page of all locks. */

enum {
    NAME_LEAST = 10,
    WIDE = 100,  /* columns with which all numbers are shown */
    NARROW = 80, /* with fewer than this the times are left out, too */
    HOLDER_LEAST = 20,
};

/* Returns the columns of the numbers between name and holder. */
static size_t numbers_width(size_t width)
{
    const size_t all = TOP_HOLDERS + TOP_NUMBER + TOP_RATE;

    return all + (width >= NARROW ? 2 * TOP_NUMBER : 0) + (width >= WIDE ? TOP_NUMBER : 0);
}

static size_t name_width(const struct top_row *const *rows, size_t count, size_t width)
{
    const size_t others = numbers_width(width) + HOLDER_LEAST;
    const size_t most = width > others + NAME_LEAST ? width - others : NAME_LEAST;
    size_t longest = NAME_LEAST;

    for (size_t i = 0; i < count; i++) {
        const size_t columns = top_shown_width(rows[i]->name);

        longest = columns > longest ? columns : longest;
    }
    return longest < most ? longest : most;
}

static void put_rate(char *line, const struct top_row *row)
{
    char text[CLI_DURATION_SIZE] = "-";

    if (row->served >= 0) {
        (void)snprintf(text, sizeof text, "%.1f%s", row->served, row->is_least ? "+" : "");
    }
    top_put_right(line, text, TOP_RATE);
}

void top_put_expected(char *line, const struct top_row *row, int64_t ms)
{
    char duration[CLI_DURATION_SIZE];
    char text[CLI_DURATION_SIZE + 1];

    (void)snprintf(text, sizeof text, "%s%s", row->is_least ? "<" : "",
                   cli_format_duration(ms, duration));
    top_put_right(line, ms >= 0 ? text : row->waiting > 0 ? "?" : "-", TOP_NUMBER);
}

static void put_times(char *line, const struct top_row *row, size_t width)
{
    if (width < NARROW) {
        return;
    }
    top_put_duration(line, row->held_ms, TOP_NUMBER);
    if (row->is_endless) {
        top_put_right(line, "forever", TOP_NUMBER);
    } else {
        top_put_duration(line, row->left_ms, TOP_NUMBER);
    }
    if (width >= WIDE) {
        top_put_expected(line, row, row->expect_ms);
    }
}

/* Holder and reason share what is left of the line. */
static void put_holder(char *line, const struct top_look *look, const struct top_row *row)
{
    const rql_lock_info *lock = row->lock;
    const char *reason = lock ? cli_meta_value(lock->meta, lock->n_meta, "reason") : NULL;
    char name[CLI_NAME_SIZE];
    char text[TOP_LINE_SIZE];

    (void)snprintf(text, sizeof text, "  %.280s%s%.512s", top_row_holder(look, row, name),
                   reason ? "  " : "", reason ? reason : "");
    top_put_whole(line, text);
}

static void add_row(struct top_sheet *self, const struct top_look *look, const struct top_row *row,
                    size_t columns, bool is_chosen)
{
    char holders[CLI_SHARE_SIZE];
    char number[CLI_DURATION_SIZE];
    char line[TOP_LINE_SIZE] = "";

    top_put(line, row->name, columns);
    top_put_right(line, row->lock ? cli_holders_text(row->lock, holders) : "-", TOP_HOLDERS);
    (void)snprintf(number, sizeof number, "%lld", (long long)row->waiting);
    top_put_right(line, number, TOP_NUMBER);
    put_rate(line, row);
    put_times(line, row, self->width);
    put_holder(line, look, row);
    top_add(self, is_chosen ? TOP_CHOSEN : TOP_PLAIN, line);
}

static void add_headings(struct top_sheet *self, size_t columns)
{
    char line[TOP_LINE_SIZE] = "";

    top_put(line, "NAME", columns);
    top_put_right(line, "HOLDERS", TOP_HOLDERS);
    top_put_right(line, "WAITING", TOP_NUMBER);
    top_put_right(line, "SERVED/S", TOP_RATE);
    if (self->width >= NARROW) {
        top_put_right(line, "HELD", TOP_NUMBER);
        top_put_right(line, "LEFT", TOP_NUMBER);
    }
    if (self->width >= WIDE) {
        top_put_right(line, "EXPECT", TOP_NUMBER);
    }
    top_put_whole(line, "  HOLDER");
    top_add(self, TOP_BOLD, line);
}

const struct top_row **top_rows(const struct top_view *self, struct top_look *look, size_t *count)
{
    const struct top_filter filter = {.glob = self->glob[0] != '\0' ? self->glob : NULL,
                                      .older_than_ms = self->older_than_ms};

    return top_look_sort(look, self->order, self->is_reversed, &filter, count);
}

size_t top_place_of(const struct top_view *self, const struct top_row *const *rows, size_t count)
{
    for (size_t i = 0; self->name && i < count; i++) {
        if (strcmp(rows[i]->name, self->name) == 0) {
            return i;
        }
    }
    return count > 0 && self->place >= count ? count - 1 : self->place;
}

void top_choose(struct top_view *self, const struct top_row *row, size_t place)
{
    char *copy = row ? cli_must(strdup(row->name)) : NULL;

    free(self->name);
    self->name = copy;
    self->place = place;
}

void top_draw_list(struct top_view *self, struct top_look *look, struct top_sheet *sheet,
                   size_t room)
{
    size_t count;
    CLI_AUTO(cli_free) const struct top_row **rows = top_rows(self, look, &count);
    const size_t columns = name_width(rows, count, sheet->width);
    const size_t n_rows = room > 1 ? room - 1 : 1;
    const size_t chosen = top_place_of(self, rows, count);

    if (room > 1) {
        add_headings(sheet, columns);
    }
    self->top = chosen < self->top ? chosen : self->top;
    self->top = chosen >= self->top + n_rows ? chosen - n_rows + 1 : self->top;
    if (self->top + n_rows > count) { /* rows above are shown before lines stay empty */
        self->top = count > n_rows ? count - n_rows : 0;
    }
    for (size_t i = self->top; i < count && i < self->top + n_rows; i++) {
        add_row(sheet, look, rows[i], columns, i == chosen);
    }
    top_choose(self, count > 0 ? rows[chosen] : NULL, chosen);
}
