#ifndef RQLI_LEASE_H
#define RQLI_LEASE_H

/*
 * A held lock as a state machine: held, doubtful, gone.
 *
 * Pure: time is an argument. Deadlines are local, and earlier than the server's by a margin.
 */

#include <rql/lock.h>
#include <stdbool.h>
#include <stdint.h>

enum rqli_lease_claim {
    RQLI_LEASE_CLAIMED,
    RQLI_LEASE_UNCLAIMED,   /* handed over, and the server has not heard from us yet */
    RQLI_LEASE_UNCONFIRMED, /* handed over inside the client, and not confirmed by the server yet */
};

struct rqli_lease {
    rql_lock_state state;
    int64_t ttl_ms;
    int64_t most_ms;      /* limit of what is relied on, whatever the server grants */
    int64_t begun_us;     /* no later than the grant */
    int64_t deadline_us;  /* not relied on from here on */
    int64_t renew_us;     /* next renewal or claim, RQLI_NEVER_US: none */
    int64_t doubt_us;     /* that renewal or claim is late from here on, or RQLI_NEVER_US */
    int64_t hold_end_us;  /* no renewal after this */
    int64_t host_end_us;  /* its host may be declared dead from here on, or RQLI_NEVER_US */
    int64_t known_us;     /* when the latest request was sent whose reply has come */
    int64_t shortened_us; /* when the latest request was sent that has shortened the lease */
    int64_t doubted_us;   /* last doubt; a reply to a later request ends it */
    bool renews;          /* auto_extend */
    bool is_reported;     /* the loss was reported */
    enum rqli_lease_claim claim;
};

/* Returns max(5 ms, 1 %), but never more than half of a very short ttl. */
int64_t rqli_lease_margin_us(int64_t ttl_ms);

struct rqli_lease_terms {
    int64_t ttl_ms;  /* what was asked for */
    int64_t left_ms; /* what the server grants from begun_us on */
    int64_t begun_us;
    int64_t max_hold_ms; /* RQL_FOREVER: no limit */
    int64_t most_ms;     /* see struct rqli_lease; 0: no limit */
    bool renews;
    bool is_claimed;
};

void rqli_lease_init(struct rqli_lease *self, const struct rqli_lease_terms *terms);

rql_lock_state rqli_lease_state(const struct rqli_lease *self, int64_t now_us);
int64_t rqli_lease_remaining_ms(const struct rqli_lease *self, int64_t now_us);

/* Returns when the lease is not relied on any more: at its own deadline, or its host's. */
int64_t rqli_lease_end_us(const struct rqli_lease *self);

/* True: it is time to extend by *ttl_ms_out (what is left to claim, or the whole ttl). */
bool rqli_lease_wants_renewal(const struct rqli_lease *self, int64_t now_us, int64_t *ttl_ms_out);

/* Return when the lease is to be renewed or claimed, and when its loss is to be reported; 0: it is
 * lost. RQLI_NEVER_US: not, or no more. */
int64_t rqli_lease_renewal_us(const struct rqli_lease *self);
int64_t rqli_lease_loss_us(const struct rqli_lease *self);

/* The server acknowledged the extension sent at sent_us: the lease has left_ms from then on. */
void rqli_lease_on_extended(struct rqli_lease *self, int64_t sent_us, int64_t left_ms);
/* Limits the lease to left_ms from sent_us on, whatever the server acknowledged before. */
void rqli_lease_on_shortened(struct rqli_lease *self, int64_t sent_us, int64_t left_ms);
/* Limits the lease to until_us, and stops its renewal until the server acknowledges an
 * extension. */
void rqli_lease_on_unconfirmed(struct rqli_lease *self, int64_t until_us);
void rqli_lease_on_setback(struct rqli_lease *self, int64_t now_us); /* no reply */
void rqli_lease_on_doubt(struct rqli_lease *self, int64_t now_us);   /* the clock jumped: verify */
void rqli_lease_on_gone(struct rqli_lease *self);
/* The lease ends by its ttl. */
void rqli_lease_stop_renewal(struct rqli_lease *self, int64_t now_us);
/* The lock is left to its ttl: the part of it that is not claimed is claimed from now on. */
void rqli_lease_on_forgotten(struct rqli_lease *self, int64_t now_us);

#endif
