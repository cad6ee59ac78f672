#ifndef RQLI_PIPE_H
#define RQLI_PIPE_H

/*
 * The command connection of a loop. Commands are gathered and written once in a round of the loop;
 * each is answered through a function, in their order. One thread: the loop's.
 *
 * As on the connection of threads (link.h), a server that is silent for io_timeout ends the
 * connection, and what was sent is then unknown (protocol.md 17).
 */

#include "net/conn_threads.h"
#include "net/socket.h"

struct rqli_pipe;
struct uv_loop_s;

/* The answer to one command, one reply; or why there is none: RQL_E_UNKNOWN, RQL_E_IO (not sent).
 */
typedef void (*rqli_pipe_fn)(void *owner, const struct rqli_exchange *answer, rql_status fault);

struct rqli_pipe_listener {
    /* Connected; or not, with the reason. */
    void (*on_opened)(void *self, const struct rqli_clock_reading *reading, const rql_error *fault);
    void *self;
};

/* endpoint and listener are borrowed. NULL: no memory. */
struct rqli_pipe *rqli_pipe_new(struct uv_loop_s *loop, const struct rqli_endpoint *endpoint,
                                const struct rqli_pipe_listener *listener);
/* Afterwards, when it is closed, `closed` is called; then free it. */
void rqli_pipe_close(struct rqli_pipe *self, void (*closed)(void *data), void *data);
struct rqli_pipe *rqli_pipe_free(struct rqli_pipe *self);
void rqli_pipe_abandon(struct rqli_pipe *self); /* as rqli_line_abandon() */

bool rqli_pipe_is_up(const struct rqli_pipe *self);
uint64_t rqli_pipe_generation(const struct rqli_pipe *self); /* 0: has never been connected */

/* Is there room for some more commands? Not while it is down. */
bool rqli_pipe_has_room(const struct rqli_pipe *self);

/* Where the next command goes; then say who is told of its reply, for each. The result names the
 * place in the stream, from 1. */
struct rqli_command *rqli_pipe_out(struct rqli_pipe *self);
uint64_t rqli_pipe_expect(struct rqli_pipe *self, rqli_pipe_fn fn, void *owner);

/* Its owner is gone: the reply is read and dropped. */
void rqli_pipe_orphan(struct rqli_pipe *self, uint64_t place);

/* Did the server say anything within this time? */
bool rqli_pipe_is_talking(const struct rqli_pipe *self, int64_t within_us);

void rqli_pipe_write(struct rqli_pipe *self); /* what is gathered */
void rqli_pipe_read(struct rqli_pipe *self);  /* what has come */

/* When it is to be tended: connecting, if `wanted`, or silence. */
int64_t rqli_pipe_due_us(const struct rqli_pipe *self, bool wanted);
void rqli_pipe_tend(struct rqli_pipe *self, int64_t now_us, bool wanted);

#endif
