#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/series.h"

/* A block's hold on its series; as in call/with.c. */
struct hold {
    rql_series *series;
    rql_series_result *result;
    rql_status release_status;
    rql_error *error;
};

static void end_block(struct hold *self)
{
    if (self->series) {
        self->release_status = rql_series_release(self->series, self->result, self->error);
        self->series = NULL;
    }
}

rql_status rql_with_series(rql_client *client, const rql_series_options *options,
                           rql_series_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    struct rqli_series_plan plan;
    rql_status status = rqli_client_check(client, error);
    bool overran;

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
    overran = plan.lock.timed && rqli_now_us() - self.series->begun_us > plan.lock.ttl_ms * 1000;
    end_block(&self);
    return overran ? RQL_BLOCK_OVERRAN : self.release_status;
}
