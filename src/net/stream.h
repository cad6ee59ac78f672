#ifndef RQLI_STREAM_H
#define RQLI_STREAM_H

/*
 * A command connection as a stream: the bytes to send, the calls in flight in their order, what it
 * means for each of them when the connection breaks off, and when to connect again. Pure: no lock,
 * no thread, no I/O; time and random numbers are arguments. conn_threads.c drives it for threads,
 * conn_loop.c for a loop.
 *
 * Positions count the bytes of all that was ever put in, so one that was sent stays behind.
 */

#include "base/clock.h"
#include "wire/command.h"

#include <rql/status.h>

/* The pause before the next attempt to connect: doubled after each failure, with full jitter, so
 * that many clients of a server that comes back do not all come at once. */
struct rqli_backoff {
    int64_t ms;
    int64_t next_us; /* no attempt before that */
};

enum { RQLI_BACKOFF_RANDOM = 65536 };

/* longest_ms: it is not doubled beyond that. random: below RQLI_BACKOFF_RANDOM. */
void rqli_backoff_on_failure(struct rqli_backoff *self, int64_t now_us, int64_t longest_ms,
                             uint32_t random);

/* A connection that stood has ended. With TLS the next attempt is a little later, at random: the
 * handshakes of a whole fleet would cost the server all its time. */
void rqli_backoff_on_end(struct rqli_backoff *self, bool is_tls, int64_t now_us, uint32_t random);

/* One call in flight. Part of what its driver keeps of it. */
struct rqli_stream_call {
    struct rqli_stream_call *next;
    uint64_t begins_at; /* position of its first byte */
};

struct rqli_stream {
    struct rqli_command out;     /* bytes to send */
    struct rqli_command sending; /* in front of them: the batch that is being sent */
    size_t n_sent;               /* bytes of the batch */
    uint64_t out_at;             /* position of the first byte of `out` */
    uint64_t queued_at;          /* position behind the last call */
    uint64_t sent_at;            /* position behind what was, or is being, handed to the system */
    struct rqli_stream_call *first; /* in flight, oldest first */
    struct rqli_stream_call *last;
    bool has_secret;     /* bytes that are sent are wiped */
    int64_t heard_us;    /* last byte that came, or begin of the silence */
    int64_t answered_us; /* last reply that came whole, or begin of the silence */
    int64_t more_ms;     /* for which the server may be silent longer than usual */
    struct rqli_backoff backoff;
};

void rqli_stream_fini(struct rqli_stream *self);

/* A new connection. */
void rqli_stream_on_connected(struct rqli_stream *self, int64_t now_us);

/* What was written to `out` since the last one is a call. With none in flight the silence begins.
 */
static inline void rqli_stream_expect(struct rqli_stream *self, struct rqli_stream_call *call,
                                      int64_t now_us)
{
    call->next = NULL;
    call->begins_at = self->queued_at;
    self->queued_at = self->out_at + self->out.length;
    if (self->last) {
        self->last->next = call;
    } else {
        self->first = call;
        self->heard_us = now_us;
        self->answered_us = now_us;
    }
    self->last = call;
}

/* Some command may take so long on the server. */
static inline void rqli_stream_wait_longer(struct rqli_stream *self, int64_t more_ms)
{
    self->more_ms = more_ms > self->more_ms ? more_ms : self->more_ms;
}

/* A reply that has come whole. */
static inline void rqli_stream_on_reply(struct rqli_stream *self)
{
    self->answered_us = self->heard_us;
}

/* With calls in flight: when its server is given up. One reply may come in parts, but a server that
 * says a byte now and then would keep the connection for ever. */
static inline int64_t rqli_stream_silent_us(const struct rqli_stream *self, int64_t io_timeout_ms)
{
    enum { SLOW_TIMES = 4 };

    const int64_t ms = io_timeout_ms + self->more_ms;

    if (self->answered_us == self->heard_us) { /* nearly always */
        return rqli_after_ms(self->heard_us, ms);
    }
    return rqli_earlier(rqli_after_ms(self->heard_us, ms),
                        rqli_after_ms(self->answered_us, SLOW_TIMES * ms));
}

/* What was written to `out` since then is part of the last call as well. */
static inline void rqli_stream_lengthen(struct rqli_stream *self)
{
    self->queued_at = self->out_at + self->out.length;
}

/* This one, which is not sent yet, has become so much longer, or shorter. */
static inline void rqli_stream_move(struct rqli_stream *self, const struct rqli_stream_call *call,
                                    ptrdiff_t more)
{
    for (struct rqli_stream_call *next = call->next; next; next = next->next) {
        next->begins_at += (uint64_t)more;
    }
    self->queued_at += (uint64_t)more;
}

/* The oldest one, of which there is one, is answered, or will not be. */
static inline struct rqli_stream_call *rqli_stream_take(struct rqli_stream *self)
{
    struct rqli_stream_call *call = self->first;

    self->first = call->next; /* NOLINT(clang-analyzer-core.NullDereference) */
    if (!call->next) {
        self->last = NULL;
    }
    return call;
}

/* The socket is full, or somebody sends. */
static inline bool rqli_stream_has_unsent(const struct rqli_stream *self)
{
    return self->n_sent < self->sending.length;
}

/* Room for batches of so many bytes. Both buffers take turns, and would grow at different times.
 * False: no memory. */
bool rqli_stream_reserve(struct rqli_stream *self, size_t bytes);

/* All that is in `out` is to be sent now; there is nothing unsent before it. */
void rqli_stream_begin_batch(struct rqli_stream *self);

/* The bytes that are handed to the system next. From here on they may have been done. */
struct rqli_slice rqli_stream_send(struct rqli_stream *self);

/* So many of them were taken. True: all. */
bool rqli_stream_on_sent(struct rqli_stream *self, size_t sent);

/* A part of it, at least, is or is being handed to the system. */
static inline bool rqli_stream_is_sent(const struct rqli_stream *self,
                                       const struct rqli_stream_call *call)
{
    return call->begins_at < self->sent_at;
}

/* The connection is broken: what becomes of a call. What was handed to the system, in part at
 * least, may have been done: RQL_E_UNKNOWN; what was not, was not: RQL_E_IO. */
static inline rql_status rqli_stream_fate(const struct rqli_stream *self,
                                          const struct rqli_stream_call *call)
{
    return rqli_stream_is_sent(self, call) ? RQL_E_UNKNOWN : RQL_E_IO;
}

/* The fault that says so. where: the server. */
rql_status rqli_stream_fault(rql_status fate, const char *where, rql_error *error);

#endif
