#include "supervise.h"

#include "base/clock.h"
#include "net/op/op_loop.h"

#include <string.h>

/*
 * An element of a swarm takes a step each period: an operation on the loop. rqli_watch is the pure
 * part: it counts successes and failures, opens the circuit breaker after three failures in a row,
 * closes it after one success, and finds out which element hangs. rqli_element carries this out
 * with timers and operations.
 *
 * A step goes through on_due, begin_task, (the operation), on_over, plan_next. Once the element has
 * begun, all of this runs on the loop's thread. The mutex is there for rqli_element_describe(), and
 * is never held while a listener is called.
 */

void rqli_watch_init(struct rqli_watch *self, const struct rqli_watch_terms *terms)
{
    *self = (struct rqli_watch){.terms = *terms};
}

/* Keeps the breaker and its count, because a restart says nothing about the server. */
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

/* Returns whether a step may be taken. When its time is over, an open breaker becomes half open and
 * lets one step through, which decides. */
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

/* Shows an element that hung and gives a sign as running again. The element is restarted all the
 * same, because that is noted in the element. */
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

/* Opens the breaker: twice as long each time that the one step of a half-open breaker fails, up to
 * a quarter of the time after which a silent host is dead. A breaker that had closed in between
 * begins with the least time again. */
static void open_breaker(struct rqli_watch *self, int64_t now_us)
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
        open_breaker(self, now_us);
    }
}

void rqli_watch_on_done(struct rqli_watch *self, int64_t now_us, rql_status status)
{
    self->is_in_step = false;
    if (status == RQL_STOPPED) {
        return;
    }
    rqli_watch_on_sign(self, now_us);
    if (status >= 0) {
        self->steps++;
        self->failed_in_a_row = 0;
        self->breaker = RQL_BREAKER_CLOSED;
    } else {
        on_failed(self, now_us);
    }
}

/* Returns whether a step hangs. An element that waits for its period owes no sign. */
bool rqli_watch_hangs(const struct rqli_watch *self, int64_t now_us)
{
    return self->is_in_step && now_us - self->sign_us > self->terms.hang_us;
}

/* Decides what to do. A dead element is started; an element that hangs in a step is replaced once,
 * and counts as hung until it gives a sign. */
enum rqli_watch_action rqli_watch_look(struct rqli_watch *self, int64_t now_us)
{
    if (self->state == RQL_ELEMENT_DEAD) {
        self->restarts++;
        return RQLI_WATCH_START;
    }
    if (self->state == RQL_ELEMENT_RUNNING && rqli_watch_hangs(self, now_us)) {
        self->state = RQL_ELEMENT_HUNG;
        return RQLI_WATCH_REPLACE;
    }
    return RQLI_WATCH_NOTHING;
}

void rqli_element_init(struct rqli_element *self, const struct rqli_element_ops *ops,
                       struct rql_swarm *swarm)
{
    memset(self, 0, sizeof *self);
    self->ops = ops;
    self->swarm = swarm;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
}

