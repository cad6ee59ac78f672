#ifndef RQL_SWEEP_H
#define RQL_SWEEP_H

/**
 * @file sweep.h
 * @brief End or extend a lock without its handle, and clear many locks and requests at once.
 *
 * A lock can be ended by its name, regardless of its holder, or by its secret, if a process was
 * handed the secret. A sweep is the gem's clear_locks, clear_locks_of, clear_current_locks and
 * clear_dead_requests.
 *
 * A sweep finds its keys with SCAN, and calls one short script for each key, in batches. The server
 * therefore keeps serving other clients, no matter how many keys there are. A sweep is not a
 * snapshot: it may miss locks and requests that are created meanwhile. The script decides and
 * removes in one step: a lock that has another owner by then stays, unless the sweep is about the
 * locks of all. The script that frees a lock also hands it to the next waiter of librql, and the
 * sweep does not end that grant. In a lock that several acquirers share (share.h),
 * rql_locks_clear_of() ends the share of its owner, which counts as a lock, and lets in waiters in
 * its place; rql_locks_clear() ends all shares. A key that holds something other than a lock or a
 * queue is left alone and counted.
 *
 * A fault ends the sweep. Work that was done before the fault is not undone, and the result
 * includes it. Call again for the rest.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/inspect.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/**
 * Called with the progress of a sweep: while the sweep searches for keys, and after each batch.
 *
 * Called on the sweeping thread, with no library mutex held.
 *
 * @param[in] done       Number of keys swept so far.
 * @param[in] found      Number of keys found so far; final once @p done is above 0.
 * @param[in] user_data  rql_sweep_options::user_data.
 * @return false to end the sweep now; the sweep then returns ::RQL_STOPPED.
 */
typedef bool (*rql_sweep_progress_fn)(int64_t done, int64_t found, void *user_data);

/**
 * Decides whether the sweep clears a lock or a queue. Called once for each lock and each queue that
 * was found; by rql_locks_clear_of() once more for a lock that several acquirers share.
 *
 * Called on the sweeping thread, with no library mutex held.
 *
 * @param[in] name       Name of the lock, or of the lock that the queue belongs to. Any bytes but
 *                       NUL: a key whose name contains a NUL is left alone without this call.
 * @param[in] user_data  rql_sweep_options::user_data.
 * @return false to leave the lock or queue alone.
 */
typedef bool (*rql_sweep_wants_fn)(const char *name, void *user_data);

/**
 * Called for each lock that was ended and each queue from which requests were removed. In a dry run
 * it is called for the locks and queues that would be swept.
 *
 * Called on the sweeping thread, with no library mutex held.
 *
 * @param[in] key        The key: `rql:lock:<name>` or `rql:lock_queue:<name>`. Valid during the
 *                       call.
 * @param[in] user_data  rql_sweep_options::user_data.
 */
typedef void (*rql_sweep_swept_fn)(const char *key, void *user_data);

/** Settings of one sweep. Fill with rql_sweep_options_init(). */
typedef struct rql_sweep_options {
    size_t size; /**< Set by rql_sweep_options_init(); do not change. */

    /** For rql_locks_clear() and rql_requests_clear_dead(): COUNT of each SCAN, and number of keys
     *  in a batch. 1 to 100000; more than 1000 counts as 1000 for SCAN, and more than 100 as 100
     *  for a batch. Default rql_options::lock_release_batch_size. */
    int64_t batch_size;
    /** The same for the locks of rql_locks_clear_of(). Default
     *  rql_options::clear_locks_of_lock_scan_size. */
    int64_t lock_scan_size;
    /** The same for the queues of rql_locks_clear_of(). Default
     *  rql_options::clear_locks_of_queue_scan_size. */
    int64_t queue_scan_size;
    /** For rql_requests_clear_dead(): the age from which a request may count as dead. 0
     *  to 315360000000. Default rql_options::dead_request_ttl_ms. */
    int64_t dead_ttl_ms;

    bool dry_run; /**< Count what would be swept, but change nothing. Default false. */

    rql_sweep_progress_fn on_progress; /**< Called with the progress, or NULL. */
    void *user_data;                   /**< Passed to `on_progress`, `wants` and `on_swept`. */

    rql_sweep_wants_fn wants; /**< Chooses locks and queues by name; NULL (default): all. */
    /** Called for each key that is swept, or in a dry run would be; or NULL. */
    rql_sweep_swept_fn on_swept;
} rql_sweep_options;

/**
 * The result of a sweep or of a dry run. Set up with rql_result_init(). Filled in whenever the
 * sweep has begun, even after a fault.
 */
typedef struct rql_sweep_result {
    size_t size;         /**< Set by rql_result_init(). */
    int64_t released;    /**< Locks or shares ended; for rql_locks_clear() also queues removed. */
    int64_t queues;      /**< Queues from which a request was removed. */
    int64_t requests;    /**< Requests removed. The gem does not count them. */
    int64_t handed_over; /**< Locks or shares that went to a waiter at once. The gem hands nothing
                            over. */
    int64_t foreign;     /**< Keys left alone: of another type, or of more than 65536 bytes. */
    int64_t duration_us; /**< Duration of the sweep. */
} rql_sweep_result;

