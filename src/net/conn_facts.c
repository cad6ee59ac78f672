/* What others ask about the command connection of threads, and how many callers meet on it. */

#include "net/conn_state.h"
#include "net/tls.h"

#include <string.h>

enum { PERIOD = 128 }; /* calls, of which the most callers at a time are told */

int64_t rqli_conn_n_commands(struct rqli_conn *self)
{
    int64_t n_commands;

    (void)pthread_mutex_lock(&self->shared.mutex);
    n_commands = self->shared.n_commands;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return n_commands;
}

/* Under the mutex: would one more connection be of use to those who ask over this one? With TLS it
 * makes records shorter, and so more of them, until one is full. */
static bool is_crowded(const struct rqli_conn *self)
{
    const struct rqli_stream *stream = &self->shared.stream;

    return self->shared.callers > 1 + self->shared.n_internal &&
           (!self->sock.tls ||
            stream->queued_at - stream->first->begins_at > RQLI_TLS_RECORD_BYTES);
}

static void begin_period(struct rqli_conn *self, unsigned n_met)
{
    self->shared.most_callers = 0;
    self->shared.n_calls = 0;
    atomic_store_explicit(&self->n_met, n_met, memory_order_relaxed);
}

void rqli_conn_count_caller(struct rqli_conn *self)
{
    self->shared.callers++;
    if (self->shared.callers > self->shared.most_callers) {
        self->shared.most_callers = self->shared.callers;
    }
    if (++self->shared.n_calls == PERIOD) {
        begin_period(self, self->shared.most_callers);
    }
    if (is_crowded(self)) {
        atomic_store_explicit(&self->is_crowded, true, memory_order_relaxed);
    }
}

bool rqli_conn_take_crowded(struct rqli_conn *self)
{
    return atomic_load_explicit(&self->is_crowded, memory_order_relaxed) &&
           atomic_exchange_explicit(&self->is_crowded, false, memory_order_relaxed);
}

unsigned rqli_conn_n_met(const struct rqli_conn *self)
{
    return atomic_load_explicit(&self->n_met, memory_order_relaxed);
}

void rqli_conn_note_met(struct rqli_conn *self, unsigned n_met)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    begin_period(self, n_met);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_conn_count_internal(struct rqli_conn *self, int change)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.n_internal += (unsigned)change;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

uint64_t rqli_conn_scripts(const struct rqli_conn *self)
{
    return atomic_load_explicit(&self->scripts, memory_order_relaxed);
}

void rqli_conn_forget_scripts(struct rqli_conn *self)
{
    atomic_store_explicit(&self->scripts, 0, memory_order_relaxed);
}

struct rqli_conn_notes *rqli_conn_notes(struct rqli_conn *self)
{
    return &self->notes;
}

bool rqli_conn_is_up(struct rqli_conn *self)
{
    bool is_up;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_up = rqli_conn_is_up_locked(self);
    rqli_conn_unlock(self);
    return is_up;
}

bool rqli_conn_run_id(struct rqli_conn *self, uint64_t generation, char out[RQLI_RUN_ID_SIZE])
{
    bool is_it;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_it = self->shared.state == UP && self->shared.generation == generation;
    if (is_it) {
        memcpy(out, self->sock.seat.run_id, RQLI_RUN_ID_SIZE);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_it;
}

/* Of the connection that stands; false when there is none. */
bool rqli_conn_was_read_only(struct rqli_conn *self)
{
    bool was_read_only;

    (void)pthread_mutex_lock(&self->shared.mutex);
    was_read_only = self->shared.state == UP && self->sock.is_read_only;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return was_read_only;
}

bool rqli_conn_clock(struct rqli_conn *self, struct rqli_clock_reading *out)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    *out = self->shared.reading;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return out->received_us != 0;
}
