#ifndef RQLI_SUPERVISOR_H
#define RQLI_SUPERVISOR_H

/* What is known of one element of a swarm: whether its thread lives, and whether its steps reach
 * the server. Pure: time is an argument. */

#include <rql/swarm.h>
#include <stdbool.h>
#include <stdint.h>

struct rqli_watch_terms {
    int64_t hang_us;       /* a step without a sign for this long hangs */
    int failures_max;      /* in a row: opens the breaker */
    int64_t open_least_us; /* stays open this long, twice as long each time, */
    int64_t open_most_us;  /* at most this long */
};

struct rqli_watch {
    struct rqli_watch_terms terms;
    rql_element_state state;
    rql_breaker_state breaker;
    bool is_in_step;
    int64_t sign_us;       /* the last sign of the step under way */
    int64_t open_until_us; /* while the breaker is open */
    int64_t open_us;       /* how long it was open last */
    int failed_in_a_row;
    int64_t steps;
    int64_t failures;
    int64_t restarts;
};

enum rqli_watch_action {
    RQLI_WATCH_NOTHING,
    RQLI_WATCH_START,   /* its thread has ended: start another */
    RQLI_WATCH_REPLACE, /* it hangs: let it end as soon as it can */
};

void rqli_watch_init(struct rqli_watch *self, const struct rqli_watch_terms *terms);

void rqli_watch_on_started(struct rqli_watch *self);
void rqli_watch_on_ended(struct rqli_watch *self, bool was_told_to);

/* May it take a step? Open breakers become half-open when their time is over. */
bool rqli_watch_may_step(struct rqli_watch *self, int64_t now_us);
void rqli_watch_on_step(struct rqli_watch *self, int64_t now_us);
void rqli_watch_on_sign(struct rqli_watch *self, int64_t now_us);
void rqli_watch_on_done(struct rqli_watch *self, int64_t now_us, bool succeeded);

/* The supervisor looks. */
enum rqli_watch_action rqli_watch_look(struct rqli_watch *self, int64_t now_us);

#endif
