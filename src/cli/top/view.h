#ifndef TOP_VIEW_H
#define TOP_VIEW_H

/* What `rql top` shows of a look, and what keys change. Nothing here knows a terminal. */

#include "look.h"

enum top_page {
    TOP_LIST,    /* all locks */
    TOP_LOCK,    /* one of them: its holders and its queue */
    TOP_BLOCKED, /* who waits for whom */
};

struct top_view {
    enum top_page page;
    enum top_order order;
    bool is_reversed;
    bool is_paused;
    char *name;       /* of the lock that is chosen; owned, or NULL: the first */
    size_t place;     /* of its row, when it was shown last */
    size_t top;       /* the first row that is shown */
    size_t n_skipped; /* lines of another page that are scrolled past */
    bool is_cut;      /* that page goes on below the screen */
    const char *url;  /* of the server, without a password */
    int64_t every_ms; /* from one look to the next */
    bool is_busy;     /* that is longer than was asked for, to spare the server */
};

enum top_key {
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
    TOP_PAUSE
};

/* What a key does. `height` is that of the screen. */
void top_view_press(struct top_view *self, struct top_look *look, enum top_key key, size_t height);

struct top_line {
    char *text; /* owned; fit for a terminal, and no wider than it */

    enum { TOP_PLAIN, TOP_BOLD, TOP_CHOSEN, TOP_FAINT } style;
};

/* Lines that are filled one after the other. */
struct top_sheet {
    struct top_line *lines;
    size_t width, height;
    size_t n_lines;
    size_t n_skipped; /* lines to leave out that come next */
    size_t n_added;   /* lines of the body, those that were left out included */
    bool is_cut;      /* a line had no room */
};

/* Fills an empty sheet. `look` is the last one that had an answer, or NULL; fault: why there is no
 * newer one, or NULL. */
void top_view_draw(struct top_view *self, struct top_look *look, const rql_error *fault,
                   struct top_sheet *sheet);

#endif
