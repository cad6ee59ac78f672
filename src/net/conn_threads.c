#include "net/conn_threads.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/freelist.h"
#include "base/random.h"
#include "base/wakes.h"
#include "net/login.h"
#include "net/stream.h"
#include "net/url.h"
#include "observe/stats.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* The commands of so many callers go out at once. Those of more go out together, for that takes
     * us and the server fewer system calls: while a batch is unanswered a second one grows, until
     * it is that of half of the callers. Then the server has work while they have, and both do all
     * the time; a second one that did not wait would be that of the first who was woken. */
    AT_ONCE = 8,
    BATCHES = 2,
    /* Where an answer takes longer all go out at once: waiting for others' would cost a caller its
     * time. */
    FAR_US = 10000,
    /* The reader looks at the socket's other end as often: it may have become full meanwhile. */
    CHECK_US = 100000,
    /* Servers and those between end what is not used for long. */
    UNUSED_US = 1000000,
};

/* What the owner of an exchange sleeps on: its wait word. */
enum {
    AWAKE,    /* on its way, or reading */
    ASLEEP,   /* has to be woken */
    FINISHED, /* the result is there; it needs no mutex to take it */
    READER,   /* shall read, and has not begun */
};

enum state { DOWN, CONNECTING, UP, BROKEN };

struct exchange {
    struct rqli_exchange visible; /* first: the caller's part */
    struct rqli_conn *conn;
    struct rqli_stream_call call;
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_done;
    bool in_flight;
    bool left;  /* its caller waits no more: the replies are read and dropped */
    bool given; /* and has given it back: to be recycled when they are there */
    rql_status status;
    rqli_signal wait_word;
};

struct rqli_conn {
    struct rqli_socket sock;       /* fd: by whoever connects, reads or writes, as below */
    struct rqli_freelist freelist; /* exchanges */
    rqli_signal n_attempts;        /* to connect, that are over; who waits for one sleeps on it */

    struct {
        pthread_mutex_t mutex;
        enum state state;
        struct rqli_stream stream;
        struct exchange *reader; /* reads for all, or NULL */
        bool writing;
        uint64_t batch_ends[BATCHES]; /* positions behind what is unanswered */
        size_t n_batches;
        struct rqli_wake_list wake_list; /* of called owners */
        unsigned callers;                /* that wait for an exchange in flight */
        unsigned n_unsent;               /* exchanges in stream.out */
        bool is_far;                     /* the last answer took longer than FAR_US */
        uint64_t generation;
        int64_t n_commands;      /* put in the stream so far */
        struct rqli_seat silent; /* the predecessor, if it fell silent and may still be served */
        rql_error last_fault;    /* of connecting */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

struct rqli_conn *rqli_conn_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_conn *self = calloc(1, sizeof *self);

