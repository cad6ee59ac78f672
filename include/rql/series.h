#ifndef RQL_SERIES_H
#define RQL_SERIES_H

/**
 * @file series.h
 * @brief Take several locks: all of them or none.
 *
 * Each lock of a series is a normal lock: it has a token of its own, and everybody else can read it
 * and wait for it, also in Ruby. While a series waits it holds nothing (::RQL_SERIES_ATOMIC) or
 * what it has acquired so far (::RQL_SERIES_SORTED, ::RQL_SERIES_GEM); when it fails it holds
 * nothing in any mode.
 *
 * In a cluster each lock is in one of 128 partitions, which follows from its name: names with the
 * same `{tag}`, as `orders:{42}:a` and `orders:{42}:b`, are in one. An atomic series needs that; a
 * sorted one does not.
 *
 * A free lock is kept for the atomic series that is first in its queue, because the series takes
 * all of its locks or none. That has an end, since those who wait behind it may hold what it waits
 * for:
 *
 * - Whoever holds another lock is served meanwhile, before the series and all others; after 16 of
 *   them somebody else must be let past first. A client knows what it holds itself: the locks of
 *   the acquirer that asks (thread and task), those left to their ttl too; for a request on a loop
 *   without a task, any lock of the client. rql_lock_options::nested tells of other locks. With
 *   `fail_fast` nobody waits, so what is held does not matter.
 * - From everybody else it is kept for 2 s at most. Then one of them is let past, and the series
 *   keeps its place in front of the others; the next time is twice as long, up to 60 s. The time
 *   starts when the lock is first seen free, and again when somebody has been let past.
 * - What a Ruby client holds is not known, and it takes a lock only at the head of the queue. When
 *   the time is over, all requests in front of it leave the queue, and return to their old places
 *   with their next poll.
 *
 * So an acquirer that holds one lock and asks for another, and a series that waits for both, do not
 * block each other: not at all if it is known what the acquirer holds, otherwise only for as long
 * as the lock is kept.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/lock.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** Most locks of one series. */
#define RQL_SERIES_MAX 64

/** How a series is acquired. */
typedef enum rql_series_mode {
    /**
     * All locks in one step on their server. Until that is possible the request waits in every
     * queue with the same score, so two series never wait for each other, in whatever order their
     * names are given. A free lock is kept for a while for the series that is first in its queue,
     * see above. A name may be given once.
     */
    RQL_SERIES_ATOMIC = 0,
    /**
     * One after the other in the given order, as the gem's lock_series: each with its own retries
     * and timeout, the i-th of n for (ttl + retry_delay + retry_jitter) * (n - i). Two series in
     * opposite orders wait for each other until one gives up. Unlike the gem's, a series that fails
     * releases what it took.
     */
    RQL_SERIES_GEM = 1,
    /**
     * By partition, where locks are spread over several servers: the locks of each in one step, one
     * partition after the other in ascending order, under one deadline (`retry_count` counts for
     * each). What is held already is renewed at each third of its ttl until all are there;
     * rql_series_remaining_ms() tells what is left then. All such series go upwards, so none wait
     * for each other in a circle, in whatever order their names are given. Where one server has all
     * locks it is the same as ::RQL_SERIES_ATOMIC. A name may be given once.
     */
    RQL_SERIES_SORTED = 2,
} rql_series_mode;

/** What became of one lock of a series. */
typedef enum rql_series_fate {
    RQL_SERIES_UNTRIED = 0,  /**< Not asked for, or no reply told of it. */
    RQL_SERIES_ACQUIRED = 1, /**< Acquired; released again if the series failed. */
    RQL_SERIES_REFUSED = 2,  /**< Gem: the one that failed, for the reason of the series. */
    RQL_SERIES_OPEN = 3,     /**< It was available, but others of the same step were not. */
    RQL_SERIES_HELD = 4,     /**< Somebody else held it. */
    RQL_SERIES_BEHIND = 5,   /**< It was free, but others were in front. */
    RQL_SERIES_OWN = 6,      /**< This acquirer held it (::RQL_CONFLICT). */
} rql_series_fate;

