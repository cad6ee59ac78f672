#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

/* The terminal of `rql top`: another screen, keys that are read one by one, and frames of which
 * only the changed lines are written. A terminal that takes its time delays frames, but no key. */

#include "view.h"

#include <termios.h>

struct top_screen {
    int fd; /* of the controlling terminal, non-blocking; -1: it is not open */
    struct termios before;
    size_t width, height;
    char **shown; /* what the lines show, with their styles; NULL: nothing is known */
    char *pending;
    size_t n_pending;
    size_t n_written; /* of them */
    bool is_plain;    /* NO_COLOR: nothing is bold or faint */
    bool enters;      /* the next frame begins with the other screen */
    char unread;      /* a letter that was read too far, or 0 */
};

/* Opens the terminal and shows another screen. Returns false after a message on stderr. */
bool top_screen_open(struct top_screen *self);

/* Restores the terminal, as it has to be before this program stops or ends. */
void top_screen_leave(struct top_screen *self);

/* Shows the other screen again, of whatever size it has by now. */
void top_screen_enter(struct top_screen *self);

void top_screen_close(struct top_screen *self);

/* Returns whether the frame before was written. Otherwise this one has to wait. */
bool top_screen_is_ready(const struct top_screen *self);

/* Writes those lines that have changed. The lines are freed. */
void top_screen_show(struct top_screen *self, struct top_line *lines);

/* Goes on writing. */
void top_screen_flush(struct top_screen *self);

/* Reads a key. Returns false if there is none. is_text: letters belong to a text that is typed. */
bool top_screen_read(struct top_screen *self, bool is_text, enum top_key *out, char *letter);

#endif
