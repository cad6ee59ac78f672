#ifndef RQL_OBSERVE_H
#define RQL_OBSERVE_H

/**
 * @file observe.h
 * @brief What the library reports while it works: log lines and events, in the gem's terms.
 *
 * The library never prints. To receive log lines set rql_options::logger, to receive events
 * rql_options::instrumenter, or the fields of the same names in ::rql_lock_options for one
 * acquisition. As long as nobody listens, nothing is built, sampled or allocated.
 *
 * Both functions run on the thread where it happens: the caller's, inside its call; the client's
 * background thread for ::RQL_EVENT_LOCK_LOST; for its events the swarm's thread, or the loop that
 * it runs on; for lines about TLS the thread that connects, which for loops is one of libuv's pool.
 * No library mutex is held, thread cancellation is deferred. They may call anything but
 * rql_client_free(), for events of a swarm with a thread of its own not rql_swarm_free(), and for
 * lines about TLS nothing of the same client, which may be waiting for this connection. They must
 * return soon: the caller's lock, the renewals of the client or its heartbeats wait for them.
 *
 * Sampling (rql_options::log_sampling_enabled and others) is decided once for each acquisition, and
 * holds until its lock is released; for other calls it is decided by each call.
 *
 * A library that was built with `-Dlight=true` has none of this, and refuses listeners with
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
    RQL_LOG_SECONDS = 3, /**< `number` is milliseconds, printed as seconds; ::RQL_FOREVER too. */
    RQL_LOG_MS = 4, /**< `number` is microseconds, printed as `1.96 (ms)`: rounded up, 2 digits. */
    RQL_LOG_TIME = 5, /**< `number` is microseconds since 1970, printed as seconds in quotes. */
    RQL_LOG_LIST = 6, /**< `n_items` texts, printed as `'["a", "b"]'`. */
} rql_log_kind;

/** One `name => value` of a log line. */
typedef struct rql_log_field {
    const char *name;         /**< The gem's: "lock_key", "acq_time". */
    rql_log_kind kind;        /**< Which of the others is set. */
    const char *text;         /**< Terminated, or NULL. */
    int64_t number;           /**< In the unit that `kind` names. */
    size_t n_items;           /**< Number of items. */
    const char *const *items; /**< Terminated texts, or NULL. */
} rql_log_field;

/**
 * One log line. Valid during the call that it is given to.
 *
 * The lines of one acquisition, in this order, and when they are sent:
 *
 * - `start_lock_obtaining`: always.
 * - `start_try_to_lock_cycle`: each time that the server is polled. (A try of the gem is a poll;
 *   here most waiting is done without one.)
 * - with `log_lock_try`, around each of these, as far as the reply proves it: `try_lock.start`
 *   before; `try_lock.rconn_fetched` after any reply; `try_lock.same_process_conflict_detected`,
 *   `..._analyzed` and one of `try_lock.reentrant_lock__work_through`,
 *   `try_lock.reentrant_lock__extend_and_work_through`,
 *   `try_lock.single_process_lock_conflict__dead_lock` for a re-entry or conflict;
 *   `try_lock.acq_added_to_queue` when the request is in the queue, or was for a moment
 *   (::RQL_FAIL_FAST_AFTER_TRY); `try_lock.get_first_from_queue` when it is the first there;
 *   `try_lock.exit__queue_ttl_reached` when it was moved to the tail;
 *   `try_lock.obtain__free_to_acquire` for a grant that was not handed over.
 * - `dead_score_reached__reset_acquirer_position`: the request was moved to the tail.
 * - one of `lock_obtained`, `reentrant_lock_obtained`, `extendable_reentrant_lock_obtained`; or
 *   `fail_fast_or_limits_reached_or_deadlock__dequeue`, for every refusal but
 *   ::RQL_FAIL_FAST_NO_TRY, which queues nothing. A fault has no line in the gem, and none here.
 * - when the lock is released, `expire_lock`, or for an extendable re-entry `decrease_lock`.
 *
 * A series: `start_lock_series_obtaining`, the lines of its locks (of an atomic one only
 * `lock_obtained` and its like: its tries are no tries of one lock), `lock_series_obtained`,
 * `expire_lock_series`.
 *
 * A swarm, for which the gem has no lines: one for each of its events, named like the event without
 * `rql.`, with `element`, `status`, `hosts`, `locks`, `requests`, `handed_over` and `rel_time` as
 * far as the event has them.
 *
 * `master_changed`, with `master` and `server`, for ::RQL_EVENT_MASTER_CHANGED. `too_many_nodes`,
 * once, for a cluster whose masters have had so many addresses that a client does not follow to
 * `server`.
 *
 * Connections with TLS, never sampled: `tls_server_unverified`, once, where `tls_verify` is none;
 * `tls_reload_failed` for certificates that have changed and cannot be used, once for each change;
 * with `server` and `error`.
 *
 * Not sent, because one script does the whole try and its reply does not tell:
 * `try_lock.remove_expired_acqs` (a free lock is taken without reading the queue),
 * `try_lock.exit__no_first` and `try_lock.exit__lock_still_obtained` (they name who is first, who
 * holds it and all its fields), `spc_status => 'conflict_wait_for_lock'` (a waiter is not told that
 * the holder is itself).
 */
