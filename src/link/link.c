#include "link/link.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/signal.h"
#include "link/endpoint.h"
#include "link/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKOFF_FIRST_MS = 10, BACKOFF_LAST_MS = 2000, WAKES_MAX = 128 };

/* What the owner of an exchange sleeps on. */
enum mark { WAITING, FINISHED, READER };

struct exchange {
    struct rqli_exchange visible; /* first: the caller's part */
    struct rqli_link *link;
    struct exchange *next; /* in flight, or free */
    struct rqli_arena arena;
    struct rqli_reply *roots;
    int n_done;
    bool in_flight;
    bool left;          /* its caller waits no more: the replies are read and dropped */
    bool given;         /* and has given it back: free it when they are there */
    uint64_t begins_at; /* place of its first byte in the stream */
    rql_status status;
    rqli_signal mark;
};

enum state { DOWN, CONNECTING, UP, BROKEN };

struct rqli_link {
    struct rqli_wire wire; /* fd: by whoever connects, reads or writes, as below */

    struct {
        pthread_mutex_t mutex;
        pthread_cond_t connected; /* CLOCK_MONOTONIC; the attempt is over */
        enum state state;
        struct exchange *reader; /* reads for all, or NULL */
        bool writing;
        struct rqli_command out;   /* bytes to send */
        struct rqli_command spare; /* bytes being sent */
        uint64_t queued_at;        /* stream place behind `out` */
        uint64_t sending_at;       /* stream place behind what was handed to the system */
        struct exchange *first;    /* in flight, in the order of the stream */
        struct exchange *last;
        struct exchange *free;
        rqli_signal *wakes[WAKES_MAX]; /* of finished exchanges, to be called at the end */
        size_t n_wakes;
        unsigned callers; /* in rqli_exchange_run() */
        int64_t heard_us; /* last byte, or begin of the silence */
        uint64_t generation;
        int64_t silent_id; /* the predecessor, if it fell silent and may still be served (F-15) */
        int64_t backoff_ms;
        int64_t next_attempt_us;
        rql_error last_fault; /* of connecting */
        struct rqli_clock_reading reading;
    } shared; /* everything in here under shared.mutex */
};

struct rqli_link *rqli_link_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_link *self = calloc(1, sizeof *self);
    pthread_condattr_t attributes;

    if (!self) {
        return NULL;
    }
    self->wire.endpoint = endpoint;
    self->wire.fd = -1;
    self->shared.state = DOWN;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->shared.connected, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return self;
}

static void free_exchanges(struct exchange *exchange)
{
    while (exchange) {
        struct exchange *next = exchange->next;

        rqli_command_fini(&exchange->visible.command);
        rqli_arena_reset(&exchange->arena);
        free(exchange);
        exchange = next;
    }
}

struct rqli_link *rqli_link_free(struct rqli_link *self)
{
    if (self) {
        rqli_wire_close(&self->wire);
        free_exchanges(self->shared.first);
        free_exchanges(self->shared.free);
        rqli_command_fini(&self->shared.out);
        rqli_command_fini(&self->shared.spare);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        (void)pthread_cond_destroy(&self->shared.connected);
        free(self);
    }
    return NULL;
}

void rqli_link_abandon(struct rqli_link *self)
{
    if (self && self->wire.fd >= 0) {
        (void)close(self->wire.fd);
        self->wire.fd = -1;
    }
}

struct rqli_exchange *rqli_exchange_take(struct rqli_link *self)
{
    struct exchange *exchange;

