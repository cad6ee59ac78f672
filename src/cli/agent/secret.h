#ifndef AGENT_SECRET_H
#define AGENT_SECRET_H

/* Releases of locks by their secrets. The library's call blocks, so it runs on libuv's threads: at
 * most two at a time, because the loop needs these threads, too. */

#include "conn.h"

/* Releases the lock. conn gets the reply, 1 or 0. NULL: for a connection that was closed before;
 * such a release comes first. */
void agent_secret_release(struct agent *agent, struct agent_conn *conn, const char *name,
                          const char *secret);

/* Drops what has not begun. */
void agent_secrets_end(struct agent *agent);

#endif
