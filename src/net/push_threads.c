#include "net/push_threads.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/random.h"
#include "net/stream.h"
#include "net/subscription.h"
#include "net/url.h"
#include "observe/stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* The wait word of a waiter. */
enum { WAITING, CALLED };

struct rqli_push_threads {
    /* The reader's; if there is none, of whoever has the mutex: */
    struct rqli_socket sock;
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    int64_t heard_us;        /* when something came, last */
    struct rqli_subscription subscription;

    atomic_bool is_open; /* as shared.is_listening, without the mutex */

    struct {
        pthread_mutex_t mutex;
        struct rqli_waiters waiters; /* the oldest reads */
        struct rqli_waiter *reader;
        bool is_listening;
        uint64_t generation;
        int64_t client_id;
        struct rqli_backoff backoff;
        struct rqli_wake_list wake_list; /* of called waiters */
    } shared;                            /* everything in here under shared.mutex */
};

/* Under the mutex: wakes it, when that is released. */
static void call(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self =
        (struct rqli_push_threads *)((char *)waiters -
                                     offsetof(struct rqli_push_threads, shared.waiters));

    if (atomic_exchange_explicit(&waiter->wait_word, CALLED, memory_order_acq_rel) == WAITING) {
        rqli_wake_list_add(&self->shared.wake_list, &waiter->wait_word);
    }
}

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_push_threads *self = calloc(1, sizeof *self);

    if (self) {
        self->sock.endpoint = endpoint;
        self->sock.fd = -1;
        self->shared.waiters.rouse = call;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_arena_reset(&self->arena);
        rqli_waiters_fini(&self->shared.waiters);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

void rqli_push_threads_abandon(struct rqli_push_threads *self)
{
    if (self && self->sock.fd >= 0) {
        (void)close(self->sock.fd);
        self->sock.fd = -1;
    }
}

static void lock(struct rqli_push_threads *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* And wakes whom was called. */
static void unlock(struct rqli_push_threads *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

bool rqli_push_threads_is_listening(const struct rqli_push_threads *self)
{
    return atomic_load_explicit(&self->is_open, memory_order_relaxed);
}

/* ---- waiters ---- */

/* Under the mutex: nobody reads; the longest waiting but the one that goes shall. */
static void pass_on_reading(struct rqli_push_threads *self, const struct rqli_waiter *goes)
{
    struct rqli_waiter *next = self->shared.waiters.first;

    while (next && (next == goes || !next->sleeps)) {
        next = next->next;
    }
    self->shared.reader = NULL;
    if (next) {
        call(&self->shared.waiters, next);
    }
}

rql_status rqli_push_threads_join(struct rqli_push_threads *self, struct rqli_waiter *waiter)
{
    rql_status status;

    lock(self);
    status = rqli_waiters_join(&self->shared.waiters, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

void rqli_push_threads_leave(struct rqli_push_threads *self, struct rqli_waiter *waiter)
{
    lock(self);
    if (!self->shared.reader) {
        pass_on_reading(self, waiter); /* it was called to read, and goes instead */
    }
    (void)rqli_waiters_leave(&self->shared.waiters, waiter);
    unlock(self);
}

void rqli_push_threads_hint_others(struct rqli_push_threads *self, const struct rqli_waiter *waiter)
{
    lock(self);
    rqli_waiters_hint_others(&self->shared.waiters, waiter);
    unlock(self);
}

/* Under the mutex. */
static struct rqli_push_view view_of(const struct rqli_push_threads *self,
                                     const struct rqli_waiter *waiter)
{
    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = self->shared.is_listening,
        .generation = self->shared.generation,
        .client_id = self->shared.client_id,
    };
}

struct rqli_push_view rqli_push_threads_view(struct rqli_push_threads *self,
                                             const struct rqli_waiter *waiter)
{
    struct rqli_push_view view;

    lock(self);
    view = view_of(self, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return view;
}

struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out)
{
    struct rqli_push_view view;

    lock(self);
    *is_new_out = !waiter->watches;
    waiter->watches = true;
    view = view_of(self, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return view;
}

/* ---- reading ---- */

/* Under the mutex. */
static void set_listening(struct rqli_push_threads *self, bool is_listening)
{
    self->shared.is_listening = is_listening;
    atomic_store_explicit(&self->is_open, is_listening, memory_order_relaxed);
}

/* Reader only; under the mutex, released while it connects. After every subscription all waiters
 * ask for themselves: what was said before it is lost. */
static void listen_again(struct rqli_push_threads *self, int64_t deadline_us)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->sock.endpoint->connect_timeout_ms);
    bool done;

    unlock(self);
    done = rqli_subscription_open(&self->sock, limit_us < deadline_us ? limit_us : deadline_us);
    lock(self);
    set_listening(self, done);
    if (done) {
        self->heard_us = rqli_now_us();
        self->subscription = (struct rqli_subscription){0};
        rqli_arena_reset(&self->arena); /* of the one before */
        self->reply = (struct rqli_reply){0};
        self->shared.generation++;
        rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.client_id = self->sock.seat.client_id;
        self->shared.backoff = (struct rqli_backoff){0};
        rqli_waiters_hint_all(&self->shared.waiters);
    } else {
        rqli_backoff_on_failure(&self->shared.backoff, rqli_now_us(),
                                rqli_random_below(RQLI_BACKOFF_RANDOM));
    }
}

/* Reader only, under the mutex. False: the connection made no sense. */
static bool take_pushes(struct rqli_push_threads *self)
{
    struct rqli_pushed pushed;
    int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);

    while (state > 0) {
        pushed = rqli_push_read(&self->reply);
        if (pushed.kind != RQLI_PUSHED_NOTHING) {
            rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_PUSHES, 1);
            rqli_waiters_deliver(&self->shared.waiters, &pushed, self->heard_us);
        }
        rqli_arena_reset(&self->arena);
        self->reply = (struct rqli_reply){0};
        state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);
    }
    return state == 0;
}

