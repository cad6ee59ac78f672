#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/acquire.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/hand_over.h"
#include "lock/leases.h"
#include "lock/series.h"

#include <stdlib.h>
#include <string.h>

/* The calls of rql/series.h, and rql_series_acquire_async(). */

/* ---- the acquisition on its caller's thread ---- */

/* Takes the steps of an acquisition that was begun. The room for 64 locks is on the stack: only the
 * handles are allocated. */
static void take_steps(struct rqli_series_acquire *self, enum rqli_series_step step,
                       rql_error *error)
{
    const rql_series *series = self->series;
    struct rqli_acquire_result acquired;
    struct rqli_acquire acquire;
    int64_t deadline_us = 0;

    while (step == RQLI_SERIES_ACQUIRE) {
        rqli_series_ask(self, &acquire);
        acquire.result = &acquired;
        rqli_acquire_init(&acquire);
        (void)rqli_acquire_run(&acquire, error);
        deadline_us = acquire.request.limits.deadline_us; /* a cancellation has moved it */
        step = rqli_series_on_acquired(self, &acquire, false, error);
    }
    /* The call ends by the deadline of the acquisition that failed. */
    if (step == RQLI_SERIES_GIVE_BACK) {
        int64_t until_us = rqli_give_back_until_us(series->client, deadline_us);

        rqli_series_on_returned(series,
                                rqli_give_back(series->locks, series->count, until_us, NULL));
    }
}

rql_status rql_series_acquire(rql_client *client, const rql_series_options *options,
                              rql_series **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_series_acquire self;
    enum rqli_series_step step;
    rql_series *series;
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_series_plan(&self.plan, client, options, error);
    }
    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "series: out is NULL");
    }
    self.begun_us = rqli_now_us();
    step = rqli_series_begin(&self, client, 0, error);
    /* timeout_ms counts from here: the time that a logger took for the line about the start is not
     * included. */
    self.asked_us = rqli_now_us();
    take_steps(&self, step, error);
    series = rqli_series_conclude(&self);
    if (series) {
        *out = series;
    }
    return self.status;
}

/* ---- the acquisition on a loop ---- */

/* One request acquires what the series asks for next, until all is held. A cancellation goes to the
 * acquisition under way; while the locks are given back it changes nothing. */
struct acquiring {
    rql_request request; /* first */
    struct rqli_series_acquire series;
    rql_error error; /* why the series failed */
    rql_series_acquired_fn done;
    void *user_data;
    struct rqli_op_call calls[RQL_SERIES_MAX]; /* as many as may leave their queues at once */
};

static void take_step(struct acquiring *self, enum rqli_series_step step);

static void on_acquired(rql_request *request, rql_status status, const rql_error *error)
{
    struct acquiring *self = (struct acquiring *)request;

    (void)status;
    self->error = *error;
    take_step(self, rqli_series_on_acquired(&self->series, &request->acquire, request->shall_cancel,
                                            &self->error));
}

/* The result of giving back is reported with each lock; the caller gets the reason why the series
 * failed. */
static void on_given_back(rql_status status, const rql_error *error, void *user_data)
{
    struct acquiring *self = user_data;

    (void)error;
    rqli_series_on_returned(self->series.series, status);
    take_step(self, RQLI_SERIES_CONCLUDE);
}

/* Takes the next step. A fault that has passed is freed, because it is not a fault of the next
 * acquisition. Without memory for a release the locks are given back in the background. The
 * caller's result is filled in before the callback; a series that is not held is freed by then, and
 * the callback gets NULL. `self` may be gone afterwards. */
