#ifndef RQLI_LEASES_INSIDE_H
#define RQLI_LEASES_INSIDE_H

/* What keeper.c (the thread), view.c (looking at leases) and adopted.c share. The functions are
 * called under the keeper's mutex. */

#include "base/signal.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/renewal.h"
#include "lock/renewed.h"
#include "lock/schedule.h"
#include "lock/trace.h"
#include "lock/withdraw.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

struct rqli_leases {
    rql_client *client;
    struct rqli_conn *conn; /* the thread's own; constant after new */
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t call;
    uv_timer_t timer;
    _Atomic int64_t host_end_us; /* of new leases; see rqli_leases_on_probed() */
    atomic_bool has_extended;    /* a lease that renews was added, once */
    rqli_signal runs;            /* 1: the thread does */

    struct {
        pthread_mutex_t mutex;
        pthread_cond_t callback_ended;
        const rql_lock *told;          /* whose on_lost runs, or NULL */
        rql_lock *first;               /* of all */
        struct rqli_schedule schedule; /* of those that have to be looked after */
        struct rqli_renewed renewed;   /* of those that renew */
        struct rqli_renewals batch;    /* under way */
        struct rqli_withdrawals withdrawals;
        int64_t next_look_us; /* when the thread looks again by itself */
        unsigned added;       /* leases added since its last look */
        size_t n_adopted;     /* of the listed ones */
        struct rqli_trace trace;
        bool is_running;
        bool shall_stop;
        int64_t stop_us; /* then at the latest: what is still to withdraw is left to its ttl */
    } shared;            /* everything in here under shared.mutex */
};

/* The thread must know this lease by the time that something of it is due. False: no thread. */
bool rqli_leases_watch(struct rqli_leases *self, rql_lock *lock);

void rqli_leases_unlist(struct rqli_leases *self, rql_lock *lock);

/* Released while it waits: until no callback of it runs. */
void rqli_leases_await_callback(struct rqli_leases *self, const rql_lock *lock);

/* What there was to do for it, or for all, is done or in vain; see rqli_leases_adopt(). */
void rqli_leases_free_one_adopted(struct rqli_leases *self, rql_lock *lock);
void rqli_leases_free_adopted(struct rqli_leases *self);

/* Has the thread look now. */
void rqli_leases_rouse(struct rqli_leases *self);

#endif
