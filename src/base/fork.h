#ifndef RQLI_FORK_H
#define RQLI_FORK_H

/*
 * The effect of fork() on clients: the child closes its copies of their sockets, so that the server
 * notices when the parent dies, and every handle of the parent is foreign in the child. The list of
 * members is process-wide because fork is a process-wide event. Foreign members stay in the list
 * and are never freed.
 *
 * A child that clone() or _Fork() made is noticed by its first call. Handles are foreign in it as
 * well, but its copies of descriptors stay open.
 */

#include "base/dlist.h"

#include <signal.h>
#include <stdbool.h>

struct rqli_fork_member {
    struct rqli_dlink link;       /* first */
    void (*in_child)(void *self); /* takes no lock, allocates nothing; called at most once */
    void *self;
    unsigned generation;
};

/* Adds the member to the list. Returns false if the handlers could not be installed. */
bool rqli_fork_join(struct rqli_fork_member *member, void (*in_child)(void *self), void *self);
void rqli_fork_leave(struct rqli_fork_member *member);

/* Returns the number of this process in its line of ancestors. It differs from its parent's,
 * whichever call made the process. Nearly free, and async-signal-safe. */
unsigned rqli_fork_generation(void);

static inline bool rqli_fork_is_foreign(const struct rqli_fork_member *member)
{
    return member->generation != rqli_fork_generation();
}

/* Called before and after the start of a thread of ours, so that asynchronous signals stay with the
 * threads of the program. Callbacks of the program run on our threads, too, so the signals of a
 * crash are not blocked. */

sigset_t rqli_mask_asynchronous(void); /* returns the mask that was set before */
void rqli_mask_restore(const sigset_t *before);

#endif
