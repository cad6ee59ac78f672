#include "supervisor.h"

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
