#ifndef CLI_BROKEN_PIPE_H
#define CLI_BROKEN_PIPE_H

/* A reader of our output that goes away. Of results it ends the program as usual (`rql ls | head`),
 * but not of messages: work under a lock goes on when nobody reads its log any more. */

#include <stdbool.h>

/* SIGPIPE does nothing from now on. */
void cli_broken_pipe_init(void);

/* Between fork and exec: as it was when this program was started. */
void cli_broken_pipe_restore(void);

/* Has nobody heard our results, and is that to end us by SIGPIPE? */
bool cli_broken_pipe_is_deadly(void);

#endif
