#include "lock/lease.h"

#include "base/clock.h"

#include <rql/base.h>

/*
 * How long a grant is relied on, by the local clock. Each lease has three ends: its deadline, which
 * each extension moves; the end of its host, which each heartbeat of the swarm moves; and hold_end,
 * after which it is not renewed any more. All three count from the sending of a request. Deadline
 * and end of the host are a margin earlier, so that they come before the server's.
 *
 * A lease that renews asks for an extension at a third of its ttl. When two thirds have passed
 * without a reply the lease is doubtful. At its deadline it is gone.
 */

enum {
    MARGIN_LEAST_US = 5000,
    CLAIM_MS = 1000, /* how long a hand-over lives until it is claimed */
    SETBACK_LEAST_US = 20000,
    DOUBT_PAUSE_US = 1000000, /* with a long ttl, a doubt is not left open for a share of it */
};

/* Of a ttl in ms, 1 % is 10 us for each ms, and half is 500 us. */
int64_t rqli_lease_margin_us(int64_t ttl_ms)
{
    int64_t margin_us = ttl_ms * 10;

    margin_us = margin_us < MARGIN_LEAST_US ? MARGIN_LEAST_US : margin_us;
    return margin_us < ttl_ms * 500 ? margin_us : ttl_ms * 500;
}

/* Returns the period that sets the pace of renewals. A lock that was handed over lives only until
 * it is claimed. */
static int64_t period_us(const struct rqli_lease *self)
{
    return (self->claim == RQLI_LEASE_UNCLAIMED ? CLAIM_MS : self->ttl_ms) * 1000;
}

/* Returns until when a lease that the server gave left_ms at from_us or later is relied on. */
static int64_t deadline_after(const struct rqli_lease *self, int64_t from_us, int64_t left_ms)
{
    left_ms = left_ms < self->most_ms ? left_ms : self->most_ms;
    return from_us + left_ms * 1000 - rqli_lease_margin_us(left_ms);
}

/* The lease is renewed after one third of the ttl and doubtful after two, so that two more attempts
 * fit before the deadline. */
static void count_from(struct rqli_lease *self, int64_t from_us, int64_t left_ms)
{
    int64_t pace_us = period_us(self) / 3;

    self->known_us = from_us;
    self->deadline_us = deadline_after(self, from_us, left_ms);
    self->renew_us = RQLI_NEVER_US;
    self->doubt_us = RQLI_NEVER_US;
    if (self->renews || self->claim == RQLI_LEASE_UNCLAIMED) {
        self->renew_us = from_us + pace_us;
        self->doubt_us = from_us + 2 * pace_us;
    }
}

void rqli_lease_init(struct rqli_lease *self, const struct rqli_lease_terms *terms)
{
    *self = (struct rqli_lease){
        .state = RQL_HELD,
        .ttl_ms = terms->ttl_ms,
        .most_ms = terms->most_ms > 0 ? terms->most_ms : RQL_TTL_MAX_MS,
        .begun_us = terms->begun_us,
        .hold_end_us = rqli_after_ms(terms->begun_us, terms->max_hold_ms),
        .host_end_us = RQLI_NEVER_US,
        .renews = terms->renews,
        .claim = terms->is_claimed ? RQLI_LEASE_CLAIMED : RQLI_LEASE_UNCLAIMED,
    };
    count_from(self, terms->begun_us, terms->left_ms);
}

int64_t rqli_lease_end_us(const struct rqli_lease *self)
{
    return self->host_end_us < self->deadline_us ? self->host_end_us : self->deadline_us;
}

rql_lock_state rqli_lease_state(const struct rqli_lease *self, int64_t now_us)
{
    if (self->state == RQL_GONE || now_us >= rqli_lease_end_us(self)) {
        return RQL_GONE;
    }
    return now_us >= self->doubt_us ? RQL_DOUBTFUL : self->state;
}

int64_t rqli_lease_remaining_ms(const struct rqli_lease *self, int64_t now_us)
{
    if (rqli_lease_state(self, now_us) == RQL_GONE) {
        return 0;
    }
    return (rqli_lease_end_us(self) - now_us) / 1000;
}

/* There are three reasons to ask: to renew, to claim the rest of a hand-over, and in doubt, to
 * verify. To verify, only the time that we rely on anyway is asked for, so that it never makes a
 * lease longer. A claim is for what the grant was for, although no renewal is after hold_end; a
 * doubt is verified after hold_end, too. */
