#ifndef RQLB_REPLAY_H
#define RQLB_REPLAY_H

/* The library's own scripts, called for as many acquirers as wanted: no machine has the threads to
 * wait in a queue of 100 000. Calls are pipelined over one connection. */

#include "common/fault.h"

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

struct replay;

/* NULL: the fault says why. The address is that of floor.h's dial(). */
struct replay *replay_open(const char *address, struct fault *fault);
void replay_close(struct replay *self);

/* All acquirers are of one client, which the server has to believe alive: listens to its channel.
 */
bool replay_listen(struct replay *self);

/* Takes the wake-ups that came. */
bool replay_hear(struct replay *self, int64_t count);

/* The acquirer of this number asks for the lock, and stands in its queue if it is taken. */
void replay_acquire(struct replay *self, const char *lock, int64_t number);

/* ... gives it back. */
void replay_release(struct replay *self, const char *lock, int64_t number);

/* Sends what was called since the last time and takes the answers. False: the fault says why. */
bool replay_flush(struct replay *self);

/* The keys of the lock outlive the run. */
bool replay_keep(struct replay *self, const char *lock);

/* Bytes that the server uses, but for the buffers of its clients; 0: it did not say. */
int64_t replay_memory(struct replay *self);

#endif
