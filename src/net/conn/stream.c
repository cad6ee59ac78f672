/* The order of bytes: `sending` is the write under way, `out` has the bytes added since.
 * They change places when a write begins, so that callers can add while another thread sends. */

#include "net/conn/stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"

#include <string.h>

enum { SPREAD_US = 50000 }; /* the handshakes of a fleet are spread over it */

/* Doubles the longest pause. The pause itself is random, below the longest but not less than 1
 * ms. */
void rqli_backoff_on_failure(struct rqli_backoff *self, int64_t now_us, int64_t longest_ms,
                             uint32_t random)
{
    int64_t ms = self->ms * 2;

    ms = ms > 0 ? ms : RQLI_PAUSE_CONNECT.first_us / 1000;
    self->ms = ms < longest_ms ? ms : longest_ms;
    self->next_us = rqli_after_ms(now_us, 1 + self->ms * random / RQLI_BACKOFF_RANDOM);
}

void rqli_backoff_on_end(struct rqli_backoff *self, bool is_tls, int64_t now_us, uint32_t random)
{
    if (is_tls) {
        self->next_us = now_us + INT64_C(1) * SPREAD_US * random / RQLI_BACKOFF_RANDOM;
    }
}

void rqli_stream_fini(struct rqli_stream *self)
{
    rqli_command_fini(&self->out);
    rqli_command_fini(&self->sending);
}

void rqli_stream_on_connected(struct rqli_stream *self, int64_t now_us)
{
    rqli_command_reset(&self->out);
    rqli_command_reset(&self->sending);
    self->n_sent = 0;
    /* Positions continue, so that nothing that was in flight before is taken for part of this
     * connection. */
    self->out_at = self->queued_at;
    self->sent_at = self->queued_at;
    self->heard_us = now_us;
    self->answered_us = now_us;
    self->backoff = (struct rqli_backoff){0};
}

bool rqli_stream_reserve(struct rqli_stream *self, size_t bytes)
{
    return rqli_command_reserve(&self->out, bytes) && rqli_command_reserve(&self->sending, bytes);
}

/* `sending` is empty here: it becomes `out`, without bytes but with the memory that it has. */
void rqli_stream_begin_write(struct rqli_stream *self)
{
    struct rqli_command write = self->out;

    self->out = self->sending;
    self->sending = write;
    self->out_at = self->queued_at;
}

struct rqli_slice rqli_stream_send(struct rqli_stream *self)
{
    self->sent_at = self->out_at; /* the whole write, until it is known how much was taken */
    return (struct rqli_slice){self->sending.data + self->n_sent,
                               self->sending.length - self->n_sent};
}

/* Bytes that were not taken are now known not to have been sent, and so are the entries that begin
 * in them. */
bool rqli_stream_on_sent(struct rqli_stream *self, size_t sent)
{
    self->n_sent += sent;
    self->sent_at = self->out_at - (self->sending.length - self->n_sent);
    if (rqli_stream_has_unsent(self)) {
        return false;
    }
    if (self->has_secret) {
        explicit_bzero(self->sending.data, self->sending.capacity);
    }
    rqli_command_reset(&self->sending);
    self->n_sent = 0;
    return true;
}

rql_status rqli_stream_fault(rql_status fate, const char *where, rql_error *error)
{
    return rqli_fail(error, fate,
                     fate == RQL_E_UNKNOWN
                         ? "%s: no answer; the command may or may not have been done"
                         : "%s: the connection broke before the command was sent",
                     where);
}
