/*
 * Waiting threads share the reading. The reader is the one that sleeps in recv(), without the
 * mutex; all other threads sleep on their wait words. When the reader has what it waited for it
 * calls the longest waiting of the other threads, which continues to read. We start no thread for
 * this: while no thread waits none reads, and nothing is lost, because the next waiter polls first.
 *
 * A waiter that leaves does not wake the next leader, because at each hand-over a waiter leaves:
 * the reader notifies the waiters that still lead when it looks around.
 */

#include "net/conn/push_threads.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/os.h"
#include "base/random.h"
#include "net/conn/stream.h"
#include "net/login/login.h"
#include "net/sock/site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The values of a waiter's wait word. */
enum { WAITING, CALLED };

/* How often the reader looks around while other threads wait: a thread in recv() cannot be
 * called. */
enum { LOOK_US = 200000 };

/* The least time of an attempt to connect; see note_cut_short(). */
enum { CONNECT_US = 100000 };

struct rqli_push_threads {
    struct rqli_pushes pushes;
    struct rqli_socket sock; /* the reader's; if there is none, of the thread that has the mutex */

    int wake_fd; /* wakes a reader that sleeps on it too; opened with the first connection */
    atomic_bool is_open; /* shared.is_listening, readable without the mutex */

    struct {
        pthread_mutex_t mutex;
        struct rqli_subscription subscription;
        struct rqli_waiter *reader;
        bool is_wakeable; /* the reader sleeps on wake_fd as well */
        bool is_listening;
        struct rqli_arena arena;
        struct rqli_reply reply; /* the one that is being read */
        int64_t look_us;         /* when the reader is to look around */
        struct rqli_backoff backoff;
        unsigned n_cut_short;            /* attempts to connect in a row that a poll ended */
        struct rqli_wake_list wake_list; /* of waiters that were called */
    } shared;                            /* shared.mutex guards all members here */
};

static struct rqli_push_threads *self_of(struct rqli_pushes *pushes)
{
    return RQLI_OWNER(pushes, struct rqli_push_threads, pushes);
}

/* Wakes a waiter's owner as soon as the mutex, which the caller holds, is released. A reader sleeps
 * in recv() and not on the word: it sees what was recorded for it when recv() ends. */
static void call(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self =
        RQLI_OWNER(waiters, struct rqli_push_threads, shared.subscription.waiters);

    if (atomic_exchange_explicit(&waiter->wait_word, CALLED, memory_order_acq_rel) == WAITING) {
        rqli_wake_list_add(&self->shared.wake_list, &waiter->wait_word);
    }
}

struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_fd_drop(&self->wake_fd);
        rqli_arena_reset(&self->shared.arena);
        rqli_waiters_fini(&self->shared.subscription.waiters);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

void rqli_push_threads_abandon(struct rqli_push_threads *self)
{
    if (self) {
        rqli_fd_drop(&self->sock.fd);
        rqli_fd_drop(&self->wake_fd);
    }
}