struct rql_log_record {
    const char *name;            /**< "lock_obtained", "try_lock.start". Static. */
    size_t n_fields;             /**< Number of fields. */
    const rql_log_field *fields; /**< In the gem's order. */
};

/**
 * Write a log line as the gem prints it: `[redis_queued_locks.NAME] key => value ...`.
 *
 * Byte for byte, including the oddities of the gem's lines: the closing quote of `acs_strat` is
 * missing in `fail_fast_or_limits_reached_or_deadlock__dequeue`; there is no blank before
 * `queue_ttl` in `start_lock_series_obtaining`; the host is called `host_id` in
 * `extendable_reentrant_lock_obtained`. Control bytes, which no name contains, become `?`.
 *
 * @param[in]  record  The line.
 * @param[out] buffer  Where to; terminated, cut to size. May be NULL if @p size is 0.
 * @param[in]  size    Bytes of @p buffer.
 * @return Length of the whole line without its terminator, as snprintf().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_log_text(const rql_log_record *record, char *buffer, size_t size);

/**
 * Write a log line as one JSON object: `{"name":"lock_obtained","lock_key":"rql:lock:x",...}`.
 *
 * Well-formed whatever the bytes: what is not UTF-8 becomes U+FFFD. Times are numbers in the gem's
 * units (`queue_ttl` seconds, `acq_time` milliseconds); ::RQL_FOREVER is null.
 *
 * @param[in]  record  The line.
 * @param[out] buffer  As for rql_log_text().
 * @param[in]  size    Bytes of @p buffer.
 * @return Length of the whole text without its terminator.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_log_json(const rql_log_record *record, char *buffer, size_t size);

/**
 * A ready ::rql_log_fn: rql_log_text() and a line feed, in one write.
 *
 * Waits as long as the file makes it wait, and so does the call that is logged; renewals do not,
 * because the background thread sends no lines.
 *
 * @param[in] record  The line.
 * @param[in] file    A `FILE *`, open for writing; it is not flushed.
 * @threads Callable from any thread.
 */
RQL_API void rql_log_to_file(const rql_log_record *record, void *file);

/**
 * A ready ::rql_log_fn: rql_log_json() and a line feed, in one write; waits as rql_log_to_file().
 *
 * @param[in] record  The line.
 * @param[in] file    A `FILE *`, open for writing; it is not flushed.
 * @threads Callable from any thread.
 */
RQL_API void rql_log_json_to_file(const rql_log_record *record, void *file);

/**
 * What happened. The first ten are the gem's; the name of each other one is `rql.` and its kind in
 * lower case: `rql.lock_failed`, `rql.swarm_breaker_opened`.
 */
