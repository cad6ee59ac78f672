#ifndef AGENT_PATH_H
#define AGENT_PATH_H

#include "listen.h"

/* Writes the path at which agents of this user listen: /run/rql/agent.sock for root, otherwise
 * agent.sock in the folder of local:. Returns false after a message on stderr. */
bool agent_default_path(char out[CLI_SOCKET_PATH_SIZE]);

/* The same, and makes the folder if it is missing. */
bool agent_make_default_path(char out[CLI_SOCKET_PATH_SIZE]);

#endif
