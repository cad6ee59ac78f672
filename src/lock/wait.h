#ifndef RQLI_WAIT_H
#define RQLI_WAIT_H

/* How an acquisition listens for what is pushed, on its thread or on its loop: this is all in which
 * the two differ. */

#include "base/text.h"
#include "lock/acquisition.h"

#include <rql/client.h>

/* RQL_E_BUSY: this acquirer waits for this lock already; raised. */
rql_status rqli_wait_begin(struct rqli_acquire *self, rql_error *error);
void rqli_wait_end(struct rqli_acquire *self);

/* On a thread, before it waits: over which of its node's connections it asks. */
void rqli_wait_choose_conn(struct rqli_acquire *self);
/* Its keys may be another node's by now. True: they are, and it asks and listens there. */
bool rqli_wait_follow(struct rqli_acquire *self);

/* In the queue, directly behind this acquirer: whose release inside this client makes it the next
 * owner. */
void rqli_wait_behind(struct rqli_acquire *self, struct rqli_slice in_front);

/* A thread: connects for the first time, so that the server's clock and distance are known before
 * the first script. */
rql_status rqli_wait_connect(struct rqli_acquire *self, rql_error *error);

/* When a try ends that has no answer. On a loop it ends later as long as the server keeps answering
 * others, unless it asks for replicas. */
int64_t rqli_wait_until_us(const struct rqli_acquire *self, int64_t now_us);

/* From here on its calls wait for no replicas. */
void rqli_wait_leave_durable_conn(struct rqli_acquire *self);

struct rqli_request_input rqli_wait_input(const struct rqli_acquire *self);

/* On a loop: something has come since it was last asked. True: *out is what. */
bool rqli_wait_has_come(struct rqli_acquire *self, enum rqli_wake *out);

/* A notice of the next change of this lock is armed, and the connection is still the same. */
static inline bool rqli_wait_is_armed(const struct rqli_acquire *self, uint64_t generation)
{
    return self->armed == self->watched.data && self->watch_generation == generation;
}

void rqli_wait_arm(struct rqli_acquire *self, uint64_t generation);

/* A server that has no room for all that is watched gives up one watch for each new one, and says
 * so as if that lock had changed: two waiters could take turns without a pause. So a notice after
 * which all is as it was is followed by a pause, in which a request behind Ruby polls as without a
 * watch.
 * is_used_up: the notice has come. */
bool rqli_wait_may_watch(struct rqli_acquire *self, uint64_t generation, bool is_used_up);

/* It was out of the queue: the others of this client for this lock may be as well, and ask. */
void rqli_wait_hint_others(const struct rqli_acquire *self);

enum rqli_wait_next {
    RQLI_WAIT_ON,
    RQLI_WAIT_ASK, /* something may have been missed: ask the server again */
    RQLI_WAIT_FAULT
};

/* A refusal was answered on this connection: listens if that is new, watches a lock of Ruby's.
 * Raises RQL_E_BUSY. */
enum rqli_wait_next rqli_wait_attend(struct rqli_acquire *self, uint64_t generation,
                                     rql_error *error);

/* A first try was refused and has not entered the queue. The client subscribes, and the request
 * waits for that. */
void rqli_wait_hold_back(struct rqli_acquire *self, const struct rqli_exchange *answer);

/* No push comes from Ruby. So the server is asked to notify our subscriber when Ruby changes a lock
 * (CLIENT TRACKING, lua/README.md 31). A hint: polling goes on in any case. */

struct rqli_command;
struct rqli_push_view;

/* On a thread, for the lock that is watched. generation: of its connection; around: the subscriber
 * that gets the notice. True: the lock is free by now, and the reply said so in time. */
bool rqli_tracking_arm(const struct rqli_acquire *self, uint64_t generation,
                       const struct rqli_push_view *around);

/* The commands for one notice of the lock's next change, the last of which asks who holds the lock:
 * nil, it is free. subscriber_id: to redirect to, if that is to be set up; else 0. */
void rqli_tracking_write(struct rqli_command *command, struct rqli_slice lock_key,
                         int64_t subscriber_id);

#endif
