#ifndef AGENT_CALL_H
#define AGENT_CALL_H

/* Calls of the library that block. They run on libuv's threads, and few at a time, because the loop
 * needs these threads, too. */

#include "conn.h"

enum agent_call_kind { AGENT_CALL_RELEASE, AGENT_CALL_WHO, AGENT_CALL_QUEUE, AGENT_CALL_HOLDER };

/* Releases the lock by its secret, also if conn is closed meanwhile. conn gets the reply, 1 or 0.
 * NULL: for a connection that was closed before; such a release comes first. */
void agent_call_release(struct agent *agent, struct agent_conn *conn, const char *name,
                        const char *secret);

/* Replies with JSON. WHO: who holds the locks of this pattern; QUEUE: the queue of the lock of this
 * name. */
void agent_call_look(struct agent_conn *conn, enum agent_call_kind kind, const char *name);

/* Replies 1 if a grant of this lock with this token is in force, or else 0. */
void agent_call_find_holder(struct agent_conn *conn, const char *name, int64_t token);

/* Returns whether releases are to be made yet. */
bool agent_calls_are_due(const struct agent *agent);

/* Drops what has not begun. */
void agent_calls_end(struct agent *agent);

#endif
