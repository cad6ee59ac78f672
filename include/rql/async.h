#ifndef RQL_ASYNC_H
#define RQL_ASYNC_H

/**
 * @file async.h
 * @brief The same calls on an event loop: nothing blocks, and the outcome comes by callback.
 *
 * A ::rql_loop attaches a client to a libuv loop: the caller's, or one in a thread that the library
 * starts. All its requests share one command connection and, from the first wait on, one subscriber
 * connection, in addition to those of the client. A waiting request costs memory but no command:
 * one request of each lock polls for all that wait for it (see rql_lock_acquire_async()). When a
 * loop of the caller ends because nothing keeps it alive, its subscriber is closed, since nobody
 * would read it; the next wait connects again.
 *
 * Rules that hold for every call here:
 *
 * - ::RQL_OK means that the call is under way and its callback will be called exactly once. Any
 *   other status means that nothing was done and no callback will be called.
 * - Callbacks are called on the thread that runs the loop, with no library mutex held, never from
 *   inside the call that asked for them, and one at a time. They may call any function of the
 *   library; one that blocks there blocks the loop. client.h says which signals are blocked in a
 *   thread that the library starts.
 * - Calls may be made from any thread. A loop of the caller ends when nothing keeps it alive:
 *   whatever is under way does (an attempt to connect, too), a call that another thread is about to
 *   make does not.
 * - Locks obtained here are locks like any other: rql_lock_describe(), rql_lock_token(),
 *   rql_lock_remaining_ms(), rql_lock_lost_fd() and the like never block, and rql_lock_release()
 *   and similar calls work on them from any thread, but may block. Their rql_lock_options::on_lost
 *   is called from the client's background thread, as options.h says. One that a release on the
 *   same loop has handed over is there before the server has said so: until the loop has run again,
 *   rql_lock_release() on its thread leaves the rest to the loop and returns RQL_OK, and
 *   rql_lock_extend() and rql_lock_verify() are ::RQL_E_UNAVAILABLE there.
 * - Each request is an acquirer of its own: two requests for the same lock wait for each other.
 *   With rql_lock_options::task set (not 0) the acquirer is that task of the loop's thread, as it
 *   would be in rql_lock_acquire(); on one loop it may wait for a lock once (::RQL_E_BUSY). Two
 *   loops of one thread do not know of each other: a task that waits for a lock on both has a
 *   single place in the queue, and loses it with the first request that ends.
 * - Deadlines are met within milliseconds when few requests end at once. When many deadlines expire
 *   at once, requests are withdrawn as fast as the server replies; each callback runs when its
 *   request has been withdrawn.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/lock.h>
#include <rql/options.h>
#include <rql/series.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

struct uv_loop_s;

/** A client attached to an event loop. Opaque; made by rql_loop_open(). */
typedef struct rql_loop rql_loop;

/** An acquisition under way. Opaque; see rql_request_cancel() for how long it may be used. */
typedef struct rql_request rql_request;

/** A block that runs under a lock; see rql_lock_run_async(). Opaque. */
typedef struct rql_hold rql_hold;

/**
 * Attach a client to a loop. Connects when the first request needs it, without blocking.
 *
 * @param[out] out     The loop; untouched unless RQL_OK.
 * @param[in]  client  The client; outlives the loop: close it before rql_client_free().
 * @param[in]  uv      A `uv_loop_t` of the caller, or NULL: a thread is started that runs one. With
 *                     a loop of the caller, its thread makes this call (libuv's rule for handles),
 *                     or will run it: the thread counts as the host of all requests.
 * @param[out] error   Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_NOMEM    Out of memory, descriptors or threads.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; end it with rql_loop_close().
 * @threads Callable from any thread, but for a loop of the caller.
 */
RQL_API RQL_MUST_CHECK rql_status rql_loop_open(rql_client *client, struct uv_loop_s *uv,
                                                rql_loop **out, rql_error *error);

/**
 * Called when something has ended.
 *
 * @param[in] user_data  Given beside the function.
 */
typedef void (*rql_closed_fn)(void *user_data);

