#ifndef RQLI_CONN_LOOP_H
#define RQLI_CONN_LOOP_H

/*
 * A connection of a loop. It is opened on libuv's pool, because opening blocks; then the loop
 * watches it and never blocks. A connection for commands gathers them and writes them once in a
 * round of the loop; each is answered through a function, in their order. The other kind is for
 * pushes. Everything runs on one thread: the loop's.
 *
 * As on the connection of threads, a server that is silent for io_timeout ends the connection, and
 * the fate of what was sent is then unknown.
 */

#include "net/conn/conn.h"
#include "net/sock/socket.h"

struct rqli_clock_reading;
struct rqli_conn_loop;
struct uv_loop_s;

/* Receives the answer to one command, a single reply; or the reason why there is none:
 * RQL_E_UNKNOWN, RQL_E_IO (not sent). */
typedef void (*rqli_conn_loop_fn)(void *owner, const struct rqli_batch *answer, rql_status fault);

struct rqli_conn_loop_listener {
    /* Called when an attempt is over: connected, or not, with the reason. */
    void (*on_opened)(void *self, const struct rqli_clock_reading *reading, const rql_error *fault);
    /* NULL: the connection is for commands. Else it is subscribed, and the function gets each push;
     * then NULL, when all pushes that have come were given. */
    void (*on_push)(void *self, const struct rqli_reply *push);
    void *self;
};

/* Makes a connection. site and listener are borrowed. NULL: no memory. */
struct rqli_conn_loop *rqli_conn_loop_new(struct uv_loop_s *loop, const struct rqli_site *site,
                                          const struct rqli_conn_loop_listener *listener);
/* Ends the connection for ever; `closed` is called later, when an attempt under way is over; then
 * free it. */
void rqli_conn_loop_close(struct rqli_conn_loop *self, void (*closed)(void *data), void *data);
struct rqli_conn_loop *rqli_conn_loop_free(struct rqli_conn_loop *self);

/* In a fork child: detaches the descriptor, whose number stays, from the parent's connection. */
void rqli_conn_loop_abandon(struct rqli_conn_loop *self);

/* Ends the connection; commands in flight get their fault. */
void rqli_conn_loop_drop(struct rqli_conn_loop *self);

bool rqli_conn_loop_is_up(const struct rqli_conn_loop *self);
uint64_t rqli_conn_loop_generation(const struct rqli_conn_loop *self); /* 0: never connected */
int64_t rqli_conn_loop_heard_us(const struct rqli_conn_loop *self); /* when the last bytes came */

/* Returns when the last whole reply came, or when it began to wait for one. */
int64_t rqli_conn_loop_answered_us(const struct rqli_conn_loop *self);

/* Returns true if it is up and no command is in flight. */
bool rqli_conn_loop_is_idle(const struct rqli_conn_loop *self);
/* Returns true if it is not connected and no attempt is under way: it could be freed. */
bool rqli_conn_loop_is_down(const struct rqli_conn_loop *self);

/* Returns its socket. The site in it is always valid, all else only while it is up. */
const struct rqli_socket *rqli_conn_loop_socket(const struct rqli_conn_loop *self);

/* Returns true if there is room for some more commands; false while it is down. */
bool rqli_conn_loop_has_room(const struct rqli_conn_loop *self);

/* Return the buffer for the next command; and note, once for each command, the owner that gets its
 * reply. The result of the latter is the command's position in the stream, from 1. */
struct rqli_command *rqli_conn_loop_out(struct rqli_conn_loop *self);
uint64_t rqli_conn_loop_expect(struct rqli_conn_loop *self, rqli_conn_loop_fn fn, void *owner);

/* As rqli_conn_scripts(). position: of the call whose script the server did not know. Calls written
 * before that reply came may hit the same loss, so their replies change nothing. */
uint64_t rqli_conn_loop_scripts(const struct rqli_conn_loop *self);
void rqli_conn_loop_forget_scripts(struct rqli_conn_loop *self, uint64_t position);

/* Allows for a command during which the server may be silent for this much longer than
 * io_timeout_ms. */
void rqli_conn_loop_wait_longer(struct rqli_conn_loop *self, int64_t more_ms);

/* Detaches the owner of a command: its reply is read and dropped. */
void rqli_conn_loop_orphan(struct rqli_conn_loop *self, uint64_t position);

/* For pushes, while it is up: sends this command at once; its replies come as pushes do. If the
 * socket does not take all of it, the connection ends. */
void rqli_conn_loop_tell(struct rqli_conn_loop *self, const struct rqli_command *command);

void rqli_conn_loop_write(struct rqli_conn_loop *self); /* sends what is gathered */
void rqli_conn_loop_read(struct rqli_conn_loop *self);  /* takes what has come */

/* Return when it needs attention: to connect, if `wanted`, or because of silence; and give it
 * that. */
int64_t rqli_conn_loop_due_us(const struct rqli_conn_loop *self, bool wanted);
void rqli_conn_loop_tend(struct rqli_conn_loop *self, int64_t now_us, bool wanted);

#endif
