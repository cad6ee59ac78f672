#include "lock/request.h"

#include "base/clock.h"
#include "base/must.h"
#include "base/pause.h"

#include <rql/base.h>

/*
 * Decides when an acquisition asks the server, how long it sleeps in between, and how it ends. The
 * server hands a lock over by a push, so a waiting request seldom polls: when the present holder's
 * ttl ends; every LIFE_US, to show that it is alive and in case a push was lost; and at each
 * retry_delay only if no push would come. Only the first waiter of a client for a lock does that;
 * the other waiters sleep until they lead.
 *
 * Tries are counted as the gem counts them, by time: one for each retry_delay that passes, whether
 * or not the server was asked. Only a request with a limit of tries wakes to count them.
 */

enum {
    LIFE_US = 5000000 / 3,  /* a heartbeat: a client that is silent for three of them counts as
                               dead */
    AFTER_EXPIRY_US = 2000, /* the server's clock has passed the ttl by then */
    HOLD_BACK_US = 200000,  /* a request waits this long for its client's subscription */
};

#define MAY(state) (1U << RQLI_REQUEST_##state)

/* The whole machine at a glance: row = from, bits = allowed targets. */
static const unsigned allowed[] = {
    [RQLI_REQUEST_TRYING] = MAY(TRYING) | MAY(QUEUED) | MAY(LEAVING) | MAY(DONE),
    [RQLI_REQUEST_QUEUED] = MAY(QUEUED) | MAY(TRYING) | MAY(LEAVING) | MAY(DONE),
    [RQLI_REQUEST_LEAVING] = MAY(DONE),
    [RQLI_REQUEST_DONE] = 0,
};

static void move_to(struct rqli_request *self, enum rqli_request_state next)
{
    RQLI_MUST(allowed[self->state] & (1U << next));
    self->state = next;
}

/* Returns the result of a request that ends without success. A grant that had to be given back says
 * more than that none has come since. */
static rql_status in_vain(const struct rqli_request *self, rql_status verdict)
{
    return self->was_not_durable ? RQL_E_NOT_DURABLE : verdict;
}

/* Ends the request. If anything of it may be on the server, that is withdrawn before the caller
 * gets the result. */
static void end_with(struct rqli_request *self, rql_status verdict)
{
    bool is_in_vain = verdict == RQL_TIMED_OUT || verdict == RQL_RETRY_LIMIT;

    self->verdict = is_in_vain ? in_vain(self, verdict) : verdict;
    move_to(self, self->in_queue ? RQLI_REQUEST_LEAVING : RQLI_REQUEST_DONE);
}

static bool has_limit(const struct rqli_request *self)
{
    return self->limits.tries != RQL_FOREVER;
}

static bool tries_are_used_up(const struct rqli_request *self)
{
    return has_limit(self) && self->tries >= self->limits.tries;
}

/* Returns whether the request looks after the lock, as the first waiter of its client and the first
 * of all do; usually they are the same. */
static bool looks_after(const struct rqli_request *self, const struct rqli_request_input *input)
{
    return input->leads || self->place.is_first;
}

/* Returns whether the request polls at each tick. A request that looks after the lock does so if no
 * push would come, because the subscription delivers none, or because only Ruby, which sends none,
 * is in front. It also does so once after it has come to lead, because it knows nothing of the
 * present holder. */
static bool polls_at_ticks(const struct rqli_request *self, const struct rqli_request_input *input)
{
    return looks_after(self, input) &&
           (!input->delivers || self->place.of_ruby || (input->leads && !self->led));
}

/* Sleeps, at the longest until the deadline. After a setback only its pause counts. Otherwise the
 * request wakes for the next tick, if it counts tries or polls at them; and if it looks after the
 * lock, for the next poll and the end of the lock's ttl. A follower is notified when it comes to
 * lead. */
static void sleep_on(struct rqli_request *self, const struct rqli_request_input *input)
{
    int64_t wake_us = rqli_earlier(self->limits.deadline_us, self->retry_us);

    if (self->retry_us == RQLI_NEVER_US) {
        if (has_limit(self) || polls_at_ticks(self, input)) {
            wake_us = rqli_earlier(wake_us, self->tick_us);
        }
        if (looks_after(self, input)) {
            wake_us = rqli_earlier(wake_us, self->poll_us);
        }
        if (looks_after(self, input) && self->place.lock_ends_us != RQLI_NEVER_US) {
            wake_us = rqli_earlier(wake_us, self->place.lock_ends_us + AFTER_EXPIRY_US);
        }
    }
    self->wake_us = wake_us;
    move_to(self, RQLI_REQUEST_QUEUED);
}