/**
 * Close a loop: no new request is taken, all that wait are cancelled and get their callbacks;
 * releases under way are completed, also those that callbacks ask for meanwhile, and so are blocks
 * and calls of rql_loop_run(). The client keeps withdrawing whatever the server has not confirmed
 * by then. Then `closed` is called, on the loop's thread, and the loop is gone.
 *
 * With a loop of the library's own this call returns after that. With a loop of the caller it
 * returns at once; keep running the loop until `closed` has been called. That takes until the
 * server has replied, or an attempt to connect has ended: with a silent server about
 * `connect_timeout_ms` + `io_timeout_ms`.
 *
 * @param[in]  loop       The loop. Afterwards only rql_hold_end() may still be called for its
 *                        blocks.
 * @param[in]  closed     Called at the end, or NULL.
 * @param[in]  user_data  Given to @p closed.
 * @param[out] error      Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         It is closing, or closed.
 * @retval RQL_E_INVALID  NULL; closed already; or from a callback of the library's own loop, which
 *                        would wait for itself.
 * @retval RQL_E_FORKED   The loop belongs to the parent process; nothing was done.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_loop_close(rql_loop *loop, rql_closed_fn closed,
                                                 void *user_data, rql_error *error);

/**
 * Called with the outcome of an acquisition.
 *
 * @param[in] status     Any status of rql_lock_acquire(), or ::RQL_CANCELLED.
 * @param[in] lock       The held lock, now owned by the callee; NULL unless RQL_OK.
 * @param[in] error      Why the status is not RQL_OK, valid during the call; NULL for RQL_OK.
 * @param[in] user_data  rql_acquiring::user_data.
 */
typedef void (*rql_acquired_fn)(rql_status status, rql_lock *lock, const rql_error *error,
                                void *user_data);

/** Whom to call with the outcome of an acquisition, and the handle to cancel it with. */
typedef struct rql_acquiring {
    rql_acquired_fn done; /**< Called once. */
    void *user_data;      /**< Given to `done`. */
    rql_request *request; /**< Set by the call if it returns RQL_OK; see rql_request_cancel(). */
} rql_acquiring;

/**
 * Take a lock, waiting in its queue: rql_lock_acquire() without blocking.
 *
 * The request waits in the queue like any other, in the order of the calls. Of all requests of a
 * loop that wait for the same lock the oldest polls the server for all of them, as often as
 * rql_lock_acquire() does; the others sleep until a release hands them the lock, their time is
 * over, or they become the oldest. So the cost of waiting grows with the number of locks that are
 * waited for, not with the number of requests.
 *
 * `timeout_ms` counts from the call. Withdrawing the request then has as much time as in
 * rql_lock_acquire(), and more while the server is busy with other requests of this loop.
 * `retry_count` counts as in rql_lock_acquire(): with the default of 3 a request gives up after
 * half a second, so a request that should wait needs ::RQL_FOREVER. rql_lock_options::refusal, if
 * set, is filled in before the callback and must live until then.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL for the client's defaults. Copied, metadata too.
 * @param[in,out] what     Whom to call; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_lock_acquire(); the loop is closed; or no callback.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 * @retval RQL_E_UNSUPPORTED  A light build, and a listener was given (observe.h).
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_acquire_async(rql_loop *loop, const char *name,
                                                         const rql_lock_options *options,
                                                         rql_acquiring *what, rql_error *error);

/**
 * Cancel a request: it leaves its queue, and what it was granted meanwhile is released.
 *
 * Its callback then gets ::RQL_CANCELLED; or the outcome that it had already; or ::RQL_E_UNKNOWN if
 * the server did not confirm, and the client keeps withdrawing it. For a series this means all
 * locks; for rql_lock_run_async() only the waiting: a running block goes on.
 *
 * @param[in] request  The request. It may be used until its callback is called. That is easy to
 *                     know on the loop's thread; another thread must make sure itself.
 *
 * @retval RQL_OK         Its callback will be called.
 * @retval RQL_E_INVALID  NULL.
 * @retval RQL_E_FORKED   It belongs to the parent process.
 *
 * @threads Callable from any thread, with the care described above.
 */
