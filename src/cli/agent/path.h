#ifndef AGENT_PATH_H
#define AGENT_PATH_H

#include "listen.h"

/* Checks RQL_LOCAL_DIR as local: does. Returns CLI_DONE, or CLI_USAGE after a message on stderr. */
int agent_check_folder(void);

/* Writes the path at which agents of this user listen: /run/rql/agent.sock for root, otherwise
 * agent.sock in the folder of local:, which was checked. */
void agent_default_path(char out[CLI_SOCKET_PATH_SIZE]);

/* The same, and makes the folder if it is missing. Returns false after a message on stderr. */
bool agent_make_default_path(char out[CLI_SOCKET_PATH_SIZE]);

#endif