    (void)pthread_mutex_lock(&self->shared.mutex);
    exchange = self->shared.free;
    if (exchange) {
        self->shared.free = exchange->next;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (!exchange) {
        exchange = calloc(1, sizeof *exchange);
    }
    if (!exchange) {
        return NULL;
    }
    exchange->link = self;
    exchange->left = false;
    exchange->given = false;
    rqli_command_reset(&exchange->visible.command);
    return &exchange->visible;
}

/* Under the mutex. */
static void recycle(struct rqli_link *self, struct exchange *exchange)
{
    rqli_arena_reset(&exchange->arena);
    exchange->next = self->shared.free;
    self->shared.free = exchange;
}

void rqli_exchange_give(struct rqli_exchange *visible)
{
    struct exchange *exchange = (struct exchange *)visible;

    if (exchange) {
        struct rqli_link *self = exchange->link;

        (void)pthread_mutex_lock(&self->shared.mutex);
        if (exchange->in_flight) {
            exchange->given = true;
        } else {
            recycle(self, exchange);
        }
        (void)pthread_mutex_unlock(&self->shared.mutex);
    }
}

/* Under the mutex. An exchange may have found another caller by now: it wakes once in vain. */
static void wake_all(struct rqli_link *self)
{
    while (self->shared.n_wakes > 0) {
        rqli_signal_wake(self->shared.wakes[--self->shared.n_wakes]);
    }
}

/* Under the mutex: takes the first exchange off the stream with its result. */
static void finish_first(struct rqli_link *self, rql_status status, int64_t now_us)
{
    struct exchange *done = self->shared.first;

    self->shared.first = done->next;
    if (!done->next) {
        self->shared.last = NULL;
    }
    done->in_flight = false;
    done->status = status;
    done->visible.received_us = now_us;
    if (done->given) {
        recycle(self, done);
        return;
    }
    atomic_store_explicit(&done->mark, FINISHED, memory_order_release);
    if (self->shared.n_wakes == WAKES_MAX) {
        wake_all(self);
    }
    self->shared.wakes[self->shared.n_wakes++] = &done->mark;
}

/* Under the mutex: the connection is of no use any more. What was handed to the system may have
 * been done; what was not, was not. Whoever still uses the socket finds it shut down. */
static void break_off(struct rqli_link *self, bool silent)
{
    int64_t now_us = rqli_now_us();

    if (self->shared.state != UP) {
        return;
    }
    self->shared.state = BROKEN;
    self->shared.silent_id = silent ? self->wire.client_id : 0;
    (void)shutdown(self->wire.fd, SHUT_RDWR);
    while (self->shared.first) {
        bool sent = self->shared.first->begins_at < self->shared.sending_at;

        finish_first(self, sent ? RQL_E_UNKNOWN : RQL_E_IO, now_us);
    }
    rqli_command_reset(&self->shared.out);
}

/* Under the mutex: closes a broken connection when nobody uses its socket. */
static void bury(struct rqli_link *self)
{
    if (self->shared.state == BROKEN && !self->shared.reader && !self->shared.writing) {
        rqli_wire_close(&self->wire);
        self->shared.state = DOWN;
        (void)pthread_cond_broadcast(&self->shared.connected);
    }
}

/* Under the mutex, which is released meanwhile. */
static void await_attempt(struct rqli_link *self, int64_t until_us)
{
    int64_t left_us = until_us - rqli_now_us();
    struct timespec until;

    if (left_us <= 0) {
        return;
    }
    left_us = left_us < 3600000000 ? left_us : 3600000000;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(left_us / 1000000);
    until.tv_nsec += (long)(left_us % 1000000) * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&self->shared.connected, &self->shared.mutex, &until);
}

/* Under the mutex: doubles the pause before the next attempt, with full jitter (F-71). */
static void back_off(struct rqli_link *self)
{
    int64_t ms = self->shared.backoff_ms * 2;

    ms = ms < BACKOFF_FIRST_MS ? BACKOFF_FIRST_MS : ms;
    self->shared.backoff_ms = ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
    self->shared.next_attempt_us =
        rqli_now_us() + (1 + rqli_random_below((uint32_t)self->shared.backoff_ms)) * 1000;
}

/* Under the mutex, which is released while it connects. */
static rql_status attempt(struct rqli_link *self, int64_t deadline_us, rql_error *error)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->wire.endpoint->connect_timeout_ms);
    int64_t predecessor_id = self->shared.silent_id;
    struct rqli_clock_reading reading = {0};
    rql_error fault = {0};
    rql_status status;

    self->shared.state = CONNECTING;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_wire_open(&self->wire, predecessor_id,
                            limit_us < deadline_us ? limit_us : deadline_us, &reading, &fault);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (status) {
        self->shared.state = DOWN;
        self->shared.last_fault = fault;
        back_off(self);
        if (error) {
            *error = fault;
        }
    } else {
        self->shared.state = UP;
        self->shared.generation++;
        self->shared.backoff_ms = 0;
        self->shared.next_attempt_us = 0;
        self->shared.sending_at = self->shared.queued_at;
        self->shared.reading = reading;
    }
    (void)pthread_cond_broadcast(&self->shared.connected);
    return status;
}