/** How the locks of a series end. */
typedef enum rql_series_ending {
    RQL_SERIES_NOT_ENDED = 0, /**< Nothing was held, or the release got no reply. */
    RQL_SERIES_BY_TTL = 1,    /**< By their ttl (the gem's :redis_key_ttl). */
    RQL_SERIES_BY_RELEASE =
        2, /**< Released (the gem's :immediate_release_after_yield); or had ended by then. */
} rql_series_ending;

/** The result of a series. Plain data of the caller; nothing to release. */
typedef struct rql_series_result {
    rql_status reason;        /**< What the acquisition returned. */
    size_t count;             /**< Number of names. */
    size_t n_acquired;        /**< How many were acquired, even if they were released again. */
    size_t failed_on;         /**< Index of the name that it failed on; `count` if on none. */
    int64_t acq_time_us;      /**< How long the acquisition took. */
    int64_t hold_time_us;     /**< From there to the end of the release; 0 before. */
    rql_series_ending ending; /**< How the locks end. */
    rql_series_fate fate[RQL_SERIES_MAX]; /**< Of each name, in the given order. */
} rql_series_result;

/** What to acquire. Fill with rql_series_options_init(). */
typedef struct rql_series_options {
    size_t size; /**< Set by rql_series_options_init(); do not change. */

    rql_series_mode mode;     /**< Default ::RQL_SERIES_ATOMIC. */
    const char *const *names; /**< Names as for rql_lock_acquire(). Borrowed for the call. */
    size_t n_names;           /**< 1 to ::RQL_SERIES_MAX. Default 0. */

    /**
     * Settings of each lock, or NULL for the client's. Borrowed for the call. In an atomic or
     * sorted series `timeout_ms` and `retry_count` are for the whole, and `queue_ttl_ms` moves the
     * request to the tail of all queues; of the conflict strategies ::RQL_WORK_THROUGH shares a
     * lock that this acquirer holds, all others are ::RQL_CONFLICT; a ::RQL_RANDOM series takes
     * free locks whoever waits for them, and waits in order otherwise.
     */
    const rql_lock_options *lock;

    rql_series_result *result; /**< Filled in whatever the outcome but RQL_E_INVALID; or NULL. */
} rql_series_options;

/** Several held locks. Opaque; made by rql_series_acquire(). */
typedef struct rql_series rql_series;

/**
 * Fill @p options with defaults. Use rql_series_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_series_options_init_sized(rql_series_options *options, size_t size);

/** Fill `*options` with defaults and record the size this program was compiled with. */
#define rql_series_options_init(options) rql_series_options_init_sized((options), sizeof *(options))

/**
 * Take all locks of a series, waiting in their queues, or none.
 *
 * On every result but RQL_OK nothing is held and no request is left in a queue; after RQL_E_UNKNOWN
 * the client ensures that in the background, as for rql_lock_acquire(). The deadline is as there;
 * in the gem's mode each lock has its own.
 *
 * @param[in]  client   The client.
 * @param[in]  options  What to take and how.
 * @param[out] out      The held series; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         All are held; see rql_series_remaining_ms().
 * @retval RQL_TIMED_OUT  `timeout_ms` passed; also other outcomes and faults of rql_lock_acquire(),
 *                        with rql_series_result::failed_on for the lock.
 * @retval RQL_CONFLICT   This acquirer holds one of them; see rql_series_options::lock.
 * @retval RQL_E_INVALID  No name, too many, a malformed one, the same twice (atomic, sorted), names
 *                        in different partitions (atomic), a ttl that is too long once it is
 *                        multiplied (gem), or an option out of its range.
 * @retval RQL_E_UNAVAILABLE  Also: what was held was lost while others were waited for (sorted).
 *
 * @owner   The caller owns `*out`; end it with rql_series_release() or rql_series_forget().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_acquire(rql_client *client,
                                                     const rql_series_options *options,
                                                     rql_series **out, rql_error *error);

/**
 * Release what is still ours, hand each lock to its next waiter, and free the handle. All locks go
 * in one write, the last one first; each is released, whatever becomes of the others.
 *
 * @param[in]  series  The series, or NULL (RQL_OK). Invalid afterwards, whatever the result.
 * @param[out] result  How it ended (`hold_time_us`, `ending`; the rest stays), or NULL.
 * @param[out] error   Of the first fault, else of the first lock that had ended; or NULL.
 *
 * @retval RQL_OK         All released. Nobody else held one of them up to now.
 * @retval RQL_NOT_HELD   At least one had ended before.
 * @retval RQL_E_UNKNOWN  No reply for at least one; it is released in the background as in
 *                        rql_lock_release(), whose other faults are possible, too.
 *
 * @threads Callable from any thread, not only the one that acquired.
 */