RQL_API rql_status rql_request_cancel(rql_request *request);

/**
 * What keeps a request from its lock, other than holders and requests in front: the fault of its
 * last try. The request keeps trying until its time is over; a fault that cannot pass ends it.
 *
 * @param[in]  request  The request. It may be used until its callback is called.
 * @param[out] error    Detail of the fault, or NULL.
 *
 * @retval RQL_OK             Nothing: its last try got a reply, or there has been none yet.
 * @retval RQL_E_IO           The server cannot be reached.
 * @retval RQL_E_UNKNOWN      It has not replied for half of `io_timeout_ms`.
 * @retval RQL_E_READ_ONLY    It is a replica.
 * @retval RQL_E_UNAVAILABLE  It is loading, out of memory or busy.
 * @retval RQL_E_INVALID      NULL.
 *
 * @threads The loop's thread only.
 */
RQL_API rql_status rql_request_fault(const rql_request *request, rql_error *error);

/**
 * Called with the outcome of a call.
 *
 * @param[in] status     Any status of the blocking call.
 * @param[in] error      Why the status is not RQL_OK, valid during the call; NULL for RQL_OK.
 * @param[in] user_data  rql_done::user_data.
 */
typedef void (*rql_done_fn)(rql_status status, const rql_error *error, void *user_data);

/** Whom to call when a call is done. */
typedef struct rql_done {
    rql_done_fn fn;  /**< Called once, or NULL. */
    void *user_data; /**< Given to `fn`. */
} rql_done;

/**
 * Release a lock: rql_lock_release() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop   The loop.
 * @param[in]  lock   The lock, or NULL (the outcome is RQL_OK). Unless the call fails, invalid
 *                    afterwards.
 * @param[in]  done   Whom to call, or NULL. Copied. Any status of rql_lock_release().
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  The loop is closed, and this is another thread or it has ended what was
 *                        under way; or the lock is of another client. It is held as before.
 * @retval RQL_E_NOMEM    Out of memory; it is held as before.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_release_async(rql_loop *loop, rql_lock *lock,
                                                         const rql_done *done, rql_error *error);

/**
 * Make a lock live longer: rql_lock_extend() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop    The loop.
 * @param[in]  lock    The lock. Nobody may release it before the callback.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[in]  done    Whom to call, or NULL. Copied. Any status of rql_lock_extend().
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range, @p lock is NULL or of another client, or the
 *                        loop is closed.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_extend_async(rql_loop *loop, rql_lock *lock,
                                                        int64_t ttl_ms, const rql_done *done,
                                                        rql_error *error);

/**
 * The beginning of a block: the lock is held.
 *
 * @param[in] hold       Ends the block: rql_hold_end(), from here or later, from any thread.
 * @param[in] lock       The lock; do not release it.
 * @param[in] user_data  rql_async_block::user_data.
 */
typedef void (*rql_hold_fn)(rql_hold *hold, rql_lock *lock, void *user_data);

/**
 * Called with the outcome of a block.
 *
 * @param[in] status     Any status of rql_lock_run(), or ::RQL_CANCELLED.
 * @param[in] value      What rql_hold_end() was given; 0 if the block did not run.
 * @param[in] error      Why the status is not RQL_OK, valid during the call; NULL for RQL_OK.
 * @param[in] user_data  rql_async_block::user_data.
 */
typedef void (*rql_hold_done_fn)(rql_status status, int value, const rql_error *error,
                                 void *user_data);

/** A block that runs under a lock, on a loop. */
typedef struct rql_async_block {
    rql_hold_fn run;       /**< Called when the lock is held. */
    rql_hold_done_fn done; /**< Called when it is released, or was not obtained. */
    void *user_data;       /**< Given to both. */
    rql_request *request;  /**< Set by the call; may be used until `run` or `done` is called. */
} rql_async_block;

