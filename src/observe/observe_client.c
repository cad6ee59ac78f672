#include "admin/sweep.h"
#include "lock/client.h"
#include "observe/observe.h"
#include "observe/observe_inside.h"
#include "observe/stats.h"

/* What is no acquisition has the client's listener; sampled call by call. */
static void send_to_client(rql_client *client, struct rql_event *event)
{
    struct rqli_listeners listeners;
    rql_lock_options options = client->of_calls;

    options.logger = NULL; /* the gem has no lines of these calls */
    rqli_observe_init(&listeners, client, &options);
    if (listeners.instrumenter) {
        event->at_us = rqli_event_time_us(client);
        rqli_event_send(event, &listeners);
    }
}

void rqli_observe_unlocked(rql_client *client, const struct rqli_keys *keys,
                           const rql_unlock_result *result)
{
    struct rql_event event;

    rqli_stats_count(client->stats, 0, RQLI_STAT_SWEPT_KEYS,
                     result->lock_released + result->queue_released);
    if (client->options.instrumenter) {
        event = rqli_event(RQL_EVENT_EXPLICIT_LOCK_RELEASE);
        event.lock_key = keys->lock.data;
        event.lock_queue = keys->queue.data;
        event.rel_time_us = result->rel_time_us;
        send_to_client(client, &event);
    }
}

static void tell_swept(const struct rqli_sweep *sweep, rql_event_kind kind, rql_status status)
{
    struct rql_event event = rqli_event(kind);

    event.rel_time_us = sweep->result.rel_time_us;
    event.status = status;
    if (kind != RQL_EVENT_SWEPT) {
        event.rel_key_cnt = sweep->result.rel_key_cnt;
    }
    if (kind != RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE) {
        event.tch_queue_cnt = sweep->result.tch_queue_cnt;
    }
    if (kind == RQL_EVENT_RELEASE_LOCKS_OF) {
        const rql_sweep_owner *owner = sweep->owner;

        event.acq_id = owner->acq_id;
        event.hst_id = owner->hst_id;
    }
    send_to_client(sweep->client, &event);
}

void rqli_observe_swept(const struct rqli_sweep *sweep, rql_event_kind kind, rql_status status)
{
    if (sweep->options->dry_run) {
        return;
    }
    rqli_stats_count(sweep->client->stats, 0, RQLI_STAT_SWEPT_KEYS, sweep->result.rel_key_cnt);
    if (sweep->client->options.instrumenter) {
        tell_swept(sweep, kind, status);
    }
}
