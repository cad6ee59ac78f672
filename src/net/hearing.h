#ifndef RQLI_HEARING_H
#define RQLI_HEARING_H

/* One subscriber connection: how it is opened, and what it says. No lock, no thread: subscriber.c
 * (threads) and ear.c (a loop) say who uses it. */

#include "net/socket.h"
#include "wire/push.h"

struct rqli_hearing {
    struct rqli_socket sock; /* endpoint and fd set by the owner, to begin with */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    int64_t heard_us;        /* when it said something, last */
    int64_t called_us;       /* when it was last put to the test; 0: not yet */
    int64_t deaf_us;         /* if nothing is heard by then, it was in vain; 0: no answer yet */
};

/* Connects and subscribes; blocks. False: closed again. */
bool rqli_hearing_open(struct rqli_hearing *self, int64_t deadline_us);
void rqli_hearing_fini(struct rqli_hearing *self); /* closed already is fine */

/* As rqli_decoder_next(), of what has been read. What it says points into the reply: forget it
 * when that is done. */
int rqli_hearing_next(struct rqli_hearing *self, struct rqli_pushed *out);
void rqli_hearing_forget(struct rqli_hearing *self);

/* A connection may stand and yet bring nothing: the other end is gone, or another server is behind
 * it than behind the commands. So what has been quiet for long is put to the test (F-43): true,
 * rqli_push_call() is to be sent on the command connection, and how many heard it to be told. */
bool rqli_hearing_wants_call(struct rqli_hearing *self, int64_t now_us);
void rqli_hearing_on_called(struct rqli_hearing *self, int64_t n_heard, int64_t now_us);

/* The test was in vain: connect anew. */
bool rqli_hearing_is_deaf(const struct rqli_hearing *self, int64_t now_us);

#endif
