#ifndef TOP_PAGE_H
#define TOP_PAGE_H

/* The pages of `rql top`. */

#include "sheet.h"
#include "state.h"

/* Columns of numbers, each with a blank in front. */
enum {
    TOP_NUMBER = 9,   /* a duration, or a count */
    TOP_HOLDERS = 10, /* "8/8" */
    TOP_RATE = 10,    /* "18.2+" */
};

/* Each draws its page below the head. `room`: lines that there are. */
void top_draw_list(struct top_view *self, struct top_look *look, struct top_sheet *sheet,
                   size_t room);
void top_draw_lock(struct top_view *self, struct top_look *look, struct top_sheet *sheet);
void top_draw_blocked(struct top_look *look, struct top_sheet *sheet);
void top_draw_hosts(struct top_look *look, struct top_sheet *sheet);

/* Returns the rows of the list, as top_look_sort() does. */
const struct top_row **top_rows(const struct top_view *self, struct top_look *look, size_t *count);

/* Returns the place of the chosen row. If its lock has ended, the row at its place is chosen; row
 * NULL: none is. */
size_t top_place_of(const struct top_view *self, const struct top_row *const *rows, size_t count);
void top_choose(struct top_view *self, const struct top_row *row, size_t place);

/* Appends how long a wait takes, from a rate: with one that is the least one it is the longest. */
void top_put_expected(char *line, const struct top_row *row, int64_t ms);

/* A holder or a waiter of a lock, one after the other: the holders come first. */
struct top_item {
    const rql_holder_info *holder;   /* NULL: it waits */
    const rql_request_info *request; /* NULL: it holds */
};

/* Returns how many there are; or the one at this place. */
size_t top_count_items(const struct top_look *look, const struct top_row *row);
struct top_item top_item_at(const struct top_look *look, const struct top_row *row, size_t place);
const char *top_acquirer_of(const struct top_item *item);

/* Returns the place of the chosen one. If it has gone, the one at its place is chosen. */
size_t top_item_place(const struct top_view *self, const struct top_look *look,
                      const struct top_row *row);
void top_choose_item(struct top_view *self, const struct top_item *item, size_t place);

#endif