    if (self) {
        self->sock.endpoint = endpoint;
        self->sock.fd = -1;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

static struct exchange *exchange_of(struct rqli_stream_call *call)
{
    return call ? (struct exchange *)((char *)call - offsetof(struct exchange, call)) : NULL;
}

static void free_exchange(struct exchange *exchange)
{
    rqli_command_fini(&exchange->visible.command);
    rqli_arena_reset(&exchange->arena);
    free(exchange);
}

struct rqli_conn *rqli_conn_free(struct rqli_conn *self)
{
    struct exchange *spare;

    if (!self) {
        return NULL;
    }
    rqli_socket_close(&self->sock);
    while (self->shared.stream.first) {
        free_exchange(exchange_of(rqli_stream_take(&self->shared.stream)));
    }
    for (spare = rqli_freelist_take(&self->freelist); spare;
         spare = rqli_freelist_take(&self->freelist)) {
        free_exchange(spare);
    }
    rqli_stream_fini(&self->shared.stream);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    free(self);
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

/* ---- exchanges ---- */

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

/* Its memory may be used again. Needs no mutex. */
static void recycle(struct rqli_conn *self, struct exchange *exchange)
{
    rqli_arena_reset(&exchange->arena);
    if (!rqli_freelist_keep(&self->freelist, exchange)) {
        free_exchange(exchange);
    }
}

void rqli_exchange_give(struct rqli_exchange *exchange)
{
    struct exchange *whole = (struct exchange *)exchange;
    bool is_in_flight = false;

    if (!whole) {
        return;
    }
    if (whole->left) { /* its replies may still come: then whoever reads them recycles it */
        (void)pthread_mutex_lock(&whole->conn->shared.mutex);
        is_in_flight = whole->in_flight;
        whole->given = is_in_flight;
        (void)pthread_mutex_unlock(&whole->conn->shared.mutex);
    }
    if (!is_in_flight) {
        recycle(whole->conn, whole);
    }
}

/* Unlocks the mutex and wakes whom was called: the next reader first, on whom the others will
 * depend, for it was called last. */
static void unlock(struct rqli_conn *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* Under the mutex: sets the wait word of its owner, and notes it for being woken. */
static void call_owner(struct rqli_conn *self, struct exchange *exchange, int32_t word)
{
    int32_t before = atomic_exchange_explicit(&exchange->wait_word, word, memory_order_acq_rel);

    if (before == READER) {
        self->shared.reader = NULL; /* it has not begun, and will not */
    }
    if (before == ASLEEP) {
        rqli_wake_list_add(&self->shared.wake_list, &exchange->wait_word);
    }
}

/* Under the mutex: room for the replies, bytes into the stream, a position in it. */
static bool put_in_stream(struct rqli_conn *self, struct exchange *exchange)
{
    struct rqli_command *command = &exchange->visible.command;
    size_t size = (size_t)command->n_commands * sizeof *exchange->roots;

    rqli_arena_reset(&exchange->arena);
    exchange->roots = rqli_arena_take(&exchange->arena, size);
    if (!exchange->roots || !rqli_command_append(&self->shared.stream.out, command)) {
        return false;
    }
    memset(exchange->roots, 0, size);
    exchange->visible.reply = exchange->roots;
    exchange->visible.generation = self->shared.generation;
    exchange->n_done = 0;
    exchange->status = RQL_OK;
    exchange->in_flight = true;
    exchange->visible.sent_us = rqli_now_us();
    atomic_store_explicit(&exchange->wait_word, AWAKE, memory_order_relaxed);
    rqli_stream_expect(&self->shared.stream, &exchange->call, exchange->visible.sent_us);
    self->shared.n_commands += command->n_commands;
    rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_COMMANDS, command->n_commands);
    self->shared.callers++;
    self->shared.n_unsent++;
    return true;
}

/* Under the mutex: takes the oldest exchange off the stream with its result, and the batches off
 * that are answered with it. */
static void finish_first(struct rqli_conn *self, rql_status status, int64_t now_us)
{
    struct rqli_stream *stream = &self->shared.stream;
    struct exchange *done = exchange_of(rqli_stream_take(stream));

    done->in_flight = false;
    done->status = status;
    done->visible.received_us = now_us;
    self->shared.is_far = now_us - done->visible.sent_us > FAR_US;
    while (self->shared.n_batches > 0 &&
           (!stream->first || stream->first->begins_at >= self->shared.batch_ends[0])) {
        self->shared.batch_ends[0] = self->shared.batch_ends[1];
        self->shared.n_batches--;
    }
    if (done->given) {
        recycle(self, done);
        return;
    }
    if (!done->left) {
        self->shared.callers--;
    }
    call_owner(self, done, FINISHED);
}

/* ---- the end of a connection, and the next one ---- */

/* Under the mutex. The connection is of no use any more; whoever still uses the socket finds it
 * shut down. */
static void break_off(struct rqli_conn *self, bool is_silent)
{
    struct rqli_stream *stream = &self->shared.stream;
    int64_t now_us = rqli_now_us();

    if (self->shared.state != UP) {
        return;
    }
    self->shared.state = BROKEN;
    self->shared.silent = is_silent ? self->sock.seat : (struct rqli_seat){0};
    (void)shutdown(self->sock.fd, SHUT_RDWR);
    while (stream->first) {
        finish_first(self, rqli_stream_fate(stream, stream->first), now_us);
    }
    rqli_command_reset(&stream->out);
    self->shared.n_unsent = 0;
    self->shared.n_batches = 0;
}

/* Under the mutex: those who wait for a connection see how it stands. */
static void on_attempt_over(struct rqli_conn *self)
{
    (void)atomic_fetch_add_explicit(&self->n_attempts, 1, memory_order_relaxed);
    rqli_signal_wake(&self->n_attempts);
}

/* Under the mutex: closes a broken connection when nobody uses its socket. */
static void close_if_broken(struct rqli_conn *self)
{
    if (self->shared.state == BROKEN && !self->shared.reader && !self->shared.writing) {
        rqli_socket_close(&self->sock);
        self->shared.state = DOWN;
        on_attempt_over(self);
    }
}

/* Under the mutex, which is released meanwhile. */
static void await_attempt(struct rqli_conn *self, int64_t until_us)
{
    int32_t seen = atomic_load_explicit(&self->n_attempts, memory_order_relaxed);

    unlock(self);
    rqli_signal_wait(&self->n_attempts, seen, until_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Under the mutex, which is released while it connects. */
static rql_status attempt(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->sock.endpoint->connect_timeout_ms);
    const struct rqli_seat predecessor = self->shared.silent;
    struct rqli_clock_reading reading = {0};
    rql_error fault = {0};
    rql_status status;
    int64_t now_us;

    self->shared.state = CONNECTING;
    unlock(self);
    status = rqli_login(&self->sock, &predecessor, limit_us < deadline_us ? limit_us : deadline_us,
                        &reading, &fault);
    (void)pthread_mutex_lock(&self->shared.mutex);
    now_us = rqli_now_us();
    if (!status) {
        self->shared.state = UP;
        self->shared.generation++;
        rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.reading = reading;
        self->shared.is_far = reading.received_us - reading.sent_us > FAR_US;
        rqli_stream_on_connected(&self->shared.stream, now_us);
    } else {
        self->shared.state = DOWN;
        self->shared.last_fault = (rql_error){0};
        /* One that an impatient caller cut short says nothing to the others. */
        if (now_us >= limit_us || now_us < deadline_us) {
            self->shared.last_fault = fault;
            rqli_backoff_on_failure(&self->shared.stream.backoff, now_us,
                                    rqli_random_below(RQLI_BACKOFF_RANDOM));
        }
        if (error) {
            *error = fault;
        }
    }
    on_attempt_over(self);
    return status;
}

/* Under the mutex. A connection that ended while it was not used: seen before the next command is
 * sent that is nothing; behind it, nobody knows whether the command was done. */
static void end_if_ended(struct rqli_conn *self)
{
    bool is_unused = !self->shared.stream.first && !self->shared.reader && !self->shared.writing;

    if (self->shared.state == UP && is_unused &&
        rqli_now_us() - self->shared.stream.heard_us >= UNUSED_US &&
        !rqli_socket_is_quiet(&self->sock)) {
        break_off(self, false);
        close_if_broken(self);
    }
}

/* Under the mutex, released meanwhile: waits for another's attempt and shares its failure, or makes
 * one, as soon as that is allowed again. */
static rql_status connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    bool waited_for_attempt = false;
    rql_status status = RQL_OK;

    end_if_ended(self);
    while (!status && self->shared.state != UP) {
        bool is_down = self->shared.state == DOWN;
        int64_t next_us = self->shared.stream.backoff.next_us;
        int64_t now_us = rqli_now_us();

        if (is_down && waited_for_attempt && self->shared.last_fault.status) {
            status = self->shared.last_fault.status;
            if (error) {
                *error = self->shared.last_fault;
            }
        } else if (now_us >= deadline_us) {
            errno = ETIMEDOUT;
            status =
                rqli_fail(error, RQL_E_IO, "cannot connect to %s: no time left%s%s",
                          self->sock.endpoint->where, self->shared.last_fault.status ? "; " : "",
                          self->shared.last_fault.message);
        } else if (is_down && now_us >= next_us) {
            status = attempt(self, deadline_us, error);
        } else if (is_down) {
            await_attempt(self, next_us < deadline_us ? next_us : deadline_us);
        } else {
            waited_for_attempt = self->shared.state == CONNECTING;
            await_attempt(self, deadline_us);
        }
    }
    return status;
}

rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = connect_locked(self, deadline_us, error);
    unlock(self);
    return status;
}

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

void rqli_conn_drop(struct rqli_conn *self, uint64_t generation)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.generation == generation) {
        break_off(self, false);
        close_if_broken(self);
    }
    unlock(self);
}

/* ---- writing and reading for all ---- */

/* Under the mutex. */
static bool may_write(const struct rqli_conn *self)
{
    unsigned callers = self->shared.callers;

    if (self->shared.state != UP || self->shared.stream.out.length == 0) {
        return false;
    }
    return callers <= AT_ONCE || self->shared.n_batches == 0 || self->shared.is_far ||
           (self->shared.n_batches < BATCHES && self->shared.n_unsent >= callers / 2);
}

/* Under the mutex, released while it sends. What goes at once goes before those who were called are
 * woken: they would take the processor from us, and the server has nothing to do till then. False:
 * the socket is full, or broken. */
static bool send_some(struct rqli_conn *self)
{
    struct rqli_slice bytes = rqli_stream_send(&self->shared.stream);
    ssize_t sent;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    sent = rqli_socket_send_some(&self->sock, bytes.data, bytes.length);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (sent < 0) {
        break_off(self, false);
        return false;
    }
    return rqli_stream_on_sent(&self->shared.stream, (size_t)sent);
}

/* Under the mutex, released while it sends. Whoever finds nobody writing writes for all, but waits
 * for nobody: when the socket is full the rest stays in the stream, for the reader to send when
 * there is room, or for the next who comes. */
static void write_out(struct rqli_conn *self)
{
    struct rqli_stream *stream = &self->shared.stream;
    bool goes_on = !self->shared.writing;

    if (!goes_on) {
        return;
    }
    self->shared.writing = true;
    while (goes_on) {
        if (!rqli_stream_has_unsent(stream) && may_write(self)) {
            rqli_stream_begin_batch(stream);
            self->shared.n_unsent = 0;
            if (self->shared.n_batches < BATCHES) {
                self->shared.n_batches++;
            }
            self->shared.batch_ends[self->shared.n_batches - 1] = stream->queued_at;
        }
        goes_on = self->shared.state == UP && rqli_stream_has_unsent(stream) && send_some(self);
    }
    self->shared.writing = false;
    close_if_broken(self);
}

/* Under the mutex: gives what has come to those who wait for it. False: it made no sense. */
static bool hand_out(struct rqli_conn *self)
{
    while (self->shared.stream.first) {
        struct exchange *first = exchange_of(self->shared.stream.first);
        int state =
            rqli_decoder_next(&self->sock.decoder, &first->arena, &first->roots[first->n_done]);

        if (state <= 0) {
            return state == 0;
        }
        if (++first->n_done == first->visible.command.n_commands) {
            finish_first(self, RQL_OK, self->shared.stream.heard_us);
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* no reply that nobody asked for */
}

/* Under the mutex: the role of the reader goes to the oldest caller still there. */
static void appoint_reader(struct rqli_conn *self)
{
    struct exchange *next = exchange_of(self->shared.stream.first);

    while (next && next->left) {
        next = exchange_of(next->call.next);
    }
    self->shared.reader = next;
    if (next) {
        call_owner(self, next, READER);
    }
}

/* Under the mutex. When a connection that has not been heard since is given up. */
static int64_t silence_us(const struct rqli_conn *self)
{
    return rqli_after_ms(self->shared.stream.heard_us, self->sock.endpoint->io_timeout_ms);
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Reader only; under the mutex, released while it waits for bytes, and for room if some are to be
 * sent. One read, at most. */
static void read_once(struct rqli_conn *self, int64_t now_us, int64_t deadline_us)
{
    int64_t given_up_us = silence_us(self);
    int64_t until_us = earlier(earlier(deadline_us, given_up_us), now_us + CHECK_US);
    int64_t spin_us = self->shared.callers == 1 ? self->sock.endpoint->spin_us : 0;
    bool wants_room = rqli_stream_has_unsent(&self->shared.stream) && !self->shared.writing;
    enum rqli_socket_read got;

    unlock(self);
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
        self->shared.stream.heard_us = rqli_now_us();
        if (!hand_out(self)) {
            break_off(self, false);
        }
    } else if (got == RQLI_SOCKET_BROKEN || rqli_now_us() >= silence_us(self)) {
        break_off(self, got != RQLI_SOCKET_BROKEN);
    }
    write_out(self); /* what has waited for these answers, or for room */
}

/* Until its owner is called, or the deadline. True: the result is there. */
static bool sleep_on(struct exchange *exchange, int64_t deadline_us)
{
    int32_t seen = AWAKE;

    (void)atomic_compare_exchange_strong_explicit(&exchange->wait_word, &seen, ASLEEP,
                                                  memory_order_acq_rel, memory_order_acquire);
    if (seen == AWAKE || seen == ASLEEP) {
        rqli_signal_wait(&exchange->wait_word, ASLEEP, deadline_us);
        seen = atomic_load_explicit(&exchange->wait_word, memory_order_acquire);
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
            atomic_store_explicit(&exchange->wait_word, AWAKE, memory_order_relaxed);
            read_once(self, now_us, deadline_us);
        } else if (!is_late) {
            unlock(self);
            (void)sleep_on(exchange, deadline_us);
            (void)pthread_mutex_lock(&self->shared.mutex);
        }
        now_us = rqli_now_us();
    }
}

/* Under the mutex, which is unlocked in the end. */
static rql_status take_part(struct rqli_conn *self, struct exchange *exchange, int64_t deadline_us)
{
    rql_status status;

    write_out(self);
    if (exchange->in_flight && self->shared.reader) {
        unlock(self);
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
        close_if_broken(self);
    }
    unlock(self);
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
    status = connect_locked(self, deadline_us, error);
    if (!status && !put_in_stream(self, whole)) {
        status = rqli_fail_nomem(error);
    }
    if (status) {
        unlock(self);
        return status;
    }
    status = take_part(self, whole, deadline_us);
    return status ? rqli_stream_fault(status, self->sock.endpoint->where, error) : RQL_OK;
}

rql_status rqli_exchange_fault(const struct rqli_exchange *exchange, const struct rqli_reply *reply,
                               const char *what, const char *where, rql_error *error)
{
    rql_status status = rqli_reply_fault(reply, what, where, error);

    if (status == RQL_E_PROTOCOL || status == RQL_E_READ_ONLY) {
        exchange->drop(exchange);
    }
    return status;
}
