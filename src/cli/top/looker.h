#ifndef TOP_LOOKER_H
#define TOP_LOOKER_H

/* A thread that looks at the server, and makes changes there, so that no answer is waited for while
 * a key is to be read. */

#include "change.h"

struct top_looker;

/* Starts the thread, with all signals blocked. `session` must outlive it. */
struct top_looker *top_looker_start(struct cli_session *session);

/* Begins a look, if the thread is idle. `before` must exist until there is its result; `name` is
 * copied, and may be NULL. */
void top_looker_begin(struct top_looker *self, const struct top_look *before, const char *name);

/* Begins to make a change, if the thread is idle. The change must exist until it was made. */
void top_looker_begin_change(struct top_looker *self, struct top_change *change);

bool top_looker_is_busy(const struct top_looker *self);

/* Returns the descriptor that is readable when there is a result. */
int top_looker_fd(const struct top_looker *self);

/* Returns whether what was begun is done. *out is the look, which the caller owns, or NULL: it was
 * a change. */
bool top_looker_take(struct top_looker *self, struct top_look **out);

/* Ends the thread. It must not be busy. */
void top_looker_end(struct top_looker *self);

#endif