bool rqli_lease_wants_renewal(const struct rqli_lease *self, int64_t now_us, int64_t *ttl_ms_out)
{
    const int64_t granted_us = self->begun_us + self->ttl_ms * 1000;
    int64_t end_us = self->deadline_us; /* to verify: what we rely on */

    if (self->state == RQL_GONE || now_us < self->renew_us) {
        return false;
    }
    if (self->renews) {
        end_us = rqli_earlier(now_us + self->ttl_ms * 1000, self->hold_end_us);
    }
    if (rqli_lease_state(self, now_us) == RQL_DOUBTFUL) {
        end_us = rqli_later(end_us, self->deadline_us);
    }
    if (self->claim == RQLI_LEASE_UNCLAIMED) {
        end_us = self->renews ? rqli_later(end_us, granted_us) : granted_us;
    }
    *ttl_ms_out = (end_us - now_us) / 1000;
    return *ttl_ms_out >= 1;
}

int64_t rqli_lease_renewal_us(const struct rqli_lease *self)
{
    return self->state == RQL_GONE ? RQLI_NEVER_US : self->renew_us;
}

int64_t rqli_lease_loss_us(const struct rqli_lease *self)
{
    if (self->is_reported) {
        return RQLI_NEVER_US;
    }
    return self->state == RQL_GONE ? 0 : rqli_lease_end_us(self);
}

/* Two connections extend, and one request or its reply can overtake the other. An overtaken one may
 * have extended the lock by more, unless the end of a re-entry has shortened the lock since, or the
 * server may have lost the extension. */
static void on_overtaken(struct rqli_lease *self, int64_t sent_us, int64_t left_ms)
{
    if (sent_us >= rqli_later(self->shortened_us, self->doubted_us)) {
        self->deadline_us = rqli_later(self->deadline_us, deadline_after(self, sent_us, left_ms));
    }
}

/* A reply to a request from before the doubt does not end the doubt, because the clock may have
 * jumped in between. */
void rqli_lease_on_extended(struct rqli_lease *self, int64_t sent_us, int64_t left_ms)
{
    if (self->state == RQL_GONE) {
        return;
    }
    if (sent_us < self->known_us) {
        on_overtaken(self, sent_us, left_ms);
        return;
    }
    self->claim = RQLI_LEASE_CLAIMED;
    count_from(self, sent_us, left_ms);
    if (sent_us < self->doubted_us) {
        self->renew_us = self->doubted_us;
    } else {
        self->state = RQL_HELD;
    }
}

/* The end of a re-entry takes back the time that it had added to the lease of the grant it
 * shares. */
void rqli_lease_on_shortened(struct rqli_lease *self, int64_t sent_us, int64_t left_ms)
{
    int64_t deadline_us = sent_us + left_ms * 1000 - rqli_lease_margin_us(left_ms);

    self->deadline_us = deadline_us < self->deadline_us ? deadline_us : self->deadline_us;
    self->known_us = rqli_later(self->known_us, sent_us);
    self->shortened_us = rqli_later(self->shortened_us, sent_us);
}

/* There is no renewal, because it could overtake the call that makes the lock ours on the
 * server. */
void rqli_lease_on_unconfirmed(struct rqli_lease *self, int64_t until_us)
{
    self->claim = RQLI_LEASE_UNCONFIRMED;
    self->deadline_us = until_us < self->deadline_us ? until_us : self->deadline_us;
    self->renew_us = RQLI_NEVER_US;
    self->doubt_us = RQLI_NEVER_US;
}

/* Retries soon, but not at once: the pause of a twentieth of the period keeps a dead server from
 * being asked in a tight loop. */
void rqli_lease_on_setback(struct rqli_lease *self, int64_t now_us)
{
    int64_t pause_us = period_us(self) / 20;

    if (self->state == RQL_DOUBTFUL && pause_us > DOUBT_PAUSE_US) {
        pause_us = DOUBT_PAUSE_US;
    }
    self->renew_us = now_us + (pause_us > SETBACK_LEAST_US ? pause_us : SETBACK_LEAST_US);
}

void rqli_lease_on_doubt(struct rqli_lease *self, int64_t now_us)
{
    if (self->state != RQL_GONE) {
        self->state = RQL_DOUBTFUL;
        self->doubted_us = now_us;
        self->renew_us = self->claim == RQLI_LEASE_UNCONFIRMED ? RQLI_NEVER_US : now_us;
    }
}

void rqli_lease_on_gone(struct rqli_lease *self)
{
    self->state = RQL_GONE;
}

/* A lease in doubt is verified first. */
void rqli_lease_stop_renewal(struct rqli_lease *self, int64_t now_us)
{
    self->renews = false;
    if (rqli_lease_state(self, now_us) != RQL_DOUBTFUL) {
        self->renew_us = RQLI_NEVER_US;
        self->doubt_us = RQLI_NEVER_US;
    }
}

/* The claim is still made, because the lock is granted for its whole ttl. */
void rqli_lease_on_forgotten(struct rqli_lease *self, int64_t now_us)
{
    rqli_lease_stop_renewal(self, now_us);
    if (self->claim == RQLI_LEASE_UNCLAIMED) {
        self->renew_us = now_us;
    }
}
