#ifndef CLI_AGENT_LOCK_H
#define CLI_AGENT_LOCK_H

/* A lock that the agent of this host holds for this program (`rql run --agent`), as long as the
 * connection to it is open. The command and its guard inherit the connection, so the lock is free
 * as soon as the last of these processes has ended. */

#include "cmd.h"

struct cli_agent_lock;

/* Connects to the agent that the arguments name, and waits for the lock. If it is acquired, it is
 * in *out. Otherwise *out is NULL, and the exit code is returned after a line on stderr: that of a
 * refusal, which --conflict-exit-code sets, can be 0. *is_refused: there was no fault. traceparent:
 * for the lock; or NULL. A signal that ends the program withdraws the request, because it ends the
 * connection. */
int cli_agent_lock_acquire(const struct cli_args *args, const char *traceparent,
                           struct cli_agent_lock **out, bool *is_refused);

int64_t cli_agent_lock_token(const struct cli_agent_lock *self);
int64_t cli_agent_lock_ttl_ms(const struct cli_agent_lock *self);

/* Returns the numbers of its permits, or NULL. */
const int *cli_agent_lock_slots(const struct cli_agent_lock *self, size_t *count);

/* Returns the descriptor of the connection, for other processes to inherit. */
int cli_agent_lock_fd(const struct cli_agent_lock *self);

/* ---- while the command runs ----
 *
 * The agent renews the lock and is asked from time to time how long it is still held, because an
 * agent that stands still cannot tell. */

/* Reads what the agent has sent, and asks it when that is due. RQL_DOUBTFUL: a renewal is late. */
rql_lock_state cli_agent_lock_look(struct cli_agent_lock *self);

/* Returns the descriptor that is readable when cli_agent_lock_look() has to be called; -1: none,
 * because nothing can come any more. */
int cli_agent_lock_news_fd(const struct cli_agent_lock *self);

/* Returns the cli_now_ms() of the next call of cli_agent_lock_look(), if nothing can be read
 * before. */
int64_t cli_agent_lock_next_ms(const struct cli_agent_lock *self);

/* Returns the time for which the lock is held at least. */
int64_t cli_agent_lock_remaining_ms(const struct cli_agent_lock *self);

/* Returns whether the agent has closed the connection: it does not renew the lock any more. */
bool cli_agent_lock_is_cut(const struct cli_agent_lock *self);

/* Releases the lock and frees this. RQL_NOT_HELD: it had ended before. Other processes that have
 * the connection lose it. */
rql_status cli_agent_lock_release(struct cli_agent_lock *self, rql_error *error);

#endif
