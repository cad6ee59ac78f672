#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "net/conn_threads_inside.h"
#include "net/login.h"
#include "net/url.h"
#include "observe/stats.h"

#include <errno.h>
#include <sys/socket.h>

enum { BACKOFF_FIRST_MS = 10, BACKOFF_LAST_MS = 2000, UNUSED_US = 1000000 };

void rqli_conn_recycle(struct rqli_conn *self, struct exchange *exchange)
{
    rqli_arena_reset(&exchange->arena);
    if (!rqli_freelist_keep(&self->freelist, exchange)) {
        rqli_conn_free_exchange(exchange);
    }
}

void rqli_conn_call(struct rqli_conn *self, struct exchange *exchange, enum mark mark)
{
    int32_t before = atomic_exchange_explicit(&exchange->mark, mark, memory_order_acq_rel);

    if (before == READER) {
        self->shared.reader = NULL; /* it has not begun, and will not */
    }
    if (before == ASLEEP) {
        rqli_wake_list_add(&self->shared.wake_list, &exchange->mark);
    }
}

void rqli_conn_unlock(struct rqli_conn *self)
{
    rqli_wake_list_unlock(&self->shared.wake_list, &self->shared.mutex);
}

/* What was sent up to there is answered. */
static void end_batches(struct rqli_conn *self)
{
    const struct exchange *first = self->shared.first;

    while (self->shared.n_batches > 0 &&
           (!first || first->begins_at >= self->shared.batch_ends[0])) {
        self->shared.batch_ends[0] = self->shared.batch_ends[1];
        self->shared.n_batches--;
    }
}

void rqli_conn_finish_first(struct rqli_conn *self, rql_status status, int64_t now_us)
{
    struct exchange *done = self->shared.first;

    self->shared.first = done->next;
    if (!done->next) {
        self->shared.last = NULL;
    }
    done->in_flight = false;
    done->status = status;
    done->visible.received_us = now_us;
    self->shared.is_far = now_us - done->visible.sent_us > RQLI_CONN_FAR_US;
    end_batches(self);
    if (done->given) {
        rqli_conn_recycle(self, done);
        return;
    }
    if (!done->left) {
        self->shared.callers--;
    }
    rqli_conn_call(self, done, FINISHED);
}

void rqli_conn_break_off(struct rqli_conn *self, bool silent)
{
    int64_t now_us = rqli_now_us();

    if (self->shared.state != UP) {
        return;
    }
    self->shared.state = BROKEN;
    self->shared.silent = silent ? self->sock.seat : (struct rqli_seat){0};
    (void)shutdown(self->sock.fd, SHUT_RDWR);
    while (self->shared.first) {
        bool sent = self->shared.first->begins_at < self->shared.sent_at;

        rqli_conn_finish_first(self, sent ? RQL_E_UNKNOWN : RQL_E_IO, now_us);
    }
    rqli_command_reset(&self->shared.out);
    self->shared.n_unsent = 0;
    self->shared.n_batches = 0;
}

void rqli_conn_bury(struct rqli_conn *self)
{
    if (self->shared.state == BROKEN && !self->shared.reader && !self->shared.writing) {
        rqli_socket_close(&self->sock);
        rqli_command_reset(&self->shared.sending);
        self->shared.n_sent = 0;
        self->shared.state = DOWN;
        (void)pthread_cond_broadcast(&self->shared.connected);
    }
}

/* Under the mutex, which is released meanwhile. */
static void await_attempt(struct rqli_conn *self, int64_t until_us)
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
static void back_off(struct rqli_conn *self)
{
    int64_t ms = self->shared.backoff_ms * 2;
    int64_t pause_ms;

    ms = ms < BACKOFF_FIRST_MS ? BACKOFF_FIRST_MS : ms;
    self->shared.backoff_ms = ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
    pause_ms = 1 + (int64_t)rqli_random_below((uint32_t)self->shared.backoff_ms);
    self->shared.next_attempt_us = rqli_after_ms(rqli_now_us(), pause_ms);
}

/* Under the mutex, which is released while it connects. */
static rql_status attempt(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->sock.endpoint->connect_timeout_ms);
    const struct rqli_seat predecessor = self->shared.silent;
    struct rqli_clock_reading reading = {0};
    rql_error fault = {0};
    rql_status status;

    self->shared.state = CONNECTING;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_login(&self->sock, &predecessor, limit_us < deadline_us ? limit_us : deadline_us,
                        &reading, &fault);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (status) {
        self->shared.state = DOWN;
        if (rqli_now_us() >= limit_us || rqli_now_us() < deadline_us) {
            self->shared.last_fault = fault;
            back_off(self);
        } else { /* cut short by an impatient caller: that says nothing to the others */
            self->shared.last_fault = (rql_error){0};
        }
        if (error) {
            *error = fault;
        }
    } else {
        self->shared.state = UP;
        self->shared.generation++;
        rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.backoff_ms = 0;
        self->shared.next_attempt_us = 0;
        self->shared.sent_at = self->shared.queued_at;
        self->shared.reading = reading;
        self->shared.is_far = reading.received_us - reading.sent_us > RQLI_CONN_FAR_US;
    }
    (void)pthread_cond_broadcast(&self->shared.connected);
    return status;
}

/* Under the mutex, which is released meanwhile: attempts, or waits until that is allowed again. */
static rql_status attempt_or_pause(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    int64_t next_us = self->shared.next_attempt_us;

    if (rqli_now_us() >= next_us) {
        return attempt(self, deadline_us, error);
    }
    await_attempt(self, next_us < deadline_us ? next_us : deadline_us);
    return RQL_OK;
}

static rql_status share_fault(const struct rqli_conn *self, rql_error *error)
{
    if (error) {
        *error = self->shared.last_fault;
    }
    return self->shared.last_fault.status;
}

static rql_status no_time_left(const struct rqli_conn *self, rql_error *error)
{
    errno = ETIMEDOUT;
    return rqli_fail(error, RQL_E_IO, "cannot connect to %s: no time left%s%s",
                     self->sock.endpoint->where, self->shared.last_fault.status ? "; " : "",
                     self->shared.last_fault.message);
}

/* Under the mutex. Servers and those between end what is not used for long. Seen before the next
 * command is sent that is nothing; behind it, nobody knows whether the command was done (F-77). */
static void end_if_ended(struct rqli_conn *self)
{
    bool is_unused = !self->shared.first && !self->shared.reader && !self->shared.writing;

    if (self->shared.state == UP && is_unused &&
        rqli_now_us() - self->shared.heard_us >= UNUSED_US && !rqli_socket_is_quiet(&self->sock)) {
        rqli_conn_break_off(self, false);
        rqli_conn_bury(self);
    }
}

rql_status rqli_conn_connect_locked(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    bool waited_for_attempt = false;
    rql_status status = RQL_OK;

    end_if_ended(self);

    while (!status && self->shared.state != UP) {
        bool is_down = self->shared.state == DOWN;

        if (is_down && waited_for_attempt && self->shared.last_fault.status) {
            status = share_fault(self, error);
        } else if (rqli_now_us() >= deadline_us) {
            status = no_time_left(self, error);
        } else if (is_down) {
            status = attempt_or_pause(self, deadline_us, error);
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
    status = rqli_conn_connect_locked(self, deadline_us, error);
    (void)pthread_mutex_unlock(&self->shared.mutex);
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
        rqli_conn_break_off(self, false);
        rqli_conn_bury(self);
    }
    rqli_conn_unlock(self);
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
