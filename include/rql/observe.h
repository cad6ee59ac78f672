#ifndef RQL_OBSERVE_H
#define RQL_OBSERVE_H

/**
 * @file observe.h
 * @brief Log lines and events that the library reports while it works, in the gem's terms.
 *
 * The library never prints. Set rql_options::logger to receive log lines, and
 * rql_options::instrumenter to receive events. Both functions are called listeners here. The fields
 * of the same names in ::rql_lock_options set a listener for one acquisition. Without a listener
 * the library builds, samples and allocates nothing.
 *
 * A listener is called on the thread on which the event happens:
 *
 * - for a call, on the caller's thread, inside the call;
 * - for ::RQL_EVENT_LOCK_LOST, on the client's background thread;
 * - for events of a swarm, on the swarm's thread, or on the thread of the loop that the swarm runs
 *   on;
 * - for lines about TLS, on the thread that connects, which for loops is one of libuv's pool.
 *
 * No library mutex is held during the call, and thread cancellation is deferred. A listener may
 * call any function of the library except rql_client_free(). For events of a swarm that has a
 * thread of its own, it may not call rql_swarm_free() either. For lines about TLS, it may not call
 * any function with the same client, because that client may be waiting for this connection. A
 * listener must return soon: the caller's lock, the renewals of the client or its heartbeats wait
 * for it.
 *
 * The library decides about sampling (rql_options::log_sampling_enabled and related options) once
 * for each acquisition. The decision holds until the lock is released. Any other call decides for
 * itself.
 *
 * A program that has a library for traces makes its spans of events: ::RQL_EVENT_LOCK_OBTAINED,
 * ::RQL_EVENT_LOCK_FAILED and ::RQL_EVENT_LOCK_TIMED_OUT end a wait of `acq_time_us`, and
 * ::RQL_EVENT_LOCK_HOLD_AND_RELEASE ends a hold of `hold_time_us`. rql_lock_options::instrument can
 * point to the caller's span, and rql_lock_options::traceparent names it to others.
 *
 * A library that was built with `-Dlight=true` reports nothing, and refuses listeners with
 * ::RQL_E_UNSUPPORTED.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** The type of a field of a log line, and how the gem prints it. */
typedef enum rql_log_kind {
    RQL_LOG_QUOTED = 0,  /**< `text`, in single quotes. */
    RQL_LOG_RAW = 1,     /**< `text` as it is. */
    RQL_LOG_INTEGER = 2, /**< `number`. */
    RQL_LOG_SECONDS = 3, /**< `number` is milliseconds or ::RQL_FOREVER, printed as seconds. */
    RQL_LOG_MS = 4, /**< `number` is microseconds, printed as `1.96 (ms)`: rounded up, 2 digits. */
    RQL_LOG_TIME = 5, /**< `number` is microseconds since 1970, printed as seconds in quotes. */
    RQL_LOG_LIST = 6, /**< `n_items` texts, printed as `'["a", "b"]'`. */
} rql_log_kind;

/** One `name => value` of a log line. */
typedef struct rql_log_field {
    const char *name;         /**< The gem's name for it, such as "lock_key" or "acq_time". */
    rql_log_kind kind;        /**< Which of the fields below is set. */
    const char *text;         /**< Terminated, or NULL. */
    int64_t number;           /**< In the unit that `kind` names. */
    size_t n_items;           /**< Number of items. */
    const char *const *items; /**< Terminated texts, or NULL. */
} rql_log_field;

