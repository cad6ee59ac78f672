/*
 * Waiting threads share the reading. The one that reads is called the reader: it sleeps in recv()
 * without the mutex, the others on their wait words. When it has what it waited for it calls the
 * longest waiting of the others, which goes on reading. There is no thread of ours: where nobody
 * waits nobody reads, and nothing is lost, for whoever waits next polls first.
 *
 * Who leaves does not wake who comes to lead in its place, for at each hand-over somebody does: the
 * reader tells those who still lead when it looks.
 */

#include "net/subscription.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/random.h"
#include "net/stream.h"
#include "net/url.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what is the same for threads and on a loop ---- */

/* Silence that leads to a test, and the pause between two. */
enum { QUIET_US = 5000000 };

/* The server knows of the test, and nothing has been heard since. */
static bool is_awaited(const struct rqli_subscription *self)
{
    return self->pinged_us != 0 && self->silent_us != 0 && self->heard_us < self->pinged_us;
}

/* A test whose end is awaited is not begun anew: where io_timeout is longer than the pause between
 * two, none would ever end. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us)
{
    if (now_us - self->heard_us < QUIET_US || now_us - self->pinged_us < QUIET_US ||
        is_awaited(self)) {
        return false;
    }
    self->pinged_us = now_us;
    self->silent_us = 0;
    return true;
}

/* The server hands a message on before it says to how many: nobody is a loss at once. */
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us)
{
    if (self->pinged_us != 0) {
        self->silent_us = rqli_after_ms(now_us, n_received > 0 ? io_timeout_ms : 0);
    }
}

bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us)
{
    return is_awaited(self) && now_us >= self->silent_us;
}

bool rqli_subscription_delivers(const struct rqli_subscription *self)
{
    return self->heard_us != 0 && self->heard_us >= self->pinged_us;
}

/* When it is first opened nothing can have been pushed before, and whoever leads asks for all: some
 * may have been passed over. Later a grant to any of them may be lost, which only it can find. */
void rqli_subscription_on_opened(struct rqli_subscription *self, const struct rqli_socket *sock)
{
    self->heard_us = 0;
    self->pinged_us = 0;
    self->silent_us = 0;
    self->generation++;
    self->client_id = sock->seat.client_id;
    if (self->generation == 1) {
        rqli_waiters_hint_leaders(&self->waiters);
    } else {
        rqli_waiters_hint_all(&self->waiters);
    }
}

/* Counted where it is for one of us, as hints and changes are, whether anybody waits or not. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                            rqli_stats_shard shard, const struct rqli_reply *reply,
                            int64_t heard_us)
{
    const struct rqli_pushed pushed = rqli_push_read(reply);

    self->heard_us = heard_us;
    if (pushed.kind != RQLI_PUSHED_NOTHING) {
        rqli_stats_count(endpoint->stats, shard, RQLI_STAT_PUSHES, 1);
        rqli_waiters_deliver(&self->waiters, &pushed, heard_us);
    }
}

struct rqli_push_view rqli_subscription_view(const struct rqli_subscription *self,
                                             bool is_listening, const struct rqli_waiter *waiter)
{
    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = is_listening,
        .delivers = is_listening && rqli_subscription_delivers(self),
        .generation = self->generation,
        .client_id = self->client_id,
    };
}

/* What has come and was not read yet is our fault, not its. */
bool rqli_subscription_is_lost(const struct rqli_subscription *self, const struct rqli_socket *sock,
                               int64_t now_us)
{
    return rqli_subscription_is_silent(self, now_us) && !rqli_socket_has_bytes(sock);
}

/* ---- of threads ---- */

/* The wait word of a waiter. */
enum { WAITING, CALLED };

/* How often the reader looks around where others wait: in recv() nobody can be called. */
enum { LOOK_US = 200000 };

struct rqli_push_threads {
    struct rqli_socket sock; /* the reader's; if there is none, of whoever has the mutex */

    atomic_bool is_used; /* somebody has joined */
    atomic_bool is_open; /* as shared.is_listening, without the mutex */