/**
 * The owner of the locks that rql_locks_clear_of() ends. Both ids are required, as in the gem; 1 to
 * 512 bytes each.
 */
typedef struct rql_sweep_owner {
    const char *acquirer_id; /**< rql_lock_info::acquirer_id. */
    const char *host_id;     /**< rql_lock_info::host_id. */
} rql_sweep_owner;

/**
 * Fills @p options from the client's settings. Use rql_sweep_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options,
                                          size_t size);

/** Fills `*options` from the client and records the size this program was compiled with. */
#define rql_sweep_options_init(client, options)                                                    \
    rql_sweep_options_init_sized((client), (options), sizeof *(options))

/**
 * Ends all locks and empties all queues, regardless of their holders and waiters: the gem's
 * clear_locks.
 *
 * The sweep clears the queues first, then the locks, as the gem does. Holders of this client are
 * notified of the loss at once. Other holders, and all holders of a lock that several share, find
 * out at their next renewal or release. Live
 * waiters put themselves back in their old places: waiters of librql at once, waiters of the gem at
 * their next try.
 *
 * @param[in]  client   The client.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      The result, or NULL; filled in unless RQL_E_INVALID or RQL_E_FORKED.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended the sweep.
 * @retval RQL_E_INVALID  An option is out of range, or rql_result_init() has not set @p out up;
 *                        nothing was sent.
 * @retval RQL_E_IO       No connection. The batch that could not be sent was not executed.
 * @retval RQL_E_UNKNOWN  No reply. All or part of the last batch, which is not in @p out, may have
 *                        been done. Also other faults of status.h.
 *
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_clear(rql_client *client,
                                                  const rql_sweep_options *options,
                                                  rql_sweep_result *out, rql_error *error);

/**
 * Ends the locks and shares of one acquirer on one host, and withdraws the acquirer from all
 * queues: the gem's clear_locks_of.
 *
 * A lock or share is ended if both of its ids match. A request is removed if its acquirer id
 * matches. A live waiter puts itself back in its old place.
 *
 * @param[in]  client   The client.
 * @param[in]  owner    The owner of the locks.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      The result, or NULL; filled in as by rql_locks_clear().
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended the sweep.
 * @retval RQL_E_INVALID  An id or an option is out of range, or rql_result_init() has not set
 *                        @p out up; nothing was sent.
 * @retval RQL_E_UNKNOWN  As for rql_locks_clear(). Its other faults are possible, too.
 *
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_clear_of(rql_client *client,
                                                     const rql_sweep_owner *owner,
                                                     const rql_sweep_options *options,
                                                     rql_sweep_result *out, rql_error *error);

/**
 * Removes dead requests from all queues: the gem's clear_dead_requests.
 *
 * The sweep checks requests that entered their queue `dead_ttl_ms` ago or earlier, by the server's
 * clock. It removes all such requests of the gem, because the gem sends no heartbeats; a live one
 * puts itself back. It removes a request of librql if its client has been silent for 5 s, or if the
 * request's time is over. A live request of librql keeps its place, however old it is; the gem
 * would remove it. If the lock is free, it goes to the next waiter.
 *
 * @param[in]  client   The client.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      The result, or NULL; filled in as by rql_locks_clear().
 * @param[out] queues   The names of all locks whose queues were found, changed or not; or NULL.
 *                      Untouched unless RQL_OK. (The gem's processed_queues are keys.)
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_STOPPED    `on_progress` ended the sweep.
 * @retval RQL_E_INVALID  An option is out of range, or rql_result_init() has not set @p out up;
 *                        nothing was sent.
 * @retval RQL_E_UNKNOWN  As for rql_locks_clear(). Its other faults are possible, too.
 *
 * @owner   The caller owns `*queues`; release with rql_free().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_requests_clear_dead(rql_client *client,
                                                          const rql_sweep_options *options,
                                                          rql_sweep_result *out,
                                                          rql_text_list **queues, rql_error *error);

/**
 * Returns the secret of the grant. rql_lock_release_by_secret() accepts it from any process.
 *
 * @param[in] lock  The lock, or NULL.
 * @return 32 hexadecimal digits; valid until the lock is released or forgotten. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_secret(const rql_lock *lock);

/**
 * Releases a grant by its secret, from any process (fencelock's release). If it is a share, the
 * other shares of the lock stay.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  secret  rql_lock_secret() of the grant.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Released, and handed to the next waiter.
 * @retval RQL_NOT_HELD   No grant with this secret is in force.
 * @retval RQL_E_INVALID  The name or the secret is malformed.
 * @retval RQL_E_UNKNOWN  No reply; it is safe to repeat the call. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_release_by_secret(rql_client *client, const char *name,
                                                             const char *secret, rql_error *error);

/**
 * Does the same for a holder that was killed: the history (rql_options::history) says so.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  secret  rql_lock_secret() of the grant.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        Released, and handed to the next waiter.
 * @retval RQL_NOT_HELD  No grant with this secret is in force; also other statuses of
 *                       rql_lock_release_by_secret().
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_release_of_killed(rql_client *client, const char *name,
                                                             const char *secret, rql_error *error);

/**
 * Makes a grant, or a share, live at least @p ttl_ms from now by its secret, from any process. The
 * call never shortens the TTL.
 *
 * The holder is not notified of the extension, and relies on its own deadline as before.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  secret  rql_lock_secret() of the grant.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Extended.
 * @retval RQL_NOT_HELD   No grant with this secret is in force.
 * @retval RQL_E_INVALID  The name or the secret is malformed, or @p ttl_ms is out of range.
 * @retval RQL_E_UNKNOWN  No reply; it is safe to repeat the call. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_extend_by_secret(rql_client *client, const char *name,
                                                            const char *secret, int64_t ttl_ms,
                                                            rql_error *error);

/**
 * Ends one grant by its token, regardless of its holder, and hands the lock to the next waiter. A
 * newer grant is never ended. If it is a share, the other shares of the lock stay. For operators,
 * who decide by what they have seen: rql_lock_info::token, rql_holder_info::token.
 *
 * The holder is not asked. It finds out at its next renewal or release. A lock of the gem has no
 * token.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  token   The token of the grant.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Ended, and the lock was handed to the next waiter.
 * @retval RQL_NOT_HELD   No grant with this token is in force.
 * @retval RQL_E_INVALID  The name is malformed, or @p token is less than 1.
 * @retval RQL_E_UNKNOWN  No reply; it is safe to repeat the call. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_end_grant(rql_client *client, const char *name,
                                                     int64_t token, rql_error *error);

/**
 * Removes the request of one acquirer from one queue. If the lock is free, the next waiter gets it.
 * A live waiter puts itself back in its old place, so this is for what a dead one has left. For
 * operators.
 *
 * @param[in]  client       The client.
 * @param[in]  name         The lock's name.
 * @param[in]  acquirer_id  rql_request_info::acquirer_id.
 * @param[out] error        Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Removed.
 * @retval RQL_NOT_FOUND  The acquirer does not wait for the lock.
 * @retval RQL_E_INVALID  The name is malformed, or @p acquirer_id does not have 1 to 127 bytes.
 * @retval RQL_E_UNKNOWN  No reply; it is safe to repeat the call. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_request_remove(rql_client *client, const char *name,
                                                     const char *acquirer_id, rql_error *error);

/** The result of rql_lock_force_unlock(). */
typedef struct rql_unlock_result {
    size_t size;         /**< Bytes of this struct that were filled in. */
    bool lock_released;  /**< There was a lock. */
    bool queue_released; /**< There was a queue. */
    int64_t duration_us; /**< Time that the unlock took. */
} rql_unlock_result;

