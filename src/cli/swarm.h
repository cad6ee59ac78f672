#ifndef CLI_SWARM_H
#define CLI_SWARM_H

/* What the actions of `rql swarm` share. */

#include "cmd.h"

/* Until SIGTERM or SIGINT. */
int cli_swarm_run(const struct cli_args *args);

#endif
