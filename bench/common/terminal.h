#ifndef RQLB_TERMINAL_H
#define RQLB_TERMINAL_H

#include <stdbool.h>

/* stdout is a terminal. */
bool is_terminal(void);

/* It is, and NO_COLOR is not set. */
bool wants_colour(void);

#endif