/* Under the mutex. Waits for another's attempt and shares its failure, or makes one. */
static rql_status connect_locked(struct rqli_link *self, int64_t deadline_us, rql_error *error)
{
    bool waited_for_attempt = false;

    while (self->shared.state != UP) {
        int64_t now_us = rqli_now_us();

        if (self->shared.state == DOWN && waited_for_attempt && self->shared.last_fault.status) {
            if (error) {
                *error = self->shared.last_fault;
            }
            return self->shared.last_fault.status;
        }
        if (now_us >= deadline_us) {
            errno = ETIMEDOUT;
            return rqli_fail(error, RQL_E_IO, "cannot connect to %s: no time left%s%s",
                             self->wire.endpoint->where, self->shared.last_fault.status ? "; " : "",
                             self->shared.last_fault.message);
        }
        if (self->shared.state == DOWN && now_us >= self->shared.next_attempt_us) {
            rql_status status = attempt(self, deadline_us, error);

            if (status) {
                return status;
            }
        } else if (self->shared.state == DOWN) {
            await_attempt(self, self->shared.next_attempt_us < deadline_us
                                    ? self->shared.next_attempt_us
                                    : deadline_us);
        } else {
            waited_for_attempt = self->shared.state == CONNECTING;
            await_attempt(self, deadline_us);
        }
    }
    return RQL_OK;
}

rql_status rqli_link_connect(struct rqli_link *self, int64_t deadline_us, rql_error *error)
{
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = connect_locked(self, deadline_us, error);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

bool rqli_link_clock(struct rqli_link *self, struct rqli_clock_reading *out)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    *out = self->shared.reading;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return out->received_us != 0;
}

