#ifndef RQL_SERIES_H
#define RQL_SERIES_H

/**
 * @file series.h
 * @brief Acquire several locks: all of them or none.
 *
 * Each lock of a series is a normal lock. It has a token of its own, and every other client, also
 * one in Ruby, can read it and wait for it. While a series waits, it holds nothing
 * (::RQL_SERIES_ATOMIC), or the locks that it has acquired so far (::RQL_SERIES_SORTED,
 * ::RQL_SERIES_GEM). A series that fails holds nothing, in any mode.
 *
 * In a cluster each lock is in one of 128 partitions, which follows from its name. Names with the
 * same `{tag}`, such as `orders:{42}:a` and `orders:{42}:b`, are in the same partition. The locks
 * of an atomic series must all be in the same partition; those of a sorted series need not be.
 *
 * A free lock is reserved for the atomic series that is first in its queue, because the series
 * takes all of its locks or none. The reservation ends, because a waiter behind the series may hold
 * a lock that the series waits for:
 *
 * - A request whose acquirer holds another lock is served during the reservation, before the series
 *   and all other requests. After 16 such requests, one of the other requests must be let past
 *   first. A client knows which locks are held through it. The locks of the acquirer that asks
 *   (thread and task) count, including those left to their TTL; for a request on a loop without a
 *   task, any lock of the client counts. rql_lock_options::nested reports other locks. With
 *   `fail_fast` a request does not wait, so it does not matter what its acquirer holds.
 * - Against all other requests the reservation lasts 2 s at most. Then one of them is let past, and
 *   the series keeps its place in front of the rest. The next reservation is twice as long, up to
 *   60 s. The time starts when the lock is first seen free, and again when a request has been let
 *   past.
 * - The locks that a Ruby client holds are not known, and a Ruby client takes a lock only at the
 *   head of the queue. When the time is over, all requests in front of the Ruby client leave the
 *   queue, and return to their old places with their next poll.
 *
 * So a series that waits for two locks, and an acquirer that holds one of them and asks for the
 * other, do not block each other for long. If it is known what the acquirer holds, they do not
 * block each other at all. Otherwise they do so only as long as the lock is reserved.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/lock.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** Largest number of locks in one series. */
#define RQL_SERIES_MAX 64

/** How a series is acquired. */
typedef enum rql_series_mode {
    /**
     * All locks are acquired in one step on their server. Until that is possible, the request waits
     * in every queue with the same score, so two series never wait for each other, in whatever
     * order their names are given. A free lock is reserved for a limited time for the series that
     * is first in its queue, see above. A name may be given only once.
     */
    RQL_SERIES_ATOMIC = 0,
    /**
     * The locks are acquired one after the other in the given order, as by the gem's lock_series.
     * Each lock has its own retries and timeout. The TTL of lock i of n, counted from 0, is
     * (ttl + retry_delay + retry_jitter) * (n - i). Two series in opposite orders wait for each
     * other until one gives up. Unlike the gem's, a series that fails releases the locks that it
     * took.
     */
    RQL_SERIES_GEM = 1,
    /**
     * For locks that are spread over several servers. The locks of each partition are acquired in
     * one step, one partition after the other in ascending order, under one deadline (`retry_count`
     * counts for each partition). Locks that are already held are renewed at each third of their
     * TTL until all are held; rql_series_remaining_ms() then returns the time that is left. All
     * sorted series take the partitions in ascending order, so they never wait for each other in a
     * circle, in whatever order their names are given. If one server has all locks, this mode is
     * the same as ::RQL_SERIES_ATOMIC. A name may be given only once.
     */
    RQL_SERIES_SORTED = 2,
} rql_series_mode;

/** The outcome for one lock of a series. */
typedef enum rql_series_fate {
    RQL_SERIES_UNTRIED = 0,  /**< Not asked for, or no reply reported its state. */
    RQL_SERIES_ACQUIRED = 1, /**< Acquired; released again if the series failed. */
    RQL_SERIES_REFUSED = 2,  /**< Gem: the lock that failed, for the reason of the series. */
    RQL_SERIES_OPEN = 3,     /**< Available, but other locks of the same step were not. */
    RQL_SERIES_HELD = 4,     /**< Another acquirer held the lock. */
    RQL_SERIES_BEHIND = 5,   /**< The lock was free, but other requests were in front. */
    RQL_SERIES_OWN = 6,      /**< This acquirer held the lock (::RQL_CONFLICT). */
} rql_series_fate;

/** How the locks of a series end. */
typedef enum rql_series_ending {
    RQL_SERIES_NOT_ENDED = 0, /**< Nothing was held, or the release got no reply. */
    RQL_SERIES_BY_TTL = 1,    /**< By their TTL (the gem's :redis_key_ttl). */
    RQL_SERIES_BY_RELEASE =
        2, /**< Released (the gem's :immediate_release_after_yield), or ended before that. */
} rql_series_ending;

