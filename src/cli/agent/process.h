#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

/* Processes that have asked for locks: each is watched once, until it has ended or no hold is
 * left that belongs to it. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

struct agent_process;

/* Called when a process has ended; not from within agent_process_watch(). */
typedef void (*agent_process_ended_fn)(struct agent_process *process, void *data);

/* All watched processes of an agent. */
struct agent_processes {
    uv_loop_t *uv;
    agent_process_ended_fn ended;
    void *data;
    struct agent_process *first;
    size_t count;
    size_t most; /* each has a descriptor */
};

enum agent_watch {
    AGENT_WATCHED,
    AGENT_NOT_WATCHED, /* a process of another namespace, or an old kernel: it cannot be watched */
    AGENT_HAS_ENDED,
    AGENT_TOO_MANY, /* descriptors are short */
};

/* Watches a process. *out has one reference more, if it is watched; otherwise it is NULL. */
enum agent_watch agent_process_watch(struct agent_processes *self, pid_t pid,
                                     struct agent_process **out);

/* Says whether this is the process that has this pid now. */
bool agent_process_is(const struct agent_process *self, pid_t pid);

/* Takes and drops a reference. NULL is allowed. */
struct agent_process *agent_process_share(struct agent_process *self);
void agent_process_leave(struct agent_process *self);

#endif
