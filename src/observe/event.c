#include "base/clock.h"
#include "lock/client.h"
#include "net/conn_threads.h"
#include "net/socket.h"
#include "observe/observe_inside.h"

static const char *const names[] = {
    [RQL_EVENT_LOCK_OBTAINED] = "redis_queued_locks.lock_obtained",
    [RQL_EVENT_EXTENDABLE_REENTRANT_LOCK_OBTAINED] =
        "redis_queued_locks.extendable_reentrant_lock_obtained",
    [RQL_EVENT_REENTRANT_LOCK_OBTAINED] = "redis_queued_locks.reentrant_lock_obtained",
    [RQL_EVENT_LOCK_HOLD_AND_RELEASE] = "redis_queued_locks.lock_hold_and_release",
    [RQL_EVENT_REENTRANT_LOCK_HOLD_COMPLETES] = "redis_queued_locks.reentrant_lock_hold_completes",
    [RQL_EVENT_EXPLICIT_LOCK_RELEASE] = "redis_queued_locks.explicit_lock_release",
    [RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE] = "redis_queued_locks.explicit_all_locks_release",
    [RQL_EVENT_RELEASE_LOCKS_OF] = "redis_queued_locks.release_locks_of",
    [RQL_EVENT_LOCK_SERIES_OBTAINED] = "redis_queued_locks.lock_series_obtained",
    [RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE] = "redis_queued_locks.lock_series_hold_and_release",
    [RQL_EVENT_LOCK_FAILED] = "rql.lock_failed",
    [RQL_EVENT_LOCK_TIMED_OUT] = "rql.lock_timed_out",
    [RQL_EVENT_REQUEST_REQUEUED] = "rql.request_requeued",
    [RQL_EVENT_LOCK_EXTENDED] = "rql.lock_extended",
    [RQL_EVENT_LOCK_LOST] = "rql.lock_lost",
    [RQL_EVENT_LOCK_HANDED_OVER] = "rql.lock_handed_over",
    [RQL_EVENT_SWEPT] = "rql.swept",
    [RQL_EVENT_SWARM_ELEMENT_HUNG] = "rql.swarm_element_hung",
    [RQL_EVENT_SWARM_ELEMENT_RESTARTED] = "rql.swarm_element_restarted",
    [RQL_EVENT_SWARM_BREAKER_OPENED] = "rql.swarm_breaker_opened",
    [RQL_EVENT_SWARM_BREAKER_CLOSED] = "rql.swarm_breaker_closed",
    [RQL_EVENT_SWARM_FLUSHER_ELECTED] = "rql.swarm_flusher_elected",
    [RQL_EVENT_SWARM_FLUSHER_RETIRED] = "rql.swarm_flusher_retired",
    [RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD] = "rql.swarm_hosts_declared_dead",
    [RQL_EVENT_SWARM_ZOMBIES_FLUSHED] = "rql.swarm_zombies_flushed",
};

struct rql_event rqli_event(rql_event_kind kind)
{
    return (struct rql_event){
        .kind = kind,
        .name = names[kind],
        .ttl_ms = -1,
        .ts_us = -1,
        .acq_time_us = -1,
        .hold_time_us = -1,
        .rel_time_us = -1,
        .rel_key_cnt = -1,
        .tch_queue_cnt = -1,
        .at_us = -1,
        .token = -1,
        .host_cnt = -1,
        .rem_request_cnt = -1,
        .handed_over_cnt = -1,
    };
}

struct rql_event rqli_event_of_request(rql_event_kind kind, const rql_lock *lock)
{
    struct rql_event event = rqli_event(kind);

    event.lock_key = lock->keys.lock.data;
    event.acq_id = lock->acquirer;
    event.hst_id = lock->host;
    event.ttl_ms = lock->listeners.ttl_ms;
    event.instrument = lock->listeners.instrument;
    return event;
}

struct rql_event rqli_event_of_lock(rql_event_kind kind, const rql_lock *lock)
{
    struct rql_event event = rqli_event_of_request(kind, lock);

    event.ts_us = lock->ts_us;
    event.acq_time_us = lock->waited_us;
    event.token = lock->token;
    return event;
}

void rqli_event_send(const struct rql_event *event, const struct rqli_listeners *listeners)
{
    listeners->instrumenter(event, listeners->instrumenter_data);
}

/* The last reading, carried on by the local clock: no earlier than it is, so that what follows a
 * grant is not told to be before it. */
int64_t rqli_event_time_us(rql_client *client)
{
    struct rqli_clock_reading reading;

    if (!rqli_conn_clock(client->conn, &reading)) {
        return -1;
    }
    return reading.server_us + (rqli_now_us() - reading.sent_us);
}
