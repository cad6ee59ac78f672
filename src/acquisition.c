#include "acquisition.h"

#include "base/clock.h"
#include "base/error.h"
#include "client.h"
#include "loop_inside.h"
#include "tracking.h"

#include <stddef.h>
#include <stdlib.h>

static rql_request *of_errand(struct rqli_errand *errand)
{
    return (rql_request *)((char *)errand - offsetof(rql_request, errand));
}

static rql_request *of_guest(struct rqli_guest *guest)
{
    return (rql_request *)((char *)guest - offsetof(rql_request, guest));
}

static rql_request *of_due(struct rqli_due *due)
{
    return (rql_request *)((char *)due - offsetof(rql_request, due));
}

static struct rqli_request_view look_around(const rql_request *self)
{
    int64_t jitter_ms = self->attempt->options->retry_jitter_ms;

    return (struct rqli_request_view){
        .now_us = rqli_now_us(),
        .jitter_us = rqli_random_below((uint32_t)jitter_ms * 1000U),
        .leads = self->has_joined && rqli_waiting_leads(&self->guest),
        .is_listening = rqli_ear_is_listening(self->job.loop->ear),
        .is_told = true,
    };
}

static void view(void *self, struct rqli_request_view *out)
{
    *out = look_around(self);
}

/* As much of a world as a machine sees from here. */
static struct rqli_world world_of(rql_request *self)
{
    return (struct rqli_world){.view = view, .self = self};
}

static void set_due(rql_request *self, int64_t at_us)
{
    rqli_heap_set(&self->job.loop->heap, &self->due, at_us);
}

/* Without memory there is only the status to tell. */
static void note_fault(rql_request *self, const rql_error *fault)
{
    if (!self->detail) {
        self->detail = malloc(sizeof *self->detail);
    }
    if (self->detail) {
        *self->detail = *fault;
    }
}

static void drive(rql_request *self);

/* ---- waiting ---- */

static void on_lead(rql_request *self)
{
    struct rqli_request_view view = look_around(self);

    if (self->machine.state == RQLI_REQUEST_QUEUED) {
        rqli_request_on_lead(&self->machine, &view);
        drive(self);
    }
}

static void stop_waiting(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    struct rqli_guest *leader = NULL;

    if (self->has_joined) {
        self->has_joined = false;
        leader = rqli_waiting_leave(&loop->waiting, &self->guest);
    }
    if (self->watch) {
        rqli_pipe_orphan(loop->pipe, self->watch);
    }
    if (leader) {
        on_lead(of_guest(leader));
    }
}

/* Something may have come for it while it waits. */
static void rouse(struct rqli_guest *guest)
{
    rql_request *self = of_guest(guest);

    if (self->machine.state == RQLI_REQUEST_QUEUED) {
        drive(self);
    }
}

static void nudge(struct rqli_guest *guest)
{
    of_guest(guest)->attempt->waiter.nudged = true;
    rouse(guest);
}

void rqli_loop_on_listening(void *loop)
{
    rqli_waiting_each(&((rql_loop *)loop)->waiting, false, nudge);
}

void rqli_loop_on_pushed(void *loop, const struct rqli_pushed *pushed, int64_t received_us)
{
    const struct rqli_waiting *waiting = &((rql_loop *)loop)->waiting;
    struct rqli_guest *guest;

    if (pushed->kind == RQLI_PUSHED_CHANGE) {
        /* A series concerns every lock; without a key all may have changed. */
        if (pushed->lock_key.data) {
            rqli_waiting_each_of(waiting, pushed->lock_key, true, nudge);
        } else {
            rqli_waiting_each(waiting, true, nudge);
        }
        return;
    }
    guest = pushed->kind == RQLI_PUSHED_GRANT || pushed->kind == RQLI_PUSHED_LOOK
                ? rqli_waiting_of_nonce(waiting, pushed->nonce)
                : NULL;
    if (!guest) {
        return; /* of another, or too late; see subscriber.c */
    }
    if (pushed->kind == RQLI_PUSHED_LOOK) {
        nudge(guest);
    } else {
        struct rqli_waiter *waiter = &of_guest(guest)->attempt->waiter;

        waiter->push = pushed->push;
        waiter->push.received_us = received_us;
        waiter->pushed = true;
        rouse(guest);
    }
}

/* False: nothing has come. */
static bool take_what_came(rql_request *self)
{
    struct rqli_waiter *waiter = &self->attempt->waiter;
    struct rqli_world world = world_of(self);
    enum rqli_wait_result result = RQLI_WAIT_LOOK;

    if (waiter->pushed) {
        result = self->kind->take_push(self->attempt);
    } else if (!waiter->nudged) {
        return false;
    }
    waiter->nudged = false;
    rqli_drive_on_wait(&self->machine, result, &world);
    return true;
}

/* ---- a lock of Ruby's ---- */

static void on_looked(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    rql_request *self = owner;

    self->watch = 0;
    if (!fault && answer->reply->type == RQLI_REPLY_NIL && self->attempt->was_held) {
        nudge(&self->guest); /* it has become free meanwhile */
    }
}

