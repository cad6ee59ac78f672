#ifndef RQLI_LINE_H
#define RQLI_LINE_H

/*
 * A connection that a loop carries: opened on libuv's pool, because that blocks; then watched by
 * the loop, which never does. What pipe.c (commands) and ear.c (pushes) have in common.
 *
 * The loop's thread, but for rqli_line_kind::open.
 */

#include "net/socket.h"

#include <uv.h>

struct rqli_line;

struct rqli_line_kind {
    /* On a thread of the pool, while nothing else touches the wire: connects before the deadline.
     * False: the wire is closed. */
    bool (*open)(struct rqli_line *self, int64_t deadline_us);
    /* It is open from now on; or it could not be opened. */
    void (*on_opened)(struct rqli_line *self, bool is_open);
    void (*on_readable)(struct rqli_line *self);
    void (*on_writable)(struct rqli_line *self);
};

enum rqli_line_state { RQLI_LINE_DOWN, RQLI_LINE_CONNECTING, RQLI_LINE_UP, RQLI_LINE_FOLDING };

struct rqli_line {
    const struct rqli_line_kind *kind;
    struct rqli_socket *sock;
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t poll;
    enum rqli_line_state state;
    bool was_opened; /* by the pool */
    bool is_writing; /* waits for room */
    bool is_abandoned;
    int64_t backoff_ms;
    int64_t next_us;        /* no attempt before that */
    void (*closed)(void *); /* of rqli_line_close() */
    void *closed_data;
};

void rqli_line_init(struct rqli_line *self, const struct rqli_line_kind *kind,
                    struct rqli_socket *sock, uv_loop_t *loop);

static inline bool rqli_line_is_up(const struct rqli_line *self)
{
    return self->state == RQLI_LINE_UP;
}

/* When the next attempt may be made; RQLI_NEVER_US: none is wanted. */
int64_t rqli_line_due_us(const struct rqli_line *self);
void rqli_line_tend(struct rqli_line *self, int64_t now_us); /* connects if that is due */

/* Whether to be told of room for more bytes, too. */
void rqli_line_watch(struct rqli_line *self, bool for_writing);

/* Ends the connection. */
void rqli_line_drop(struct rqli_line *self);

/* Ends it for good; `closed` is called later, when an attempt under way has come to its end. */
void rqli_line_close(struct rqli_line *self, void (*closed)(void *data), void *data);

/* In a fork child: the parent's connection, under the same number, becomes nothing. */
void rqli_line_abandon(struct rqli_line *self);

#endif