RQL_API rql_status rql_series_release(rql_series *series, rql_series_result *result,
                                      rql_error *error);

/**
 * Free the handle and leave the locks to their ttl (the gem's lock_series without a block), as
 * rql_lock_forget() does.
 *
 * @param[in] series  The series, or NULL.
 * @return NULL.
 * @threads Callable from any thread.
 */
RQL_API rql_series *rql_series_forget(rql_series *series);

/**
 * Make every lock live at least @p ttl_ms from now, if it is still ours: in one write.
 *
 * @param[in]  series  The series.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Of the first fault, else of the first lock that had ended; or NULL.
 *
 * @retval RQL_OK         All are extended.
 * @retval RQL_NOT_HELD   At least one had ended; the others are extended.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range.
 * @retval RQL_E_UNKNOWN  No reply; also other faults of rql_lock_extend().
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_extend(rql_series *series, int64_t ttl_ms,
                                                    rql_error *error);

/**
 * What the holder may rely on for all locks together: the worst of rql_lock_get_state().
 *
 * @param[in] series  The series, or NULL (::RQL_GONE).
 * @return The state at this instant.
 * @threads Callable from any thread.
 */
RQL_API rql_lock_state rql_series_get_state(const rql_series *series);

/**
 * Milliseconds until the first local deadline of the locks; see rql_lock_remaining_ms().
 *
 * @param[in] series  The series, or NULL.
 * @return 0 when one of them is gone, or for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_series_remaining_ms(const rql_series *series);

/**
 * A descriptor that becomes readable when one of the locks is lost. Poll it; do not read or close
 * it.
 *
 * @param[in]  series  The series.
 * @param[out] out     The descriptor, valid until the series is released or forgotten.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   No descriptors or no background thread could be had.
 * @retval RQL_E_FORKED  The series belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_lost_fd(rql_series *series, int *out,
                                                     rql_error *error);

/**
 * Number of locks.
 *
 * @param[in] series  The series, or NULL.
 * @return 1 to ::RQL_SERIES_MAX; 0 for NULL.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_series_count(const rql_series *series);

/**
 * One of the locks: to read its token, its facts and its time.
 *
 * @param[in] series  The series, or NULL, which has no lock.
 * @param[in] index   Index of its name in rql_series_options::names.
 * @return The lock, NULL past the last one; valid until the series is released or forgotten.
 * @threads Callable from any thread.
 */
RQL_API const rql_lock *rql_series_lock(const rql_series *series, size_t index);

/**
 * The work that a block does.
 *
 * @param[in] series     The series; do not release it.
 * @param[in] user_data  rql_series_block::user_data.
 * @return Any value; it is kept in rql_series_block::value.
 */
typedef int (*rql_series_block_fn)(rql_series *series, void *user_data);

/** A block that runs under a series; see rql_series_run(). */
typedef struct rql_series_block {
    rql_series_block_fn run; /**< Called once, on the calling thread, when all locks are held. */
    void *user_data;         /**< Given to `run`. */
    int value;               /**< What `run` returned; set whenever it did. */
} rql_series_block;

/**
 * Acquire a series, run a block, and release however the block ends, as rql_lock_run().
 *
 * With `timed`, a block that ran longer than the ttl of the options (in gem mode: before it was
 * multiplied) is reported.
 *
 * @param[in]     client   The client.
 * @param[in]     options  What to take and how; its `result` is filled in to the end.
 * @param[in,out] block    What to run; its `value` is filled in.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             The block ran, and all locks were held until its end.
 * @retval RQL_BLOCK_OVERRAN  `timed`, and the block ran longer than the ttl.
 * @retval RQL_NOT_HELD       The block ran, but a lock had ended before it did.
 * @retval RQL_TIMED_OUT      Not acquired, the block did not run; also other outcomes and faults of
 *                            rql_series_acquire().
 * @retval RQL_E_UNKNOWN      Not acquired, or the block ran and a release got no reply.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_run(rql_client *client,
                                                 const rql_series_options *options,
                                                 rql_series_block *block, rql_error *error);

RQL_END_DECLS

#endif
