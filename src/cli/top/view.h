#ifndef TOP_VIEW_H
#define TOP_VIEW_H

/* What `rql top` shows of a look, and what keys change. Nothing here knows a terminal. */

#include "sheet.h"
#include "state.h"

enum top_key {
    TOP_NO_KEY,
    TOP_QUIT,
    TOP_UP,
    TOP_DOWN,
    TOP_PAGE_UP,
    TOP_PAGE_DOWN,
    TOP_FIRST,
    TOP_LAST,
    TOP_ENTER,
    TOP_BACK,
    TOP_SORT,
    TOP_REVERSE,
    TOP_SHOW_BLOCKED,
    TOP_SHOW_HOSTS,
    TOP_FILTER,
    TOP_UNLOCK,
    TOP_REMOVE,
    TOP_PAUSE,
    TOP_YES,
    TOP_ERASE,
    TOP_LETTER /* a byte of the filter */
};

/* What a key does; letter: of TOP_LETTER. `height` is that of the screen. */
void top_view_press(struct top_view *self, struct top_look *look, enum top_key key, char letter,
                    size_t height);

/* Fills an empty sheet. `look` is the last one that had an answer, or NULL; fault: why there is no
 * newer one, or NULL. */
void top_view_draw(struct top_view *self, struct top_look *look, const rql_error *fault,
                   struct top_sheet *sheet);

void top_view_free_p(struct top_view *self);

#endif
