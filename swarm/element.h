#ifndef RQLI_ELEMENT_H
#define RQLI_ELEMENT_H

/* A part of a swarm: a thread with a libuv loop that takes a step every period, and at once when it
 * is roused. Each has a thread of its own, because steps block: a flush of many locks takes longer
 * than a host may be silent. */

#include "observe/observe.h"
#include "supervisor.h"

#include <pthread.h>
#include <uv.h>

struct rqli_element_kind {
    const char *name;  /* of its thread */
    const char *label; /* of rql_swarm_status */
    /* Not negative: it went well. is_timed: the period is over; else it was roused in between. */
    rql_status (*step)(void *context, bool is_timed);
    /* News of it; no mutex is held. */
    void (*notify)(void *context, enum rqli_moment moment, struct rqli_figures figures);
};

struct rqli_element {
    const struct rqli_element_kind *kind;
    void *context;
    int64_t period_us;
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t call;
    uv_timer_t timer;

    struct {
        pthread_mutex_t mutex;
        pthread_cond_t stepped;
        struct rqli_watch watch;
        uint64_t tried; /* steps begun or refused by the breaker, for waiting */
        bool is_enabled;
        bool has_thread; /* to be joined */
        bool is_looping; /* call may be sent to */
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
