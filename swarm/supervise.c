#include "supervise.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

enum { REST_US = 1000000 }; /* what a step may take beside its call */

void rqli_watch_init(struct rqli_watch *self, const struct rqli_watch_terms *terms)
{
    *self = (struct rqli_watch){.terms = *terms};
}

void rqli_watch_on_started(struct rqli_watch *self)
{
    self->state = RQL_ELEMENT_RUNNING;
    self->is_in_step = false;
}

void rqli_watch_on_ended(struct rqli_watch *self, bool was_told_to)
{
    self->state = was_told_to ? RQL_ELEMENT_OFF : RQL_ELEMENT_DEAD;
    self->is_in_step = false;
}

bool rqli_watch_may_step(struct rqli_watch *self, int64_t now_us)
{
    if (self->breaker == RQL_BREAKER_OPEN && now_us >= self->open_until_us) {
        self->breaker = RQL_BREAKER_HALF_OPEN;
    }
    return self->breaker != RQL_BREAKER_OPEN;
}

void rqli_watch_on_step(struct rqli_watch *self, int64_t now_us)
{
    self->is_in_step = true;
    self->sign_us = now_us;
}

void rqli_watch_on_sign(struct rqli_watch *self, int64_t now_us)
{
    self->sign_us = now_us;
    if (self->state == RQL_ELEMENT_HUNG) {
        self->state = RQL_ELEMENT_RUNNING;
    }
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

static void open(struct rqli_watch *self, int64_t now_us)
{
    bool is_again = self->breaker == RQL_BREAKER_HALF_OPEN;
    int64_t wanted_us = is_again ? 2 * self->open_us : self->terms.open_least_us;

    self->open_us = at_most(wanted_us, self->terms.open_most_us);
    self->open_until_us = now_us + self->open_us;
    self->breaker = RQL_BREAKER_OPEN;
}

static void on_failed(struct rqli_watch *self, int64_t now_us)
{
    self->failures++;
    self->failed_in_a_row++;
    if (self->breaker == RQL_BREAKER_HALF_OPEN ||
        self->failed_in_a_row >= self->terms.failures_max) {
        open(self, now_us);
    }
}

void rqli_watch_on_done(struct rqli_watch *self, int64_t now_us, bool succeeded)
{
    self->is_in_step = false;
    rqli_watch_on_sign(self, now_us);
    if (succeeded) {
        self->steps++;
        self->failed_in_a_row = 0;
        self->breaker = RQL_BREAKER_CLOSED;
    } else {
        on_failed(self, now_us);
    }
}

enum rqli_watch_action rqli_watch_look(struct rqli_watch *self, int64_t now_us)
{
    if (self->state == RQL_ELEMENT_DEAD) {
        self->restarts++;
        return RQLI_WATCH_START;
    }
    if (self->state == RQL_ELEMENT_RUNNING && self->is_in_step &&
        now_us - self->sign_us > self->terms.hang_us) {
        self->state = RQL_ELEMENT_HUNG;
        return RQLI_WATCH_REPLACE;
    }
    return RQLI_WATCH_NOTHING;
}

void rqli_element_init(struct rqli_element *self, const struct rqli_element_kind *kind,
                       void *context)
{
    memset(self, 0, sizeof *self);
    self->kind = kind;
    self->context = context;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
}

void rqli_element_fini(struct rqli_element *self)
{
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

static void notify(const struct rqli_element *self, enum rqli_moment moment, rql_status status)
{
    self->kind->notify(self->context, moment,
                       (struct rqli_figures){.element = self->kind->label, .status = status});
}

/* Under the mutex, released for the step and for its news. */
static void take_step(struct rqli_element *self, bool is_timed)
{
    bool was_closed = self->shared.watch.breaker == RQL_BREAKER_CLOSED;
    bool is_closed;
    rql_status status;

    rqli_watch_on_step(&self->shared.watch, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = self->kind->step(self->context, is_timed);
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_done(&self->shared.watch, rqli_now_us(), status >= 0);
    is_closed = self->shared.watch.breaker == RQL_BREAKER_CLOSED;
    if (was_closed != is_closed) {
        (void)pthread_mutex_unlock(&self->shared.mutex);
        notify(self, is_closed ? RQLI_ON_BREAKER_CLOSED : RQLI_ON_BREAKER_OPENED, status);
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
}

/* Under the mutex. */
static void note_step(struct rqli_element *self)
{
    (void)atomic_fetch_add(&self->stepped, 1);
    rqli_signal_wake(&self->stepped);
}

/* On the thread. The period counts from the beginning of a step. */
static int64_t step_or_end(struct rqli_worker *worker)
{
    struct rqli_element *self = (struct rqli_element *)worker;
    int64_t begun_us = rqli_now_us();
    bool is_timed = begun_us >= self->next_us;
    bool is_over;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_over = self->shared.shall_stop || self->shared.shall_restart;
    if (!is_over) {
        uint64_t number = self->shared.tried + 1;

        if (rqli_watch_may_step(&self->shared.watch, begun_us)) {
            take_step(self, is_timed);
        }
        self->shared.tried = number;
        note_step(self);
        is_over = self->shared.shall_stop || self->shared.shall_restart;
    }
    if (is_over) {
        self->shared.is_going = false;
        rqli_watch_on_ended(&self->shared.watch, self->shared.shall_stop);
        note_step(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_timed) {
        self->next_us = begun_us + self->period_us;
    }
    return is_over ? RQLI_WORKER_OVER : self->next_us;
}

/* Under the mutex. A failure is a death: the supervisor tries again. */
static bool begin(struct rqli_element *self)
{
    self->shared.shall_restart = false;
    self->worker = (struct rqli_worker){.name = self->kind->name, .step = step_or_end};
    self->next_us = 0;
    rqli_watch_on_started(&self->shared.watch);
    self->shared.has_thread = rqli_worker_start(&self->worker);
    self->shared.is_going = self->shared.has_thread;
    if (!self->shared.has_thread) {
        rqli_watch_on_ended(&self->shared.watch, false);
    }
    return self->shared.has_thread;
}

rql_status rqli_element_start(struct rqli_element *self, int64_t period_us,
                              const struct rqli_watch_terms *terms, rql_error *error)
{
    bool has_begun;

    self->period_us = period_us;
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_init(&self->shared.watch, terms);
    self->shared.is_enabled = true;
    has_begun = begin(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return has_begun ? RQL_OK
                     : rqli_fail(error, RQL_E_NOMEM, "swarm: no thread to be had for %s",
                                 self->kind->name);
}

/* Under the mutex. */
static void wake(struct rqli_element *self)
{
    if (self->shared.is_going) {
        (void)rqli_worker_rouse(&self->worker, 0);
    }
}

void rqli_element_rouse(struct rqli_element *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    wake(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_element_stop(struct rqli_element *self)
{
    bool has_thread;

    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.shall_stop = true;
    wake(self);
    has_thread = self->shared.has_thread;
    self->shared.has_thread = false;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (has_thread) {
        rqli_worker_stop(&self->worker);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_ended(&self->shared.watch, true);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_element_await_step(struct rqli_element *self, int64_t for_us)
{
    int64_t until_us = rqli_now_us() + for_us + REST_US;
    uint64_t target;

    (void)pthread_mutex_lock(&self->shared.mutex);
    target = self->shared.tried + 1 + self->shared.watch.is_in_step;
    wake(self);
    while (self->shared.is_going && self->shared.tried < target && rqli_now_us() < until_us) {
        int32_t seen = atomic_load(&self->stepped);

        (void)pthread_mutex_unlock(&self->shared.mutex);
        rqli_signal_wait(&self->stepped, seen, until_us);
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

bool rqli_element_shall_stop(struct rqli_element *self)
{
    bool shall_stop;

    (void)pthread_mutex_lock(&self->shared.mutex);
    shall_stop = self->shared.shall_stop || self->shared.shall_restart;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return shall_stop;
}

void rqli_element_sign(struct rqli_element *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_sign(&self->shared.watch, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Under the mutex: its thread has said its last word. False: no thread to be had. */
static bool restart(struct rqli_element *self)
{
    if (self->shared.has_thread) {
        (void)pthread_mutex_unlock(&self->shared.mutex);
        rqli_worker_stop(&self->worker);
        (void)pthread_mutex_lock(&self->shared.mutex);
        self->shared.has_thread = false;
    }
    return begin(self);
}

/* Under the mutex. */
static enum rqli_watch_action act(struct rqli_element *self)
{
    enum rqli_watch_action action = RQLI_WATCH_NOTHING;

    if (self->shared.is_enabled && !self->shared.shall_stop) {
        action = rqli_watch_look(&self->shared.watch, rqli_now_us());
    }
    if (action == RQLI_WATCH_START && !restart(self)) {
        action = RQLI_WATCH_NOTHING;
    }
    self->shared.shall_restart = self->shared.shall_restart || action == RQLI_WATCH_REPLACE;
    return action;
}

void rqli_element_look_after(struct rqli_element *self)
{
    enum rqli_watch_action action;

    (void)pthread_mutex_lock(&self->shared.mutex);
    action = act(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (action != RQLI_WATCH_NOTHING) {
        notify(self, action == RQLI_WATCH_START ? RQLI_ON_ELEMENT_RESTARTED : RQLI_ON_ELEMENT_HUNG,
               RQL_OK);
    }
}

void rqli_element_describe(struct rqli_element *self, rql_element_status *out)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    *out = (rql_element_status){
        .enabled = self->shared.is_enabled,
        .state = self->shared.watch.state,
        .breaker = self->shared.watch.breaker,
        .steps = self->shared.watch.steps,
        .failures = self->shared.watch.failures,
        .restarts = self->shared.watch.restarts,
    };
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
