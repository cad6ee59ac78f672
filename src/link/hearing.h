#ifndef RQLI_HEARING_H
#define RQLI_HEARING_H

/* One subscriber connection: how it is opened, and what it says. No lock, no thread: subscriber.c
 * (threads) and ear.c (a loop) say who uses it. */

#include "link/push.h"
#include "link/wire.h"

struct rqli_hearing {
    struct rqli_wire wire; /* endpoint and fd set by the owner, to begin with */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
};

/* Connects and subscribes; blocks. False: closed again. */
bool rqli_hearing_open(struct rqli_hearing *self, int64_t deadline_us);
void rqli_hearing_fini(struct rqli_hearing *self); /* closed already is fine */

/* As rqli_decoder_next(), of what has been read. What it says points into the reply: forget it
 * when that is done. */
int rqli_hearing_next(struct rqli_hearing *self, struct rqli_pushed *out);
void rqli_hearing_forget(struct rqli_hearing *self);

#endif
