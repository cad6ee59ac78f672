#include "net/subscriber.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/wakes.h"
#include "net/hearing.h"
#include "net/url.h"
#include "observe/stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKOFF_MS = 100 };

enum mark { WAITING, CALLED };

struct rqli_subscriber {
    struct rqli_hearing hearing; /* the reader's; of whoever has the mutex, if there is none */
    atomic_bool is_open;         /* as shared.is_listening, for a look without the mutex */

    struct {
        pthread_mutex_t mutex;
        struct rqli_waiter *first; /* in the order they came: the oldest reads */
        struct rqli_waiter *last;
        struct rqli_waiter *reader;
        bool is_listening;
        uint64_t generation;
        int64_t client_id;
        int64_t next_attempt_us;
        struct rqli_wake_list wake_list; /* of called waiters */
    } shared;                            /* everything in here under shared.mutex */
};

static _Thread_local const struct rqli_waiter *own_waits; /* the innermost of this thread */

struct rqli_subscriber *rqli_subscriber_new(const struct rqli_endpoint *endpoint)
{
    struct rqli_subscriber *self = calloc(1, sizeof *self);

    if (self) {
        self->hearing.sock.endpoint = endpoint;
        self->hearing.sock.fd = -1;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

struct rqli_subscriber *rqli_subscriber_free(struct rqli_subscriber *self)
{
    if (self) {
        rqli_hearing_fini(&self->hearing);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

void rqli_subscriber_abandon(struct rqli_subscriber *self)
{
    if (self && self->hearing.sock.fd >= 0) {
        (void)close(self->hearing.sock.fd);
        self->hearing.sock.fd = -1;
    }
}

bool rqli_subscriber_is_listening(struct rqli_subscriber *self)
{
    bool is_listening;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_listening = self->shared.is_listening;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_listening;
}

static bool is_same(struct rqli_slice a, struct rqli_slice b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static bool same_lock(const struct rqli_waiter *a, const struct rqli_waiter *b)
{
    return is_same(a->lock_key, b->lock_key);
}

/* An acquirer is of one thread: whoever else waits is another (ident.h). */
static bool waits_already(const struct rqli_waiter *waiter)
{
    const struct rqli_waiter *other = own_waits;

    while (other && !(strcmp(other->acquirer, waiter->acquirer) == 0 && same_lock(other, waiter))) {
        other = other->outer;
    }
    return other != NULL;
}

rql_status rqli_subscriber_join(struct rqli_subscriber *self, struct rqli_waiter *waiter)
{
    if (waits_already(waiter)) {
        return RQL_E_BUSY;
    }
    waiter->outer = own_waits;
    own_waits = waiter;
    (void)pthread_mutex_lock(&self->shared.mutex);
    waiter->previous = self->shared.last;
    waiter->next = NULL;
    *(self->shared.last ? &self->shared.last->next : &self->shared.first) = waiter;
    self->shared.last = waiter;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return RQL_OK;
}

static void unlock(struct rqli_subscriber *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* Under the mutex. */
static void call(struct rqli_subscriber *self, struct rqli_waiter *waiter)
{
    if (atomic_exchange_explicit(&waiter->mark, CALLED, memory_order_acq_rel) == WAITING) {
        rqli_wake_list_add(&self->shared.wake_list, &waiter->mark);
    }
}

/* Under the mutex: nobody reads; the longest waiting but the one that goes shall. */
static void pass_on_reading(struct rqli_subscriber *self, const struct rqli_waiter *goes)
{
    struct rqli_waiter *next = self->shared.first;

    while (next && (next == goes || !next->sleeps)) {
        next = next->next;
    }
    self->shared.reader = NULL;
    if (next) {
        call(self, next);
    }
}

void rqli_subscriber_leave(struct rqli_subscriber *self, struct rqli_waiter *waiter)
{
    own_waits = waiter->outer;
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (!self->shared.reader) {
        pass_on_reading(self, waiter); /* it was called to read, and goes instead */
    }
    *(waiter->previous ? &waiter->previous->next : &self->shared.first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &self->shared.last) = waiter->previous;
    unlock(self);
}

/* Under the mutex: sets the flag of every waiter, or of those for one lock, and wakes them. */
static void nudge(struct rqli_subscriber *self, const struct rqli_slice *lock_key,
                  const struct rqli_waiter *except)
{
    struct rqli_waiter *waiter;

    for (waiter = self->shared.first; waiter; waiter = waiter->next) {
        bool concerned = !lock_key || is_same(waiter->lock_key, *lock_key);

        if (concerned && waiter != except) {
            waiter->watches = false; /* whatever it was told by may be no more */
            waiter->nudged = true;
            call(self, waiter);
        }
    }
}

/* Under the mutex. Told once, as asked for. */
static void nudge_watchers(struct rqli_subscriber *self, struct rqli_slice lock_key)
{
    for (struct rqli_waiter *waiter = self->shared.first; waiter; waiter = waiter->next) {
        bool concerned = waiter->waits_for_several || is_same(waiter->lock_key, lock_key);

        if (waiter->watches && concerned) {
            waiter->watches = false;
            waiter->nudged = true;
            call(self, waiter);
        }
    }
}

void rqli_subscriber_nudge(struct rqli_subscriber *self, const struct rqli_waiter *waiter)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    nudge(self, waiter->waits_for_several ? NULL : &waiter->lock_key, waiter);
    unlock(self);
}

static bool has_nonce(const struct rqli_waiter *waiter, const char *nonce)
{
    const char *own = waiter->nonce;

    while (*own && memcmp(own, nonce, RQLI_HEX_SIZE - 1) != 0) {
        own += RQLI_HEX_SIZE - 1;
    }
    return *own != '\0';
}

/* Under the mutex. A nudge that nobody waits for came too late, which is no loss. A grant that
 * nobody waits for was answered to a poll before its push came, or its request was withdrawn:
 * either way leave.lua and the poll know better than the push. */
static void deliver(struct rqli_subscriber *self, const struct rqli_pushed *pushed)
{
    struct rqli_waiter *waiter;

    for (waiter = self->shared.first; waiter; waiter = waiter->next) {
        if (has_nonce(waiter, pushed->nonce)) {
            break;
        }
    }
    if (!waiter) {
        return;
    }
    if (pushed->kind == RQLI_PUSHED_LOOK) {
        waiter->nudged = true;
    } else {
        waiter->push = pushed->push;
        waiter->push.received_us = rqli_now_us();
        waiter->pushed = true;
    }
    call(self, waiter);
}

/* Reader only, under the mutex. False: the connection made no sense. */
static bool take_pushes(struct rqli_subscriber *self)
{
    struct rqli_pushed pushed;
    int state = rqli_hearing_next(&self->hearing, &pushed);

    while (state > 0) {
        if (pushed.kind != RQLI_PUSHED_NOTHING) {
            rqli_stats_count(self->hearing.sock.endpoint->stats, 0, RQLI_STAT_PUSHES, 1);
        }
        if (pushed.kind == RQLI_PUSHED_CHANGE && pushed.lock_key.data) {
            nudge_watchers(self, pushed.lock_key);
        } else if (pushed.kind == RQLI_PUSHED_CHANGE) {
            nudge(self, NULL, NULL); /* all may have changed */
        } else if (pushed.kind == RQLI_PUSHED_GRANT || pushed.kind == RQLI_PUSHED_LOOK) {
            deliver(self, &pushed);
        }
        rqli_hearing_forget(&self->hearing);
        state = rqli_hearing_next(&self->hearing, &pushed);
    }
    return state == 0;
}

/* Under the mutex. */
static void set_listening(struct rqli_subscriber *self, bool is_listening)
{
    self->shared.is_listening = is_listening;
    atomic_store_explicit(&self->is_open, is_listening, memory_order_relaxed);
}

/* Reader only; under the mutex, released while it connects. After every subscription all waiters
 * look for themselves: what was said before it is lost (F-41). */
static void listen_again(struct rqli_subscriber *self, int64_t deadline_us)
{
    int64_t limit_us =
        rqli_after_ms(rqli_now_us(), self->hearing.sock.endpoint->connect_timeout_ms);
    bool done;

    unlock(self);
    done = rqli_hearing_open(&self->hearing, limit_us < deadline_us ? limit_us : deadline_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
    set_listening(self, done);
    if (done) {
        self->shared.generation++;
        rqli_stats_count(self->hearing.sock.endpoint->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.client_id = self->hearing.sock.seat.client_id;
        nudge(self, NULL, NULL);
    } else {
        self->shared.next_attempt_us =
            rqli_after_ms(rqli_now_us(), BACKOFF_MS + rqli_random_below(BACKOFF_MS));
    }
}

/* Reader only, under the mutex. */
static void take_bytes(struct rqli_subscriber *self, enum rqli_socket_read got)
{
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !take_pushes(self))) {
        rqli_socket_close(&self->hearing.sock);
        set_listening(self, false);
        self->shared.next_attempt_us = 0;
        nudge(self, NULL, NULL);
    }
}

/* Reader only; under the mutex, released while it waits for bytes. */
static void read_once(struct rqli_subscriber *self, int64_t until_us)
{
    enum rqli_socket_read got;

    unlock(self);
    got = rqli_socket_read(&self->hearing.sock, until_us, 0);
    (void)pthread_mutex_lock(&self->shared.mutex);
    take_bytes(self, got);
}

void rqli_subscriber_drain(struct rqli_subscriber *self)
{
    if (!atomic_load_explicit(&self->is_open, memory_order_relaxed)) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.is_listening && !self->shared.first && !self->shared.reader) {
        take_bytes(self, rqli_socket_read(&self->hearing.sock, 0, 0));
    }
    unlock(self);
}

/* Under the mutex, released while it sleeps. */
static void sleep_or_read(struct rqli_subscriber *self, struct rqli_waiter *waiter,
                          int64_t until_us)
{
    bool reads = !self->shared.reader || self->shared.reader == waiter;

    atomic_store_explicit(&waiter->mark, WAITING, memory_order_relaxed);
    if (reads) {
        self->shared.reader = waiter;
    }
    if (reads && !self->shared.is_listening && rqli_now_us() >= self->shared.next_attempt_us) {
        listen_again(self, waiter->deadline_us);
    } else if (reads && self->shared.is_listening) {
        read_once(self, until_us);
    } else {
        int64_t retry_us = reads ? self->shared.next_attempt_us : RQLI_NEVER_US;

        unlock(self);
        rqli_signal_wait(&waiter->mark, WAITING, until_us < retry_us ? until_us : retry_us);
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
}

enum rqli_wake rqli_subscriber_wait(struct rqli_subscriber *self, struct rqli_waiter *waiter,
                                    int64_t until_us)
{
    enum rqli_wake wake = RQLI_WAKE_TIME;

    (void)pthread_mutex_lock(&self->shared.mutex);
    waiter->sleeps = true;
    while (!waiter->pushed && !waiter->nudged && rqli_now_us() < until_us) {
        sleep_or_read(self, waiter, until_us);
    }
    waiter->sleeps = false;
    if (waiter->pushed) {
        wake = RQLI_WAKE_PUSH;
    } else if (waiter->nudged) {
        wake = RQLI_WAKE_LOOK;
        waiter->nudged = false;
    }
    if (self->shared.reader == waiter || !self->shared.reader) {
        pass_on_reading(self, waiter); /* also when it was called to read and had other plans */
    }
    unlock(self);
    return wake;
}

/* Under the mutex. Its reader finds it broken then. */
static bool end_if_deaf(struct rqli_subscriber *self, int64_t now_us)
{
    bool is_deaf = rqli_hearing_is_deaf(&self->hearing, now_us);

    if (is_deaf) {
        (void)shutdown(self->hearing.sock.fd, SHUT_RDWR);
    }
    return is_deaf;
}

bool rqli_subscriber_wants_call(struct rqli_subscriber *self)
{
    int64_t now_us = rqli_now_us();
    bool wants;

    (void)pthread_mutex_lock(&self->shared.mutex);
    wants = self->shared.is_listening && !end_if_deaf(self, now_us) &&
            rqli_hearing_wants_call(&self->hearing, now_us);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return wants;
}

void rqli_subscriber_on_called(struct rqli_subscriber *self, int64_t n_heard)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.is_listening) {
        rqli_hearing_on_called(&self->hearing, n_heard, now_us);
        (void)end_if_deaf(self, now_us);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Under the mutex. */
static struct rqli_waiter_view view_of(const struct rqli_subscriber *self,
                                       const struct rqli_waiter *waiter)
{
    const struct rqli_waiter *first = self->shared.first;

    while (first && !same_lock(first, waiter)) {
        first = first->next;
    }
    return (struct rqli_waiter_view){
        .leads = first == waiter,
        .is_listening = self->shared.is_listening,
        .generation = self->shared.generation,
        .client_id = self->shared.client_id,
    };
}

struct rqli_waiter_view rqli_subscriber_view(struct rqli_subscriber *self,
                                             const struct rqli_waiter *waiter)
{
    struct rqli_waiter_view view;

    (void)pthread_mutex_lock(&self->shared.mutex);
    view = view_of(self, waiter);
    unlock(self);
    return view;
}

struct rqli_waiter_view rqli_subscriber_watch(struct rqli_subscriber *self,
                                              struct rqli_waiter *waiter, bool *is_new_out)
{
    struct rqli_waiter_view view;

    (void)pthread_mutex_lock(&self->shared.mutex);
    *is_new_out = !waiter->watches;
    waiter->watches = true;
    view = view_of(self, waiter);
    unlock(self);
    return view;
}