static void watch_ruby(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    uint64_t pipe = rqli_pipe_generation(loop->pipe);
    uint64_t ear = rqli_ear_generation(loop->ear);
    bool is_set_up = loop->tracking_pipe == pipe && loop->tracking_ear == ear;

    if (self->watch || !rqli_ear_is_listening(loop->ear) || !rqli_pipe_has_room(loop->pipe)) {
        return;
    }
    rqli_tracking_write(rqli_pipe_out(loop->pipe), self->attempt->lock->keys.lock,
                        is_set_up ? 0 : rqli_ear_client_id(loop->ear));
    if (!is_set_up) {
        loop->tracking_pipe = pipe;
        loop->tracking_ear = ear;
        (void)rqli_pipe_expect(loop->pipe, NULL, NULL);
    }
    (void)rqli_pipe_expect(loop->pipe, NULL, NULL);
    self->watch = rqli_pipe_expect(loop->pipe, on_looked, self);
}

/* ---- trying ---- */

/* Of a refusal: what those who wait have to look after. */
static void attend(rql_request *self)
{
    const struct attempt *attempt = self->attempt;
    rql_loop *loop = self->job.loop;
    bool leads = rqli_waiting_leads(&self->guest);

    rqli_loop_listen(loop);
    if (attempt->was_restored && leads) { /* all others, once, and not each of them all others */
        rqli_waiting_each_of(&loop->waiting, self->guest.lock_key, false, nudge);
        self->attempt->waiter.nudged = false;
    }
    if (attempt->behind_ruby && leads) {
        watch_ruby(self);
    }
}

static void on_tried(rql_request *self, const struct rqli_try *result)
{
    struct rqli_world world = world_of(self);

    rqli_drive_on_try(&self->machine, result, &world);
    drive(self);
}

static void on_failed(rql_request *self, const rql_error *fault)
{
    struct attempt *attempt = self->attempt;
    struct rqli_try result;

    attempt->may_retry = attempt->client->was_connected;
    note_fault(self, fault);
    result = rqli_attempt_failed(attempt, fault->status);
    on_tried(self, &result);
}

static void write_try(struct rqli_errand *errand, struct rqli_call *call, int64_t now_us)
{
    const rql_request *self = of_errand(errand);

    self->kind->write(self->attempt, call, now_us);
}

static void read_try(struct rqli_errand *errand, const struct rqli_exchange *answer,
                     rql_status status, const rql_error *error)
{
    rql_request *self = of_errand(errand);
    rql_error detail = {0};
    struct rqli_try result;

    set_due(self, RQLI_NEVER_US);
    if (status) {
        on_failed(self, error);
        return;
    }
    result = self->kind->read(self->attempt, answer, &detail);
    if (result.status < 0) {
        note_fault(self, &detail);
    }
    if (result.result == RQLI_TRY_GRANTED && self->shall_cancel) {
        result.result = RQLI_TRY_AGAIN; /* it is not taken: leaving gives it back */
    } else if (result.result == RQLI_TRY_QUEUED) {
        attend(self);
    }
    on_tried(self, &result);
}

static const struct rqli_errand_kind trying = {write_try, read_try};

/* A call with a deadline gets its last words, as in attempt.c. */
static void ask(rql_request *self)
{
    struct attempt *attempt = self->attempt;
    rql_error fault = {0};

    if (rqli_attempt_check_host(attempt, rqli_now_us(), &fault)) {
        on_failed(self, &fault);
        return;
    }
    if (self->kind->observe_try) {
        self->kind->observe_try(attempt->lock);
    }
    attempt->out->asked++;
    set_due(self, later(attempt->deadline_us, rqli_now_us() + attempt->last_words_us));
    rqli_errand_go(&self->job.loop->errands, &self->errand, &trying);
}

/* ---- time ---- */

/* A server that is busy with us is waited for; one that says nothing is not. */
static bool is_answering(rql_request *self)
{
    if (!rqli_pipe_is_talking(self->job.loop->pipe, LAST_WORDS_US)) {
        return false;
    }
    set_due(self, rqli_now_us() + LAST_WORDS_US);
    return true;
}

static void on_late_try(rql_request *self)
{
    bool was_sent = self->errand.state == RQLI_ERRAND_SENT;
    const char *where = self->job.loop->errands.where;
    rql_error fault = {0};

    if (was_sent && is_answering(self)) {
        return;
    }
    rqli_errand_stop(&self->errand);
    if (!was_sent && rqli_pipe_is_up(self->job.loop->pipe)) {
        rqli_request_on_late(&self->machine);
        drive(self);
        return;
    }
    if (was_sent) {
        (void)rqli_fail(&fault, RQL_E_UNKNOWN,
                        "%s: no answer; the command may or may not have been done", where);
    } else {
        (void)rqli_fail(&fault, RQL_E_IO, "cannot connect to %s: no time left", where);
    }
    on_failed(self, &fault);
}

