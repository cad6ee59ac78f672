#include "base/clock.h"
#include "base/error.h"
#include "net/conn_threads_inside.h"
#include "net/url.h"
#include "observe/stats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_UP_US = 100000 };

struct rqli_conn *rqli_conn_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_conn *self = calloc(1, sizeof *self);
    pthread_condattr_t attributes;

    if (!self) {
        return NULL;
    }
    self->sock.endpoint = endpoint;
    self->sock.fd = -1;
    self->shared.state = DOWN;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->shared.connected, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return self;
}

void rqli_conn_free_exchange(struct exchange *exchange)
{
    rqli_command_fini(&exchange->visible.command);
    rqli_arena_reset(&exchange->arena);
    free(exchange);
}

static void free_exchanges(struct exchange *exchange)
{
    while (exchange) {
        struct exchange *next = exchange->next;

        rqli_conn_free_exchange(exchange);
        exchange = next;
    }
}

static void free_spares(struct rqli_freelist *freelist)
{
    struct exchange *exchange = rqli_freelist_take(freelist);

    while (exchange) {
        rqli_conn_free_exchange(exchange);
        exchange = rqli_freelist_take(freelist);
    }
}

struct rqli_conn *rqli_conn_free(struct rqli_conn *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        free_exchanges(self->shared.first);
        free_spares(&self->freelist);
        rqli_command_fini(&self->shared.out);
        rqli_command_fini(&self->shared.sending);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        (void)pthread_cond_destroy(&self->shared.connected);
        free(self);
    }
    return NULL;
}

void rqli_conn_abandon(struct rqli_conn *self)
{
    if (self && self->sock.fd >= 0) {
        (void)close(self->sock.fd);
        self->sock.fd = -1;
    }
}

struct rqli_conn_counts rqli_conn_counts(struct rqli_conn *self)
{
    struct rqli_conn_counts counts;

    (void)pthread_mutex_lock(&self->shared.mutex);
    counts.commands = self->shared.n_commands;
    counts.connections = (int64_t)self->shared.generation;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return counts;
}

static void drop(const struct rqli_exchange *exchange)
{
    rqli_conn_drop(exchange->carrier, exchange->generation);
}

struct rqli_exchange *rqli_exchange_take(struct rqli_conn *self)
{
    struct exchange *exchange = rqli_freelist_take(&self->freelist);

    if (!exchange) {
        exchange = calloc(1, sizeof *exchange);
    }
    if (!exchange) {
        return NULL;
    }
    exchange->conn = self;
    exchange->visible.drop = drop;
    exchange->visible.carrier = self;
    exchange->left = false;
    exchange->given = false;
    rqli_command_reset(&exchange->visible.command);
    return &exchange->visible;
}

/* True: its replies are still to come, and whoever reads them recycles it. */
static bool leave_behind(struct rqli_conn *self, struct exchange *exchange)
{
    bool is_in_flight;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_in_flight = exchange->in_flight;
    exchange->given = is_in_flight;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_in_flight;
}

void rqli_exchange_give(struct rqli_exchange *exchange)
{
    struct exchange *whole = (struct exchange *)exchange;

    if (whole && !(whole->left && leave_behind(whole->conn, whole))) {
        rqli_conn_recycle(whole->conn, whole);
    }
}

/* Under the mutex: room for the replies, bytes into the stream, a place in the line. */
static bool put_in_stream(struct rqli_conn *self, struct exchange *exchange)
{
    struct rqli_command *command = &exchange->visible.command;
    size_t size = (size_t)command->n_commands * sizeof *exchange->roots;

    rqli_arena_reset(&exchange->arena);
    exchange->roots = rqli_arena_take(&exchange->arena, size);
    if (!exchange->roots || !rqli_command_append(&self->shared.out, command)) {
        return false;
    }
    memset(exchange->roots, 0, size);
    exchange->visible.reply = exchange->roots;
    exchange->visible.generation = self->shared.generation;
    exchange->begins_at = self->shared.queued_at;
    exchange->n_done = 0;
    exchange->status = RQL_OK;
    exchange->in_flight = true;
    exchange->next = NULL;
    exchange->visible.sent_us = rqli_now_us();
    atomic_store_explicit(&exchange->mark, AWAKE, memory_order_relaxed);
    self->shared.queued_at += command->length;
    self->shared.n_commands += command->n_commands;
    rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_COMMANDS, command->n_commands);
    self->shared.callers++;
    self->shared.n_unsent++;
    if (self->shared.last) {
        self->shared.last->next = exchange;
    } else {
        self->shared.first = exchange;
        self->shared.heard_us = exchange->visible.sent_us;
    }
    self->shared.last = exchange;
    return true;
}

