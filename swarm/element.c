#include "element.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mask.h"
#include "base/must.h"
#include "base/uv_start.h"

#include <string.h>

void rqli_element_init(struct rqli_element *self, const struct rqli_element_kind *kind,
                       void *context)
{
    pthread_condattr_t attributes;

    memset(self, 0, sizeof *self);
    self->kind = kind;
    self->context = context;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->shared.stepped, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void rqli_element_fini(struct rqli_element *self)
{
    (void)pthread_mutex_destroy(&self->shared.mutex);
    (void)pthread_cond_destroy(&self->shared.stepped);
}

static void on_timer(uv_timer_t *timer);

static void sleep_for(struct rqli_element *self, int64_t us)
{
    (void)uv_timer_start(&self->timer, on_timer, us > 0 ? (uint64_t)us / 1000 + 1 : 0, 0);
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

/* Loop thread. */
static void step_or_end(struct rqli_element *self, bool is_timed)
{
    int64_t begun_us = rqli_now_us();
    bool is_over;

    if (uv_is_closing((uv_handle_t *)&self->call)) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_over = self->shared.shall_stop || self->shared.shall_restart;
    if (!is_over) {
        uint64_t number = self->shared.tried + 1;

        if (rqli_watch_may_step(&self->shared.watch, begun_us)) {
            take_step(self, is_timed);
        }
        self->shared.tried = number;
        (void)pthread_cond_broadcast(&self->shared.stepped);
        is_over = self->shared.shall_stop || self->shared.shall_restart;
    }
    self->shared.is_looping = !is_over;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_over) {
        uv_close((uv_handle_t *)&self->call, NULL);
        uv_close((uv_handle_t *)&self->timer, NULL);
    } else if (is_timed) {
        sleep_for(self, self->period_us - (rqli_now_us() - begun_us));
    }
}

static void on_timer(uv_timer_t *timer)
{
    step_or_end(timer->data, true);
}

static void on_call(uv_async_t *call)
{
    step_or_end(call->data, false);
}

static void run(void *argument)
{
    struct rqli_element *self = argument;

    (void)pthread_setname_np(pthread_self(), self->kind->name);
    (void)uv_run(&self->loop, UV_RUN_DEFAULT);
    RQLI_MUST(uv_loop_close(&self->loop) == 0);
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_ended(&self->shared.watch, self->shared.shall_stop);
    (void)pthread_cond_broadcast(&self->shared.stepped);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static bool start_thread(struct rqli_element *self)
{
    sigset_t before = rqli_mask_all();
    int failed = uv_thread_create(&self->thread, run, self);
    rqli_mask_restore(&before);
    return failed == 0;
}

static bool make_loop(struct rqli_element *self)
{
    if (!rqli_uv_loop_init(&self->loop)) {
        return false;
    }
    self->call.data = self;
    self->timer.data = self;
    if (uv_async_init(&self->loop, &self->call, on_call) != 0) {
        rqli_uv_loop_drop(&self->loop);
        return false;
    }
    (void)uv_timer_init(&self->loop, &self->timer);
    sleep_for(self, 0);
    return true;
}

/* Under the mutex. A failure is a death: the supervisor tries again. */
static bool begin(struct rqli_element *self)
{
    self->shared.shall_restart = false;
    if (make_loop(self)) {
        self->shared.has_thread = start_thread(self);
        if (!self->shared.has_thread) {
            rqli_uv_loop_drop(&self->loop);
        }
    }
    self->shared.is_looping = self->shared.has_thread;
    if (self->shared.has_thread) {
        rqli_watch_on_started(&self->shared.watch);
    } else {
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
    if (self->shared.is_looping) {
        (void)uv_async_send(&self->call);
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
        (void)uv_thread_join(&self->thread);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_ended(&self->shared.watch, true);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_element_await_step(struct rqli_element *self, int64_t for_us)
{
    struct timespec until;
    uint64_t target;
    int failed = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(for_us / 1000000) + 1;
    (void)pthread_mutex_lock(&self->shared.mutex);
    target = self->shared.tried + 1 + self->shared.watch.is_in_step;
    wake(self);
    while (!failed && self->shared.is_looping && self->shared.tried < target) {
        failed = pthread_cond_timedwait(&self->shared.stepped, &self->shared.mutex, &until);
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
        (void)uv_thread_join(&self->thread);
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
