#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

/* The line that says on a terminal how a wait for a lock goes: the place in its queue, who holds it
 * and for how long, how long it may take. A thread with a client of its own reads that, so that the
 * request that waits has nothing to do with it. */

#include "cmd.h"

struct cli_progress;

/* The line is rewritten once a second at most. NULL: stderr is no terminal that can do that, or
 * there is no thread. */
struct cli_progress *cli_progress_start(const struct cli_session *session);

/* From now on the line is gone. The thread ends by itself. NULL is fine. */
void cli_progress_end(struct cli_progress *self);

#endif
