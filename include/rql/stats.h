#ifndef RQL_STATS_H
#define RQL_STATS_H

/**
 * @file stats.h
 * @brief Counters and times of a client, always on, as data, JSON or OpenMetrics.
 *
 * Counting costs a few nanoseconds and no allocation. A reading is not a snapshot: an event that
 * happens meanwhile may be in one number and not yet in another.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** Buckets of a histogram: one per microsecond up to 7, then eight per power of two up to 2^42. */
#define RQL_HISTOGRAM_BUCKETS 320
/** Number of counters in rql_stats::faults; larger than the number of fault statuses. */
#define RQL_STATS_FAULTS 32

/** Times, each known to 12.5 % or better. */
typedef struct rql_histogram {
    int64_t count;                         /**< Number of times. */
    int64_t sum_us;                        /**< Sum of all times. */
    int64_t bucket[RQL_HISTOGRAM_BUCKETS]; /**< Number of times in each bucket. */
} rql_histogram;

/** Counters and times of a client since it was made. Filled by rql_client_stats(). */
typedef struct rql_stats {
    size_t size; /**< Bytes that are filled in; set by rql_client_stats(). */

    /** Locks obtained. Each lock of a series counts; re-entries do not. */
    int64_t acquisitions;
    int64_t hand_overs; /**< Of `acquisitions`: granted by another holder's release. */
    int64_t reentries;  /**< Locks re-entered. */
    /** Tries of all acquisitions, counted as in rql_lock_facts::tries. */
    int64_t tries;
    int64_t polls;    /**< Polls sent by waiting requests. */
    int64_t requeued; /**< Requests moved to the tail after their queue_ttl. */
    /** Requests that put themselves back after another caller had removed them. */
    int64_t restored;
    /** Acquisitions that ended with ::RQL_TIMED_OUT. Here and in the next five counters a series
     *  counts as one. */
    int64_t timed_out;
    int64_t retry_limit;              /**< Ended with ::RQL_RETRY_LIMIT. */
    int64_t fail_fast_no_try;         /**< Ended with ::RQL_FAIL_FAST_NO_TRY. */
    int64_t fail_fast_after_try;      /**< Ended with ::RQL_FAIL_FAST_AFTER_TRY. */
    int64_t conflicts;                /**< Ended with ::RQL_CONFLICT. */
    int64_t cancelled;                /**< Ended with ::RQL_CANCELLED. */
    int64_t faults[RQL_STATS_FAULTS]; /**< Acquisitions that failed, indexed by `-status`. */
    int64_t releases;                 /**< Holds and re-entries that ended with RQL_OK. */
    int64_t releases_not_held;        /**< Ended with ::RQL_NOT_HELD. */
    int64_t releases_failed;          /**< Ended with a fault. */
    int64_t extensions;               /**< Extensions by rql_lock_extend(). */
    /** Renewals by `auto_extend`, and claims of locks that were handed over. */
    int64_t renewals;
    int64_t lost; /**< Losses that were reported (::RQL_EVENT_LOCK_LOST). */
    /** Locks and queues ended by the calls of sweep.h and by rql_lock_force_unlock(). */
    int64_t swept_keys;
    /** Commands and script calls sent. Those of this client's swarm are in no counter, nor are the
     *  connections of the swarm. */
    int64_t commands;
    int64_t connections; /**< Connections made, for commands and pushes. */
    int64_t pushes;      /**< Grants, hints and changes of keys that the server pushed. */

    /** Heartbeats for this client's hosts; one for all hosts together counts as one. */
    int64_t probes;
    /** Hosts of this client that were declared dead while they were silent. */
    int64_t hosts_declared_dead;
    int64_t swarm_failures;  /**< Steps of this client's swarm that failed. */
    int64_t swarm_restarts;  /**< Elements of this client's swarm that were restarted. */
    int64_t zombie_hosts;    /**< Dead hosts that this client removed. */
    int64_t zombie_locks;    /**< Locks of dead hosts that this client ended. */
    int64_t zombie_requests; /**< Requests of dead hosts that this client removed. */
    /** Locks handed to a waiter while dead hosts were flushed. */
    int64_t zombie_hand_overs;

    rql_histogram wait;     /**< Time from the call to the grant. */
    rql_histogram hold;     /**< Time from the grant to the end of the release. */
    rql_histogram hand_off; /**< Time from the grant to its arrival at the waiter, at most. */

    /** Of `hand_overs`: from another thread of this client, or another request of the same loop,
     *  without waiting for the server. */
    int64_t local_hand_overs;
    /** Of `lost`: locks whose lazy release had returned RQL_OK (rql_lock_options::lazy_release). */
    int64_t lost_releases;

    /** TLS handshakes of `connections`, and of attempts to connect. */
    int64_t tls_handshakes;
    /** Of `tls_handshakes`: those that resumed a session. */
    int64_t tls_resumed;
    /** Certificates that had changed and could not be used. The earlier ones stay in use. */
    int64_t tls_reloads_failed;
    /** Number of times that the sentinels named another server as the master and all connections
     *  went there. */
    int64_t failovers;

    /** Number of times that the server was found to have lost writes (::RQL_EVENT_HISTORY_LOST). */
    int64_t histories_lost;

    int64_t shares;     /**< Of `acquisitions`: shares (rql/share.h). */
    int64_t queue_full; /**< Acquisitions that ended with ::RQL_QUEUE_FULL. */
    int64_t lowered;    /**< Locks held alone that were shared by rql_lock_lower(). */

    /** Records of ended holds that were left out (rql_options::history): there was no room, no
     *  memory, no answer or no right. */
    int64_t history_dropped;
} rql_stats;

