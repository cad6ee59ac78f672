#ifndef RQL_SHARE_H
#define RQL_SHARE_H

/**
 * @file share.h
 * @brief Locks that several acquirers hold together: readers, permits, slots.
 *
 * A request with rql_lock_options::share_units takes a share of a lock. It is granted when the lock
 * is free, or when all its holders share it and the units in use, with its own, are at most its
 * rql_lock_options::share_limit. All other requests want the lock alone: they and sharers exclude
 * each other. This gives
 *
 * - readers and writers: readers share 1 unit of ::RQL_SHARE_MAX (rql_lock_options_share()), a
 *   writer wants the lock alone;
 * - a semaphore: at most N at once are permits of 1 unit of N (rql_lock_options_permit());
 * - a pool: with rql_lock_options::share_slots each permit has a number that no other has, such as
 *   the number of a GPU, a port or a licence.
 *
 * All requests for a lock wait in one queue, in the order in which they came. The first in the
 * queue is served first, so readers that keep coming do not starve a writer, and the other way
 * round. A share is a lock in all other respects: it has a lease and a token, is renewed, released,
 * and lost as described in lock.h. Its token is above those of all grants before it. A resource
 * that checks tokens refuses a writer whose token is below the highest that it has seen, and a
 * reader whose token is below the highest of a writer.
 *
 * An acquirer has one share of a lock. To take more, ask for more units, or set another
 * rql_lock_options::task. A request of an acquirer that has the lock or a share of it is treated as
 * rql_lock_options::conflict_strategy says; entering a share again takes no units. A request for
 * the lock alone of an acquirer that has a share gets ::RQL_CONFLICT: release the share first.
 *
 * Workers of the Ruby gem see a shared lock as one that is held, and wait. The server needs the
 * keys `rql:shares:*`; a user of the server with limited rights needs that pattern.
 */

#include <rql/async.h>
#include <rql/lock.h>

RQL_BEGIN_DECLS

/**
 * Asks for a share as a reader: 1 unit of ::RQL_SHARE_MAX.
 *
 * @param[in,out] options  Filled by rql_lock_options_init().
 */
static inline void rql_lock_options_share(rql_lock_options *options)
{
    options->share_units = 1;
    options->share_limit = RQL_SHARE_MAX;
}

/**
 * Asks for permits: @p units of at most @p limit that are in use at once.
 *
 * @param[in,out] options  Filled by rql_lock_options_init().
 * @param[in]     units    1 to @p limit. Checked by the acquisition.
 * @param[in]     limit    1 to ::RQL_SHARE_MAX. All requests for a lock should have the same.
 */
static inline void rql_lock_options_permit(rql_lock_options *options, int64_t units, int64_t limit)
{
    options->share_units = units;
    options->share_limit = limit;
}

/**
 * Shares a lock that is held alone: a writer becomes a reader, and other requests that fit are let
 * in. Token, acquirer and metadata stay. No other request has the lock in between.
 *
 * @param[in]  lock   A lock that is held alone.
 * @param[in]  share  The share that it has from then on: `share_units`, `share_limit` and
 *                    `share_slots`. All other options are not read.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        The lock is shared.
 * @retval RQL_NOT_HELD  The lock is not held any more.
 * @retval RQL_CONFLICT  The lock is shared already; or a re-entry of it is open or has extended it.
 *                       Nothing has changed.
 * @retval RQL_E_INVALID The lock is NULL, or the share is not allowed; or the lock was acquired
 *                       with `hold_at_least_ms`. Nothing was sent.
 * @retval RQL_E_UNKNOWN There was no answer. The lock is held, and may be shared or not; its next
 *                       renewal or extension shares it.
 * @retval RQL_E_NOT_DURABLE The lock is shared, but less durably than it has to be.
 * @return Other faults of rql_lock_extend(); the lock is then held as before.
 *
 * @threads Callable from any thread. Not while another call about the same lock runs.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_lower(rql_lock *lock, const rql_lock_options *share,
                                                 rql_error *error);

/**
 * Does the same as rql_lock_lower() on a loop. The lock must not be released before @p done is
 * called.
 *
 * @param[in]  loop   The loop.
 * @param[in]  lock   A lock that is held alone.
 * @param[in]  share  As for rql_lock_lower(); read during the call.
 * @param[in]  done   Called with the results of rql_lock_lower(), or NULL.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK The call is under way.
 * @return The results of rql_lock_extend_async(), and ::RQL_CONFLICT; @p done is not called.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_lower_async(rql_loop *loop, rql_lock *lock,
                                                       const rql_lock_options *share,
                                                       const rql_done *done, rql_error *error);

/**
 * Returns the slots of a share: as many numbers as it has units, from 0 to its limit - 1, rising.
 * No other share with slots has them before this one ends.
 *
 * @param[in]  lock       The lock, or NULL.
 * @param[out] count_out  How many there are.
 * @return The slots; NULL if the lock has none. They belong to the handle.
 *
 * @threads Callable from any thread.
 */
RQL_API const int *rql_lock_slots(const rql_lock *lock, size_t *count_out);

RQL_END_DECLS

#endif
