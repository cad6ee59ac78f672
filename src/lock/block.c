#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "lock/series.h"
#include "options/options.h"

/* A block runs while it holds a lock or a series. Its clean-up runs however the block is left:
 * return, exception, cancellation. */

struct hold {
    rql_lock *lock;
    rql_series *series;
    rql_series_result *result;
    rql_status release_status;
    rql_error *error;
};

static void end_block(struct hold *self)
{
    if (self->lock) {
        self->release_status = rql_lock_release(self->lock, self->error);
    } else if (self->series) {
        self->release_status = rql_series_release(self->series, self->result, self->error);
    }
    self->lock = NULL;
    self->series = NULL;
}

static bool overran(const rql_lock_options *options, int64_t begun_us)
{
    return options->timed && rqli_now_us() - begun_us > options->ttl_ms * 1000;
}

rql_status rql_with_lock(rql_client *client, const char *name, const rql_lock_options *options,
                         rql_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    rql_lock_options read;
    bool was_late;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!block || !block->run) {
        return rqli_fail(error, RQL_E_INVALID, "%s: there is no block to run",
                         name ? name : "rql_with_lock");
    }
    status = rqli_lock_options_read(&read, &client->of_calls, options, error);
    if (!status) {
        status = rql_lock_acquire(client, name, &read, &self.lock, error);
    }
    if (status) {
        return status;
    }
    block->value = block->run(self.lock, block->user_data);
    was_late = overran(&read, self.lock->begun_us);
    end_block(&self);
    return was_late ? RQL_BLOCK_OVERRAN : self.release_status;
}

rql_status rql_with_series(rql_client *client, const rql_series_options *options,
                           rql_series_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    struct rqli_series_plan plan;
    bool was_late;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!block || !block->run) {
        return rqli_fail(error, RQL_E_INVALID, "series: there is no block to run");
    }
    status = rqli_series_plan(&plan, &client->of_calls, options, error);
    if (!status) {
        self.result = plan.options.result;
        status = rql_series_acquire(client, &plan.options, &self.series, error);
    }
    if (status) {
        return status;
    }
    block->value = block->run(self.series, block->user_data);
    was_late = overran(&plan.lock, self.series->begun_us);
    end_block(&self);
    return was_late ? RQL_BLOCK_OVERRAN : self.release_status;
}