void rqli_request_init(struct rqli_request *self, const struct rqli_request_limits *limits)
{
    *self = (struct rqli_request){
        .limits = *limits,
        .state = RQLI_REQUEST_TRYING,
        .place.lock_ends_us = RQLI_NEVER_US,
        .tick_us = RQLI_NEVER_US,
        .poll_us = RQLI_NEVER_US,
        .retry_us = RQLI_NEVER_US,
    };
}

void rqli_request_on_granted(struct rqli_request *self)
{
    self->in_queue = false;
    end_with(self, RQL_OK);
}

void rqli_request_on_refused(struct rqli_request *self, rql_status outcome)
{
    RQLI_MUST(outcome > 0);
    self->in_queue = false;
    self->tries++;
    end_with(self, outcome);
}

/* The first answer counts as the first try and starts the ticks; later ones do not move them. */
static void begin_ticks(struct rqli_request *self, const struct rqli_request_input *input)
{
    if (self->tick_us == RQLI_NEVER_US) {
        self->tries++;
        self->tick_us = input->now_us + self->limits.delay_us + input->jitter_us;
    }
}

void rqli_request_on_queued(struct rqli_request *self, const struct rqli_request_place *place,
                            const struct rqli_request_input *input)
{
    begin_ticks(self, input);
    self->in_queue = true;
    self->place = *place;
    self->led = input->leads;
    self->poll_us = input->now_us + LIFE_US;
    self->retry_us = RQLI_NEVER_US;
    if (tries_are_used_up(self)) {
        end_with(self, RQL_RETRY_LIMIT);
    } else if (input->now_us >= self->limits.deadline_us) {
        end_with(self, RQL_TIMED_OUT);
    } else {
        sleep_on(self, input);
    }
}

/* in_queue stays as it was: an earlier try whose reply was lost may still arrive. The pause ends at
 * the next tick at the latest, because the caller has asked for a try then. */
void rqli_request_on_held_back(struct rqli_request *self, bool is_listening,
                               const struct rqli_request_input *input)
{
    begin_ticks(self, input);
    self->verdict = RQL_TIMED_OUT; /* the result if the deadline comes in the pause */
    if (input->now_us >= self->limits.deadline_us) {
        end_with(self, RQL_TIMED_OUT);
    } else if (is_listening) {
        move_to(self, RQLI_REQUEST_TRYING);
    } else {
        self->retry_us = rqli_earlier(input->now_us + HOLD_BACK_US, self->tick_us);
        sleep_on(self, input);
    }
}

/* No result: neither a try nor a pause is counted. */
void rqli_request_on_again(struct rqli_request *self, int64_t now_us)
{
    self->in_queue = true;
    if (now_us >= self->limits.deadline_us) {
        end_with(self, RQL_TIMED_OUT);
    } else {
        move_to(self, RQLI_REQUEST_TRYING);
    }
}

void rqli_request_on_over(struct rqli_request *self, const struct rqli_request_input *input)
{
    self->tries += self->was_counted ? 0 : 1;
    self->in_queue = true;
    /* The result if the deadline comes in the pause: no fault led to the pause. */
    self->verdict = RQL_TIMED_OUT;
    self->tick_us = RQLI_NEVER_US; /* the next answer counts as a try */
    self->retry_us = input->now_us + self->limits.delay_us + input->jitter_us;
    if (tries_are_used_up(self)) {
        end_with(self, RQL_RETRY_LIMIT);
    } else if (input->now_us >= self->limits.deadline_us) {
        end_with(self, RQL_TIMED_OUT);
    } else {
        sleep_on(self, input);
    }
}

void rqli_request_on_not_durable(struct rqli_request *self, const struct rqli_request_input *input)
{
    self->was_not_durable = true;
    rqli_request_on_over(self, input);
}

void rqli_request_on_unanswered(struct rqli_request *self)
{
    self->was_not_durable = true;
}

/* Returns whether the fault says that nothing was done. After all other faults something may have
 * been done. */
static bool did_nothing(rql_status fault)
{
    return fault == RQL_E_IO || fault == RQL_E_READ_ONLY || fault == RQL_E_UNAVAILABLE ||
           fault == RQL_E_NOMEM;
}

void rqli_request_on_setback(struct rqli_request *self, rql_status fault,
                             const struct rqli_request_input *input)
{
    RQLI_MUST(fault < 0);
    self->in_queue = self->in_queue || !did_nothing(fault);
    if (input->now_us >= self->limits.deadline_us) {
        end_with(self, fault);
        return;
    }
    self->verdict = fault; /* unless a later try has a result */
    self->retry_us = input->now_us + RQLI_PAUSE_CALL.first_us + input->jitter_us;
    sleep_on(self, input);
}