typedef enum rql_event_kind {
    RQL_EVENT_LOCK_OBTAINED = 0, /**< `ttl_ms`, `ts_us`, `acq_time_us`, `token`. */
    RQL_EVENT_EXTENDABLE_REENTRANT_LOCK_OBTAINED = 1, /**< The same. */
    RQL_EVENT_REENTRANT_LOCK_OBTAINED = 2,            /**< The same. */
    /** Released: the same and `hold_time_us`; `status` is that of the release. */
    RQL_EVENT_LOCK_HOLD_AND_RELEASE = 3,
    RQL_EVENT_REENTRANT_LOCK_HOLD_COMPLETES = 4, /**< The same, at the end of a re-entry. */
    /** rql_lock_force_unlock(): `lock_key`, `lock_queue`, `rel_time_us`, `at_us`. */
    RQL_EVENT_EXPLICIT_LOCK_RELEASE = 5,
    /** rql_locks_clear(): `rel_key_cnt`, `rel_time_us`, `at_us`, and how it ended: `status`. */
    RQL_EVENT_EXPLICIT_ALL_LOCKS_RELEASE = 6,
    /** rql_locks_clear_of(): `acq_id`, `hst_id`, `rel_key_cnt`, `tch_queue_cnt`, and as above. */
    RQL_EVENT_RELEASE_LOCKS_OF = 7,
    RQL_EVENT_LOCK_SERIES_OBTAINED = 8, /**< `lock_keys`, `ttl_ms`, `acq_time_us`, `ts_us`. */
    /** The same, `hold_time_us` and `status`. */
    RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE = 9,

    RQL_EVENT_LOCK_FAILED = 10,    /**< Not acquired: `status` says why, `acq_time_us`. */
    RQL_EVENT_LOCK_TIMED_OUT = 11, /**< The same, for ::RQL_TIMED_OUT. */
    /** The request was moved to the tail after its queue_ttl. Of an atomic series, `lock_key` is
     *  the first of its locks. */
    RQL_EVENT_REQUEST_REQUEUED = 12,
    RQL_EVENT_LOCK_EXTENDED = 13, /**< By rql_lock_extend(): `ttl_ms` from now on. Not renewals. */
    /** As rql_lost_fn, and just before it, for the locks that it is called for: renewed, handed
     *  over, with `on_lost` or a descriptor. Other losses are found at the release. This function
     *  may not end the lock; rql_lost_fn may. After a lazy release: `status` says what
     *  rql_lock_release() would have returned later; of other losses it is ::RQL_OK. */
    RQL_EVENT_LOCK_LOST = 14,
    RQL_EVENT_LOCK_HANDED_OVER = 15, /**< Granted by another's release; `lock_obtained` follows. */
    RQL_EVENT_SWEPT =
        16, /**< rql_requests_clear_dead(): `tch_queue_cnt`, `rel_time_us`, `at_us`. */

    /** Of a swarm (rql/swarm.h), never sampled, all with `at_us`. A step of an `element` takes too
     *  long; it is replaced as soon as the step ends. */
    RQL_EVENT_SWARM_ELEMENT_HUNG = 17,
    RQL_EVENT_SWARM_ELEMENT_RESTARTED = 18, /**< The supervisor has restarted an `element`. */
    /** The steps of an `element` fail, the last one with `status`; it tries less often. */
    RQL_EVENT_SWARM_BREAKER_OPENED = 19,
    RQL_EVENT_SWARM_BREAKER_CLOSED = 20,  /**< They succeed again. */
    RQL_EVENT_SWARM_FLUSHER_ELECTED = 21, /**< This swarm flushes from now on, for all. */
    /** It no longer does: another does, it was stopped, or it got no reply. */
    RQL_EVENT_SWARM_FLUSHER_RETIRED = 22,
    /** `host_cnt` hosts of this client were silent for too long: others may have what they held;
     *  the losses follow as ::RQL_EVENT_LOCK_LOST. */
    RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD = 23,
    /** Dead hosts were flushed, by a swarm or by rql_swarm_flush(): `host_cnt`, `rel_key_cnt`,
     *  `rem_request_cnt`, `handed_over_cnt`, `rel_time_us`, and how it ended: `status`. */
    RQL_EVENT_SWARM_ZOMBIES_FLUSHED = 24,
    /** The server has lost writes, as a new connection shows: `token` is the highest fencing token
     * that this client has seen, `server_token` the last one that the server knew; `at_us`. What is
     * held is verified at once, and what has gone follows as ::RQL_EVENT_LOCK_LOST. Told by the
     * first client that comes with a higher token: where the others find the tokens raised they
     * only verify. Never sampled.
     */
    RQL_EVENT_HISTORY_LOST = 25,
    /** Sentinels have another `server` as this `master`, and it says so itself: all connections go
     * there. Once for each client; on the thread that has found it, as with lines about TLS. Never
     * sampled. */
    RQL_EVENT_MASTER_CHANGED = 26,
} rql_event_kind;

/**
 * One event. Valid during the call that it is given to. Fields that an event does not have are -1
 * or NULL, and `status` is ::RQL_OK. Fields are only ever appended.
 */
struct rql_event {
    rql_event_kind kind; /**< What happened. */
    const char *name;    /**< The gem's "redis_queued_locks.lock_obtained"; else "rql.lock_lost". */
    const char *lock_key;         /**< `rql:lock:<name>`. */
    const char *lock_queue;       /**< `rql:lock_queue:<name>` (the gem's lock_key_queue). */
    size_t n_lock_keys;           /**< Of a series; else 0. */
    const char *const *lock_keys; /**< Of a series, in the given order. */
    const char *acq_id;           /**< The acquirer. */
    const char *hst_id;           /**< The host. */
    int64_t ttl_ms;               /**< As asked for; of a series that of the options. */
    int64_t ts_us;           /**< Server time of the grant; of an ended series that of its end. */
    int64_t acq_time_us;     /**< From the call to the grant, or to the refusal. */
    int64_t hold_time_us;    /**< From the grant to the end of the release. */
    int64_t rel_time_us;     /**< How long the call took. */
    int64_t rel_key_cnt;     /**< Keys that were released. */
    int64_t tch_queue_cnt;   /**< Queues that something was removed from. */
    int64_t at_us;           /**< Server time of the event, at the latest. */
    int64_t token;           /**< Fencing token. */
    rql_status status;       /**< How it ended. */
    void *instrument;        /**< rql_lock_options::instrument. */
    const char *element;     /**< "probe_hosts", "flush_zombies", as in ::rql_swarm_status. */
    int64_t host_cnt;        /**< Hosts. */
    int64_t rem_request_cnt; /**< Requests removed. */
    int64_t handed_over_cnt; /**< Locks that went to a waiter at once. */
    int64_t server_token;    /**< The last fencing token that the server knew. */
    const char *server;      /**< "host:port". */
    const char *master;      /**< By which name sentinels know it. */
};

RQL_END_DECLS

#endif
