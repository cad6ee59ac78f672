#ifndef AGENT_TASK_H
#define AGENT_TASK_H

/* The numbers by which connections are acquirers of their own (rql_lock_options::task). A number is
 * in use as long as a grant or request of it may exist on the server: a new connection with it
 * would be the same acquirer. A detached lock that its secret has extended may outlast that: the
 * new connection then waits for it as for another's. */

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_task {
    uint64_t number;
    size_t references;
    struct agent_tasks *all;
};

struct agent_later;

enum { AGENT_SECRET_LISTS = 4096 };

/* A zeroed one is empty but for `uv`. */
struct agent_tasks {
    uv_loop_t *uv;
    struct agent_later *later;                         /* references that are dropped later */
    struct agent_later *by_secret[AGENT_SECRET_LISTS]; /* those that a release can end before */
    uint64_t *bits; /* a bit for each number that is in use; the first one is number 1 */
    size_t n_words;
};

/* Ends the timers; their handles are closed by the loop. Then frees the rest. */
void agent_tasks_end(struct agent_tasks *self);
void agent_tasks_fini(struct agent_tasks *self);

/* Takes the lowest number that is free, with one reference. */
struct agent_task *agent_task_take(struct agent_tasks *self);
struct agent_task *agent_task_share(struct agent_task *self);
void agent_task_leave(struct agent_task *self);

/* Drops a reference when a lock with this TTL, or the request for it, has ended on the server,
 * whatever was sent about it before. secret: of that lock, whose release ends it before; or NULL.
 */
void agent_task_leave_later(struct agent_task *self, int64_t ttl_ms, const char *secret);

/* Drops the reference of the lock with this secret, if there is one: the lock was released. */
void agent_tasks_on_released(struct agent_tasks *self, const char *secret);

#endif