/* Under the mutex. When a connection that has not been heard since is given up. */
static int64_t silence_us(const struct rqli_conn *self)
{
    return rqli_after_ms(self->shared.heard_us, self->sock.endpoint->io_timeout_ms);
}

/* Under the mutex. */
static bool may_write(const struct rqli_conn *self)
{
    unsigned callers = self->shared.callers;

    if (self->shared.state != UP || self->shared.out.length == 0) {
        return false;
    }
    return callers <= RQLI_CONN_AT_ONCE || self->shared.n_batches == 0 || self->shared.is_far ||
           (self->shared.n_batches < RQLI_CONN_BATCHES && self->shared.n_unsent >= callers / 2);
}

/* Under the mutex. The socket is full, or somebody sends. */
static bool has_unsent(const struct rqli_conn *self)
{
    return self->shared.n_sent < self->shared.sending.length;
}

/* Under the mutex: all that has been put in the stream, to be sent now. */
static void begin_batch(struct rqli_conn *self)
{
    struct rqli_command batch = self->shared.out;

    self->shared.out = self->shared.sending;
    self->shared.sending = batch;
    self->shared.sending_ends = self->shared.queued_at;
    self->shared.n_unsent = 0;
    if (self->shared.n_batches < RQLI_CONN_BATCHES) {
        self->shared.n_batches++;
    }
    self->shared.batch_ends[self->shared.n_batches - 1] = self->shared.queued_at;
}

/* Under the mutex: so much of the batch was taken by the system. True: all of it. */
static bool end_sending(struct rqli_conn *self, size_t sent)
{
    self->shared.n_sent += sent;
    self->shared.sent_at =
        self->shared.sending_ends - (self->shared.sending.length - self->shared.n_sent);
    if (has_unsent(self)) {
        return false;
    }
    rqli_command_reset(&self->shared.sending);
    self->shared.n_sent = 0;
    return true;
}

/* Under the mutex, released while it sends. What goes at once goes before those who were called are
 * woken: they would take the processor from us, and the server has nothing to do till then. False:
 * the socket is full, or broken. */
static bool send_some(struct rqli_conn *self)
{
    const char *bytes = self->shared.sending.data + self->shared.n_sent;
    size_t length = self->shared.sending.length - self->shared.n_sent;
    ssize_t sent;

    self->shared.sent_at = self->shared.sending_ends;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    sent = rqli_socket_send_some(&self->sock, bytes, length);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (sent < 0) {
        rqli_conn_break_off(self, false);
        return false;
    }
    return end_sending(self, (size_t)sent);
}

/* Under the mutex, released while it sends. Whoever finds nobody writing writes for all, but waits
 * for nobody: when the socket is full the rest stays in the stream, for the reader to send when
 * there is room, or for the next who comes. */
static void write_out(struct rqli_conn *self)
{
    bool goes_on = !self->shared.writing;

    if (!goes_on) {
        return;
    }
    self->shared.writing = true;
    while (goes_on) {
        if (!has_unsent(self) && may_write(self)) {
            begin_batch(self);
        }
        goes_on = self->shared.state == UP && has_unsent(self) && send_some(self);
    }
    self->shared.writing = false;
    rqli_conn_bury(self);
}