static void take_step(struct acquiring *self, enum rqli_series_step step)
{
    rql_request *request = &self->request;
    rql_series *series = self->series.series;
    rql_status status = self->series.status;
    const rql_done done = {on_given_back, self};

    switch (step) {
    case RQLI_SERIES_ACQUIRE:
        free(request->acquire.error);
        rqli_series_ask(&self->series, &request->acquire);
        rqli_request_begin(request);
        break;
    case RQLI_SERIES_GIVE_BACK:
        if (!rqli_give_back_begin(request->job.loop, series->locks, series->count,
                                  request->acquire.request.limits.deadline_us, &done)) {
            on_given_back(RQL_E_NOMEM, NULL, self);
        }
        break;
    case RQLI_SERIES_CONCLUDE:
        series = rqli_series_conclude(&self->series);
        self->done(status, series, status ? &self->error : NULL, self->user_data);
        rqli_request_free(request);
        break;
    }
}

/* Loop's thread. Begins the series. All its locks have one number, because a series is one
 * acquirer, as a request is. */
static void begin_series(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;
    uint64_t number = self->series.plan.lock.task ? 0 : rqli_loop_new_acquirer(job->loop);

    take_step(self, rqli_series_begin(&self->series, job->loop->client, number, &self->error));
}

/* Copies the names to the memory after the structure, in the same allocation: an array of pointers,
 * then the names. */
static void copy_names(rql_series_options *options, char *memory)
{
    const char **names = (const char **)(void *)memory;
    char *at = memory + options->n_names * sizeof *names;

    for (size_t i = 0; i < options->n_names; i++) {
        size_t size = strlen(options->names[i]) + 1;

        names[i] = memcpy(at, options->names[i], size);
        at += size;
    }
    options->names = names;
}

/* Makes an acquisition in one allocation: the struct, the metadata, and from the next address that
 * fits a pointer on, the names. Each name has room as if it were of the greatest length. Returns
 * NULL if there is no memory. */
static struct acquiring *acquiring_new(rql_loop *loop, const struct rqli_series_plan *plan,
                                       const rql_series_acquiring *what)
{
    size_t names = plan->options.n_names * (sizeof(char *) + RQL_NAME_MAX + 1);
    struct acquiring *self =
        calloc(1, sizeof *self + names + rqli_options_room(&plan->lock) + sizeof(rql_meta));
    char *memory;

    if (!self) {
        return NULL;
    }
    rqli_request_prepare(&self->request, begin_series);
    self->request.job.loop = loop;
    self->request.driver.calls = self->calls;
    self->request.finish = on_acquired;
    self->series.plan = *plan;
    self->series.begun_us = self->request.acquire.begun_us;
    self->series.asked_us = self->request.acquire.begun_us;
    memory = rqli_options_copy(&self->series.plan.lock, (char *)(self + 1));
    memory += -(uintptr_t)memory % sizeof(char *);
    copy_names(&self->series.plan.options, memory);
    self->done = what->done;
    self->user_data = what->user_data;
    return self;
}

rql_status rql_series_acquire_async(rql_loop *loop, const rql_series_options *options,
                                    rql_series_acquiring *what, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_series_plan plan;
    struct acquiring *self;
    rql_status status = rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_series_plan(&plan, loop->client, options, error);
    }
    if (status) {
        return status;
    }
    if (!what || !what->done) {
        return rqli_fail(error, RQL_E_INVALID, "series: there is no completion callback");
    }
    self = acquiring_new(loop, &plan, what);
    what->request = (rql_request *)self; /* before the loop's thread can be done with it */
    return rqli_loop_start(loop, (struct rqli_job *)self, error);
}

/* ---- what is held ---- */

/* Returns the loop of this thread that has handed over one of the locks, as
 * rqli_hand_over_loop_here() does for a lock. */
static rql_loop *loop_here(const rql_series *series)
{
    rql_loop *loop = NULL;

    for (size_t i = 0; i < series->count && !loop; i++) {
        loop = rqli_hand_over_loop_here(series->locks[i]);
    }
    return loop;
}

/* Releases the last lock first, as nested locks would be released. In a child of the series'
 * process the call touches nothing, as in rql_lock_release(). */
