#ifndef RQL_STATS_H
#define RQL_STATS_H

/**
 * @file stats.h
 * @brief What a client has done so far: counters and times, always on, as data, JSON or
 * OpenMetrics.
 *
 * Counting costs a few nanoseconds and no allocation. A reading is not a snapshot: what happens
 * meanwhile may be in one number and not yet in another.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** Buckets of a histogram: one per microsecond up to 7, then eight per power of two up to 2^42. */
#define RQL_HISTOGRAM_BUCKETS 320
/** Statuses that faults are counted by; more than there are. */
#define RQL_STATS_FAULTS 32

/** Times, each known to 12.5 % or better. */
typedef struct rql_histogram {
    int64_t count;                         /**< Number of times. */
    int64_t sum_us;                        /**< All of them together. */
    int64_t bucket[RQL_HISTOGRAM_BUCKETS]; /**< How many lie in each. */
} rql_histogram;

/** What a client has done since it was made. Filled by rql_client_stats(). */
typedef struct rql_stats {
    size_t size; /**< Bytes that are filled in; set by rql_client_stats(). */

    int64_t acquisitions;     /**< Locks obtained, those of a series one by one; no re-entries. */
    int64_t hand_overs;       /**< Of them: granted by another's release. */
    int64_t reentries;        /**< Locks re-entered. */
    int64_t tries;            /**< Tries of all acquisitions, as rql_lock_facts::tries. */
    int64_t polls;            /**< Polls sent by waiting requests. */
    int64_t requeued;         /**< Requests moved to the tail after their queue_ttl. */
    int64_t restored;         /**< Requests that others had removed and that put themselves back. */
    int64_t timed_out;        /**< Acquisitions that ended so, those of a series as one: */
    int64_t retry_limit;      /**< ::RQL_RETRY_LIMIT. */
    int64_t fail_fast_no_try; /**< ::RQL_FAIL_FAST_NO_TRY. */
    int64_t fail_fast_after_try;      /**< ::RQL_FAIL_FAST_AFTER_TRY. */
    int64_t conflicts;                /**< ::RQL_CONFLICT. */
    int64_t cancelled;                /**< ::RQL_CANCELLED. */
    int64_t faults[RQL_STATS_FAULTS]; /**< Acquisitions that failed, by `-status`. */
    int64_t releases;                 /**< Holds and re-entries ended with RQL_OK. */
    int64_t releases_not_held;        /**< With ::RQL_NOT_HELD. */
    int64_t releases_failed;          /**< With a fault. */
    int64_t extensions;               /**< By rql_lock_extend(). */
    int64_t renewals;    /**< By `auto_extend`, and claims of locks that were handed over. */
    int64_t lost;        /**< Losses that were reported (::RQL_EVENT_LOCK_LOST). */
    int64_t swept_keys;  /**< Locks and queues ended by the calls of sweep.h, and by unlocks. */
    int64_t commands;    /**< Commands and script calls sent. */
    int64_t connections; /**< Connections made, for commands and pushes. */
    int64_t pushes;      /**< Grants and wake hints that the server pushed. */

    int64_t probes;              /**< Heartbeats for this client's hosts, one for all together. */
    int64_t hosts_declared_dead; /**< Hosts of this client that were declared dead while they were
                                    away. */
    int64_t swarm_failures;      /**< Steps of its swarm that failed. */
    int64_t swarm_restarts;      /**< Elements of its swarm that were restarted. */
    int64_t zombie_hosts;        /**< Dead hosts that it removed. */
    int64_t zombie_locks;        /**< Locks of dead hosts that it ended. */
    int64_t zombie_requests;     /**< Requests of dead hosts that it removed. */
    int64_t zombie_hand_overs;   /**< Locks handed to a waiter while flushing dead hosts. */

    rql_histogram wait;     /**< From the call to the grant. */
    rql_histogram hold;     /**< From the grant to the end of the release. */
    rql_histogram hand_off; /**< From the grant to its arrival at the waiter, at most. */

    int64_t local_hand_overs; /**< Of `hand_overs`: by another thread of this client, or request of
                                 the same loop, without waiting for the server. */
    int64_t lost_releases;    /**< Of `lost`: of locks whose lazy release had returned RQL_OK
                                 (rql_lock_options::lazy_release). */

    int64_t tls_handshakes;     /**< Of `connections` and attempts at them: handshakes of TLS. */
    int64_t tls_resumed;        /**< Of them: those that resumed a session. */
    int64_t tls_reloads_failed; /**< Certificates that had changed and could not be used; what was
                                   read before stays in use. */
    int64_t failovers;          /**< How often another server was the master by what sentinels
                                   say, and all connections went there. */

    int64_t histories_lost; /**< Times that the server was found to have lost writes
                               (::RQL_EVENT_HISTORY_LOST). */
} rql_stats;

/**
 * Read what a client has done so far. Use rql_client_stats().
 *
 * @param[in]  client  The client.
 * @param[out] out     Filled in; untouched unless RQL_OK.
 * @param[in]  size    Its size in bytes in the calling program.
 *
 * @retval RQL_OK             `*out` is set.
 * @retval RQL_E_INVALID      A pointer is NULL.
 * @retval RQL_E_FORKED       The client belongs to the parent process.
 * @retval RQL_E_UNSUPPORTED  The library was built without statistics (`-Dlight=true`).
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_stats_sized(rql_client *client, rql_stats *out,
                                                         size_t size);

/** Fill `*out` with what `client` has done so far. */
#define rql_client_stats(client, out) rql_client_stats_sized((client), (out), sizeof *(out))

/**
 * Add one reading to another, to scrape several clients as one.
 *
 * @param[in,out] into  Grows by @p from.
 * @param[in]     from  Filled by the same program.
 * @threads Callable from any thread.
 */
RQL_API void rql_stats_add(rql_stats *into, const rql_stats *from);

/**
 * The time that a share of all times does not exceed: 0.5 is the median, 0.99 the 99th percentile.
 *
 * @param[in] histogram  Times.
 * @param[in] share      0 to 1.
 * @return Microseconds: never less than the true one, and at most 12.5 % more. -1: there are none,
 *         or @p share is not a number.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_stats_quantile(const rql_histogram *histogram, double share);

/**
 * Write statistics as one JSON object: counters, and count, sum and quantiles of the times.
 *
 * @param[in]  stats   Filled by rql_client_stats().
 * @param[out] buffer  Where to; terminated, cut to size. May be NULL if @p size is 0.
 * @param[in]  size    Bytes of @p buffer; ::RQL_STATS_TEXT_SIZE is enough.
 * @return Length of the whole text without its terminator, as snprintf().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_stats_json(const rql_stats *stats, char *buffer, size_t size);

/**
 * Write statistics in the OpenMetrics text format, to be served as
 * `application/openmetrics-text; version=1.0.0`. All names begin with `rql_`; times are seconds.
 *
 * @param[in]  stats   Filled by rql_client_stats().
 * @param[out] buffer  As for rql_stats_json().
 * @param[in]  size    Bytes of @p buffer; ::RQL_STATS_TEXT_SIZE is enough.
 * @return Length of the whole text without its terminator.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_stats_openmetrics(const rql_stats *stats, char *buffer, size_t size);

/** Room for everything that rql_stats_json() or rql_stats_openmetrics() can write. */
#define RQL_STATS_TEXT_SIZE 32768

RQL_END_DECLS

#endif
