/*
 * The command connection of threads: the memory of batches, the opening of the connection, its
 * end. How batches travel over it is in batch_threads.c.
 *
 * States: DOWN, CONNECTING (one caller connects, without the mutex; other callers wait for the end
 * of its attempt), UP, and BROKEN as long as a thread still reads or writes: the descriptor must
 * not be closed while it does, because the number may be another file's a moment later.
 */

#include "net/conn_state.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/freelist.h"
#include "base/futex.h"
#include "base/random.h"
#include "net/login.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/url.h"
#include "observe/stats.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    /* If an answer takes longer than this, all batches go out at once: waiting for the answers of
     * other callers would cost a caller its time. */
    FAR_US = 10000,
    /* After this idle time a connection is checked before use: servers and proxies end unused
     * ones. */
    UNUSED_US = 1000000,
};

struct rqli_conn *rqli_conn_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_conn *self = calloc(1, sizeof *self);

    if (self) {
        self->sock.endpoint = endpoint;
        self->sock.fd = -1;
        self->scripts = UINT64_MAX;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

static void free_batch(struct batch *batch)
{
    rqli_command_fini(&batch->visible.command);
    rqli_arena_reset(&batch->arena);
    free(batch);
}

/* Takes the oldest batch without acks; there must be one. */
static struct batch *take_unacked(struct rqli_conn *self)
{
    struct batch *batch = self->shared.unacked;

    self->shared.unacked = batch_of(batch->call.next);
    return batch;
}

/* No thread uses the connection any more: the callers of batches in flight have left. */
struct rqli_conn *rqli_conn_free(struct rqli_conn *self)
{
    struct batch *spare;

    if (!self) {
        return NULL;
    }
    rqli_socket_close(&self->sock);
    while (self->shared.unacked) {
        free_batch(take_unacked(self));
    }
    while (self->shared.stream.first) {
        free_batch(batch_of(rqli_stream_take(&self->shared.stream)));
    }
    for (spare = rqli_freelist_take(&self->freelist); spare;
         spare = rqli_freelist_take(&self->freelist)) {
        free_batch(spare);
    }
    rqli_stream_fini(&self->shared.stream);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    free(self);
    return NULL;
}

/* Does not call shutdown(), which would end the parent's connection too. */
void rqli_conn_abandon(struct rqli_conn *self)
{
    if (self) {
        rqli_fd_drop(&self->sock.fd);
    }
}

/* ---- batches ---- */

/* As rqli_batch::drop. Ends only the connection that carried the batch: there may be a new
 * one by now, which is good. */
static void drop(const struct rqli_batch *batch)
{
    rqli_conn_drop(batch->carrier, batch->generation);
}

/* The other members are set when the batch is put in the stream. */
struct rqli_batch *rqli_batch_take(struct rqli_conn *self)
{
    struct batch *batch = rqli_freelist_take(&self->freelist);

    if (!batch) {
        batch = calloc(1, sizeof *batch);
    }
    if (!batch) {
        return NULL;
    }
    batch->conn = self;
    batch->visible.durability = NULL;
    batch->visible.acks = (struct rqli_acks){0};
    batch->visible.drop = drop;
    batch->visible.carrier = self;
    batch->left = false;
    batch->given = false;
    rqli_command_reset(&batch->visible.command);
    return &batch->visible;
}

/* Frees the batch's memory for another use: once warmed up, an acquisition allocates nothing.
 * Needs no mutex. */
static void recycle(struct rqli_conn *self, struct batch *batch)
{
    rqli_arena_reset(&batch->arena);
    if (!rqli_freelist_keep(&self->freelist, batch)) {
        free_batch(batch);
    }
}

void rqli_batch_give(struct rqli_batch *batch)
{
    struct batch *whole = (struct batch *)batch;
    bool is_in_flight = false;

    if (!whole) {
        return;
    }
    /* Its replies may still come: then the thread that reads them recycles it. */
    if (whole->left && !rqli_batch_is_over(batch)) {
        (void)pthread_mutex_lock(&whole->conn->shared.mutex);
        is_in_flight = whole->in_flight;
        whole->given = is_in_flight;
        (void)pthread_mutex_unlock(&whole->conn->shared.mutex);
    }
    if (!is_in_flight) {
        recycle(whole->conn, whole);
    }
}

void rqli_conn_unlock(struct rqli_conn *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* The word before was READER: the owner was called to read and has not begun; it finds the new word
 * in its place. AWAKE: the owner looks at the word before it sleeps. FINISHED is the last word: its
 * owner returns without the mutex and may give the batch back, so nothing in it is touched
 * afterwards. */
void rqli_conn_call_owner(struct rqli_conn *self, struct batch *batch, int32_t word)
{
    int32_t before = atomic_exchange_explicit(&batch->wait_word, word, memory_order_acq_rel);

    if (before == READER) {
        self->shared.reader = NULL; /* it has not begun, and will not */
    }
    if (before == ASLEEP) {
        rqli_wake_list_add(&self->shared.wake_list, &batch->wait_word);
    }
}

/* Gives the owner of a batch its result. Caller holds the mutex. */
static void complete(struct rqli_conn *self, struct batch *done, rql_status status)
{
    done->in_flight = false;
    done->status = status;
    if (done->given) {
        recycle(self, done);
        return;
    }
    if (!done->left) {
        self->shared.callers--;
    }
    rqli_conn_call_owner(self, done, FINISHED);
}

/* Completes the batches whose write has ended, with what its acks say of their safety. Caller
 * holds the mutex. */
static void complete_unacked(struct rqli_conn *self, rql_status status,
                             const struct rqli_acks *acks)
{
    while (self->shared.unacked) {
        struct batch *done = take_unacked(self);

        done->visible.acks = *acks;
        complete(self, done, status);
    }
}

/* Keeps a batch that has its replies until its write has ended. Caller holds the mutex. */
static void hold_back(struct rqli_conn *self, struct batch *done)
{
    done->call.next = NULL;
    if (self->shared.unacked) {
        self->shared.unacked_last->call.next = &done->call;
    } else {
        self->shared.unacked = done;
    }
    self->shared.unacked_last = done;
}

void rqli_conn_finish_first(struct rqli_conn *self, rql_status status, int64_t now_us)
{
    struct rqli_stream *stream = &self->shared.stream;
    struct batch *done = batch_of(rqli_stream_take(stream));
    int n_commands = done->visible.command.n_commands;

    done->visible.received_us = now_us;
    if (!done->left && !done->visible.durability) { /* one whose caller has left may be old */
        self->shared.is_far = now_us - done->visible.sent_us > FAR_US;
    }
    /* A write is answered when the oldest batch in flight begins after it. */
    while (self->shared.n_writes > 0 &&
           (!stream->first || stream->first->begins_at >= self->shared.write_ends[0])) {
        self->shared.write_ends[0] = self->shared.write_ends[1];
        self->shared.n_writes--;
    }
    if (status == RQL_OK && done->n_replies > n_commands) {
        rqli_acks_read(&done->visible.acks, &done->asked, &done->roots[n_commands]);
        complete_unacked(self, RQL_OK, &done->visible.acks);
    } else if (status == RQL_OK && done->visible.durability) {
        hold_back(self, done);
        return;
    }
    complete(self, done, status);
}

/* ---- the end of a connection, and the next one ---- */

/* shutdown() wakes a reader in recv(). The write in stream.sending stays, because a thread may be
 * sending it; a new connection begins without it. */
void rqli_conn_break_off(struct rqli_conn *self, bool is_silent)
{
    struct rqli_stream *stream = &self->shared.stream;
    int64_t now_us = rqli_now_us();

    if (self->shared.state != UP) {
        return;
    }
    self->shared.state = BROKEN;
    self->shared.silent = is_silent ? self->sock.seat : (struct rqli_seat){0};
    rqli_backoff_on_end(&stream->backoff, self->sock.endpoint->is_tls, now_us,
                        rqli_random_below(RQLI_BACKOFF_RANDOM));
    (void)shutdown(self->sock.fd, SHUT_RDWR);
    complete_unacked(self, RQL_E_UNKNOWN, &(struct rqli_acks){0});
    while (stream->first) {
        rqli_conn_finish_first(self, rqli_stream_fate(stream, stream->first), now_us);
    }
    rqli_command_reset(&stream->out);
    self->shared.wanted = (struct rqli_durability){0};
    self->shared.n_unsent = 0;
    self->shared.n_writes = 0;
}

/* Wakes the threads that wait for a connection: they check whether it is up now. Caller holds the
 * mutex. */
static void on_attempt_over(struct rqli_conn *self)
{
    (void)atomic_fetch_add_explicit(&self->n_attempts, 1, memory_order_relaxed);
    rqli_signal_wake(&self->n_attempts);
}

void rqli_conn_close_if_broken(struct rqli_conn *self)
{
    if (self->shared.state == BROKEN && !self->shared.reader && !self->shared.writing) {
        rqli_socket_close(&self->sock);
        self->shared.state = DOWN;
        on_attempt_over(self);
    }
}

/* Waits for the end of an attempt. Caller holds the mutex, which is released meanwhile. The number
 * is read and changed under the mutex: an attempt that ends before this thread sleeps is not
 * missed. */
static void await_attempt(struct rqli_conn *self, int64_t until_us)
{
    int32_t seen = atomic_load_explicit(&self->n_attempts, memory_order_relaxed);

    rqli_conn_unlock(self);
    rqli_signal_wait(&self->n_attempts, seen, until_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Delays the next attempt after a failure. Caller holds the mutex. */
static void back_off(struct rqli_conn *self, int64_t now_us)
{
    struct rqli_backoff *backoff = &self->shared.stream.backoff;

    rqli_backoff_on_failure(backoff, now_us, rqli_endpoint_pause_ms(self->sock.endpoint),
                            rqli_random_below(RQLI_BACKOFF_RANDOM));
    if (self->shared.longest_us > 0) {
        backoff->next_us = rqli_earlier(backoff->next_us, now_us + self->shared.longest_us);
    }
}

/* Makes one attempt to connect. Caller holds the mutex, which is released meanwhile. The state
 * keeps other threads away: they find it CONNECTING and wait, so the socket and its decoder are
 * ours. */
static rql_status attempt(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    int64_t limit_us =
        rqli_after_ms(rqli_now_us(), self->sock.endpoint->session->connect_timeout_ms);
    const struct rqli_seat predecessor = self->shared.silent;
    struct rqli_clock_reading reading = {0};
    rql_error fault = {0};
    rql_status status;
    int64_t now_us;

    self->shared.state = CONNECTING;
    rqli_conn_unlock(self);
    status = rqli_login_any(&self->sock, &predecessor,
                            limit_us < deadline_us ? limit_us : deadline_us, &reading, &fault);
    (void)pthread_mutex_lock(&self->shared.mutex);
    now_us = rqli_now_us();
    if (!status) {
        self->shared.state = UP;
        self->shared.generation++;
        atomic_store_explicit(&self->scripts, self->sock.scripts, memory_order_relaxed);
        rqli_stats_count(self->sock.endpoint->session->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.reading = reading;
        self->shared.is_far = reading.received_us - reading.sent_us > FAR_US;
        self->shared.last_fault = (rql_error){0};
        rqli_stream_on_connected(&self->shared.stream, now_us);
    } else {
        self->shared.state = DOWN;
        self->shared.last_fault = (rql_error){0};
        /* An attempt that an impatient caller cut short says nothing to other callers. */
        if (now_us >= limit_us || now_us < deadline_us) {
            self->shared.last_fault = fault;
            back_off(self, now_us);
        }
        if (error) {
            *error = fault;
        }
    }
    on_attempt_over(self);
    return status;
}

/* Returns true if it is up and idle for this long. Caller holds the mutex. */
static bool is_unused(const struct rqli_conn *self, int64_t unused_us)
{
    return self->shared.state == UP && !self->shared.stream.first && !self->shared.reader &&
           !self->shared.writing && rqli_now_us() - self->shared.stream.heard_us >= unused_us;
}

/* Ends the connection. Caller holds the mutex. */
static void end(struct rqli_conn *self)
{
    rqli_conn_break_off(self, false);
    rqli_conn_close_if_broken(self);
}

/* Closes the connection if its other end has closed it, as servers and proxies do with unused ones.
 * Noticed before the next command is sent, this costs a new connection; noticed later, it leaves
 * unknown whether the command was done. Caller holds the mutex. */
static bool end_if_ended(struct rqli_conn *self, int64_t unused_us)
{
    bool has_ended = is_unused(self, unused_us) && !rqli_socket_is_quiet(&self->sock);

    if (has_ended) {
        end(self);
    }
    return has_ended;
}

/* Waits for another thread's attempt and shares its failure, or makes one, as soon as that is
 * allowed again. RQL_OK: look at the state once more. It also waits until no thread uses the socket
 * of a broken connection; that is no attempt, so no failure is shared then. Caller holds the mutex,
 * which is released meanwhile. */
static rql_status connect_step(struct rqli_conn *self, int64_t deadline_us,
                               bool *waited_for_attempt, rql_error *error)
{
    const rql_error *last_fault = &self->shared.last_fault;
    bool is_down = self->shared.state == DOWN;
    int64_t next_us = self->shared.stream.backoff.next_us;
    int64_t now_us = rqli_now_us();

    if (is_down && *waited_for_attempt && last_fault->status) {
        if (error) {
            *error = *last_fault;
        }
        return last_fault->status;
    }
    if (now_us >= deadline_us) {
        errno = ETIMEDOUT;
        return rqli_fail(error, RQL_E_IO, "cannot connect to %s: no time left%s%s",
                         self->sock.endpoint->where, last_fault->status ? "; " : "",
                         last_fault->message);
    }
    if (is_down && now_us >= next_us) {
        return attempt(self, deadline_us, error);
    }
    if (is_down) {
        await_attempt(self, next_us < deadline_us ? next_us : deadline_us);
    } else {
        *waited_for_attempt = self->shared.state == CONNECTING;
        await_attempt(self, deadline_us);
    }
    return RQL_OK;
}

bool rqli_conn_is_up_locked(struct rqli_conn *self)
{
    (void)end_if_ended(self, UNUSED_US);
    return self->shared.state == UP;
}

rql_status rqli_conn_connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    bool waited_for_attempt = false;
    rql_status status = RQL_OK;

    while (!status && !rqli_conn_is_up_locked(self)) {
        status = connect_step(self, deadline_us, &waited_for_attempt, error);
    }
    return status;
}

bool rqli_conn_end_if_ended(struct rqli_conn *self)
{
    bool has_ended;

    (void)pthread_mutex_lock(&self->shared.mutex);
    has_ended = end_if_ended(self, 0);
    rqli_conn_unlock(self);
    return has_ended;
}

void rqli_conn_end_if_unused(struct rqli_conn *self, int64_t unused_us)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (is_unused(self, unused_us)) {
        end(self);
    }
    rqli_conn_unlock(self);
}

void rqli_conn_hurry(struct rqli_conn *self, int64_t longest_us)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.longest_us = longest_us;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_conn_drop(struct rqli_conn *self, uint64_t generation)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.generation == generation) {
        end(self);
    }
    rqli_conn_unlock(self);
}

/* ---- answers about it ---- */

/* Answers to other files about the connection, and the number of callers that use it at the same
 * time. */

enum { PERIOD = 128 }; /* calls, over which the most callers at the same time are counted */

int64_t rqli_conn_n_commands(struct rqli_conn *self)
{
    int64_t n_commands;

    (void)pthread_mutex_lock(&self->shared.mutex);
    n_commands = self->shared.n_commands;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return n_commands;
}

/* Returns true if one more connection would be of use to the callers of this one. With TLS it makes
 * records shorter, and so more of them, until one is full. Caller holds the mutex. */
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

/* Speaks of the connection that is up; false when there is none. */
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