void rqli_link_drop(struct rqli_link *self, uint64_t generation)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.generation == generation) {
        break_off(self, false);
        wake_all(self);
        bury(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Under the mutex: room for the replies, bytes into the stream, a place in the line. */
static bool put_in_stream(struct rqli_link *self, struct exchange *exchange)
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
    atomic_store_explicit(&exchange->mark, WAITING, memory_order_relaxed);
    self->shared.queued_at += command->length;
    if (self->shared.last) {
        self->shared.last->next = exchange;
    } else {
        self->shared.first = exchange;
        self->shared.heard_us = rqli_now_us();
    }
    self->shared.last = exchange;
    exchange->visible.sent_us = rqli_now_us();
    return true;
}

/* Under the mutex, released while it sends. Whoever finds nobody writing writes for all. */
static void write_out(struct rqli_link *self, int64_t deadline_us)
{
    if (self->shared.writing) {
        return;
    }
    self->shared.writing = true;
    while (self->shared.state == UP && self->shared.out.length > 0) {
        struct rqli_command batch = self->shared.out;
        bool sent;

        self->shared.out = self->shared.spare;
        self->shared.spare = batch;
        self->shared.sending_at = self->shared.queued_at;
        (void)pthread_mutex_unlock(&self->shared.mutex);
        sent = rqli_wire_send(&self->wire, batch.data, batch.length, deadline_us);
        (void)pthread_mutex_lock(&self->shared.mutex);
        rqli_command_reset(&self->shared.spare);
        if (!sent) {
            break_off(self, errno == EAGAIN);
        }
    }
    self->shared.writing = false;
    bury(self);
}

/* Under the mutex: gives what has come to those who wait for it. False: it made no sense. */
static bool hand_out(struct rqli_link *self)
{
    for (;;) {
        struct exchange *first = self->shared.first;
        struct rqli_reply stray = {0};
        struct rqli_arena *arena;
        int state;

        if (!first) {
            struct rqli_arena scratch = {0};

            state = rqli_decoder_next(&self->wire.decoder, &scratch, &stray);
            rqli_arena_reset(&scratch);
            return state == 0; /* a reply nobody asked for */
        }
        arena = &first->arena;
        state = rqli_decoder_next(&self->wire.decoder, arena, &first->roots[first->n_done]);
        if (state <= 0) {
            return state == 0;
        }
        if (++first->n_done == first->visible.command.n_commands) {
            finish_first(self, RQL_OK, rqli_now_us());
        }
    }
}

/* Under the mutex: the role of the reader goes to the oldest caller still there. */
static void appoint_reader(struct rqli_link *self)
{
    struct exchange *next = self->shared.first;

    while (next && next->left) {
        next = next->next;
    }
    self->shared.reader = next;
    if (next) {
        atomic_store_explicit(&next->mark, READER, memory_order_release);
        rqli_signal_wake(&next->mark);
    }
}

/* Reader only; under the mutex, released while it waits for bytes. One read, at most. */
static void read_once(struct rqli_link *self, int64_t deadline_us)
{
    int64_t silence_us = rqli_after_ms(self->shared.heard_us, self->wire.endpoint->io_timeout_ms);
    int64_t until_us = deadline_us < silence_us ? deadline_us : silence_us;
    int64_t spin_us = self->shared.callers == 1 ? self->wire.endpoint->spin_us : 0;
    enum rqli_wire_read got;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    got = rqli_wire_read(&self->wire, until_us, spin_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.state != UP) {
        return;
    }
    if (got == RQLI_WIRE_BYTES) {
        self->shared.heard_us = rqli_now_us();
        if (!hand_out(self)) {
            break_off(self, false);
        }
    } else if (got == RQLI_WIRE_BROKEN || rqli_now_us() >= silence_us) {
        break_off(self, got != RQLI_WIRE_BROKEN);
    }
    wake_all(self);
}

/* Under the mutex, released while it sleeps on its signal. */
static void sleep_on(struct rqli_link *self, struct exchange *exchange, int64_t deadline_us)
{
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_signal_wait(&exchange->mark, WAITING, deadline_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Under the mutex. Until our replies are there, or the deadline: reads for all, or sleeps. A late
 * caller still takes what has come already. */
static void await_replies(struct rqli_link *self, struct exchange *exchange, int64_t deadline_us)
{
    bool is_late = false;

    while (exchange->in_flight && !is_late) {
        is_late = rqli_now_us() >= deadline_us;
        if (!self->shared.reader) {
            self->shared.reader = exchange;
        }
        if (self->shared.reader == exchange) {
            read_once(self, deadline_us);
        } else if (!is_late) {
            sleep_on(self, exchange, deadline_us);
        }
    }
}

static rql_status no_answer(const struct rqli_link *self, rql_status status, rql_error *error)
{
    if (status == RQL_E_UNKNOWN) {
        return rqli_fail(error, status, "%s: no answer; the command may or may not have been done",
                         self->wire.endpoint->where);
    }
    return rqli_fail(error, status, "%s: the connection broke before the command was sent",
                     self->wire.endpoint->where);
}

rql_status rqli_exchange_run(struct rqli_exchange *visible, int64_t deadline_us, rql_error *error)
{
    struct exchange *exchange = (struct exchange *)visible;
    struct rqli_link *self = exchange->link;
    rql_status status;

    if (visible->command.failed) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    status = connect_locked(self, deadline_us, error);
    if (!status && !put_in_stream(self, exchange)) {
        status = rqli_fail_nomem(error);
    }
    if (status) {
        (void)pthread_mutex_unlock(&self->shared.mutex);
        return status;
    }
    self->shared.callers++;
    write_out(self, deadline_us);
    await_replies(self, exchange, deadline_us);
    self->shared.callers--;
    wake_all(self);
    status = exchange->in_flight ? RQL_E_UNKNOWN : exchange->status;
    exchange->left = exchange->in_flight;
    /* Also when we never read: we may have written for others after our own reply was taken. */
    if (self->shared.reader == exchange || !self->shared.reader) {
        appoint_reader(self);
        bury(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status ? no_answer(self, status, error) : RQL_OK;
}