/**
 * One log line. Valid during the call of the listener.
 *
 * An acquisition sends these lines, in this order:
 *
 * - `start_lock_obtaining`: always.
 * - `start_try_to_lock_cycle`: each time the request polls the server. (A try of the gem is a poll.
 *   A request of librql usually waits without polling.)
 * - With `log_lock_try`, the steps of each poll, as far as the reply proves them; see the table.
 * - `dead_score_reached__reset_acquirer_position`: when the request was moved to the tail.
 * - After a grant, one of `lock_obtained`, `reentrant_lock_obtained` and
 *   `extendable_reentrant_lock_obtained`.
 * - After a refusal, `fail_fast_or_limits_reached_or_deadlock__dequeue`; not after
 *   ::RQL_FAIL_FAST_NO_TRY and ::RQL_QUEUE_FULL, which queue nothing. A fault has no line here, as
 *   in the gem.
 * - When the lock is released, `expire_lock`; at the end of an extendable re-entry,
 *   `decrease_lock`.
 *
 * | Step | Sent |
 * |---|---|
 * | `try_lock.start` | before the poll |
 * | `try_lock.rconn_fetched` | after any reply |
 * | `try_lock.same_process_conflict_detected` | for a re-entry or conflict |
 * | `try_lock.same_process_conflict_analyzed` | for a re-entry or conflict |
 * | `try_lock.reentrant_lock__work_through` | for a re-entry |
 * | `try_lock.reentrant_lock__extend_and_work_through` | for an extendable re-entry |
 * | `try_lock.single_process_lock_conflict__dead_lock` | for a conflict |
 * | `try_lock.acq_added_to_queue` | when the request is in the queue, or was for a moment |
 * | `try_lock.get_first_from_queue` | when the request is the first in the queue |
 * | `try_lock.exit__queue_ttl_reached` | when the request was moved to the tail |
 * | `try_lock.obtain__free_to_acquire` | for a grant that was not handed over |
 *
 * A request that ends with ::RQL_FAIL_FAST_AFTER_TRY is in the queue only for a moment.
 *
 * A series sends `start_lock_series_obtaining`, the lines of its locks, `lock_series_obtained` and
 * `expire_lock_series`. For the locks of an atomic series only `lock_obtained` and the like are
 * sent, because its tries are not tries of one lock.
 *
 * A swarm sends a line for each of its events. (The gem has no lines for them.) The line has the
 * name of the event without `rql.`, and those of the fields `element`, `status`, `hosts`, `locks`,
 * `requests`, `handed_over` and `rel_time` that the event has.
 *
 * `master_changed`, with `master` and `server`, is sent for ::RQL_EVENT_MASTER_CHANGED.
 * `too_many_nodes` is sent once, when the masters of a cluster have had so many addresses that the
 * client does not follow them to `server`.
 *
 * Connections with TLS send two lines, which are never sampled. `tls_server_unverified`, with
 * `server`, is sent once if `tls_verify` is none. `tls_reload_failed`, with `server` and `error`,
 * is sent for certificates that have changed and cannot be used, once for each change.
 *
 * These lines of the gem are not sent, because one script does the whole try and its reply does not
 * contain the details:
 *
 * - `try_lock.remove_expired_acqs`: a free lock is taken without reading the queue.
 * - `try_lock.exit__no_first` and `try_lock.exit__lock_still_obtained`: they name the first request
 *   in the queue, the holder, and all fields of the lock.
 * - `spc_status => 'conflict_wait_for_lock'`: the reply does not tell a waiter that the waiter
 *   itself holds the lock.
 */
struct rql_log_record {
    const char *name;            /**< Such as "lock_obtained" or "try_lock.start". Static. */
    size_t n_fields;             /**< Number of fields. */
    const rql_log_field *fields; /**< In the gem's order. */
};

/**
 * Writes a log line as the gem prints it: `[redis_queued_locks.NAME] key => value ...`.
 *
 * The text is the gem's byte for byte, including the oddities of its lines:
 *
 * - `fail_fast_or_limits_reached_or_deadlock__dequeue` lacks the closing quote of `acs_strat`.
 * - `start_lock_series_obtaining` has no blank before `queue_ttl`.
 * - `extendable_reentrant_lock_obtained` calls the host `host_id`.
 *
 * Control bytes, which no name contains, become `?`.
 *
 * @param[in]  record  The line.
 * @param[out] buffer  Receives the text, terminated and cut to size. May be NULL if @p size is 0.
 * @param[in]  size    Bytes of @p buffer.
 * @return Length of the whole line without its terminator, as for snprintf().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_log_text(const rql_log_record *record, char *buffer, size_t size);

/**
 * Writes a log line as one JSON object: `{"name":"lock_obtained","lock_key":"rql:lock:x",...}`.
 *
 * The object is well-formed, whatever bytes the line contains: bytes that are not UTF-8 become
 * U+FFFD. Times are numbers in the gem's units (`queue_ttl` seconds, `acq_time` milliseconds);
 * ::RQL_FOREVER is null.
 *
 * @param[in]  record  The line.
 * @param[out] buffer  As for rql_log_text().
 * @param[in]  size    Bytes of @p buffer.
 * @return Length of the whole text without its terminator.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_log_json(const rql_log_record *record, char *buffer, size_t size);

/**
 * Writes the text of rql_log_text() and a line feed to a file, in one write. This is a ready-made
 * ::rql_log_fn.
 *
 * The function waits as long as the file makes it wait, and so does the call that is logged.
 * Renewals do not wait, because the background thread sends no lines.
 *
 * @param[in] record  The line.
 * @param[in] file    A `FILE *`, open for writing; it is not flushed.
 * @threads Callable from any thread.
 */