/**
 * The result of a series. Plain data that the caller owns; nothing to release. Set up with
 * rql_result_init().
 */
typedef struct rql_series_result {
    size_t size;              /**< Set by rql_result_init(). */
    rql_status reason;        /**< Status that the acquisition returned. */
    size_t count;             /**< Number of names. */
    size_t n_acquired;        /**< Locks that were acquired, even if they were released again. */
    size_t failed_on;         /**< Index of the name that the series failed on; `count` if none. */
    int64_t waited_us;        /**< Time that the acquisition took. */
    int64_t held_us;          /**< From there to the end of the release; 0 before. */
    rql_series_ending ending; /**< How the locks end. */
    rql_series_fate fate[RQL_SERIES_MAX]; /**< The outcome for each name, in the given order. */
} rql_series_result;

/** What to acquire. Fill with rql_series_options_init(). */
typedef struct rql_series_options {
    size_t size; /**< Set by rql_series_options_init(); do not change. */

    rql_series_mode mode;     /**< Default ::RQL_SERIES_ATOMIC. */
    const char *const *names; /**< Names as for rql_lock_acquire(). Borrowed for the call. */
    size_t n_names;           /**< 1 to ::RQL_SERIES_MAX. Default 0. */

    /**
     * Settings of each lock, or NULL for the client's. Borrowed for the call.
     *
     * In an atomic or sorted series some settings apply to the whole series. `timeout_ms` and
     * `retry_count` are for all locks together (::RQL_SERIES_SORTED says how tries are counted).
     * After `queue_ttl_ms` the request moves to the tail of all queues. If this acquirer holds one
     * of the locks, the conflict strategy ::RQL_WORK_THROUGH shares that lock; with every other
     * strategy the result is ::RQL_CONFLICT. A ::RQL_RANDOM series takes free locks regardless of
     * the requests that wait for them, and otherwise waits in order.
     */
    const rql_lock_options *lock;

    /** Filled in on every result except ::RQL_E_INVALID and ::RQL_E_FORKED; or NULL. */
    rql_series_result *result;
} rql_series_options;

/** Several held locks. Opaque; made by rql_series_acquire(). */
typedef struct rql_series rql_series;

/**
 * Fills @p options with defaults. Use the macro rql_series_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Size of the struct in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_series_options_init_sized(rql_series_options *options, size_t size);

/** Fills `*options` with defaults and records the size that this program was compiled with. */
#define rql_series_options_init(options) rql_series_options_init_sized((options), sizeof *(options))

/**
 * Acquires all locks of a series, waiting in their queues, or none.
 *
 * On every result except RQL_OK nothing is held and no request is left in a queue. After
 * RQL_E_UNKNOWN the client ensures this in the background, as for rql_lock_acquire(). The deadline
 * is that of rql_lock_acquire(); in the gem's mode each lock has its own deadline. The descriptor
 * rql_lock_options::cancel_fd of `lock` cancels the whole series, as it cancels rql_lock_acquire().
 *
 * @param[in]  client   The client.
 * @param[in]  options  Which locks to acquire, and how.
 * @param[out] out      The held series; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         All locks are held; see rql_series_remaining_ms().
 * @retval RQL_TIMED_OUT  `timeout_ms` passed. Other outcomes and faults of rql_lock_acquire() are
 *                        possible, too. rql_series_result::failed_on identifies the lock.
 * @retval RQL_CANCELLED  rql_lock_options::cancel_fd became readable.
 * @retval RQL_CONFLICT   This acquirer holds one of the locks; see rql_series_options::lock.
 * @retval RQL_FAIL_FAST_NO_TRY  `fail_fast`, and one of the locks is held: by another acquirer, or
 *                               by an earlier request of this one that is still being withdrawn or
 *                               released.
 * @retval RQL_E_INVALID  There is no name, there are too many names, a name is malformed, a name is
 *                        given twice (atomic, sorted), the names are in different partitions
 *                        (atomic), a TTL is too long once it is multiplied (gem), or an option is
 *                        out of its range.
 * @retval RQL_E_UNAVAILABLE  Also: a held lock was lost while the series waited for others
 *                            (sorted, gem).
 *
 * @owner   The caller owns `*out`, and ends it with rql_series_release() or rql_series_forget().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_acquire(rql_client *client,
                                                     const rql_series_options *options,
                                                     rql_series **out, rql_error *error);

/**
 * Releases the locks whose grants are still in force, hands each to its next waiter, and frees the
 * handle.
 *
 * All releases go in one write, that of the last lock first. Each lock is released whatever the
 * results of the other locks are.
 *
 * @param[in]  series  The series, or NULL (RQL_OK). Invalid afterwards, unless RQL_E_INVALID.
 * @param[out] result  The struct to store `held_us` and `ending` in, or NULL. Its other fields
 *                     are unchanged.
 * @param[out] error   Detail of the first fault, or if there is none, of the first lock that had
 *                     ended; or NULL.
 *
 * @retval RQL_OK         All locks are released; no other acquirer held any of them in the
 *                        meantime.
 * @retval RQL_NOT_HELD   At least one lock had ended before.
 * @retval RQL_E_INVALID  rql_result_init() has not set @p result up. The series is still held.
 * @retval RQL_E_UNKNOWN  No reply for at least one lock; it is released in the background, as in
 *                        rql_lock_release(), whose other faults are possible, too.
 *
 * @threads Callable from any thread, not only the one that acquired the series.
 */
