#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

/* The line that shows on a terminal how a wait for a lock goes: the place in its queue, the holder
 * and the age of its lock, and the expected wait. A thread with a client of its own reads all this,
 * so that the waiting request is not affected. */

#include "cmd.h"

struct cli_progress;

/* Starts the thread. The line is rewritten at most once a second. Returns NULL if stderr is no
 * terminal that can do that, or if there is no thread. */
struct cli_progress *cli_progress_start(const struct cli_session *session);

/* Removes the line, which is not written again. The thread ends by itself. NULL is allowed. */
void cli_progress_end(struct cli_progress *self);

#endif
