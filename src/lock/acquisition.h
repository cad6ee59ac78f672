#ifndef RQLI_ACQUISITION_H
#define RQLI_ACQUISITION_H

/* One acquisition on a loop: the machine of acquire/request.h, driven by what comes in. Of one lock
 * (async.c), or of several at once (series.c). One thread: the loop's. */

#include "lock/attempt_inside.h"
#include "lock/loop.h"

struct rqli_request_kind {
    void (*observe_try)(const rql_lock *lock); /* or NULL */
    /* One try: the call, and what its answer leads to. */
    void (*write)(const struct attempt *attempt, struct rqli_call *call, int64_t now_us);
    struct rqli_try (*read)(struct attempt *attempt, const struct rqli_exchange *answer,
                            rql_error *error);
    enum rqli_wait_result (*take_push)(struct attempt *attempt);
    /* Out of the queues; ends in rqli_acquisition_left(). */
    void (*leave)(rql_request *self);
    /* No time left for that: as `leave`, at once. */
    void (*give_up_leaving)(rql_request *self);
    /* Told, and freed. detail: of a fault. */
    void (*finish)(rql_request *self, rql_status status, const rql_error *detail);
};

struct rql_request {
    struct rqli_job job; /* first */
    struct rqli_post cancelling;
    const struct rqli_request_kind *kind;
    struct attempt *attempt;
    struct rqli_guest guest;
    struct rqli_queued_call queued_call; /* of trying; and of leaving, if it is one lock */
    struct rqli_due due;
    struct rqli_request machine;
    rql_request *part; /* the one that tries in its place, or NULL: of a series in the gem's mode */
    rql_error *detail; /* of the last fault, or NULL */
    rql_status fault;  /* of the last try; RQL_OK: it was answered */
    int64_t begun_us;
    int64_t tried_us; /* when the last try began */
    uint64_t watch;   /* place in the pipe of a look at Ruby's lock, or 0 */
    bool has_joined;
    bool shall_cancel;          /* as soon as the try under way is answered */
    bool _Atomic is_cancelling; /* posted, and not taken yet */
    bool is_over;               /* freed when that is taken */
};

/* The job of a new request; `begin` makes its lock and then begins the acquisition. */
void rqli_acquisition_init(rql_request *self, const struct rqli_request_kind *kind,
                           void (*begin)(struct rqli_job *job));

/* attempt, guest and begun_us are set. RQL_E_BUSY, RQL_E_NOMEM (raised): it was not begun. Else
 * kind->finish comes, now or later. */
rql_status rqli_acquisition_begin(rql_request *self, rql_error *error);

/* It is out of its queues, or that was handed to the keeper. */
void rqli_acquisition_left(rql_request *self, bool is_confirmed);

/* The last step of kind->finish: no more of it is used, but by a cancellation on its way. Behind
 * the callback: until that is called, another thread may cancel it. */
void rqli_acquisition_free(rql_request *self);

/* As rqli_job::cancel. */
void rqli_acquisition_cancel(struct rqli_job *job);

#endif