/**
 * Reads the counters and times of a client. Use rql_client_stats().
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

/** Fills `*out` with the counters and times of `client`. */
#define rql_client_stats(client, out) rql_client_stats_sized((client), (out), sizeof *(out))

/**
 * Adds one reading to another, to scrape several clients as one.
 *
 * @param[in,out] into  The reading to which @p from is added.
 * @param[in]     from  A reading that the same program has filled in.
 * @threads Callable from any thread.
 */
RQL_API void rql_stats_add(rql_stats *into, const rql_stats *from);

/**
 * Returns the time that a given share of all times does not exceed. A share of 0.5 gives the
 * median, 0.99 the 99th percentile.
 *
 * @param[in] histogram  The times.
 * @param[in] share      0 to 1.
 * @return Microseconds: never less than the true time, and at most 12.5 % more. -1: there are no
 *         times, or @p share is not a number.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_stats_quantile(const rql_histogram *histogram, double share);

/**
 * Writes statistics as one JSON object: counters, and count, sum and quantiles of the times.
 *
 * @param[in]  stats   Filled by rql_client_stats().
 * @param[out] buffer  Receives the text, terminated and cut to size. May be NULL if @p size is 0.
 * @param[in]  size    Bytes of @p buffer; ::RQL_STATS_TEXT_SIZE is enough.
 * @return Length of the whole text without its terminator, as for snprintf().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_stats_json(const rql_stats *stats, char *buffer, size_t size);

/**
 * Writes statistics in the OpenMetrics text format, to be served as
 * `application/openmetrics-text; version=1.0.0`. All names begin with `rql_`; times are seconds.
 *
 * @param[in]  stats   Filled by rql_client_stats().
 * @param[out] buffer  As for rql_stats_json().
 * @param[in]  size    Bytes of @p buffer; ::RQL_STATS_TEXT_SIZE is enough.
 * @return Length of the whole text without its terminator.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_stats_openmetrics(const rql_stats *stats, char *buffer, size_t size);

/** A buffer of this size is enough for rql_stats_json() and rql_stats_openmetrics(). */
#define RQL_STATS_TEXT_SIZE 32768

RQL_END_DECLS

#endif