rql_status rql_series_release(rql_series *series, rql_series_result *result, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status;
    rql_loop *loop;

    if (!series) {
        return RQL_OK;
    }
    status = rqli_client_check(series->client, error);
    if (!status) {
        status = rqli_result_check(result, RQLI_SERIES_RESULT_SIZE, error);
    }
    if (status) {
        return status;
    }
    loop = loop_here(series);
    if (loop) {
        /* Before the release begins, which may free the series. */
        rqli_series_note_ended(series, RQL_OK, result);
    }
    if (loop && rqli_series_release_begin(loop, series)) {
        return RQL_OK;
    }
    rqli_observe(RQLI_ON_SERIES_ENDING, &series->subject, NULL);
    status = rqli_give_back(series->locks, series->count, RQLI_NEVER_US, error);
    rqli_series_on_released(series, status, result);
    rqli_series_free(series);
    return status;
}

/* Forgets each lock by itself: the leases look after one that could not be claimed, and the handles
 * of the others are freed. */
rql_series *rql_series_forget(rql_series *series)
{
    RQLI_DEFER_CANCEL;

    if (!series || rqli_client_check(series->client, NULL)) {
        return NULL;
    }
    for (size_t i = series->count; i-- > 0;) {
        series->locks[i] = rql_lock_forget(series->locks[i]);
    }
    return rqli_series_free(series);
}

static rql_status check_held(const rql_series *series, rql_error *error)
{
    if (!series) {
        return rqli_fail(error, RQL_E_INVALID, "series is NULL");
    }
    return rqli_client_check(series->client, error);
}

rql_status rql_series_extend(rql_series *series, int64_t ttl_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_held(series, error);

    if (!status) {
        status = rqli_extend_check(series->client, ttl_ms, error);
    }
    for (size_t i = 0; !status && i < series->count; i++) {
        status = rqli_hand_over_check_here(series->locks[i], error);
    }
    return status ? status : rqli_extend(series->locks, series->count, ttl_ms, error);
}

/* Returns the worst state of all its locks. */
rql_lock_state rql_series_get_state(const rql_series *series)
{
    rql_lock_state worst = RQL_HELD;

    if (check_held(series, NULL)) {
        return RQL_GONE;
    }
    for (size_t i = 0; i < series->count; i++) {
        rql_lock_state state = rql_lock_get_state(series->locks[i]);

        worst = state > worst ? state : worst;
    }
    return worst;
}

/* Returns the shortest time that any of its locks has left. */
int64_t rql_series_remaining_ms(const rql_series *series)
{
    int64_t least_ms = RQL_TTL_MAX_MS;

    if (check_held(series, NULL)) {
        return 0;
    }
    for (size_t i = 0; i < series->count; i++) {
        int64_t left_ms = rql_lock_remaining_ms(series->locks[i]);

        least_ms = left_ms < least_ms ? left_ms : least_ms;
    }
    return least_ms;
}

/* Makes one descriptor for all: each lock has its own number for the same event, which the loss
 * of any of them makes readable. */
rql_status rql_series_lost_fd(rql_series *series, int *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_held(series, error);
    int fd = -1;

    if (status) {
        return status;
    }
    status = rqli_leases_lost_fd(series->client->leases, series->locks[0], &fd, error);
    for (size_t i = 1; !status && i < series->count; i++) {
        status = rqli_leases_share_lost_fd(series->client->leases, series->locks[i], fd, error);
    }
    if (!status) {
        *out = fd;
    }
    return status;
}

/* These facts are known from the grant on, so nothing is locked, and a fork child may ask for them,
 * too. */
size_t rql_series_count(const rql_series *series)
{
    return series ? series->count : 0;
}

const rql_lock *rql_series_lock(const rql_series *series, size_t index)
{
    for (size_t i = 0; i < rql_series_count(series); i++) {
        if (series->places[i] == index) {
            return series->locks[i];
        }
    }
    return NULL;
}
