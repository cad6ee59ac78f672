#ifndef RQLI_STREAM_H
#define RQLI_STREAM_H

/*
 * A command connection as a stream: the bytes to send, what is in flight in its order, the fate of
 * each entry when the connection breaks, and when to reconnect. Pure: no lock, no thread, no I/O;
 * time and random numbers are arguments. batch_threads.c drives it for threads, conn_loop.c for a
 * loop.
 *
 * Positions count all bytes that were ever put in, so the position of a sent byte stays below all
 * later ones.
 */

#include "base/clock.h"
#include "wire/command.h"

#include <rql/status.h>

/* The pause before the next attempt to connect. It is doubled after each failure, with full jitter,
 * so that the many clients of a server that comes back do not all reconnect at once. */
struct rqli_backoff {
    int64_t ms;
    int64_t next_us; /* no attempt before this time */
};

enum { RQLI_BACKOFF_RANDOM = 65536 };

/* Backs off after a failed attempt. longest_ms: the pause is not doubled beyond that. random: below
 * RQLI_BACKOFF_RANDOM. */
void rqli_backoff_on_failure(struct rqli_backoff *self, int64_t now_us, int64_t longest_ms,
                             uint32_t random);

/* Called when an open connection has ended. With TLS the next attempt is a little later, at random,
 * because the handshakes of a whole fleet at once would cost the server all its time. */
void rqli_backoff_on_end(struct rqli_backoff *self, bool is_tls, int64_t now_us, uint32_t random);

/* One entry in flight: a batch of threads, or a call of a loop. It is part of the record that the
 * driver has of that. */
struct rqli_in_flight {
    struct rqli_in_flight *next;
    uint64_t begins_at; /* position of its first byte */
};

struct rqli_stream {
    struct rqli_command out;     /* bytes to send */
    struct rqli_command sending; /* goes before them: the write that is being sent */
    size_t n_sent;               /* bytes of the write that are sent */
    uint64_t out_at;             /* position of the first byte of `out` */
    uint64_t queued_at;          /* position after the last entry */
    uint64_t sent_at; /* position after the bytes that were, or are being, handed to the system */
    struct rqli_in_flight *first; /* in flight, oldest first */
    struct rqli_in_flight *last;
    bool has_secret;     /* bytes are wiped once they are sent */
    int64_t heard_us;    /* when the last byte came, or the silence began */
    int64_t answered_us; /* when the last whole reply came, or the silence began */
    int64_t more_ms;     /* by which the server may be silent longer than usual */
    struct rqli_backoff backoff;
};

void rqli_stream_fini(struct rqli_stream *self);

/* Resets the stream for a new connection. */
void rqli_stream_on_connected(struct rqli_stream *self, int64_t now_us);

/* Makes the bytes written to `out` since the last entry an entry. With none in flight the silence
 * begins. */
static inline void rqli_stream_expect(struct rqli_stream *self, struct rqli_in_flight *entry,
                                      int64_t now_us)
{
    entry->next = NULL;
    entry->begins_at = self->queued_at;
    self->queued_at = self->out_at + self->out.length;
    if (self->last) {
        self->last->next = entry;
    } else {
        self->first = entry;
        self->heard_us = now_us;
        self->answered_us = now_us;
    }
    self->last = entry;
}

/* Allows for a command that takes so much longer on the server. */
static inline void rqli_stream_wait_longer(struct rqli_stream *self, int64_t more_ms)
{
    self->more_ms = more_ms > self->more_ms ? more_ms : self->more_ms;
}

/* Called when a whole reply has come. */
static inline void rqli_stream_on_reply(struct rqli_stream *self)
{
    self->answered_us = self->heard_us;
}

/* Returns when the server is given up, with entries in flight. One reply may come in parts, but a
 * server that sends a byte now and then must not keep the connection forever. */
static inline int64_t rqli_stream_silent_us(const struct rqli_stream *self, int64_t io_timeout_ms)
{
    enum { SLOW_TIMES = 4 };

    const int64_t ms = io_timeout_ms + self->more_ms;

    if (self->answered_us == self->heard_us) { /* the usual case */
        return rqli_after_ms(self->heard_us, ms);
    }
    return rqli_earlier(rqli_after_ms(self->heard_us, ms),
                        rqli_after_ms(self->answered_us, SLOW_TIMES * ms));
}

/* Makes the bytes written to `out` since then part of the last entry as well. */
static inline void rqli_stream_lengthen(struct rqli_stream *self)
{
    self->queued_at = self->out_at + self->out.length;
}

/* Removes and returns the oldest entry, which must exist: it is answered, or will not be. */
static inline struct rqli_in_flight *rqli_stream_take(struct rqli_stream *self)
{
    struct rqli_in_flight *entry = self->first;

    self->first = entry->next; /* NOLINT(clang-analyzer-core.NullDereference) */
    if (!entry->next) {
        self->last = NULL;
    }
    return entry;
}

/* Returns true if bytes are left: the socket is full, or a thread is sending. */
static inline bool rqli_stream_has_unsent(const struct rqli_stream *self)
{
    return self->n_sent < self->sending.length;
}

/* Makes room for writes of so many bytes in both buffers. These take turns, and would otherwise
 * grow at different times. False: no memory. */
bool rqli_stream_reserve(struct rqli_stream *self, size_t bytes);

/* Makes all of `out` the write to be sent now. Nothing may be unsent before it. */
void rqli_stream_begin_write(struct rqli_stream *self);

/* Returns the bytes to hand to the system next. From here on their calls may have been done. */
struct rqli_slice rqli_stream_send(struct rqli_stream *self);

/* Called when the system has taken so many of them. Returns true if that was all. */
bool rqli_stream_on_sent(struct rqli_stream *self, size_t sent);

/* Returns true if at least a part of the entry was, or is being, handed to the system. */
static inline bool rqli_stream_is_sent(const struct rqli_stream *self,
                                       const struct rqli_in_flight *entry)
{
    return entry->begins_at < self->sent_at;
}

/* Returns the fate of an entry when the connection is broken. An entry that was handed to the
 * system, at least in part, may have been done: RQL_E_UNKNOWN. Any other was not done: RQL_E_IO. */
static inline rql_status rqli_stream_fate(const struct rqli_stream *self,
                                          const struct rqli_in_flight *entry)
{
    return rqli_stream_is_sent(self, entry) ? RQL_E_UNKNOWN : RQL_E_IO;
}

/* Reports that fate as a fault. where: the server. */
rql_status rqli_stream_fault(rql_status fate, const char *where, rql_error *error);

#endif