void rqli_request_on_fault(struct rqli_request *self, rql_status fault, bool was_sent)
{
    RQLI_MUST(fault < 0);
    self->in_queue = self->in_queue || (was_sent && !did_nothing(fault));
    end_with(self, fault);
}

void rqli_request_on_unusable(struct rqli_request *self, rql_status fault)
{
    RQLI_MUST(fault < 0);
    self->in_queue = true;
    end_with(self, fault);
}

/* Returns whether the request has to ask now. A follower asks at its last try only, because the
 * leader asks for all waiters of the client.
 *
 * Counts the try whose time has come: by timer, as the gem counts, whether or not the server is
 * asked. A request with a limit wakes for each try, and counts one when it wakes late; a request
 * without a limit counts all. */
static bool asks_now(struct rqli_request *self, const struct rqli_request_input *input)
{
    bool ticked = input->now_us >= self->tick_us;

    if (ticked && has_limit(self)) {
        self->tries++;
        self->tick_us = input->now_us + self->limits.delay_us + input->jitter_us;
    } else {
        rqli_request_catch_up(self, input);
    }
    self->was_counted = ticked;
    if (self->retry_us != RQLI_NEVER_US) {
        return input->now_us >= self->retry_us;
    }
    if (tries_are_used_up(self) || (ticked && polls_at_ticks(self, input))) {
        return true;
    }
    return looks_after(self, input) &&
           (input->now_us >= self->poll_us || input->now_us >= self->place.lock_ends_us);
}

/* If the deadline comes while the request waits to repeat a try, the fault of that try is the
 * result: it says more than a timeout. */
void rqli_request_on_time(struct rqli_request *self, const struct rqli_request_input *input)
{
    if (input->now_us >= self->limits.deadline_us) {
        end_with(self, self->retry_us != RQLI_NEVER_US ? self->verdict : RQL_TIMED_OUT);
    } else if (asks_now(self, input)) {
        move_to(self, RQLI_REQUEST_TRYING);
    } else {
        sleep_on(self, input);
    }
}

void rqli_request_on_poll(struct rqli_request *self)
{
    self->was_counted = false;
    move_to(self, RQLI_REQUEST_TRYING);
}

void rqli_request_catch_up(struct rqli_request *self, const struct rqli_request_input *input)
{
    int64_t period_us = self->limits.delay_us + input->jitter_us;
    int64_t missed;

    if (!has_limit(self) && input->now_us >= self->tick_us) {
        missed = 1 + (input->now_us - self->tick_us) / period_us;
        self->tries += missed;
        self->tick_us += missed * period_us;
    }
}

/* The new leader knows the holder only from its own last answer, which may be old: it polls when
 * that holder's ttl ends, which may be over, and at the next tick (polls_at_ticks()). */
void rqli_request_on_lead(struct rqli_request *self, const struct rqli_request_input *input)
{
    if (self->state == RQLI_REQUEST_QUEUED) {
        rqli_request_catch_up(self, input);
        self->poll_us = input->now_us + LIFE_US;
        sleep_on(self, input);
    }
}

/* As rqli_request_on_time() at the deadline: the fault of the try that was to be repeated is the
 * result. */
void rqli_request_on_late(struct rqli_request *self)
{
    end_with(self, self->retry_us != RQLI_NEVER_US ? self->verdict : RQL_TIMED_OUT);
}

void rqli_request_on_cancelled(struct rqli_request *self, bool may_be_there)
{
    if (self->state == RQLI_REQUEST_TRYING || self->state == RQLI_REQUEST_QUEUED) {
        /* A try that is under way is withdrawn, though no answer has said that anything is
         * there. */
        self->in_queue = self->in_queue || may_be_there;
        end_with(self, RQL_CANCELLED);
    }
}

void rqli_request_on_left(struct rqli_request *self, bool is_confirmed)
{
    self->in_queue = !is_confirmed;
    /* A verdict that says that nothing was done would not be true of the tries before it. */
    if (!is_confirmed &&
        (self->verdict > 0 || self->verdict == RQL_E_NOT_DURABLE || did_nothing(self->verdict))) {
        self->verdict = RQL_E_UNKNOWN;
    } else if (is_confirmed && self->verdict == RQL_E_UNKNOWN) {
        self->verdict = in_vain(self, RQL_TIMED_OUT); /* the unknown try is withdrawn */
    }
    move_to(self, RQLI_REQUEST_DONE);
}