/* Reader only, under the mutex. */
static void take_bytes(struct rqli_push_threads *self, enum rqli_socket_read got)
{
    if (got == RQLI_SOCKET_BYTES) {
        self->heard_us = rqli_now_us();
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !take_pushes(self))) {
        rqli_socket_close(&self->sock);
        set_listening(self, false);
        rqli_waiters_hint_all(&self->shared.waiters);
    }
}

void rqli_push_threads_drain(struct rqli_push_threads *self)
{
    if (!rqli_push_threads_is_listening(self)) {
        return;
    }
    lock(self);
    if (self->shared.is_listening && !self->shared.waiters.first && !self->shared.reader) {
        take_bytes(self, rqli_socket_read(&self->sock, 0, 0));
    }
    unlock(self);
}

/* Under the mutex, released while it sleeps, connects or waits for bytes. */
static void sleep_or_read(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                          int64_t until_us)
{
    bool reads = !self->shared.reader || self->shared.reader == waiter;

    atomic_store_explicit(&waiter->wait_word, WAITING, memory_order_relaxed);
    if (reads) {
        self->shared.reader = waiter;
    }
    if (reads && !self->shared.is_listening && rqli_now_us() >= self->shared.backoff.next_us) {
        listen_again(self, waiter->deadline_us);
    } else if (reads && self->shared.is_listening) {
        enum rqli_socket_read got;

        unlock(self);
        got = rqli_socket_read(&self->sock, until_us, 0);
        lock(self);
        take_bytes(self, got);
    } else {
        int64_t retry_us = reads ? self->shared.backoff.next_us : RQLI_NEVER_US;

        unlock(self);
        rqli_signal_wait(&waiter->wait_word, WAITING, until_us < retry_us ? until_us : retry_us);
        lock(self);
    }
}

enum rqli_wake rqli_push_threads_wait(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                      int64_t until_us)
{
    enum rqli_wake wake = RQLI_WAKE_TIME;

    lock(self);
    waiter->sleeps = true;
    while (!waiter->pushed && !waiter->hinted && rqli_now_us() < until_us) {
        sleep_or_read(self, waiter, until_us);
    }
    waiter->sleeps = false;
    if (waiter->pushed) {
        wake = RQLI_WAKE_PUSH;
    } else if (waiter->hinted) {
        wake = RQLI_WAKE_HINT;
        waiter->hinted = false;
    }
    if (self->shared.reader == waiter || !self->shared.reader) {
        pass_on_reading(self, waiter); /* also when it was called to read and had other plans */
    }
    unlock(self);
    return wake;
}

/* ---- whether pushes still come ---- */

/* Under the mutex. Its reader finds it broken then. */
static bool end_if_silent(struct rqli_push_threads *self, int64_t now_us)
{
    /* What has come and was not read yet is our fault, not its. */
    bool is_silent = rqli_subscription_is_silent(&self->subscription, self->heard_us, now_us) &&
                     !rqli_socket_has_bytes(&self->sock);

    if (is_silent) {
        (void)shutdown(self->sock.fd, SHUT_RDWR);
    }
    return is_silent;
}

bool rqli_push_threads_wants_ping(struct rqli_push_threads *self)
{
    int64_t now_us = rqli_now_us();
    bool wants;

    lock(self);
    wants = self->shared.is_listening && !end_if_silent(self, now_us) &&
            rqli_subscription_wants_ping(&self->subscription, self->heard_us, now_us);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return wants;
}

void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received)
{
    int64_t now_us = rqli_now_us();

    lock(self);
    if (self->shared.is_listening) {
        rqli_subscription_on_pinged(&self->subscription, n_received,
                                    self->sock.endpoint->io_timeout_ms, now_us);
        (void)end_if_silent(self, now_us);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
