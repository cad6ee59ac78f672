#ifndef RQLI_SUPERVISE_H
#define RQLI_SUPERVISE_H

/* The elements of a swarm, and what the supervisor knows of them. An element takes a step every
 * period, and at once when it is roused. A step is an operation on the swarm's loop. */

#include "lock/loop.h"
#include "net/op/op_loop.h"
#include "observe/observe.h"

#include <pthread.h>
#include <rql/hosts.h>
#include <rql/swarm.h>

/* The state of one element: whether its steps come to an end, and whether they reach the server.
 * Pure: time is an argument. */

struct rqli_watch_terms {
    int64_t hang_us;       /* a step without a sign for this long hangs */
    int failures_max;      /* failures in a row that open the breaker */
    int64_t open_least_us; /* the first time that it stays open; doubled each time */
    int64_t open_most_us;  /* the longest time that it stays open */
};

struct rqli_watch {
    struct rqli_watch_terms terms;
    rql_element_state state;
    rql_breaker_state breaker;
    bool is_in_step;
    int64_t sign_us;       /* when the step under way gave its last sign */
    int64_t open_until_us; /* while the breaker is open */
    int64_t open_us;       /* how long the breaker was open last */
    int failed_in_a_row;
    int64_t steps;
    int64_t failures;
    int64_t restarts;
};

enum rqli_watch_action {
    RQLI_WATCH_NOTHING,
    RQLI_WATCH_START,   /* it has ended: start it again */
    RQLI_WATCH_REPLACE, /* it hangs: let it end as soon as it can */
};

void rqli_watch_init(struct rqli_watch *self, const struct rqli_watch_terms *terms);

void rqli_watch_on_started(struct rqli_watch *self);
void rqli_watch_on_ended(struct rqli_watch *self, bool was_told_to);

/* Returns whether the element may take a step. An open breaker becomes half-open when its time is
 * over. */
bool rqli_watch_may_step(struct rqli_watch *self, int64_t now_us);
void rqli_watch_on_step(struct rqli_watch *self, int64_t now_us);
void rqli_watch_on_sign(struct rqli_watch *self, int64_t now_us);

/* RQL_STOPPED: the step was cancelled, which says nothing about the server. */
void rqli_watch_on_done(struct rqli_watch *self, int64_t now_us, rql_status status);

/* Returns whether the step under way hangs. */
bool rqli_watch_hangs(const struct rqli_watch *self, int64_t now_us);

/* Returns what the supervisor has to do with the element. */
enum rqli_watch_action rqli_watch_look(struct rqli_watch *self, int64_t now_us);

struct rqli_element_ops {
    const char *label; /* its name in rql_swarm_status */
    /* Begins a step. NULL: the step is done. is_timed: the period is over; else the element was
     * roused. */
    struct rqli_op *(*begin)(struct rql_swarm *swarm, bool is_timed);
    void (*end)(struct rql_swarm *swarm, rql_status status); /* after that operation */
    /* The same for the last operation, when the element is stopped; or NULL. */
    struct rqli_op *(*begin_last)(struct rql_swarm *swarm);
    void (*end_last)(struct rql_swarm *swarm, rql_status status);
};

/* Used by the loop's thread, unless a comment says otherwise. */
struct rqli_element {
    const struct rqli_element_ops *ops;
    struct rql_swarm *swarm;
    rql_loop *loop;
    int64_t period_us;
    int64_t next_us; /* when the next timed step is due */
    uint64_t tried;  /* number of steps, with refused ones */
    struct rqli_due due;
    struct rqli_op_driver driver;
    struct rqli_op_call calls[RQLI_OP_CALLS_MAX];
    bool is_begun; /* and has not ended */
    bool is_busy;  /* an operation of it is under way */
    bool is_last;  /* that operation is the last one */
    bool is_again; /* it was roused during a step */
    bool shall_stop;
    bool shall_restart; /* it has to end, to be found dead */

    struct rqli_post rousing;
    atomic_bool is_roused; /* any thread: `rousing` is posted */

    struct {
        pthread_mutex_t mutex;
        struct rqli_watch watch;
        bool is_enabled;
    } shared; /* any thread; guarded by shared.mutex */
};

void rqli_element_init(struct rqli_element *self, const struct rqli_element_ops *ops,
                       struct rql_swarm *swarm);
void rqli_element_fini(struct rqli_element *self); /* after its end */

/* Begins the element, before the loop runs or on its thread. The first step comes when the loop
 * runs. False: no memory. */
bool rqli_element_begin(struct rqli_element *self, rql_loop *loop, int64_t period_us,
                        const struct rqli_watch_terms *terms);
void rqli_element_drop(struct rqli_element *self); /* at its end, or before the loop has run */

/* Loop's thread. Ends the step under way as soon as it can; then the last operation follows. No
 * effect on an element that has not begun. */
void rqli_element_stop(struct rqli_element *self);
void rqli_element_rouse(struct rqli_element *self);
void rqli_element_sign(struct rqli_element *self); /* called in a step: it does not hang */

/* Any thread, until the element is stopped. Rouses it. */
void rqli_element_call(struct rqli_element *self);

/* For the supervisor. Starts the element again if it has died, and ends it if it hangs. */
void rqli_element_look_after(struct rqli_element *self);

/* Any thread. Reads the status. */
void rqli_element_describe(struct rqli_element *self, rql_element_status *out);

/* Reports of an element to its swarm, in swarm.c. */

/* Loop's thread. The first notifies the listeners of news of the element that uses the client
 * `via`. The second reports that an element has taken a step, was refused a step by its breaker, or
 * has ended. */
void rqli_swarm_notify(struct rql_swarm *self, rql_client *via, enum rqli_moment moment,
                       struct rqli_figures figures);
void rqli_swarm_on_step(struct rql_swarm *self);

#endif
