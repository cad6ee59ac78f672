#ifndef RQLI_UV_SOCKET_H
#define RQLI_UV_SOCKET_H

/*
 * A socket that a loop watches: opened on libuv's pool, because that blocks; then watched by the
 * loop, which never does. What conn_loop.c (commands) and push_loop.c (pushes) have in common.
 *
 * The loop's thread, but for rqli_uv_socket_ops::open.
 */

#include "net/socket.h"
#include "net/stream.h"

#include <uv.h>

struct rqli_uv_socket;

struct rqli_uv_socket_ops {
    /* On a thread of the pool, while nothing else touches the socket: connects before the deadline.
     * False: the socket is closed. */
    bool (*open)(struct rqli_uv_socket *self, int64_t deadline_us);
    /* It is open from now on; or it could not be opened. */
    void (*on_opened)(struct rqli_uv_socket *self, bool is_open);
    void (*on_readable)(struct rqli_uv_socket *self);
    void (*on_writable)(struct rqli_uv_socket *self); /* NULL: never asked for */
};

enum rqli_uv_socket_state {
    RQLI_UV_SOCKET_DOWN,
    RQLI_UV_SOCKET_CONNECTING,
    RQLI_UV_SOCKET_UP,
    RQLI_UV_SOCKET_CLOSING
};

struct rqli_uv_socket {
    const struct rqli_uv_socket_ops *ops;
    struct rqli_socket *sock;
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t poll;
    enum rqli_uv_socket_state state;
    bool was_opened; /* by the pool */
    bool wants_room; /* is told when there is room for more bytes */
    bool is_abandoned;
    struct rqli_backoff backoff;
    void (*closed)(void *); /* of rqli_uv_socket_close() */
    void *closed_data;
};

void rqli_uv_socket_init(struct rqli_uv_socket *self, const struct rqli_uv_socket_ops *ops,
                         struct rqli_socket *sock, uv_loop_t *loop);

static inline bool rqli_uv_socket_is_up(const struct rqli_uv_socket *self)
{
    return self->state == RQLI_UV_SOCKET_UP;
}

/* When the next attempt may be made; RQLI_NEVER_US: none is wanted. */
int64_t rqli_uv_socket_due_us(const struct rqli_uv_socket *self);
void rqli_uv_socket_tend(struct rqli_uv_socket *self, int64_t now_us); /* connects if that is due */

/* Whether to be told of room for more bytes, too. */
void rqli_uv_socket_want_room(struct rqli_uv_socket *self, bool wants_room);

/* Ends the connection. */
void rqli_uv_socket_drop(struct rqli_uv_socket *self);

/* Ends it for good; `closed` is called later, when an attempt under way has come to its end. */
void rqli_uv_socket_close(struct rqli_uv_socket *self, void (*closed)(void *data), void *data);

/* In a fork child: the parent's connection, under the same number, becomes nothing. */
void rqli_uv_socket_abandon(struct rqli_uv_socket *self);

#endif
