#ifndef RQLI_SUBSCRIPTION_H
#define RQLI_SUBSCRIPTION_H

/* One push connection: how it is opened, what it says, and whether it still does. No lock, no
 * thread: push_threads.c and push_loop.c say who uses it. */

#include "net/socket.h"
#include "wire/push.h"

struct rqli_subscription {
    struct rqli_socket sock; /* endpoint and fd set by the owner, to begin with */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    int64_t heard_us;        /* when it said something, last */
    int64_t pinged_us;       /* when it was last put to the test; 0: not yet */
    int64_t silent_us;       /* if nothing is heard by then, it was in vain; 0: no answer yet */
};

/* Connects and subscribes; blocks. False: closed again. */
bool rqli_subscription_open(struct rqli_subscription *self, int64_t deadline_us);
void rqli_subscription_fini(struct rqli_subscription *self); /* closed already is fine */

/* As rqli_decoder_next(), of what has been read. What it says points into the reply: forget it
 * when that is done. */
int rqli_subscription_next(struct rqli_subscription *self, struct rqli_pushed *out);
void rqli_subscription_forget(struct rqli_subscription *self);

/* A connection may stand and yet bring nothing: the other end is gone, or another server is behind
 * it than behind the commands. So what has been quiet for long is put to the test: true,
 * rqli_push_ping() is to be sent on the command connection, and how many received it to be told. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us);
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t now_us);

/* The test was in vain: connect anew. */
bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us);

#endif
