#include "admin/rules.h"
#include "admin/sweep.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "net/op/op_threads.h"
#include "options/options.h"

#include <string.h>

/*
 * The sweeps of rql/sweep.h: each chooses rules, and runs one sweep on the caller's thread. A flush
 * uses the same operation (sweep.c); only the rules differ.
 */

/* Longest id in bytes, as rql_sweep_owner documents it. */
enum { ID_MAX = 512 };

/* Of rql_sweep_result in its first version. */
#define RESULT_SIZE RQLI_UP_TO(rql_sweep_result, duration_us)

void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SWEEP, options, size, client ? &client->options : NULL);
}

/* Prepares a sweep. It sends nothing before the options have been checked. *self can be passed
 * to rqli_sweep_fini_p() whatever the result is. */
static rql_status begin(struct rqli_sweep *self, rql_client *client, const rql_sweep_options *given,
                        const rql_sweep_result *out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    *self = (struct rqli_sweep){.client = client, .error = error};
    if (!status) {
        status = rqli_result_check(out, RESULT_SIZE, error);
    }
    if (!status) {
        status = rqli_options_read(RQLI_OF_SWEEP, &self->options, &client->options, given, error);
    }
    if (!status) {
        rqli_fleet_on_use(&client->fleet);
        rqli_fleet_await_map(&client->fleet, rqli_client_until_us(client, rqli_now_us()));
    }
    return status;
}

static void give(const struct rqli_sweep *self, rql_sweep_result *out)
{
    if (out) {
        rqli_result_fill(out, out->size, &self->result, sizeof self->result);
    }
}

/* A dry run is no event. *out is filled after a fault as well, because the keys that were swept
 * before it stay swept. */
static rql_status run(struct rqli_sweep *sweep, enum rqli_moment moment, rql_sweep_result *out)
{
    int64_t begun_us = rqli_now_us();
    rql_status status = rqli_op_run(rqli_sweep_begin(sweep));
    struct rqli_subject subject = rqli_subject_of_call(sweep->client);
    const struct rqli_figures figures = {
        .status = status,
        .rel_key_cnt = sweep->result.released,
        .tch_queue_cnt = sweep->result.queues,
        .rel_time_us = rqli_now_us() - begun_us,
        .at_us = rqli_server_clock_now_us(sweep->client),
    };

    sweep->result.duration_us = figures.rel_time_us;
    subject.acquirer = sweep->owner ? sweep->owner->acquirer_id : NULL;
    subject.host = sweep->owner ? sweep->owner->host_id : NULL;
    if (!sweep->options.dry_run) {
        rqli_observe(moment, &subject, &figures);
    }
    give(sweep, out);
    return status;
}

rql_status rql_locks_clear(rql_client *client, const rql_sweep_options *options,
                           rql_sweep_result *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, out, error);

    if (status) {
        return status;
    }
    /* Queues come first, as in the gem: Ruby's requests are out of them when the locks are
     * served. Our living waiters come back by their records. */
    rqli_sweep_add(&sweep, &rqli_rule_queues, sweep.options.batch_size);
    rqli_sweep_add(&sweep, &rqli_rule_locks, sweep.options.batch_size);
    return run(&sweep, RQLI_ON_CLEARED, out);
}

/* Ids of the gem can be any text, but none of them is longer than this. */
static rql_status check_id(const char *id, const char *what, rql_error *error)
{
    size_t length = id ? strnlen(id, ID_MAX + 1) : 0;

    if (length == 0 || length > ID_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "%s: must be 1 to %d bytes; nothing was sent", what,
                         ID_MAX);
    }
    return RQL_OK;
}

/* An owner of NULL is reported as a missing acquirer_id. */
static rql_status check_owner(const rql_sweep_owner *owner, rql_error *error)
{
    const rql_sweep_owner none = {NULL, NULL};
    const rql_sweep_owner *ids = owner ? owner : &none;
    rql_status status = check_id(ids->acquirer_id, "acquirer_id", error);

    return status ? status : check_id(ids->host_id, "host_id", error);
}

rql_status rql_locks_clear_of(rql_client *client, const rql_sweep_owner *owner,
                              const rql_sweep_options *options, rql_sweep_result *out,
                              rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, out, error);

    if (!status) {
        status = check_owner(owner, error);
    }
    if (status) {
        return status;
    }
    /* Requests are matched by the acquirer alone: a queue does not name the host of a Ruby
     * request. */
    sweep.owner = owner;
    rqli_sweep_add(&sweep, &rqli_rule_locks, sweep.options.lock_scan_size);
    rqli_sweep_add(&sweep, &rqli_rule_shares, sweep.options.lock_scan_size);
    rqli_sweep_add(&sweep, &rqli_rule_requests, sweep.options.queue_scan_size);
    return run(&sweep, RQLI_ON_CLEARED_OF, out);
}

/* Uses the server's clock, because the scores of our requests come from it and this machine's
 * clock may be wrong. It is read once, so that one limit holds for all queues. */
static rql_status read_age(struct rqli_sweep *sweep)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query(sweep->client, &batch, sweep->error, "TIME", NULL);
    int64_t server_us;

    if (status) {
        return rqli_reader_status(status, &sweep->client->fleet.first, sweep->error);
    }
    if (!rqli_time_read(batch->reply, &server_us)) {
        return rqli_batch_fault(batch, batch->reply, "TIME", "server", sweep->error);
    }
    sweep->oldest_us = server_us - sweep->options.dead_ttl_ms * 1000;
    return RQL_OK;
}

rql_status rql_requests_clear_dead(rql_client *client, const rql_sweep_options *options,
                                   rql_sweep_result *out, rql_text_list **queues, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_sweep_fini) struct rqli_sweep sweep;
    rql_status status = begin(&sweep, client, options, out, error);

    if (status) {
        return status;
    }
    /* From here on *out is set even if TIME fails: to a result of zeros. */
    give(&sweep, out);
    rqli_sweep_add(&sweep, &rqli_rule_dead_requests, sweep.options.batch_size);
    status = read_age(&sweep);
    if (!status) {
        status = run(&sweep, RQLI_ON_SWEPT, out);
    }
    /* The walk has all keys that it found and `wants` accepted, changed or not. If memory for
     * the list runs out, the sweep is done all the same, as *out says. */
    if (!status && queues) {
        status = rqli_list_give_names(&sweep.parts[0].walk.found, RQLI_KEY_QUEUE, queues, error);
    }
    return status;
}