RQL_API void rql_log_to_file(const rql_log_record *record, void *file);

/**
 * Writes the text of rql_log_json() and a line feed to a file, in one write. This is a ready-made
 * ::rql_log_fn, which waits as rql_log_to_file() does.
 *
 * @param[in] record  The line.
 * @param[in] file    A `FILE *`, open for writing; it is not flushed.
 * @threads Callable from any thread.
 */
RQL_API void rql_log_json_to_file(const rql_log_record *record, void *file);

/**
 * The kind of an event. The first ten are the gem's. The name of any other event is `rql.` and its
 * kind in lower case, such as `rql.lock_failed` or `rql.swarm_breaker_opened`.
 */
typedef enum rql_event_kind {
    /** A lock was obtained: `ttl_ms`, `ts_us`, `acq_time_us`, `token`. */
    RQL_EVENT_LOCK_OBTAINED = 0,
    /** A lock was re-entered and extended: the same fields. */
    RQL_EVENT_EXTENDABLE_REENTRANT_LOCK_OBTAINED = 1,
    /** A lock was re-entered: the same fields. */
    RQL_EVENT_REENTRANT_LOCK_OBTAINED = 2,
    /** A lock was released: the same fields and `hold_time_us`; `status` is that of the release. */
    RQL_EVENT_LOCK_HOLD_AND_RELEASE = 3,
    /** A re-entry has ended: the same fields as for a release. */
    RQL_EVENT_REENTRANT_LOCK_HOLD_COMPLETES = 4,
    /** rql_lock_force_unlock(): `lock_key`, `lock_queue`, `rel_time_us`, `at_us`. */
    RQL_EVENT_EXPLICIT_LOCK_RELEASE = 5,
    /** rql_locks_clear(): `rel_key_cnt`, `rel_time_us`, `at_us`; `status` is the outcome. */
    RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE = 6,
    /** rql_locks_clear_of(): `acq_id`, `hst_id`, `tch_queue_cnt`, and the fields of
     *  rql_locks_clear(). */
    RQL_EVENT_RELEASE_LOCKS_OF = 7,
    /** A series was obtained: `lock_keys`, `ttl_ms`, `acq_time_us`, `ts_us`. */
    RQL_EVENT_LOCK_SERIES_OBTAINED = 8,
    /** A series was released: the same fields, `hold_time_us` and `status`. */
    RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE = 9,

    /** A lock was not acquired: `acq_time_us`; `status` is the reason. */
    RQL_EVENT_LOCK_FAILED = 10,
    RQL_EVENT_LOCK_TIMED_OUT = 11, /**< The same, for ::RQL_TIMED_OUT. */
    /** The request was moved to the tail after its queue_ttl. For an atomic series, `lock_key` is
     *  that of its first lock. */
    RQL_EVENT_REQUEST_REQUEUED = 12,
    /** rql_lock_extend() has extended a lock: `ttl_ms` from now on. Not sent for renewals. */
    RQL_EVENT_LOCK_EXTENDED = 13,
    /** A lock was lost. Sent just before ::rql_lost_fn is called, for the same locks: those that
     *  are renewed, were handed over, or have `on_lost` or a descriptor. Other losses are found at
     *  the release. If the listener ends the lock, ::rql_lost_fn is not called. After a lazy
     *  release, `status` is the result that rql_lock_release() would have returned later. For
     *  other losses it is ::RQL_OK. */
    RQL_EVENT_LOCK_LOST = 14,
    /** A lock was granted by the release of another holder; `lock_obtained` follows. */
    RQL_EVENT_LOCK_HANDED_OVER = 15,
    RQL_EVENT_SWEPT =
        16, /**< rql_requests_clear_dead(): `tch_queue_cnt`, `rel_time_us`, `at_us`. */

    /** This event and the next seven are about a swarm (rql/swarm.h). They are never sampled, and
     *  all have `at_us`. A step of an `element` takes too long; the element is restarted as soon as
     *  the step ends. */
    RQL_EVENT_SWARM_ELEMENT_HUNG = 17,
    RQL_EVENT_SWARM_ELEMENT_RESTARTED = 18, /**< The supervisor has restarted an `element`. */
    /** The steps of an `element` fail, the last one with `status`. The element now tries less
     *  often. */
    RQL_EVENT_SWARM_BREAKER_OPENED = 19,
    RQL_EVENT_SWARM_BREAKER_CLOSED = 20,  /**< The steps of the `element` succeed again. */
    RQL_EVENT_SWARM_FLUSHER_ELECTED = 21, /**< From now on this swarm flushes, for all. */
    /** This swarm no longer flushes: another swarm was elected, this one was stopped, or the server
     *  did not reply. */
    RQL_EVENT_SWARM_FLUSHER_RETIRED = 22,
    /** `host_cnt` hosts of this client were silent for too long. Other clients may hold their locks
     *  by now. The losses follow as ::RQL_EVENT_LOCK_LOST. */
    RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD = 23,
    /** Dead hosts were flushed, by a swarm or by rql_swarm_flush(): `host_cnt`, `rel_key_cnt`,
     *  `rem_request_cnt`, `handed_over_cnt`, `rel_time_us`; `status` is the outcome. */
    RQL_EVENT_SWARM_ZOMBIES_FLUSHED = 24,
    /** A new connection shows that the server has lost writes. The event has `token`, the highest
     *  fencing token that this client has seen, `server_token`, the last one that the server knew,
     *  and `at_us`. The client verifies its locks at once; those that are gone follow as
     *  ::RQL_EVENT_LOCK_LOST. Only the first client that connects with a higher token sends this
     *  event. Other clients find the tokens raised and only verify their locks. Never sampled. */
    RQL_EVENT_HISTORY_LOST = 25,
    /** The sentinels name another `server` as this `master`, and that server confirms it: all
     *  connections go there. Sent once by each client, on the thread that has found the change, as
     *  for lines about TLS. Never sampled. */
    RQL_EVENT_MASTER_CHANGED = 26,
    /** rql_lock_lower() has shared a lock that was held alone: `share_units`. */
    RQL_EVENT_LOCK_LOWERED = 27,
} rql_event_kind;

