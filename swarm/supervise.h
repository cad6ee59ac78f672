#ifndef RQLI_SUPERVISE_H
#define RQLI_SUPERVISE_H

/* The elements of a swarm: each a thread that takes a step every period, and at once when it is
 * roused; and what its supervisor knows of it. Each has a thread of its own, because steps block: a
 * flush of many locks takes longer than a host may be silent. */

#include "base/worker.h"
#include "observe/observe.h"

#include <pthread.h>
#include <rql/swarm.h>

/* What is known of one element of a swarm: whether its thread lives, and whether its steps reach
 * the server. Pure: time is an argument. */

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

struct rqli_element_kind {
    const char *name;  /* of its thread */
    const char *label; /* of rql_swarm_status */
    /* Not negative: it went well. is_timed: the period is over; else it was roused in between. */
    rql_status (*step)(void *context, bool is_timed);
    /* News of it; no mutex is held. */
    void (*notify)(void *context, enum rqli_moment moment, struct rqli_figures figures);
};

struct rqli_element {
    struct rqli_worker worker; /* first */
    const struct rqli_element_kind *kind;
    void *context;
    int64_t period_us;
    int64_t next_us;     /* of its thread: the next step that is not roused */
    rqli_signal stepped; /* counts: steps, refused ones too, and its end */

    struct {
        pthread_mutex_t mutex;
        struct rqli_watch watch;
        uint64_t tried; /* steps begun or refused by the breaker, for waiting */
        bool is_enabled;
        bool has_thread; /* to be joined */
        bool is_going;   /* it takes steps */
        bool shall_stop;
        bool shall_restart; /* end, and be found dead */
    } shared;               /* everything in here under shared.mutex */
};

void rqli_element_init(struct rqli_element *self, const struct rqli_element_kind *kind,
                       void *context);
void rqli_element_fini(struct rqli_element *self); /* stopped */

/* RQL_E_NOMEM: no thread to be had. The first step is taken at once. */
rql_status rqli_element_start(struct rqli_element *self, int64_t period_us,
                              const struct rqli_watch_terms *terms, rql_error *error);
void rqli_element_stop(struct rqli_element *self); /* waits for the step under way */

void rqli_element_rouse(struct rqli_element *self);

/* Rouses it and waits until a step that began afterwards is over, at most for_us. */
void rqli_element_await_step(struct rqli_element *self, int64_t for_us);

bool rqli_element_shall_stop(struct rqli_element *self);
void rqli_element_sign(struct rqli_element *self); /* from within a step: it does not hang */

/* Supervisor: starts it again if it has died, has it end if it hangs. */
void rqli_element_look_after(struct rqli_element *self);

void rqli_element_describe(struct rqli_element *self, rql_element_status *out);

#endif
