#ifndef AGENT_COMMAND_H
#define AGENT_COMMAND_H

/* The commands of the agent. */

#include "hold.h"
#include "request.h"

/* Runs a request: writes its reply, or makes the connection BUSY until it is there. */
void agent_command_run(struct agent_conn *conn, const struct agent_request *request);

#endif
