#ifndef RQLI_SUPERVISE_H
#define RQLI_SUPERVISE_H

/* The elements of a swarm: what is done in steps, one every period, and at once when it is roused.
 * A step is an operation on the swarm's loop. And what the supervisor knows of an element. */

#include "lock/loop.h"
#include "observe/observe.h"

#include <pthread.h>
#include <rql/swarm.h>

/* What is known of one element: whether its steps come to an end, and whether they reach the
 * server. Pure: time is an argument. */

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
    RQLI_WATCH_START,   /* it has ended: begin it anew */
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

/* Does the step under way hang? */
bool rqli_watch_hangs(const struct rqli_watch *self, int64_t now_us);

/* The supervisor looks. */
enum rqli_watch_action rqli_watch_look(struct rqli_watch *self, int64_t now_us);

struct rqli_element_ops {
    const char *label; /* of rql_swarm_status */
    /* Begins a step; NULL: it is done. is_timed: the period is over; else it was roused. */
    struct rqli_op *(*begin)(struct rql_swarm *swarm, bool is_timed);
    void (*end)(struct rql_swarm *swarm, rql_status status); /* of that operation */
    /* The same of what is done last, when it is stopped; or NULL. */
    struct rqli_op *(*begin_last)(struct rql_swarm *swarm);
    void (*end_last)(struct rql_swarm *swarm, rql_status status);
};

/* Of the loop's thread, but for what is marked. */
struct rqli_element {
    const struct rqli_element_ops *ops;
    struct rql_swarm *swarm;
    rql_loop *loop;
    int64_t period_us;
    int64_t next_us; /* the next step that is not roused */
    uint64_t tried;  /* steps, refused ones too */
    struct rqli_due due;
    struct rqli_op_task task;
    struct rqli_op_call calls[RQLI_OP_CALLS_MAX];
    bool is_begun; /* and not over */
    bool is_busy;  /* an operation of it is under way */
    bool is_last;  /* it is the last one */
    bool is_again; /* roused meanwhile */
    bool shall_stop;
    bool shall_restart; /* end, and be found dead */

    struct rqli_post rousing;
    atomic_bool is_roused; /* any thread: it is posted */

    struct {
        pthread_mutex_t mutex;
        struct rqli_watch watch;
        bool is_enabled;
    } shared; /* any thread, under shared.mutex */
};

void rqli_element_init(struct rqli_element *self, const struct rqli_element_ops *ops,
                       struct rql_swarm *swarm);
void rqli_element_fini(struct rqli_element *self); /* over */

/* Takes the first step when the loop runs; before it does, or on its thread. False: no memory. */
bool rqli_element_begin(struct rqli_element *self, rql_loop *loop, int64_t period_us,
                        const struct rqli_watch_terms *terms);
void rqli_element_drop(struct rqli_element *self); /* the loop has not run yet */

/* Loop's thread. The step under way ends as soon as it can, then comes what is done last. Not
 * begun is fine. */
void rqli_element_stop(struct rqli_element *self);
void rqli_element_rouse(struct rqli_element *self);
void rqli_element_sign(struct rqli_element *self); /* from within a step: it does not hang */

/* Any thread, until it is stopped. */
void rqli_element_call(struct rqli_element *self);

/* Supervisor: begins it anew if it has died, has it end if it hangs. */
void rqli_element_look_after(struct rqli_element *self);

/* Any thread. */
void rqli_element_describe(struct rqli_element *self, rql_element_status *out);

/* What an element reports to its swarm, in swarm.c. */

/* The loop's thread. News of it; and: an element has taken a step, was refused one by its breaker,
 * or has ended. */
void rqli_swarm_notify(struct rql_swarm *self, enum rqli_moment moment,
                       struct rqli_figures figures);
void rqli_swarm_on_step(struct rql_swarm *self);

#endif