/**
 * Acquire, run a block, release: rql_lock_run() without blocking. The block may last beyond its
 * function.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL. Copied.
 * @param[in,out] block    What to run, and whom to call; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_lock_acquire_async(); or there is no block to run. Also other
 * faults of rql_lock_acquire_async().
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_run_async(rql_loop *loop, const char *name,
                                                     const rql_lock_options *options,
                                                     rql_async_block *block, rql_error *error);

/**
 * End a block: its lock is released.
 *
 * @param[in] hold   The block's; once. Invalid afterwards.
 * @param[in] value  Passed to rql_async_block::done.
 *
 * @retval RQL_OK         The release is under way.
 * @retval RQL_E_INVALID  NULL.
 * @retval RQL_E_FORKED   It belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API rql_status rql_hold_end(rql_hold *hold, int value);

/**
 * Called with the outcome of the acquisition of a series.
 *
 * @param[in] status     Any status of rql_series_acquire(), or ::RQL_CANCELLED.
 * @param[in] series     The held series, now owned by the callee; NULL unless RQL_OK.
 * @param[in] error      Why the status is not RQL_OK, valid during the call; NULL for RQL_OK.
 * @param[in] user_data  rql_series_acquiring::user_data.
 */
typedef void (*rql_series_acquired_fn)(rql_status status, rql_series *series,
                                       const rql_error *error, void *user_data);

/** Whom to call with the outcome of the acquisition of a series, and the handle to cancel it with.
 */
typedef struct rql_series_acquiring {
    rql_series_acquired_fn done; /**< Called once. */
    void *user_data;             /**< Given to `done`. */
    rql_request *request;        /**< Set by the call; see rql_request_cancel(). */
} rql_series_acquiring;

/**
 * Acquire a series: rql_series_acquire() without blocking, in both modes.
 *
 * @param[in]     loop     The loop.
 * @param[in]     options  What to take and how. Copied, names too; its `result`, if set, is filled
 *                         in before the callback and must live until then.
 * @param[in,out] what     Whom to call; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_series_acquire(), and as rql_lock_acquire_async(), whose other
 * faults are possible, too.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_acquire_async(rql_loop *loop,
                                                           const rql_series_options *options,
                                                           rql_series_acquiring *what,
                                                           rql_error *error);

/**
 * Release a series: rql_series_release() without blocking. For any series of the loop's client.
 *
 * @param[in]  loop    The loop.
 * @param[in]  series  The series, or NULL (the outcome is RQL_OK). Unless the call fails, invalid
 *                     afterwards.
 * @param[out] result  As rql_series_release(), filled in before the callback; or NULL.
 * @param[in]  done    Whom to call, or NULL. Copied. Any status of rql_series_release().
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_lock_release_async(), whose other faults are possible, too.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_release_async(rql_loop *loop, rql_series *series,
                                                           rql_series_result *result,
                                                           const rql_done *done, rql_error *error);

/** A blocking call that runs on another thread; see rql_loop_run(). */
typedef struct rql_work {
    /**
     * Runs on a thread of libuv's pool: any call of the library, such as rql_locks_inspect() or
     * rql_locks_clear(), with a client and room for results that `user_data` points to.
     *
     * @param[in]  user_data  The `user_data` beside it.
     * @param[out] error      To be filled in on a fault; passed to `done`.
     * @return Passed to `done`.
     */
    rql_status (*run)(void *user_data, rql_error *error);
    rql_done_fn done; /**< Called on the loop's thread when `run` has returned, or NULL. */
    void *user_data;  /**< Given to both. */
} rql_work;

/**
 * Run a blocking call of the library without blocking the loop: this makes inspections, sweeps and
 * the calls for operators asynchronous. The pool has four threads unless UV_THREADPOOL_SIZE says
 * otherwise. The loop connects there, too: if calls occupy all its threads, it cannot reconnect.
 *
 * @param[in]  loop   The loop.
 * @param[in]  work   What to run, and whom to call. Copied.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  The loop is closed, or there is nothing to run.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_loop_run(rql_loop *loop, const rql_work *work,
                                               rql_error *error);

RQL_END_DECLS

#endif
