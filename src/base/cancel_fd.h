#ifndef RQLI_CANCEL_FD_H
#define RQLI_CANCEL_FD_H

/*
 * rql_lock_options.cancel_fd: a descriptor that ends the call of a thread when it becomes readable.
 * It acts on each wait of the call as the deadline of that wait does. So it belongs to the thread,
 * as the clock does, and no function takes it as a parameter. The waits of base poll it. When one
 * of them has seen it readable, every deadline of the call counts as passed.
 */

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

struct pollfd;

struct rqli_cancel_fd {
    int fd;           /* the caller's, which is polled and never read */
    int wake_fd;      /* an event; another thread wakes this one by it. -1: not needed so far */
    bool is_readable; /* fd has been readable */
};

/* From here on the waits of this thread poll fd as well. Finds out whether fd is readable already.
 * fd: -1 for none; then nothing happens, because no other call of this thread has one: a listener's
 * calls ignore that of the call that they are made in. */
void rqli_cancel_fd_begin(struct rqli_cancel_fd *self, int fd);
void rqli_cancel_fd_end(struct rqli_cancel_fd *self);

/* Makes this thread's waits poll another one, or none if it is NULL. Returns the one before. */
struct rqli_cancel_fd *rqli_cancel_fd_swap(struct rqli_cancel_fd *self);

static inline void rqli_cancel_fd_restore(struct rqli_cancel_fd *const *before)
{
    (void)rqli_cancel_fd_swap(*before);
}

/* Until the end of the scope nothing cancels the waits of this thread: the program's functions are
 * called, whose calls of the library are calls of their own, or another thread relies on a wait. */
#define RQLI_IGNORE_CANCEL_FD                                                                      \
    __attribute__((cleanup(rqli_cancel_fd_restore),                                                \
                   unused)) struct rqli_cancel_fd *const cancel_fd_before =                        \
        rqli_cancel_fd_swap(NULL)

/* Returns the descriptor of this thread's call, or NULL. */
struct rqli_cancel_fd *rqli_cancel_fd(void);

/* Returns whether a wait of this call has found its descriptor readable. */
bool rqli_is_cancelled(void);

/* Returns the same, and looks at the descriptor: for waits that cannot poll. */
bool rqli_cancel_fd_check(void);

/* Returns whether a wait is over: its deadline has passed, or its call is cancelled. */
static inline bool rqli_time_is_up(int64_t until_us)
{
    return rqli_now_us() >= until_us || rqli_is_cancelled();
}

enum { RQLI_POLL_MAX = 2 };

/* Does as poll() for up to RQLI_POLL_MAX descriptors, for this long, and not less unless a signal
 * arrives or the call is cancelled. If no time is left, or the call was cancelled before, it checks
 * once. */
int rqli_poll(struct pollfd *wanted, size_t count, int64_t left_us);

#endif