static void lock(struct rqli_push_threads *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Releases the mutex, and then wakes the owners in the wake list. */
static void unlock(struct rqli_push_threads *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* ---- waiters ---- */

/* Leaves no reader, and calls the longest waiting thread that sleeps here, not one that is polling
 * just now. Caller holds self->shared.mutex. So while threads sleep one of them reads or was
 * called; a called thread that leaves instead passes the reading on at the end of its wait. */
static void pass_on_reading(struct rqli_push_threads *self)
{
    struct rqli_waiter *next = rqli_waiters_first(&self->shared.subscription.waiters);

    while (next && next->stay < RQLI_WAITER_SLEEPS) {
        next = rqli_waiter_next(next);
    }
    self->shared.reader = NULL;
    if (next) {
        call(&self->shared.subscription.waiters, next);
    }
}

/* Caller holds self->shared.mutex. */
static bool listens_for(const struct rqli_push_threads *self, const struct rqli_waiter *waiter)
{
    return self->shared.is_listening && rqli_subscription_hears(&self->shared.subscription, waiter);
}

/* No waiter is called here, nor below where the mutex is released without unlock(). */
static rql_status join(struct rqli_pushes *pushes, struct rqli_waiter *waiter,
                       bool *is_listening_out)
{
    struct rqli_push_threads *self = self_of(pushes);
    rql_status status;

    lock(self);
    status = rqli_waiters_join(&self->shared.subscription.waiters, waiter);
    *is_listening_out = listens_for(self, waiter);
    atomic_store_explicit(&pushes->is_used, true, memory_order_relaxed);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

static void leave(struct rqli_pushes *pushes, struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self = self_of(pushes);

    lock(self);
    (void)rqli_waiters_leave(&self->shared.subscription.waiters, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static void forget(struct rqli_pushes *pushes, const struct rqli_key_set *set)
{
    struct rqli_push_threads *self = self_of(pushes);

    lock(self);
    rqli_subscription_forget(&self->shared.subscription, set);
    unlock(self);
}

static bool hint_others(struct rqli_pushes *pushes, const struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self = self_of(pushes);
    bool reads;

    lock(self);
    rqli_waiters_hint_others(&self->shared.subscription.waiters, waiter);
    reads = listens_for(self, waiter) && self->shared.reader && self->shared.reader->hinted;
    unlock(self);
    return reads;
}

static struct rqli_push_view view_of(struct rqli_pushes *pushes, const struct rqli_waiter *waiter)
{
    struct rqli_push_threads *self = self_of(pushes);
    struct rqli_push_view view;

    lock(self);
    view = rqli_subscription_view(&self->shared.subscription, self->shared.is_listening, waiter);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return view;
}

/* A reader in recv() cannot be woken, so it is not chosen. */
static struct rqli_waiter *choose(struct rqli_pushes *pushes, struct rqli_slice lock_key,
                                  uint64_t in_front)
{
    struct rqli_push_threads *self = self_of(pushes);
    struct rqli_waiter *chosen;

    lock(self);
    chosen = rqli_waiters_choose(&self->shared.subscription.waiters, lock_key, in_front);
    if (chosen && chosen == self->shared.reader && !self->shared.is_wakeable) {
        chosen->stay = RQLI_WAITER_SLEEPS;
        chosen = NULL;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return chosen;
}

/* Does what unlock() does, and wakes the reader, too, which sleeps in another call than the others.
 */
static void unlock_and_wake_reader(struct rqli_push_threads *self)
{
    bool is_wakeable = self->shared.reader && self->shared.is_wakeable;

    unlock(self);
    if (is_wakeable) {
        rqli_os_event_set(self->wake_fd);
    }
}

/* The waiter may be gone as soon as the mutex is released. */
static void hand_over(struct rqli_pushes *pushes, struct rqli_waiter *chosen,
                      struct rqli_transfer *transfer)
{
    struct rqli_push_threads *self = self_of(pushes);
    bool reads;

    lock(self);
    reads = self->shared.reader == chosen;
    rqli_waiters_hand_over(&self->shared.subscription.waiters, chosen, transfer);
    if (reads) {
        unlock_and_wake_reader(self);
    } else {
        unlock(self);
    }
}

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_site *site)
{
    static const struct rqli_pushes_ops ops = {.join = join,
                                               .leave = leave,
                                               .view = view_of,
                                               .forget = forget,
                                               .hint_others = hint_others,
                                               .choose = choose,
                                               .hand_over = hand_over};
    struct rqli_push_threads *self = calloc(1, sizeof *self);

    if (self) {
        self->pushes.ops = &ops;
        self->sock.site = site;
        self->sock.fd = -1;
        self->wake_fd = -1;
        self->shared.subscription.waiters.rouse = call;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

struct rqli_pushes *rqli_push_threads_pushes(struct rqli_push_threads *self)
{
    return &self->pushes;
}

/* `watches` stays set until the next hint: one CLIENT TRACKING serves all polls in between. */
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

/* Caller holds self->shared.mutex. */
static void set_listening(struct rqli_push_threads *self, bool is_listening)
{
    self->shared.is_listening = is_listening;
    atomic_store_explicit(&self->is_open, is_listening, memory_order_relaxed);
}

/* Subscribes to missing channels while the connection is open. Caller holds self->shared.mutex; the
 * reader may be in recv() meanwhile. Bytes that the socket does not take at once would have to be
 * waited for, so the connection is shut down instead, and the reader finds it broken. */
static void subscribe(struct rqli_push_threads *self)
{
    struct rqli_command command = {0};

    rqli_subscription_write(&self->shared.subscription, self->sock.site, &command);
    if (command.n_commands > 0 &&
        (command.failed || rqli_socket_send_some(&self->sock, command.data, command.length) !=
                               (ssize_t)command.length)) {
        (void)shutdown(self->sock.fd, SHUT_RDWR);
    }
    rqli_command_fini(&command);
}

/* Returns until when an attempt to connect may last. The reader connects for all, and asks nothing
 * meanwhile: its next poll ends the attempt, or the next one would come too late. */
static int64_t connect_until_us(const struct rqli_push_threads *self,
                                const struct rqli_waiter *waiter, int64_t poll_us)
{
    int64_t least_us = rqli_now_us() + (CONNECT_US << 2 * self->shared.n_cut_short);

    poll_us = rqli_later(rqli_later(poll_us, waiter->connect_us), least_us);
    return rqli_earlier(waiter->deadline_us, poll_us);
}

/* A login that takes longer than the pause between two polls has four times the time at each
 * attempt. Between two attempts the reader polls for as long as the last one took. */
static void note_cut_short(struct rqli_push_threads *self, int64_t begun_us, int64_t now_us)
{
    enum { MOST = 4 };

    if (self->shared.n_cut_short < MOST) {
        self->shared.n_cut_short++;
    }
    self->shared.backoff.next_us =
        rqli_later(self->shared.backoff.next_us, now_us + (now_us - begun_us));
}

/* Opens the connection again. Only the reader calls it, with self->shared.mutex, which is released
 * while it connects. */
static void listen_again(struct rqli_push_threads *self, int64_t deadline_us)
{
    int64_t begun_us = rqli_now_us();
    int64_t limit_us = rqli_after_ms(begun_us, self->sock.site->session->connect_timeout_ms);
    struct rqli_clock_reading reading;
    bool done;

    unlock(self);
    done = rqli_login_any(&self->sock, NULL, limit_us < deadline_us ? limit_us : deadline_us,
                          &reading, NULL) == RQL_OK;
    lock(self);
    set_listening(self, done);
    if (done && self->wake_fd < 0) {
        self->wake_fd = rqli_fd_lift(rqli_os_event());
    }
    if (done) {
        rqli_arena_reset(&self->shared.arena); /* of the previous connection */
        self->shared.reply = (struct rqli_reply){0};
        self->shared.backoff = (struct rqli_backoff){0};
        self->shared.n_cut_short = 0;
        rqli_stats_count(self->sock.site->session->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        rqli_subscription_on_opened(&self->shared.subscription, &self->sock);
        subscribe(self);
    } else if (!rqli_is_cancelled()) { /* else the next reader tries at once */
        int64_t now_us = rqli_now_us();

        rqli_subscription_on_failed(&self->shared.subscription);
        rqli_backoff_on_failure(&self->shared.backoff, now_us, rqli_site_pause_ms(self->sock.site),
                                rqli_random_below(RQLI_BACKOFF_RANDOM));
        if (deadline_us < limit_us && now_us >= deadline_us) {
            note_cut_short(self, begun_us, now_us);
        }
    }
}

/* Takes what was read. Caller holds self->shared.mutex, and is the reader or has found that there
 * is none. If the connection is broken, or its bytes make no sense, the leaders poll again and
 * again until there is a new one. */
static void take_bytes(struct rqli_push_threads *self, enum rqli_socket_read got)
{
    struct rqli_reply *reply = &self->shared.reply;
    int state = got == RQLI_SOCKET_BROKEN ? -1 : 0;

    if (got == RQLI_SOCKET_BYTES) {
        int64_t now_us = rqli_now_us();

        while ((state = rqli_decoder_next(&self->sock.decoder, &self->shared.arena, reply)) > 0) {
            rqli_subscription_take(&self->shared.subscription, self->sock.site, 0, reply, now_us);
            rqli_arena_reset(&self->shared.arena);
            *reply = (struct rqli_reply){0};
        }
    }
    if (state < 0) {
        rqli_socket_close(&self->sock);
        set_listening(self, false);
        rqli_backoff_on_end(&self->shared.backoff, self->sock.site->tls != NULL, rqli_now_us(),
                            rqli_random_below(RQLI_BACKOFF_RANDOM));
        rqli_waiters_hint_leaders(&self->shared.subscription.waiters, NULL);
    }
}

/* Caller holds self->shared.mutex. */
static bool is_unused(const struct rqli_push_threads *self)
{
    return self->shared.is_listening && !self->shared.subscription.waiters.all.first &&
           !self->shared.reader;
}

/* A waiting thread reads, or calls a reader: then there is nothing to do here. */
void rqli_push_threads_drain(struct rqli_push_threads *self)
{
    if (!atomic_load_explicit(&self->is_open, memory_order_relaxed)) {
        return;
    }
    lock(self);
    if (is_unused(self)) {
        take_bytes(self, rqli_socket_read(&self->sock, 0, 0));
    }
    unlock(self);
}

void rqli_push_threads_hint_all(struct rqli_push_threads *self)
{
    lock(self);
    rqli_waiters_hint_all(&self->shared.subscription.waiters, NULL);
    unlock_and_wake_reader(self);
}

void rqli_push_threads_end_if_unused(struct rqli_push_threads *self)
{
    lock(self);
    if (is_unused(self)) {
        rqli_socket_close(&self->sock);
        set_listening(self, false);
    }
    unlock(self);
}

/* Only the reader calls it, with self->shared.mutex. */
static void look_around(struct rqli_push_threads *self)
{
    int64_t now_us = rqli_now_us();

    if (now_us >= self->shared.look_us) {
        self->shared.look_us = now_us + LOOK_US;
        rqli_waiters_hint_successors(&self->shared.subscription.waiters);
    }
}

/* Returns when the reader is to look around. A reader that is alone and knows that it leads sends
 * and needs no notice. Caller holds self->shared.mutex. */
static int64_t next_look_us(const struct rqli_push_threads *self, const struct rqli_waiter *waiter)
{
    bool is_alone = !waiter->link.next && !waiter->link.previous && !waiter->succeeds;

    return is_alone ? RQLI_NEVER_US : self->shared.look_us;
}

/* Reads for all. Only the reader calls it, with self->shared.mutex, which is released meanwhile. It
 * looks around in time, also before it leaves to poll. */
static void read_for_all(struct rqli_push_threads *self, const struct rqli_waiter *waiter,
                         int64_t until_us)
{
    int64_t limit_us = rqli_earlier(until_us, next_look_us(self, waiter));
    bool is_wakeable = waiter->may_be_handed && self->wake_fd >= 0;
    enum rqli_socket_read got;

    self->shared.is_wakeable = is_wakeable;
    unlock(self);
    if (is_wakeable) {
        rqli_socket_await_bytes_or(&self->sock, self->wake_fd, limit_us);
    }
    got = rqli_socket_read(&self->sock, is_wakeable ? 0 : limit_us, 0);
    lock(self);
    self->shared.is_wakeable = false;
    take_bytes(self, got);
    if (got == RQLI_SOCKET_NOTHING && rqli_now_us() >= limit_us) { /* else it was woken */
        self->shared.look_us = 0;
    }
}

/* Sleeps until it is called. If connecting has just failed the reader sleeps as well, until the
 * next attempt is allowed, or until it is to look around. Caller holds self->shared.mutex, which is
 * released meanwhile. */
static void sleep_on_word(struct rqli_push_threads *self, struct rqli_waiter *waiter, bool reads,
                          int64_t until_us)
{
    /* The thread that has chosen a waiter is about to hand it the lock. */
    struct rqli_cancel_fd *cancel = rqli_cancel_fd();

    if (reads) {
        look_around(self);
        until_us = rqli_earlier(until_us, self->shared.backoff.next_us);
        until_us = rqli_earlier(until_us, next_look_us(self, waiter));
    }
    (void)rqli_cancel_fd_swap(waiter->stay == RQLI_WAITER_CHOSEN ? NULL : cancel);
    unlock(self);
    rqli_signal_wait(&waiter->wait_word, WAITING, until_us);
    (void)rqli_cancel_fd_swap(cancel);
    lock(self);
}

/* Caller holds self->shared.mutex, which is released while this sleeps, connects or waits for
 * bytes. A chosen waiter does not read, because a thread that connects, or sleeps in recv(),
 * cannot be woken when it gets the lock. */
static void sleep_or_read(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                          int64_t until_us)
{
    bool reads = waiter->stay != RQLI_WAITER_CHOSEN &&
                 (!self->shared.reader || self->shared.reader == waiter);

    atomic_store_explicit(&waiter->wait_word, WAITING, memory_order_relaxed);
    if (reads) {
        self->shared.reader = waiter;
    }
    if (reads && !self->shared.is_listening && rqli_now_us() >= self->shared.backoff.next_us) {
        listen_again(self, connect_until_us(self, waiter, until_us));
    } else if (reads && self->shared.is_listening) {
        read_for_all(self, waiter, until_us);
    } else {
        sleep_on_word(self, waiter, reads, until_us);
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
    waiter->stay = RQLI_WAITER_SLEEPS;
    while (waiter->stay == RQLI_WAITER_CHOSEN ||
           (!waiter->pushed && !waiter->hinted && !rqli_time_is_up(until_us))) {
        sleep_or_read(self, waiter, waiter->stay == RQLI_WAITER_CHOSEN ? RQLI_NEVER_US : until_us);
    }
    waiter->stay = RQLI_WAITER_ASKS;
    waiter->succeeds = false; /* it acts by itself now */
    if (waiter->pushed) {
        wake = RQLI_WAKE_PUSH;
    } else if (waiter->hinted) {
        wake = RQLI_WAKE_HINT;
        waiter->hinted = false;
    }
    if (self->shared.reader == waiter || !self->shared.reader) {
        pass_on_reading(self); /* also if it was called to read but leaves instead */
    }
    unlock(self);
    return wake;
}

/* Shuts a lost connection down. Caller holds self->shared.mutex. The socket is not closed, because
 * the reader may be in recv(); the reader finds it broken. */
static bool end_if_lost(struct rqli_push_threads *self, int64_t now_us)
{
    bool is_lost = rqli_subscription_is_lost(&self->shared.subscription, &self->sock, now_us);

    if (is_lost) {
        (void)shutdown(self->sock.fd, SHUT_RDWR);
    }
    return is_lost;
}

/* Until the waiter's channel is confirmed this connection would not receive the ping. */
bool rqli_push_threads_wants_ping(struct rqli_push_threads *self, const struct rqli_waiter *waiter)
{
    int64_t now_us = rqli_now_us();
    bool wants;

    lock(self);
    if (rqli_subscription_want(&self->shared.subscription, waiter->set) &&
        self->shared.is_listening) {
        subscribe(self);
    }
    wants = self->shared.is_listening && !end_if_lost(self, now_us) && listens_for(self, waiter) &&
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
                                    self->sock.site->session->io_timeout_ms, now_us);
        (void)end_if_lost(self, now_us);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
