#ifndef RQLI_WAIT_H
#define RQLI_WAIT_H

/* How an acquisition listens for pushes. */

#include "base/text.h"
#include "lock/acquisition.h"

#include <rql/client.h>

enum rqli_wait_next {
    RQLI_WAIT_ON,
    RQLI_WAIT_ASK, /* something may have been missed: ask the server again */
    RQLI_WAIT_FAULT
};

/* The steps that differ between a thread, which sleeps in its calls, and a loop, which never does.
 * They are chosen once, before the acquisition begins. */
struct rqli_wait_ops {
    /* Chooses the connection of the node over which it asks from now on, which its waiter does not
     * know yet, and returns what the waiter is to join there. NULL: no memory, and nothing has
     * changed. */
    struct rqli_pushes *(*go_to)(struct rqli_acquire *self, struct rqli_node *node);
    /* Connects for the first time, so that the server's clock and distance are known before the
     * first script. NULL: nothing has to be waited for. */
    rql_status (*connect)(struct rqli_acquire *self, rql_error *error);
    /* Returns when a try without an answer ends. */
    int64_t (*until_us)(const struct rqli_acquire *self, int64_t now_us);
    /* Leaves the durable connection: from here on its calls wait for no replicas. */
    void (*leave_durable)(struct rqli_acquire *self);
    /* Watches a lock of Ruby's, and finds out whether pushes still come. Raises RQL_E_BUSY. */
    enum rqli_wait_next (*attend)(struct rqli_acquire *self, uint64_t generation, rql_error *error);
    bool may_sleep; /* in the middle of a step */
};

extern const struct rqli_wait_ops rqli_wait_on_thread;
extern const struct rqli_wait_ops rqli_wait_on_loop;

/* Prepares an acquisition that has a node. False: no memory. */
bool rqli_wait_init(struct rqli_acquire *self, const struct rqli_wait_ops *ops);

/* Begins to listen. Raises RQL_E_BUSY if this acquirer waits for this lock already. */
rql_status rqli_wait_begin(struct rqli_acquire *self, rql_error *error);
void rqli_wait_end(struct rqli_acquire *self);

/* Follows its keys, which may be another node's by now. Returns true if they are: then it asks and
 * listens there. */
bool rqli_wait_follow(struct rqli_acquire *self);

/* Notes that it is directly behind this acquirer in the queue: a release of that acquirer inside
 * this client makes it the next owner. */
void rqli_wait_behind(struct rqli_acquire *self, struct rqli_slice in_front);

struct rqli_request_input rqli_wait_input(const struct rqli_acquire *self);

/* Returns whether a notice of the next change of this lock is armed and the connection is still the
 * same. */
static inline bool rqli_wait_is_armed(const struct rqli_acquire *self, uint64_t generation)
{
    return self->armed == self->watched.data && self->watch_generation == generation;
}

void rqli_wait_arm(struct rqli_acquire *self, uint64_t generation);

/* On a loop: drops the reply of the watch that is under way on the driver's connection, if there is
 * one. */
void rqli_wait_drop_watch(struct rqli_acquire *self);

/* Returns whether a watch may be armed now. A server that has no room for all watches gives up one
 * for each new one, and reports that as if the lock had changed: two waiters could take turns
 * without a pause. So a notice after which nothing has changed is followed by a pause, in which a
 * request behind Ruby polls as without a watch. is_used_up: the notice has come. */
bool rqli_wait_may_watch(struct rqli_acquire *self, uint64_t generation, bool is_used_up);

/* Makes the other waiters of this client for this lock ask. This one was out of the queue, so they
 * may be as well. */
void rqli_wait_hint_others(const struct rqli_acquire *self);

/* A refusal was answered on this connection: begins to listen if that is new, and watches a lock of
 * Ruby's. Raises RQL_E_BUSY. */
enum rqli_wait_next rqli_wait_attend(struct rqli_acquire *self, uint64_t generation,
                                     rql_error *error);

/* A first try was refused and has not entered the queue: the client subscribes, and the request
 * waits for the confirmation. Raises RQL_E_BUSY. */
enum rqli_wait_next rqli_wait_hold_back(struct rqli_acquire *self, const struct rqli_batch *answer,
                                        rql_error *error);

/* Ruby pushes nothing. So the client asks the server to notify its subscriber when Ruby changes a
 * lock (CLIENT TRACKING, lua/README.md 31). The notice is a hint: polling goes on in any case. */

struct rqli_command;
struct rqli_push_view;

/* On a thread: arms the notice for the lock that is watched. generation: of its connection; around:
 * the subscriber that gets the notice. Returns true if the lock is free by now and the reply said
 * so in time. */
bool rqli_tracking_arm(const struct rqli_acquire *self, uint64_t generation,
                       const struct rqli_push_view *around);

/* Writes the commands for one notice of the lock's next change, the last of which asks who holds
 * the lock: nil means that it is free. subscriber_id: the subscriber to redirect to, if that has to
 * be set up; else 0. */
void rqli_tracking_write(struct rqli_command *command, struct rqli_slice lock_key,
                         int64_t subscriber_id);

#endif