/**
 * Releases a lock regardless of its holder and empties its queue: the gem's unlock.
 *
 * The holder is not asked. It finds out at its next renewal or release. Live waiters keep their
 * places: waiters of librql are put back at once, and the first of them is served; waiters of the
 * gem put themselves back with their next try. For operators. Use the macro
 * rql_lock_force_unlock().
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The result; untouched unless RQL_OK.
 * @param[in]  size    Size of the struct in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK            Done; see @p out.
 * @retval RQL_E_INVALID     The name is malformed, or @p out is NULL.
 * @retval RQL_E_WRONG_TYPE  The lock's key holds another type, and nothing was changed. Or the
 *                           queue's key holds another type, and the lock was released.
 * @retval RQL_E_UNKNOWN     No reply. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_force_unlock_sized(rql_client *client, const char *name,
                                                              rql_unlock_result *out, size_t size,
                                                              rql_error *error);

/** Releases the lock, and fills in `*out` as far as this program knows the struct. */
#define rql_lock_force_unlock(client, name, out, error)                                            \
    rql_lock_force_unlock_sized((client), (name), (out), sizeof *(out), (error))

/**
 * Adds to the TTL of a lock regardless of its holder: the gem's extend_lock_ttl. For operators.
 *
 * As in the gem, a lock without a TTL counts as one with no time left: its TTL becomes @p add_ms.
 * The new TTL is at most ::RQL_TTL_MAX_MS; nothing is added to a TTL of the gem's that is longer.
 * If the call ends the lock, the lock goes to the next waiter. If several acquirers share the lock,
 * the call can end it sooner, but not later: it ends with its last share. Extend a share by its
 * secret.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  add_ms  Added to the remaining TTL. A negative value shortens the TTL, and ends the
 *                     lock if no time is left. Within ± ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_NOT_FOUND  There is no such lock (:async_expire_or_no_lock).
 * @retval RQL_E_INVALID  The name or @p add_ms is out of range.
 * @retval RQL_E_UNKNOWN  No reply; a repeated call would add again. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_force_extend(rql_client *client, const char *name,
                                                        int64_t add_ms, rql_error *error);

RQL_END_DECLS

#endif
