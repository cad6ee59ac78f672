#ifndef RQL_SWEEP_H
#define RQL_SWEEP_H

/**
 * @file sweep.h
 * @brief Clear many locks and requests at once: the gem's clear_locks, clear_locks_of,
 *        clear_current_locks and clear_dead_requests. For operators.
 *
 * A sweep finds its keys with SCAN, reads them in batches and ends what it has to end by one short
 * script per key, so the server keeps serving others, however much there is to sweep. It is not a
 * snapshot: what is created meanwhile may be missed. A lock is only ended if it is still the grant
 * that the sweep has seen; one that changed hands before the script ran stays. What becomes free is
 * handed to the next waiter of librql in the same script. Keys that hold something other than a
 * lock or a queue, or more than can be read, are left alone and counted.
 *
 * A fault ends a sweep where it is. What was done by then is done, and in the result; call again
 * for the rest.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/**
 * Called with the progress of a sweep: while it looks for keys and after each batch.
 *
 * Called on the sweeping thread, with no library mutex held.
 *
 * @param[in] done       Keys that were inspected.
 * @param[in] found      Keys found so far; final once @p done is above 0.
 * @param[in] user_data  rql_sweep_options::user_data.
 * @return false to end the sweep now: it returns ::RQL_STOPPED.
 */
typedef bool (*rql_sweep_progress_fn)(int64_t done, int64_t found, void *user_data);

/**
 * Chooses what a sweep ends: called once for each lock and each queue that was found.
 *
 * Called on the sweeping thread, with no library mutex held.
 *
 * @param[in] name       Name of the lock, or of the lock that the queue belongs to. Any bytes but
 *                       NUL: it is not asked about a name with one, which is left alone.
 * @param[in] user_data  rql_sweep_options::user_data.
 * @return false to leave it alone.
 */
typedef bool (*rql_sweep_wants_fn)(const char *name, void *user_data);

/**
 * Called for each lock that was ended and each queue that requests were removed from; in a dry run,
 * for those that would be. On the sweeping thread, with no library mutex held.
 *
 * @param[in] key        The key: `rql:lock:<name>` or `rql:lock_queue:<name>`. Valid during the
 *                       call.
 * @param[in] user_data  rql_sweep_options::user_data.
 */
typedef void (*rql_sweep_swept_fn)(const char *key, void *user_data);

/** Settings of one sweep. Fill with rql_sweep_options_init(). */
typedef struct rql_sweep_options {
    size_t size; /**< Set by rql_sweep_options_init(); do not change. */

    /** Of rql_locks_clear() and rql_requests_clear_dead(): COUNT of each SCAN, and how many keys go
     *  into one batch, at most 100. 1 to 100000; SCAN is given at most 1000. Default
     *  rql_options::lock_release_batch_size. */
    int64_t batch_size;
    /** The same for the locks of rql_locks_clear_of(). Default
     *  rql_options::clear_locks_of_lock_scan_size. */
    int64_t lock_scan_size;
    /** The same for its queues. Default rql_options::clear_locks_of_queue_scan_size. */
    int64_t queue_scan_size;
    /** Of rql_requests_clear_dead(): age from which a request may count as dead. 0 to 315360000000.
     *  Default rql_options::dead_request_ttl_ms. */
    int64_t dead_ttl_ms;

    bool dry_run; /**< Only count what would be done. Default false. */

    rql_sweep_progress_fn on_progress; /**< Called with the progress, or NULL. */
    void *user_data;                   /**< Given to these functions. */

    rql_sweep_wants_fn wants;    /**< Chooses locks and queues by name; NULL (default): all. */
    rql_sweep_swept_fn on_swept; /**< Called for what is (dry run: would be) swept; or NULL. */
} rql_sweep_options;