    struct {
        pthread_mutex_t mutex;
        struct rqli_subscription subscription;
        struct rqli_waiter *reader;
        bool is_listening;
        struct rqli_arena arena;
        struct rqli_reply reply; /* that is being read */
        int64_t look_us;         /* when the reader is to look around */
        struct rqli_backoff backoff;
        struct rqli_wake_list wake_list; /* of called waiters */
    } shared;                            /* everything in here under shared.mutex */
};

/* Under the mutex: its owner is woken when that is released. A reader sleeps in recv() and not on
 * the word: what another thread notes for it is seen when recv() ends. */
static void call(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self =
        (struct rqli_push_threads *)((char *)waiters - offsetof(struct rqli_push_threads,
                                                                shared.subscription.waiters));

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
        self->shared.subscription.waiters.rouse = call;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_arena_reset(&self->shared.arena);
        rqli_waiters_fini(&self->shared.subscription.waiters);
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

/* And wakes the owners in the wake list. */
static void unlock(struct rqli_push_threads *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

bool rqli_push_threads_is_used(const struct rqli_push_threads *self)
{
    return atomic_load_explicit(&self->is_used, memory_order_relaxed);
}

/* ---- waiters ---- */

/* Under the mutex: nobody reads. The longest waiting that sleeps here shall; not the one that goes,
 * and none that is polling just now. */
static void pass_on_reading(struct rqli_push_threads *self, const struct rqli_waiter *goes)
{
    struct rqli_waiter *next = self->shared.subscription.waiters.first;

    while (next && (next == goes || !next->sleeps)) {
        next = next->next;
    }
    self->shared.reader = NULL;
    if (next) {
        call(&self->shared.subscription.waiters, next);
    }
}

/* Nobody is called here, nor below where the mutex is released without unlock(). */
rql_status rqli_push_threads_join(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                  bool *is_listening_out)
{
    rql_status status;

    lock(self);
    status = rqli_waiters_join(&self->shared.subscription.waiters, waiter);
    *is_listening_out = self->shared.is_listening;
    atomic_store_explicit(&self->is_used, true, memory_order_relaxed);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

void rqli_push_threads_leave(struct rqli_push_threads *self, struct rqli_waiter *waiter)
{
    lock(self);
    if (!self->shared.reader) {
        pass_on_reading(self, waiter); /* it was called to read, and goes instead */
    }
    (void)rqli_waiters_leave(&self->shared.subscription.waiters, waiter);
    unlock(self);
}

bool rqli_push_threads_hint_others(struct rqli_push_threads *self, const struct rqli_waiter *waiter)
{
    bool reads;

    lock(self);
    rqli_waiters_hint_others(&self->shared.subscription.waiters, waiter);
    reads = self->shared.is_listening && self->shared.reader && self->shared.reader->hinted;
    unlock(self);
    return reads;
}

struct rqli_push_view rqli_push_threads_view(struct rqli_push_threads *self,
                                             const struct rqli_waiter *waiter)
{
    struct rqli_push_view view;

    lock(self);
    view = rqli_subscription_view(&self->shared.subscription, self->shared.is_listening, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return view;
}

/* The flag stays until the next hint: one CLIENT TRACKING serves all polls in between. */
struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out)
{
    struct rqli_push_view view;

    lock(self);
    *is_new_out = !waiter->watches;
    waiter->watches = true;
    view = rqli_subscription_view(&self->shared.subscription, self->shared.is_listening, waiter);
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

/* Reader only; under the mutex, released while it connects. */
static void listen_again(struct rqli_push_threads *self, int64_t deadline_us)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->sock.endpoint->connect_timeout_ms);
    struct rqli_clock_reading reading;
    bool done;

    unlock(self);
    done = rqli_login(&self->sock, NULL, limit_us < deadline_us ? limit_us : deadline_us, &reading,
                      NULL) == RQL_OK;
    lock(self);
    set_listening(self, done);
    if (done) {
        rqli_arena_reset(&self->shared.arena); /* of the one before */
        self->shared.reply = (struct rqli_reply){0};
        self->shared.backoff = (struct rqli_backoff){0};
        rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        rqli_subscription_on_opened(&self->shared.subscription, &self->sock);
    } else {
        rqli_backoff_on_failure(&self->shared.backoff, rqli_now_us(),
                                rqli_random_below(RQLI_BACKOFF_RANDOM));
    }
}

/* Reader only, under the mutex. When the connection is broken, or what came makes no sense, what is
 * waited for is polled, again and again until there is a new one. */
static void take_bytes(struct rqli_push_threads *self, enum rqli_socket_read got)
{
    struct rqli_reply *reply = &self->shared.reply;
    int state = got == RQLI_SOCKET_BROKEN ? -1 : 0;

    if (got == RQLI_SOCKET_BYTES) {
        int64_t now_us = rqli_now_us();

        while ((state = rqli_decoder_next(&self->sock.decoder, &self->shared.arena, reply)) > 0) {
            rqli_subscription_take(&self->shared.subscription, self->sock.endpoint, 0, reply,
                                   now_us);
            rqli_arena_reset(&self->shared.arena);
            *reply = (struct rqli_reply){0};
        }
    }
    if (state < 0) {
        rqli_socket_close(&self->sock);
        set_listening(self, false);
        rqli_waiters_hint_leaders(&self->shared.subscription.waiters);
    }
}

/* Whoever waits reads, or calls a reader: then there is nothing to do. */
void rqli_push_threads_drain(struct rqli_push_threads *self)
{
    if (!atomic_load_explicit(&self->is_open, memory_order_relaxed)) {
        return;
    }
    lock(self);
    if (self->shared.is_listening && !self->shared.subscription.waiters.first &&
        !self->shared.reader) {
        take_bytes(self, rqli_socket_read(&self->sock, 0, 0));
    }
    unlock(self);
}

/* Reader only, under the mutex. */
static void look_around(struct rqli_push_threads *self)
{
    int64_t now_us = rqli_now_us();

    if (now_us >= self->shared.look_us) {
        self->shared.look_us = now_us + LOOK_US;
        rqli_waiters_hint_successors(&self->shared.subscription.waiters);
    }
}

/* Under the mutex, released while it sleeps, connects or waits for bytes. Where nobody could
 * connect just now the reader sleeps as well, until the next attempt is allowed. */
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
        /* Who is alone and knows that it leads has nothing to be told or to tell. */
        bool is_alone = !waiter->next && !waiter->previous && !waiter->succeeds;
        int64_t look_us = is_alone ? RQLI_NEVER_US : self->shared.look_us;
        enum rqli_socket_read got;

        unlock(self);
        got = rqli_socket_read(&self->sock, until_us < look_us ? until_us : look_us, 0);
        lock(self);
        take_bytes(self, got);
        self->shared.look_us = got == RQLI_SOCKET_NOTHING ? 0 : self->shared.look_us;
    } else {
        int64_t retry_us = reads ? self->shared.backoff.next_us : RQLI_NEVER_US;

        unlock(self);
        rqli_signal_wait(&waiter->wait_word, WAITING, until_us < retry_us ? until_us : retry_us);
        lock(self);
    }
    if (reads) {
        look_around(self);
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
    waiter->succeeds = false; /* it asks now */
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

/* Under the mutex. The reader may be in recv(): it is not closed but shut down, and the reader
 * finds it broken. */
static bool end_if_silent(struct rqli_push_threads *self, int64_t now_us)
{
    bool is_silent = rqli_subscription_is_lost(&self->shared.subscription, &self->sock, now_us);

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
            rqli_subscription_wants_ping(&self->shared.subscription, now_us);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return wants;
}

void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received)
{
    int64_t now_us = rqli_now_us();

    lock(self);
    if (self->shared.is_listening) {
        rqli_subscription_on_pinged(&self->shared.subscription, n_received,
                                    self->sock.endpoint->io_timeout_ms, now_us);
        (void)end_if_silent(self, now_us);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