void rqli_element_fini(struct rqli_element *self)
{
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

static void notify(const struct rqli_element *self, enum rqli_moment moment, rql_status status)
{
    rqli_swarm_notify(self->swarm, self->loop->client, moment,
                      (struct rqli_figures){.element = self->ops->label, .status = status});
}

/* Sets when the next step is due. 0: as soon as the loop comes to it; RQLI_NEVER_US: never. */
static void set_due(struct rqli_element *self, int64_t at_us)
{
    rqli_timers_set(&self->loop->timers, &self->due, at_us);
}

/* Gives back the element's place among the timers. From then on the element counts as not begun. */
void rqli_element_drop(struct rqli_element *self)
{
    if (self->is_begun) {
        self->is_begun = false;
        rqli_timers_unreserve(&self->loop->timers, &self->due);
    }
}

/* Notes the end of the element: OFF if it had to stop; else DEAD, for the supervisor to find. */
static void note_ended(struct rqli_element *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_ended(&self->shared.watch, self->shall_stop);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static void on_over(struct rqli_element *self, rql_status status);

static void on_driver_done(struct rqli_op_driver *driver)
{
    struct rqli_element *self = RQLI_OWNER(driver, struct rqli_element, driver);

    on_over(self, driver->op->status);
}

/* Starts the operation. op NULL: there is nothing to do, or it is done. Either way on_over()
 * follows, perhaps within this call, so it is the last thing that its callers do. */
static void begin_task(struct rqli_element *self, struct rqli_op *op)
{
    self->is_busy = true;
    self->driver = (struct rqli_op_driver){.op = op,
                                           .loop = &self->loop->nodes.first.op,
                                           .done = on_driver_done,
                                           .calls = self->calls};
    if (!op) {
        on_over(self, RQL_OK);
    } else if (!rqli_op_start(&self->driver)) {
        on_over(self, RQL_E_NOMEM);
    }
}

/* Begins the last operation, when no other is under way. Without one the element is over at
 * once. */
static void begin_last(struct rqli_element *self)
{
    set_due(self, RQLI_NEVER_US);
    self->is_last = true;
    begin_task(self, self->ops->begin_last ? self->ops->begin_last(self->swarm) : NULL);
}

/* Plans what follows a step that is over, or was refused. No timer is set for an element that has
 * ended, because the supervisor starts it. An element that was roused meanwhile takes the next step
 * at once, any other at the end of the period. */
static void plan_next(struct rqli_element *self)
{
    self->tried++;
    if (self->shall_stop) {
        begin_last(self);
        return;
    }
    if (self->shall_restart) {
        note_ended(self);
    } else {
        set_due(self, self->is_again ? 0 : self->next_us);
    }
    self->is_again = false;
    rqli_swarm_on_step(self->swarm);
}

/* Ends the element. It notifies the swarm last, because the swarm may then close the loop. */
static void on_last_over(struct rqli_element *self, rql_status status)
{
    if (self->ops->end_last) {
        self->ops->end_last(self->swarm, status);
    }
    note_ended(self);
    rqli_element_drop(self);
    rqli_swarm_on_step(self->swarm);
}

/* Ends a step. A step that held up the loop, in a callback, is detected here, because the
 * supervisor's timer is on the same loop and came just as late. The supervisor, the element without
 * `end`, is not looked after. */
static void on_step_over(struct rqli_element *self, rql_status status)
{
    bool was_closed;
    bool is_closed;

    if (self->ops->end) {
        self->ops->end(self->swarm, status);
        rqli_element_look_after(self);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    was_closed = self->shared.watch.breaker == RQL_BREAKER_CLOSED;
    rqli_watch_on_done(&self->shared.watch, rqli_now_us(), status);
    is_closed = self->shared.watch.breaker == RQL_BREAKER_CLOSED;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (was_closed != is_closed) {
        notify(self, is_closed ? RQLI_ON_BREAKER_CLOSED : RQLI_ON_BREAKER_OPENED, status);
    }
    plan_next(self);
}

static void on_over(struct rqli_element *self, rql_status status)
{
    self->is_busy = false;
    if (self->is_last) {
        on_last_over(self, status);
    } else {
        on_step_over(self, status);
    }
}

/* Takes a step. The period counts from the beginning of a timed step; a step in between, for which
 * the element was roused, moves nothing. An open breaker refuses the step, which then counts as
 * tried. */
static void on_due(struct rqli_due *due)
{
    struct rqli_element *self = RQLI_OWNER(due, struct rqli_element, due);
    int64_t now_us = rqli_now_us();
    bool is_timed = now_us >= self->next_us;
    bool may_step;

    if (is_timed) {
        self->next_us = now_us + self->period_us;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    may_step = rqli_watch_may_step(&self->shared.watch, now_us);
    if (may_step) {
        rqli_watch_on_step(&self->shared.watch, now_us);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (may_step) {
        begin_task(self, self->ops->begin(self->swarm, is_timed));
    } else {
        plan_next(self);
    }
}

/* Starts the element. The first step comes at once, and counts as timed. */
static void start(struct rqli_element *self)
{
    self->shall_restart = false;
    self->next_us = 0;
    set_due(self, 0);
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_started(&self->shared.watch);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Takes the post. It clears the flag first, so that a thread that calls from here on posts again,
 * and is not missed. */
static void on_called(struct rqli_post *post)
{
    struct rqli_element *self = RQLI_OWNER(post, struct rqli_element, rousing);

    atomic_store(&self->is_roused, false);
    rqli_element_rouse(self);
}

bool rqli_element_begin(struct rqli_element *self, rql_loop *loop, int64_t period_us,
                        const struct rqli_watch_terms *terms)
{
    if (!rqli_timers_reserve(&loop->timers)) {
        return false;
    }
    self->loop = loop;
    self->period_us = period_us;
    self->due = (struct rqli_due){.fire = on_due};
    self->rousing.take = on_called;
    self->is_begun = true;
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_init(&self->shared.watch, terms);
    self->shared.is_enabled = true;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    start(self);
    return true;
}

/* Stops the element: cancels a step under way, and begins the last operation, to leave or to
 * resign. */
void rqli_element_stop(struct rqli_element *self)
{
    if (!self->is_begun || self->shall_stop) {
        return;
    }
    self->shall_stop = true;
    if (self->is_busy) {
        rqli_op_cancel(&self->driver);
    } else {
        begin_last(self);
    }
}

/* Asks for a step now. A step under way may have missed the reason, so one more step follows it. */
void rqli_element_rouse(struct rqli_element *self)
{
    if (!self->is_begun || self->shall_stop || self->shall_restart) {
        return;
    }
    self->is_again = self->is_busy;
    if (!self->is_busy) {
        set_due(self, 0);
    }
}

/* Posts, unless the post was not taken yet: there is one, which is part of the element. */
void rqli_element_call(struct rqli_element *self)
{
    if (!atomic_exchange(&self->is_roused, true)) {
        rqli_loop_post(self->loop, &self->rousing);
    }
}

void rqli_element_sign(struct rqli_element *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_watch_on_sign(&self->shared.watch, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Starts a dead element, and cuts a hung one off from its server, which ends whatever it waits for.
 * Cancelling may end the step within the call, and with it is_busy; a connection is dropped only if
 * calls are under way. */
void rqli_element_look_after(struct rqli_element *self)
{
    enum rqli_watch_action action;

    if (!self->is_begun || self->shall_stop) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    action = rqli_watch_look(&self->shared.watch, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (action == RQLI_WATCH_START) {
        start(self);
        notify(self, RQLI_ON_ELEMENT_RESTARTED, RQL_OK);
    } else if (action == RQLI_WATCH_REPLACE) {
        self->shall_restart = true;
        notify(self, RQLI_ON_ELEMENT_HUNG, RQL_OK);
        if (self->is_busy) {
            rqli_op_cancel(&self->driver);
        }
        if (self->is_busy) {
            rqli_loop_nodes_drop(&self->loop->nodes);
        }
    }
}

/* Shows a hang at once, even if the supervisor has not looked yet. */
void rqli_element_describe(struct rqli_element *self, rql_element_status *out)
{
    const struct rqli_watch *watch = &self->shared.watch;

    (void)pthread_mutex_lock(&self->shared.mutex);
    *out = (rql_element_status){
        .enabled = self->shared.is_enabled,
        .state = rqli_watch_hangs(watch, rqli_now_us()) ? RQL_ELEMENT_HUNG : watch->state,
        .breaker = watch->breaker,
        .steps = watch->steps,
        .failures = watch->failures,
        .restarts = watch->restarts,
    };
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