static void on_due(struct rqli_due *due)
{
    rql_request *self = of_due(due);
    struct rqli_world world = world_of(self);

    switch (self->machine.state) {
    case RQLI_REQUEST_TRYING:
        on_late_try(self);
        break;
    case RQLI_REQUEST_QUEUED:
        rqli_drive_on_wait(&self->machine, RQLI_WAIT_TIME, &world);
        drive(self);
        break;
    case RQLI_REQUEST_LEAVING:
        if (!is_answering(self)) {
            self->kind->give_up_leaving(self);
        }
        break;
    case RQLI_REQUEST_DONE:
    case RQLI_REQUEST_STATE_COUNT:
        break;
    }
}

/* ---- from begin to end ---- */

static void finish(rql_request *self, rql_status status)
{
    struct rqli_request_view view = look_around(self);
    rql_error error = {0};

    stop_waiting(self);
    rqli_heap_unreserve(&self->job.loop->heap, &self->due);
    rqli_request_catch_up(&self->machine, &view);
    rqli_attempt_end(self->attempt, &self->machine, self->begun_us);
    rqli_attempt_tell_fault(self->attempt, status, self->detail, &error);
    self->kind->finish(self, status, &error);
}

static void drive(rql_request *self)
{
    for (;;) {
        struct rqli_request_step step;

        if (self->shall_cancel) {
            rqli_request_on_cancelled(&self->machine, false);
        }
        step = rqli_request_next(&self->machine);
        switch (step.want) {
        case RQLI_WANT_TRY:
            ask(self);
            return;
        case RQLI_WANT_WAIT:
            if (!take_what_came(self)) {
                set_due(self, step.until_us);
                return;
            }
            break;
        case RQLI_WANT_LEAVE:
            set_due(self, rqli_attempt_leave_until(self->attempt));
            self->kind->leave(self);
            return;
        case RQLI_WANT_FINISH:
            finish(self, step.status);
            return;
        }
    }
}

static rql_status join(rql_request *self, rql_error *error)
{
    const rql_lock *lock = self->attempt->lock;
    rql_status status = RQL_OK;

    if (!self->attempt->options->fail_fast) {
        status = rqli_waiting_join(&self->job.loop->waiting, &self->guest);
        self->has_joined = status == RQL_OK;
    }
    if (status == RQL_E_BUSY) {
        return rqli_fail(error, status, "%s: %s waits for it already", lock->name, lock->acquirer);
    }
    return status ? rqli_fail_nomem(error) : RQL_OK;
}

rql_status rqli_acquisition_begin(rql_request *self, rql_error *error)
{
    struct rqli_heap *heap = &self->job.loop->heap;
    struct attempt *attempt = self->attempt;
    rql_status status;

    if (!rqli_heap_reserve(heap)) {
        return rqli_fail_nomem(error);
    }
    self->due = (struct rqli_due){.fire = on_due};
    attempt->deadline_us = rqli_after_ms(self->begun_us, attempt->options->timeout_ms);
    rqli_attempt_begin(attempt, &self->machine);
    status = join(self, error);
    if (status) {
        rqli_heap_unreserve(heap, &self->due);
        return status;
    }
    drive(self);
    return RQL_OK;
}

void rqli_acquisition_left(rql_request *self, bool is_confirmed)
{
    set_due(self, RQLI_NEVER_US);
    rqli_request_on_left(&self->machine, is_confirmed);
    drive(self);
}

void rqli_acquisition_free(rql_request *self)
{
    rqli_loop_finish(&self->job);
    free(self->detail);
    self->detail = NULL;
    self->is_over = true;
    if (!atomic_load(&self->is_cancelling)) {
        free(self);
    }
}

void rqli_acquisition_cancel(struct rqli_job *job)
{
    rql_request *self = (rql_request *)job;

    self->shall_cancel = true;
    if (self->errand.state == RQLI_ERRAND_SENT) {
        return; /* its answer comes first */
    }
    if (self->machine.state == RQLI_REQUEST_TRYING) {
        rqli_errand_stop(&self->errand);
        drive(self);
    } else if (self->machine.state == RQLI_REQUEST_QUEUED) {
        drive(self);
    }
}

static void take_cancellation(struct rqli_post *post)
{
    rql_request *self = (rql_request *)((char *)post - offsetof(rql_request, cancelling));

    atomic_store(&self->is_cancelling, false);
    if (self->is_over) {
        free(self);
    } else {
        self->job.cancel(&self->job);
    }
}

void rqli_acquisition_init(rql_request *self, const struct rqli_request_kind *kind,
                           void (*begin)(struct rqli_job *job))
{
    self->kind = kind;
    self->job.begin = begin;
    self->job.cancel = rqli_acquisition_cancel;
    self->cancelling.take = take_cancellation;
    self->begun_us = rqli_now_us();
}

rql_status rql_request_cancel(rql_request *request)
{
    rql_status status;

    if (!request) {
        return RQL_E_INVALID;
    }
    status = rqli_loop_check(request->job.loop, NULL);
    if (!status && !atomic_exchange(&request->is_cancelling, true)) {
        rqli_loop_post(request->job.loop, &request->cancelling);
    }
    return status;
}
