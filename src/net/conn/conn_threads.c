/* The opening of a connection of threads, its login, and answers about it. How batches go over it,
 * and its end, are in batch_threads.c. */

#include "net/conn/conn_threads.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secret.h"
#include "net/conn/conn_shared.h"
#include "net/conn/stream.h"
#include "net/login/credentials.h"
#include "net/login/login.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "observe/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rqli_conn *rqli_conn_new(const struct rqli_site *site)
{
    struct rqli_conn *self = calloc(1, sizeof *self);

    if (self) {
        self->sock.site = site;
        self->sock.fd = -1;
        self->scripts = UINT64_MAX;
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

/* No thread uses the connection any more: the callers of batches in flight have left. */
struct rqli_conn *rqli_conn_free(struct rqli_conn *self)
{
    if (!self) {
        return NULL;
    }
    rqli_socket_close(&self->sock);
    rqli_batch_free_all(self);
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

/* ---- connecting ---- */

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

    rqli_backoff_on_failure(backoff, now_us, rqli_site_pause_ms(self->sock.site),
                            rqli_random_below(RQLI_BACKOFF_RANDOM));
    if (self->shared.longest_us > 0) {
        backoff->next_us = rqli_earlier(backoff->next_us, now_us + self->shared.longest_us);
    }
}

/* Makes one attempt to connect. Caller holds the mutex, which is released meanwhile. The state
 * keeps other threads away: they find it CONNECTING and wait, so the socket and its decoder are
 * ours. */
static rql_status make_attempt(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    int64_t limit_us = rqli_after_ms(rqli_now_us(), self->sock.site->session->connect_timeout_ms);
    const struct rqli_seat predecessor = self->shared.predecessor;
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
    atomic_store_explicit(&self->is_failing, status && !rqli_is_cancelled(), memory_order_relaxed);
    if (!status) {
        self->shared.state = UP;
        self->shared.has_ended = false;
        self->shared.generation++;
        atomic_store_explicit(&self->scripts, self->sock.scripts, memory_order_relaxed);
        rqli_stats_count(self->sock.site->session->stats, 0, RQLI_STAT_CONNECTIONS, 1);
        self->shared.reading = reading;
        self->shared.is_far = reading.received_us - reading.sent_us > FAR_US;
        self->shared.last_fault = (rql_error){0};
        rqli_stream_on_connected(&self->shared.stream, now_us);
    } else {
        self->shared.state = DOWN;
        self->shared.last_fault = (rql_error){0};
        /* An attempt that an impatient caller cut short says nothing to other callers. */
        if (!rqli_is_cancelled() && (now_us >= limit_us || now_us < deadline_us)) {
            self->shared.last_fault = fault;
            back_off(self, now_us);
        }
        if (error) {
            *error = fault;
        }
    }
    rqli_conn_wake_connecting(self);
    return status;
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
    if (now_us >= deadline_us || rqli_is_cancelled()) {
        errno = ETIMEDOUT;
        return rqli_fail(error, RQL_E_IO, "cannot connect to %s: no time left%s%s",
                         self->sock.site->where, last_fault->status ? "; " : "",
                         last_fault->message);
    }
    if (is_down && now_us >= next_us) {
        return make_attempt(self, deadline_us, error);
    }
    if (is_down) {
        await_attempt(self, next_us < deadline_us ? next_us : deadline_us);
    } else {
        *waited_for_attempt = self->shared.state == CONNECTING;
        await_attempt(self, deadline_us);
    }
    return RQL_OK;
}

/* Waits for another thread's attempt and shares its failure, or makes an attempt as soon as that is
 * allowed again. Caller holds the mutex; it is released meanwhile. */
static rql_status connect_if_down(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    bool waited_for_attempt = false;
    rql_status status = RQL_OK;

    while (!status && !rqli_batch_may_go(self, UNUSED_US)) {
        status = connect_step(self, deadline_us, &waited_for_attempt, error);
    }
    return status;
}

/* ---- the login ---- */

/* Caller does not hold the mutex. Returns false if AUTH failed. */
static bool repeat_auth(struct rqli_batch *auth, uint64_t generation, int64_t deadline_us,
                        int64_t *renew_us_out)
{
    rql_credentials *asked = rqli_secret_new(sizeof *asked);
    bool is_done = asked && rqli_command_reserve(&auth->command, 2 * sizeof *asked) &&
                   rqli_credentials_ask(((struct rqli_conn *)auth->carrier)->sock.site, deadline_us,
                                        asked, renew_us_out, NULL) == RQL_OK;

    if (is_done) {
        rqli_credentials_write(asked->user, asked->password, &auth->command);
        is_done = rqli_batch_put(auth, generation, NULL) == RQL_OK;
        explicit_bzero(auth->command.data, auth->command.length);
    }
    (void)rqli_secret_free(asked);
    return is_done && rqli_batch_await(auth, deadline_us, NULL) == RQL_OK &&
           auth->reply->type == RQLI_REPLY_STATUS;
}

/* Caller holds self->shared.mutex; it is released meanwhile. One caller repeats AUTH, before its
 * own commands. If that fails, all callers go on as they are for as long as the server lets
 * them. */
static void renew_login(struct rqli_conn *self, int64_t deadline_us)
{
    const uint64_t generation = self->shared.generation;
    const int64_t now_us = rqli_now_us();
    const int64_t limit_us = rqli_after_ms(now_us, self->sock.site->session->connect_timeout_ms);
    struct rqli_batch *auth;
    int64_t renew_us;

    self->sock.renew_us = 0;
    self->shared.stream.has_secret = true;
    rqli_conn_unlock(self);
    auth = rqli_batch_take(self);
    if (!auth || !repeat_auth(auth, generation, rqli_earlier(deadline_us, limit_us), &renew_us)) {
        renew_us = rqli_credentials_retry_us(now_us);
    }
    rqli_batch_give(auth);
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.stream.has_secret = false;
    if (self->shared.generation == generation && self->shared.state == UP) {
        self->sock.renew_us = renew_us;
    }
}

/* Caller holds self->shared.mutex. Makes sure that the connection is open and its login is still
 * valid. */
static rql_status be_connected(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    rql_status status = connect_if_down(self, deadline_us, error);

    if (!status && rqli_socket_wants_login(&self->sock)) {
        renew_login(self, deadline_us);
        status = connect_if_down(self, deadline_us, error);
    }
    return status;
}

/* ---- use ---- */

rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = be_connected(self, deadline_us, error);
    rqli_conn_unlock(self);
    return status;
}

rql_status rqli_conn_run(struct rqli_batch *batch, int64_t deadline_us, rql_error *error)
{
    struct rqli_conn *self = batch->carrier;
    rql_status status;

    if (batch->command.failed) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    status = be_connected(self, deadline_us, error);
    if (status) {
        rqli_conn_unlock(self);
        return status;
    }
    return rqli_batch_run_locked(batch, deadline_us, error);
}

/* ---- its end ---- */

bool rqli_conn_end_if_ended(struct rqli_conn *self)
{
    bool has_ended;

    (void)pthread_mutex_lock(&self->shared.mutex);
    (void)rqli_batch_may_go(self, 0);
    has_ended = self->shared.has_ended;
    self->shared.has_ended = false;
    rqli_conn_unlock(self);
    return has_ended;
}

void rqli_conn_end_if_unused(struct rqli_conn *self, int64_t unused_us)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (rqli_conn_is_unused(self, unused_us)) {
        rqli_batch_end_all(self);
        self->shared.has_ended = false;
    }
    rqli_conn_unlock(self);
}

void rqli_conn_hurry(struct rqli_conn *self, int64_t longest_us)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.longest_us = longest_us;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* ---- answers about it ---- */

/* Answers to other files about the connection, and the number of callers that use it at the same
 * time. */

int64_t rqli_conn_n_commands(struct rqli_conn *self)
{
    int64_t n_commands;

    (void)pthread_mutex_lock(&self->shared.mutex);
    n_commands = self->shared.n_commands;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return n_commands;
}

bool rqli_conn_take_crowded(struct rqli_conn *self)
{
    return atomic_load_explicit(&self->is_crowded, memory_order_relaxed) &&
           atomic_exchange_explicit(&self->is_crowded, false, memory_order_relaxed);
}

bool rqli_conn_is_failing(const struct rqli_conn *self)
{
    return atomic_load_explicit(&self->is_failing, memory_order_relaxed);
}

unsigned rqli_conn_n_met(const struct rqli_conn *self)
{
    return atomic_load_explicit(&self->n_met, memory_order_relaxed);
}

void rqli_conn_note_met(struct rqli_conn *self, unsigned n_met)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_conn_begin_period(self, n_met);
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
    is_up = rqli_batch_may_go(self, UNUSED_US);
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
