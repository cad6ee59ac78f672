#include "common/terminal.h"

#include <stdlib.h>
#include <unistd.h>

bool is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

bool wants_colour(void)
{
    const char *no_colour = secure_getenv("NO_COLOR");

    return is_terminal() && (!no_colour || !*no_colour);
}
