#ifndef RQLI_CONN_LOOP_H
#define RQLI_CONN_LOOP_H

/*
 * A connection of a loop: opened on libuv's pool, because that blocks; then watched by the loop,
 * which never does. For commands, which are gathered and written once in a round of the loop; each
 * is answered through a function, in their order. Or for pushes. One thread: the loop's.
 *
 * As on the connection of threads, a server that is silent for io_timeout ends the connection, and
 * what was sent is then unknown.
 */

#include "net/conn.h"
#include "net/socket.h"

struct rqli_conn_loop;
struct uv_loop_s;

struct rqli_conn_loop_listener {
    /* Connected; or not, with the reason. */
    void (*on_opened)(void *self, const struct rqli_clock_reading *reading, const rql_error *fault);
    /* NULL: it is for commands. Else it is subscribed, and this is what comes; or NULL when all
     * that has come is taken. */
    void (*on_push)(void *self, const struct rqli_reply *push);
    void *self;
};

/* endpoint and listener are borrowed. NULL: no memory. */
struct rqli_conn_loop *rqli_conn_loop_new(struct uv_loop_s *loop,
                                          const struct rqli_endpoint *endpoint,
                                          const struct rqli_conn_loop_listener *listener);
/* Ends it for good; `closed` is called later, when an attempt under way has come to its end; then
 * free it. */
void rqli_conn_loop_close(struct rqli_conn_loop *self, void (*closed)(void *data), void *data);
struct rqli_conn_loop *rqli_conn_loop_free(struct rqli_conn_loop *self);

/* In a fork child: the parent's connection, under the same number, becomes nothing. */
void rqli_conn_loop_abandon(struct rqli_conn_loop *self);

/* Ends the connection; what is under way gets its fault. */
void rqli_conn_loop_drop(struct rqli_conn_loop *self);

bool rqli_conn_loop_is_up(const struct rqli_conn_loop *self);
uint64_t rqli_conn_loop_generation(const struct rqli_conn_loop *self); /* 0: never connected */
int64_t rqli_conn_loop_heard_us(const struct rqli_conn_loop *self);    /* when bytes came, last */
int64_t rqli_conn_loop_answered_us(const struct rqli_conn_loop *self); /* a reply, to commands */

/* Up, and nothing is under way. */
bool rqli_conn_loop_is_idle(const struct rqli_conn_loop *self);
/* Nothing is there, and nothing on its way: it could be freed. */
bool rqli_conn_loop_is_down(const struct rqli_conn_loop *self);

/* Its endpoint, always; all else only while it is up. */
const struct rqli_socket *rqli_conn_loop_socket(const struct rqli_conn_loop *self);

/* Is there room for some more commands? Not while it is down. */
bool rqli_conn_loop_has_room(const struct rqli_conn_loop *self);

/* Where the next command goes; then say who gets its reply, for each. The result names the
 * position in the stream, from 1. */
struct rqli_command *rqli_conn_loop_out(struct rqli_conn_loop *self);
uint64_t rqli_conn_loop_expect(struct rqli_conn_loop *self, rqli_conn_loop_fn fn, void *owner);

/* As rqli_conn_scripts(). position: of the call that the server did not know; what was written
 * before it was known may be unknown, too, and says nothing new. */
uint64_t rqli_conn_loop_scripts(const struct rqli_conn_loop *self);
void rqli_conn_loop_forget_scripts(struct rqli_conn_loop *self, uint64_t position);

/* A command may take so long that the server is silent for this longer than io_timeout_ms. */
void rqli_conn_loop_wait_longer(struct rqli_conn_loop *self, int64_t more_ms);

/* Its owner is gone: the reply is read and dropped. */
void rqli_conn_loop_orphan(struct rqli_conn_loop *self, uint64_t position);

/* For pushes, while it is up: says this at once, whose replies come as pushes do. If the socket
 * does not take all of it the connection ends. */
void rqli_conn_loop_tell(struct rqli_conn_loop *self, const struct rqli_command *command);

void rqli_conn_loop_write(struct rqli_conn_loop *self); /* what is gathered */
void rqli_conn_loop_read(struct rqli_conn_loop *self);  /* what has come */

/* When it is to be tended: connecting, if `wanted`, or silence. */
int64_t rqli_conn_loop_due_us(const struct rqli_conn_loop *self, bool wanted);
void rqli_conn_loop_tend(struct rqli_conn_loop *self, int64_t now_us, bool wanted);

#endif
