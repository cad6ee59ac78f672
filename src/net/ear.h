#ifndef RQLI_EAR_H
#define RQLI_EAR_H

/* The subscriber connection of a loop: what the server pushes to those who wait on it. A hint, as
 * subscriber.h says of that of threads. One thread: the loop's. */

#include "net/hearing.h"
#include "net/subscriber.h"

struct rqli_ear;
struct uv_loop_s;

struct rqli_ear_listener {
    void (*on_listening)(void *self); /* subscribed: what was said before is lost (F-41) */
    void (*on_pushed)(void *self, const struct rqli_pushed *pushed, int64_t received_us);
    void (*on_read)(void *self); /* all that has come was taken */
    void *self;
};

/* endpoint and listener are borrowed. NULL: no memory. */
struct rqli_ear *rqli_ear_new(struct uv_loop_s *loop, const struct rqli_endpoint *endpoint,
                              const struct rqli_ear_listener *listener);
void rqli_ear_close(struct rqli_ear *self, void (*closed)(void *data), void *data);
struct rqli_ear *rqli_ear_free(struct rqli_ear *self);
void rqli_ear_abandon(struct rqli_ear *self); /* as rqli_line_abandon() */

bool rqli_ear_is_listening(const struct rqli_ear *self);
uint64_t rqli_ear_generation(const struct rqli_ear *self);
int64_t rqli_ear_client_id(const struct rqli_ear *self);

/* As rqli_subscriber_wants_call(); by whoever has asked the server. */
bool rqli_ear_wants_call(struct rqli_ear *self);
void rqli_ear_on_called(struct rqli_ear *self, int64_t n_heard);

void rqli_ear_read(struct rqli_ear *self); /* what has come */

/* Nobody will read for a while: hangs up, so that the server keeps nothing for it. */
void rqli_ear_rest(struct rqli_ear *self);

/* When to connect, if `wanted`. */
int64_t rqli_ear_due_us(const struct rqli_ear *self, bool wanted);
void rqli_ear_tend(struct rqli_ear *self, int64_t now_us, bool wanted);

#endif
