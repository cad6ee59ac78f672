#ifndef RQLI_SUBSCRIPTION_H
#define RQLI_SUBSCRIPTION_H

/* What makes a connection one for pushes, and whether it still brings any. No lock, no thread:
 * push_threads.c and push_loop.c say who uses it. */

#include "net/socket.h"

/* Connects and subscribes; blocks. False: closed again. */
bool rqli_subscription_open(struct rqli_socket *sock, int64_t deadline_us);

/* A connection may stand and yet bring nothing: the other end is gone, or another server is behind
 * it than behind the commands. So what has been quiet for long is put to the test. Zero for a new
 * connection. */
struct rqli_subscription {
    int64_t pinged_us; /* when it was last put to the test; 0: not yet */
    int64_t silent_us; /* if nothing is heard by then, it was in vain; 0: no answer yet */
};

/* heard_us: when it said something, last. True: rqli_push_ping() is to be sent on the command
 * connection, and how many received it to be passed on. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t heard_us, int64_t now_us);
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us);

/* The test was in vain: connect anew, unless something has come that was not read yet. */
bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t heard_us,
                                 int64_t now_us);

#endif
