#ifndef CLI_SWARM_H
#define CLI_SWARM_H

/* What the actions of `rql swarm` share. */

#include "cmd.h"

/* Until SIGTERM or SIGINT; those are blocked before there is a client. */
int cli_swarm_prepare(struct cli_args *args);
int cli_swarm_run(const struct cli_args *args, rql_client *client);

#endif