/* Under the mutex: gives what has come to those who wait for it. False: it made no sense. */
static bool hand_out(struct rqli_conn *self)
{
    while (self->shared.first) {
        struct exchange *first = self->shared.first;
        int state =
            rqli_decoder_next(&self->sock.decoder, &first->arena, &first->roots[first->n_done]);

        if (state <= 0) {
            return state == 0;
        }
        if (++first->n_done == first->visible.command.n_commands) {
            rqli_conn_finish_first(self, RQL_OK, self->shared.heard_us);
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* no reply that nobody asked for */
}

/* Under the mutex: the role of the reader goes to the oldest caller still there. */
static void appoint_reader(struct rqli_conn *self)
{
    struct exchange *next = self->shared.first;

    while (next && next->left) {
        next = next->next;
    }
    self->shared.reader = next;
    if (next) {
        rqli_conn_call(self, next, READER);
    }
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Reader only; under the mutex, released while it waits for bytes, and for room if some are to be
 * sent. One read, at most. It looks up now and then: the socket may have become full meanwhile. */
static void read_once(struct rqli_conn *self, int64_t now_us, int64_t deadline_us)
{
    int64_t given_up_us = silence_us(self);
    int64_t until_us = earlier(earlier(deadline_us, given_up_us), now_us + LOOK_UP_US);
    int64_t spin_us = self->shared.callers == 1 ? self->sock.endpoint->spin_us : 0;
    bool wants_room = has_unsent(self) && !self->shared.writing;
    enum rqli_socket_read got;

    rqli_conn_unlock(self);
    if (wants_room) {
        rqli_socket_await_room(&self->sock, until_us);
        until_us = 0;
    }
    got = rqli_socket_read(&self->sock, until_us, spin_us);
    if (got == RQLI_SOCKET_NOTHING && rqli_now_us() >= given_up_us) {
        got = rqli_socket_read(&self->sock, 0, 0); /* was it the server that stood still, or we? */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.state != UP) {
        return;
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->shared.heard_us = rqli_now_us();
        if (!hand_out(self)) {
            rqli_conn_break_off(self, false);
        }
    } else if (got == RQLI_SOCKET_BROKEN || rqli_now_us() >= silence_us(self)) {
        rqli_conn_break_off(self, got != RQLI_SOCKET_BROKEN);
    }
    write_out(self); /* what has waited for these answers, or for room */
}

/* Until its owner is called, or the deadline. True: the result is there. */
static bool sleep_on(struct exchange *exchange, int64_t deadline_us)
{
    int32_t seen = AWAKE;

    (void)atomic_compare_exchange_strong_explicit(&exchange->mark, &seen, ASLEEP,
                                                  memory_order_acq_rel, memory_order_acquire);
    if (seen == AWAKE || seen == ASLEEP) {
        rqli_signal_wait(&exchange->mark, ASLEEP, deadline_us);
        seen = atomic_load_explicit(&exchange->mark, memory_order_acquire);
    }
    return seen == FINISHED;
}

/* Under the mutex, released while it reads or sleeps. Until our replies are there, or the deadline:
 * reads for all, if nobody does. A late caller still takes what has come already. */
static void await_replies(struct rqli_conn *self, struct exchange *exchange, int64_t deadline_us)
{
    int64_t now_us = exchange->visible.sent_us;
    bool is_late = false;

    while (exchange->in_flight && !is_late) {
        is_late = now_us >= deadline_us;
        if (!self->shared.reader) {
            self->shared.reader = exchange;
        }
        if (self->shared.reader == exchange) {
            atomic_store_explicit(&exchange->mark, AWAKE, memory_order_relaxed);
            read_once(self, now_us, deadline_us);
        } else if (!is_late) {
            rqli_conn_unlock(self);
            (void)sleep_on(exchange, deadline_us);
            (void)pthread_mutex_lock(&self->shared.mutex);
        }
        now_us = rqli_now_us();
    }
}

static rql_status no_answer(const struct rqli_conn *self, rql_status status, rql_error *error)
{
    if (status == RQL_E_UNKNOWN) {
        return rqli_fail(error, status, "%s: no answer; the command may or may not have been done",
                         self->sock.endpoint->where);
    }
    return rqli_fail(error, status, "%s: the connection broke before the command was sent",
                     self->sock.endpoint->where);
}

/* Under the mutex, which is unlocked in the end. */
static rql_status take_part(struct rqli_conn *self, struct exchange *exchange, int64_t deadline_us)
{
    rql_status status;

    write_out(self);
    if (exchange->in_flight && self->shared.reader) {
        rqli_conn_unlock(self);
        if (sleep_on(exchange, deadline_us)) {
            return exchange->status;
        }
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
    await_replies(self, exchange, deadline_us);
    exchange->left = exchange->in_flight;
    status = exchange->left ? RQL_E_UNKNOWN : exchange->status;
    if (exchange->left) {
        self->shared.callers--;
    }
    /* Also when we never read: we may have written for others after our own reply was taken. */
    if (self->shared.reader == exchange || !self->shared.reader) {
        appoint_reader(self);
        rqli_conn_bury(self);
    }
    rqli_conn_unlock(self);
    return status;
}

rql_status rqli_exchange_run(struct rqli_exchange *exchange, int64_t deadline_us, rql_error *error)
{
    struct exchange *whole = (struct exchange *)exchange;
    struct rqli_conn *self = whole->conn;
    rql_status status;

    if (exchange->command.failed) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    status = rqli_conn_connect_locked(self, deadline_us, error);
    if (!status && !put_in_stream(self, whole)) {
        status = rqli_fail_nomem(error);
    }
    if (status) {
        (void)pthread_mutex_unlock(&self->shared.mutex);
        return status;
    }
    status = take_part(self, whole, deadline_us);
    return status ? no_answer(self, status, error) : RQL_OK;
}