/** What a sweep has done, or would do. Filled in whenever the sweep began, even on a fault. */
typedef struct rql_sweep_result {
    int64_t rel_key_cnt;     /**< Locks ended; of rql_locks_clear() queues removed as well. */
    int64_t tch_queue_cnt;   /**< Queues that a request was removed from. */
    int64_t rem_request_cnt; /**< Requests removed. The gem does not count them. */
    int64_t
        handed_over_cnt; /**< Locks that went to a waiter at once. The gem hands nothing over. */
    int64_t foreign_key_cnt; /**< Keys left alone: of another type, or too large to read. */
    int64_t rel_time_us;     /**< How long it took. */
} rql_sweep_result;

/** Whose locks rql_locks_clear_of() ends. Both are needed, as in the gem; 1 to 512 bytes each. */
typedef struct rql_sweep_owner {
    const char *acq_id; /**< rql_lock_info::acq_id. */
    const char *hst_id; /**< rql_lock_info::hst_id. */
} rql_sweep_owner;

/**
 * Fill @p options from the client's settings. Use rql_sweep_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options,
                                          size_t size);

/** Fill `*options` from the client and record the size this program was compiled with. */
#define rql_sweep_options_init(client, options)                                                    \
    rql_sweep_options_init_sized((client), (options), sizeof *(options))

/**
 * End all locks and empty all queues, whoever holds them and waits: the gem's clear_locks.
 *
 * Queues first, then locks, as the gem does. Holders of this client learn of the loss at once,
 * others at their next renewal or release. Live waiters put themselves back in their old places:
 * those of librql at once, the gem's with their next try.
 *
 * @param[in]  client   The client.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      What was done, or NULL; filled unless RQL_E_INVALID or RQL_E_FORKED.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended it.
 * @retval RQL_E_INVALID  An option is out of range; nothing was sent.
 * @retval RQL_E_IO       No connection; the batch that could not be sent was not executed.
 * @retval RQL_E_UNKNOWN  No reply: all or part of the last batch, which is not in @p out, may have
 *                        been done. Also other faults of status.h.
 *
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_clear(rql_client *client,
                                                  const rql_sweep_options *options,
                                                  rql_sweep_result *out, rql_error *error);

/**
 * End the locks of one acquirer on one host, and withdraw the acquirer from all queues: the gem's
 * clear_locks_of.
 *
 * Locks go where both ids match, requests by the acquirer alone. A live waiter puts itself back in
 * its old place.
 *
 * @param[in]  client   The client.
 * @param[in]  owner    Whose locks.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      What was done, or NULL; filled as by rql_locks_clear().
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended it.
 * @retval RQL_E_INVALID  An id or an option is out of range; nothing was sent.
 * @retval RQL_E_UNKNOWN  As for rql_locks_clear(), whose other faults are possible, too.
 *
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_clear_of(rql_client *client,
                                                     const rql_sweep_owner *owner,
                                                     const rql_sweep_options *options,
                                                     rql_sweep_result *out, rql_error *error);

/**
 * Remove dead requests from all queues: the gem's clear_dead_requests.
 *
 * Concerns requests that entered their queue `dead_ttl_ms` ago or earlier, by the server's clock.
 * Those of the gem, which sends no heartbeats, are removed; a live one puts itself back. Those of
 * librql are removed if their client has been silent for 5 s or their time is over; a live one
 * keeps its place however old it is, which the gem would not do. If the lock is free, it goes to
 * the next in line.
 *
 * @param[in]  client   The client.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      What was done, or NULL; filled as by rql_locks_clear().
 * @param[out] queues   The names of all locks whose queues were found, changed or not (the gem's
 *                      processed_queues, which are keys), or NULL; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended it.
 * @retval RQL_E_INVALID  An option is out of range; nothing was sent.
 * @retval RQL_E_UNKNOWN  As for rql_locks_clear(), whose other faults are possible, too.
 *
 * @owner   The caller owns `*queues`; release with rql_text_list_free().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_requests_clear_dead(rql_client *client,
                                                          const rql_sweep_options *options,
                                                          rql_sweep_result *out,
                                                          rql_text_list **queues, rql_error *error);

RQL_END_DECLS

#endif