RQL_API rql_status rql_series_release(rql_series *series, rql_series_result *result,
                                      rql_error *error);

/**
 * Frees the handle and leaves the locks to their TTL (the gem's lock_series without a block), as
 * rql_lock_forget() does.
 *
 * @param[in] series  The series, or NULL.
 * @return NULL.
 * @threads Callable from any thread.
 */
RQL_API rql_series *rql_series_forget(rql_series *series);

/**
 * Makes every lock live at least @p ttl_ms from now, if its grant is still in force. All calls go
 * in one write.
 *
 * @param[in]  series  The series.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Detail of the first fault, or if there is none, of the first lock that had
 *                     ended; or NULL.
 *
 * @retval RQL_OK         All locks are extended.
 * @retval RQL_NOT_HELD   At least one lock had ended; the others are extended.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range.
 * @retval RQL_E_UNKNOWN  No reply; also other faults of rql_lock_extend().
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_extend(rql_series *series, int64_t ttl_ms,
                                                    rql_error *error);

/**
 * Returns how far the holder may rely on all locks together: the worst of rql_lock_get_state().
 *
 * @param[in] series  The series, or NULL (::RQL_GONE).
 * @return The state at this instant.
 * @threads Callable from any thread.
 */
RQL_API rql_lock_state rql_series_get_state(const rql_series *series);

/**
 * Returns the milliseconds until the first local deadline of the locks; see
 * rql_lock_remaining_ms().
 *
 * @param[in] series  The series, or NULL.
 * @return 0 when one of the locks is gone, or for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_series_remaining_ms(const rql_series *series);

/**
 * Returns a descriptor that becomes readable when one of the locks is lost. Poll it; do not read or
 * close it.
 *
 * @param[in]  series  The series.
 * @param[out] out     The descriptor, valid until the series is released or forgotten.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   No descriptors are available, or the background thread cannot be started.
 * @retval RQL_E_FORKED  The series belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_lost_fd(rql_series *series, int *out,
                                                     rql_error *error);

/**
 * Returns the number of locks.
 *
 * @param[in] series  The series, or NULL.
 * @return 1 to ::RQL_SERIES_MAX; 0 for NULL.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_series_count(const rql_series *series);

/**
 * Returns one of the locks, to read its token, its facts and its remaining time.
 *
 * @param[in] series  The series, or NULL, which has no lock.
 * @param[in] index   Index of the lock's name in rql_series_options::names.
 * @return The lock, or NULL past the last one; valid until the series is released or forgotten.
 * @threads Callable from any thread.
 */
RQL_API const rql_lock *rql_series_lock(const rql_series *series, size_t index);

/**
 * The work that a block does.
 *
 * @param[in] series     The series; do not release it.
 * @param[in] user_data  rql_series_block::user_data.
 * @return Any value; it is stored in rql_series_block::value.
 */
typedef int (*rql_series_block_fn)(rql_series *series, void *user_data);

/** A block that runs under a series; see rql_series_run(). */
typedef struct rql_series_block {
    rql_series_block_fn run; /**< Called once, on the calling thread, when all locks are held. */
    void *user_data;         /**< Passed to `run`. */
    int value;               /**< Return value of `run`; set whenever `run` has returned. */
} rql_series_block;

/**
 * Acquires a series, runs a block, and releases the series however the block ends, as
 * rql_lock_run() does.
 *
 * With `timed`, the result reports a block that ran longer than the TTL of the options. In gem mode
 * this is the TTL before it is multiplied.
 *
 * @param[in]     client   The client.
 * @param[in]     options  Which locks to acquire, and how. Its `result` is filled in, including
 *                         the release.
 * @param[in,out] block    The block to run; its `value` is filled in.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             The block ran, and all locks were held until its end.
 * @retval RQL_BLOCK_OVERRAN  `timed`, and the block ran longer than the TTL.
 * @retval RQL_NOT_HELD       The block ran, but a lock had ended before it did.
 * @retval RQL_TIMED_OUT      The series was not acquired, and the block did not run. Other outcomes
 *                            and faults of rql_series_acquire() are possible, too.
 * @retval RQL_E_UNKNOWN      The series was not acquired, or the block ran and a release got no
 *                            reply.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_run(rql_client *client,
                                                 const rql_series_options *options,
                                                 rql_series_block *block, rql_error *error);

RQL_END_DECLS

#endif
