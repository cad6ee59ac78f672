#include "admin/batch.h"
#include "admin/sweep_rules.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"
#include "observe/observe.h"
#include "options/options.h"

#include <string.h>

enum { ID_MAX = 512, PARTS_MAX = 2 };

void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SWEEP, options, size, client ? &client->options : NULL);
}

/* The parts of one public call, and its walks over the keys. */
struct plan {
    struct rqli_sweep_part parts[PARTS_MAX];
    size_t n_parts;
};

static void end_walks_p(struct plan *self)
{
    for (size_t i = 0; i < self->n_parts; i++) {
        rqli_scan_fini(&self->parts[i].scan);
    }
}

static void add_part(struct plan *self, const struct rqli_sweep_rule *rule, int64_t batch_size)
{
    struct rqli_sweep_part *part = &self->parts[self->n_parts++];

    *part = (struct rqli_sweep_part){.rule = rule, .batch_size = batch_size};
    rqli_scan_init(&part->scan, rule->prefix);
}

static rql_status check(const rql_client *client, const rql_sweep_options *given,
                        rql_sweep_options *options, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    return status ? status
                  : rqli_options_read(RQLI_OF_SWEEP, options, &client->options, given, error);
}

static rql_status run(struct rqli_sweep *sweep, struct plan *plan, rql_event_kind kind,
                      rql_sweep_result *out)
{
    rql_status status = rqli_sweep_run(sweep, plan->parts, plan->n_parts);

    rqli_observe_swept(sweep, kind, status);
    if (out) {
        *out = sweep->result;
    }
    return status;
}

rql_status rql_clear_locks(rql_client *client, const rql_sweep_options *options,
                           rql_sweep_result *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_sweep_options read;
    __attribute__((cleanup(rqli_sweep_fini_p))) struct rqli_sweep sweep = {
        .client = client, .options = &read, .error = error};
    RQLI_AUTO(end_walks) struct plan plan = {.n_parts = 0};
    rql_status status = check(client, options, &read, error);

    if (status) {
        return status;
    }
    add_part(&plan, &rqli_sweep_all_queues, read.batch_size);
    add_part(&plan, &rqli_sweep_all_locks, read.batch_size);
    return run(&sweep, &plan, RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE, out);
}

static rql_status check_id(const char *id, const char *what, rql_error *error)
{
    size_t length = id ? strnlen(id, ID_MAX + 1) : 0;

    if (length == 0 || length > ID_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "%s: must be 1 to %d bytes; nothing was sent", what,
                         ID_MAX);
    }
    return RQL_OK;
}

static rql_status check_owner(const rql_sweep_owner *owner, rql_error *error)
{
    rql_status status = check_id(owner ? owner->acq_id : NULL, "acq_id", error);

    return status ? status : check_id(owner->hst_id, "hst_id", error);
}

rql_status rql_clear_locks_of(rql_client *client, const rql_sweep_owner *owner,
                              const rql_sweep_options *options, rql_sweep_result *out,
                              rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_sweep_options read;
    __attribute__((cleanup(rqli_sweep_fini_p))) struct rqli_sweep sweep = {
        .client = client, .options = &read, .error = error, .subject = owner};
    RQLI_AUTO(end_walks) struct plan plan = {.n_parts = 0};
    rql_status status = check(client, options, &read, error);

    if (!status) {
        status = check_owner(owner, error);
    }
    if (status) {
        return status;
    }
    add_part(&plan, &rqli_sweep_locks_of, read.lock_scan_size);
    add_part(&plan, &rqli_sweep_requests_of, read.queue_scan_size);
    return run(&sweep, &plan, RQL_EVENT_RELEASE_LOCKS_OF, out);
}

rql_status rql_clear_current_locks(rql_client *client, uint64_t task,
                                   const rql_sweep_options *options, rql_sweep_result *out,
                                   rql_error *error)
{
    RQLI_DEFER_CANCEL;
    char acq_id[RQL_ID_SIZE];
    char hst_id[RQL_ID_SIZE];
    rql_sweep_owner owner;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    owner.acq_id = rql_current_acquirer_id(client, task, acq_id);
    owner.hst_id = rql_current_host_id(client, hst_id);
    return rql_clear_locks_of(client, &owner, options, out, error);
}

/* Two texts: seconds, and microseconds within. */
static bool read_time(const struct rqli_reply *reply, int64_t *out_us)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        reply->items[0].type != RQLI_REPLY_TEXT || reply->items[1].type != RQLI_REPLY_TEXT ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us) || seconds < 0 ||
        seconds > RQLI_SERVER_US_MAX / 1000000) {
        return false;
    }
    *out_us = seconds * 1000000 + us;
    return true;
}

static rql_status ask_time(rql_client *client, int64_t *out_us, rql_error *error)
{
    const struct rqli_reader reader = {client, "TIME", error};
    RQLI_AUTO(rqli_give_back) struct rqli_exchange *exchange = rqli_exchange_take(client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    rqli_command_begin(&exchange->command, 1);
    rqli_command_text(&exchange->command, "TIME");
    status = rqli_reader_run(&reader, exchange);
    if (!status && !read_time(exchange->reply, out_us)) {
        status = rqli_exchange_fault(exchange, exchange->reply, "TIME", "server", error);
    }
    return status;
}

static rql_status clear_dead(struct rqli_sweep *sweep, rql_sweep_result *out,
                             rql_text_list **queues)
{
    RQLI_AUTO(end_walks) struct plan plan = {.n_parts = 0};
    rql_status status;

    add_part(&plan, &rqli_sweep_dead, sweep->options->batch_size);
    status = run(sweep, &plan, RQL_EVENT_SWEPT, out);
    if (!status && queues) {
        status = rqli_scan_texts(&plan.parts[0].scan, queues, sweep->error);
    }
    return status;
}

rql_status rql_clear_dead_requests(rql_client *client, const rql_sweep_options *options,
                                   rql_sweep_result *out, rql_text_list **queues, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_sweep_options read;
    struct rqli_sweep_age age;
    __attribute__((cleanup(rqli_sweep_fini_p))) struct rqli_sweep sweep = {
        .client = client, .options = &read, .error = error, .subject = &age};
    rql_status status = check(client, options, &read, error);
    int64_t server_us = 0;

    if (status) {
        return status;
    }
    if (out) {
        *out = sweep.result;
    }
    status = ask_time(client, &server_us, error);
    if (status) {
        return status;
    }
    rqli_sweep_age_init(&age, server_us, read.dead_ttl_ms);
    return clear_dead(&sweep, out, queues);
}