/**
 * One event. Valid during the call of the listener. A field that an event does not have is -1 or
 * NULL, or ::RQL_OK for `status`. New fields are only ever appended.
 */
struct rql_event {
    rql_event_kind kind; /**< The kind of the event. */
    /** The gem's name, such as "redis_queued_locks.lock_obtained"; else a name such as
     *  "rql.lock_lost". */
    const char *name;
    const char *lock_key;         /**< `rql:lock:<name>`. */
    const char *lock_queue;       /**< `rql:lock_queue:<name>` (the gem's lock_key_queue). */
    size_t n_lock_keys;           /**< Number of keys of a series; else 0. */
    const char *const *lock_keys; /**< The keys of a series, in the given order. */
    const char *acq_id;           /**< The acquirer. */
    const char *hst_id;           /**< The host. */
    int64_t ttl_ms;               /**< The requested TTL; for a series that of the options. */
    /** Server time of the grant; for a series that has ended, that of its end. */
    int64_t ts_us;
    int64_t acq_time_us;     /**< From the call to the grant, or to the refusal. */
    int64_t hold_time_us;    /**< From the grant to the end of the release. */
    int64_t rel_time_us;     /**< Duration of the call. */
    int64_t rel_key_cnt;     /**< Keys that were released. */
    int64_t tch_queue_cnt;   /**< Queues from which a request was removed. */
    int64_t at_us;           /**< Server time of the event, at the latest. */
    int64_t token;           /**< Fencing token. */
    rql_status status;       /**< The outcome. */
    void *instrument;        /**< rql_lock_options::instrument. */
    const char *element;     /**< "probe_hosts", "flush_zombies", as in ::rql_swarm_status. */
    int64_t host_cnt;        /**< Number of hosts. */
    int64_t rem_request_cnt; /**< Requests removed. */
    int64_t handed_over_cnt; /**< Locks handed to a waiter at once. */
    int64_t server_token;    /**< The last fencing token that the server knew. */
    const char *server;      /**< "host:port". */
    const char *master;      /**< The name by which sentinels know it. */
    int64_t share_units;     /**< Units of the share (rql/share.h); 0: the lock is held alone. */
};

RQL_END_DECLS

#endif
