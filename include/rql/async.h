#ifndef RQL_ASYNC_H
#define RQL_ASYNC_H

/**
 * @file async.h
 * @brief The same calls on an event loop: they do not block, and a callback receives the outcome.
 *
 * A ::rql_loop attaches a client to a libuv loop: a loop of the caller, or one in a thread that the
 * library starts. All requests of a ::rql_loop share one command connection and, from the first
 * wait on, one subscriber connection. Both are in addition to the connections of the client. A
 * waiting request costs memory but no commands: for each lock, one request polls for all requests
 * that wait for the lock (see rql_lock_acquire_async()). When a loop of the caller ends because
 * nothing keeps it alive, its subscriber connection is closed, because nothing would read it. The
 * next wait connects again.
 *
 * Rules that hold for every call here:
 *
 * - ::RQL_OK means that the call is in progress and that its callback will be called exactly once.
 *   Any other status means that nothing was done and no callback will be called.
 * - Callbacks are called one at a time, on the thread that runs the loop. The library holds no
 *   mutex during a callback, and never calls one from inside the call that it belongs to. A
 *   callback may call any function of the library, but a function that blocks there blocks the
 *   loop. client.h says which signals are blocked in a thread that the library starts.
 * - Calls may be made from any thread. A loop of the caller ends when nothing keeps it alive.
 *   Everything that is in progress keeps it alive, including an attempt to connect. A call that
 *   another thread is about to make does not. A call that another thread makes while nothing keeps
 *   the loop alive begins only when something does: `uv_run()` returns without it. Only before the
 *   first `uv_run()` does it keep the loop alive.
 * - Locks that are acquired here are locks like any other. rql_lock_describe(), rql_lock_token(),
 *   rql_lock_remaining_ms(), rql_lock_lost_fd() and similar calls never block. rql_lock_release()
 *   and similar calls work on these locks from any thread, but may block.
 *   rql_lock_options::on_lost is called from the client's background thread, as options.h says.
 * - A lock that a release on the same loop has handed over is held before the server has confirmed
 *   the hand-over. Until the loop has run again, it is not renewed, and lasts as long as the hold
 *   before would have. A third of that hold's TTL is left, or half a second if that is less, so a
 *   callback that takes longer can lose the lock. Calls on the loop's thread also differ until
 *   then: rql_lock_release() leaves the rest to the loop and returns RQL_OK, and rql_lock_extend()
 *   and rql_lock_verify() return ::RQL_E_UNAVAILABLE. For a series in the gem's mode that has such
 *   a lock, rql_series_release() and rql_series_extend() do the same.
 * - Each request is an acquirer of its own: two requests for the same lock wait for each other.
 *   With rql_lock_options::task set (not 0) the acquirer is that task of the loop's thread, as in
 *   rql_lock_acquire(). On one loop such an acquirer may have only one waiting request for a lock
 *   (::RQL_E_BUSY). Two loops of one thread do not know of each other: a task that waits for a lock
 *   on both has a single place in the queue, and loses it with the first request that ends.
 * - Deadlines are met within milliseconds when few requests end at once. When many deadlines expire
 *   at once, requests are withdrawn as fast as the server replies. Each callback runs when its
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

/** An acquisition in progress. Opaque; rql_request_cancel() says for how long it may be used. */
typedef struct rql_request rql_request;

/** A block that runs under a lock; see rql_lock_run_async(). Opaque. */
typedef struct rql_hold rql_hold;

/**
 * Attaches a client to a loop. The loop connects when the first request needs it, without blocking.
 *
 * @param[in]  client  The client. It must outlive the loop: close the loop before
 *                     rql_client_free().
 * @param[in]  uv      A `uv_loop_t` of the caller, or NULL: the library starts a thread that runs
 *                     one. A loop of the caller must be attached by the thread that runs it or will
 *                     run it (libuv's rule for handles). This thread counts as the host of all
 *                     requests.
 * @param[out] out     The loop; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_NOMEM    Out of memory, descriptors or threads.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`, and ends it with rql_loop_close().
 * @threads Callable from any thread, except with a loop of the caller; see @p uv.
 */
RQL_API RQL_MUST_CHECK rql_status rql_loop_open(rql_client *client, struct uv_loop_s *uv,
                                                rql_loop **out, rql_error *error);

/**
 * Called when something has ended.
 *
 * @param[in] user_data  The pointer that was passed with the function.
 */
typedef void (*rql_closed_fn)(void *user_data);

/**
 * Closes a loop. It takes no new requests. All requests that wait are cancelled and get their
 * callbacks. Releases in progress are completed, including those that callbacks begin meanwhile,
 * and so are blocks and calls of rql_loop_run(). The client keeps withdrawing everything that the
 * server has not confirmed by then. At the end `closed` is called on the loop's thread, and the
 * loop no longer exists.
 *
 * With a loop of the library's own this call returns after that. With a loop of the caller it
 * returns at once; keep running the loop until `closed` has been called. On another thread than
 * the loop's, it is a call like any other: something has to keep the loop alive. Closing takes
 * until the server has replied, or an attempt to connect has ended. With a silent server that is
 * about `connect_timeout_ms` + `io_timeout_ms`.
 *
 * @param[in]  loop       The loop. Afterwards only rql_hold_end() may still be called for its
 *                        blocks.
 * @param[in]  closed     Called at the end, or NULL.
 * @param[in]  user_data  Passed to @p closed.
 * @param[out] error      Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The loop is closing, or closed.
 * @retval RQL_E_INVALID  @p loop is NULL or was closed before; or the call was made from a callback
 *                        of the library's own loop, which would wait for itself.
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

/** The callback for the outcome of an acquisition, and the handle to cancel the acquisition. */
typedef struct rql_acquiring {
    rql_acquired_fn done; /**< Called once. */
    void *user_data;      /**< Passed to `done`. */
    rql_request *request; /**< Set by the call if it returns RQL_OK; see rql_request_cancel(). */
} rql_acquiring;

/**
 * Acquires a lock, waiting in its queue: rql_lock_acquire() without blocking.
 *
 * The request waits in the queue like any other, in the order of the calls. Of all requests of a
 * loop that wait for the same lock, the oldest polls the server for all of them, as often as
 * rql_lock_acquire() does. The others sleep until a release hands them the lock, their time is
 * over, or they become the oldest. So the cost of waiting grows with the number of locks that are
 * waited for, not with the number of requests.
 *
 * `timeout_ms` counts from the call. The withdrawal of the request then has as much time as in
 * rql_lock_acquire(), and more while the server is busy with other requests of this loop.
 * `retry_count` counts as in rql_lock_acquire(). By default the number of tries is not limited;
 * with the gem's three tries a request gives up after half a second. rql_lock_options::refusal, if
 * set, is filled in before the callback and must live until then.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL for the client's defaults. Copied, metadata too.
 * @param[in,out] what     The callback; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The request is in progress.
 * @retval RQL_E_INVALID  As for rql_lock_acquire(); or the loop is closed; or there is no callback.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 * @retval RQL_E_UNSUPPORTED  The library is a light build, and a listener was given (observe.h).
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_acquire_async(rql_loop *loop, const char *name,
                                                         const rql_lock_options *options,
                                                         rql_acquiring *what, rql_error *error);

/**
 * Cancels a request: it leaves its queue, and anything that it was granted meanwhile is released.
 *
 * The callback of the request then gets ::RQL_CANCELLED, or the outcome that the request already
 * had. If the server did not confirm the withdrawal, the callback gets ::RQL_E_UNKNOWN, and the
 * client keeps withdrawing the request. For a series all locks are cancelled. For
 * rql_lock_run_async() only the wait is cancelled: a block that already runs continues.
 *
 * @param[in] request  The request. It may be used until its callback is called. That is easy to
 *                     know on the loop's thread; another thread must make sure itself.
 *
 * @retval RQL_OK         The callback will be called.
 * @retval RQL_E_INVALID  @p request is NULL.
 * @retval RQL_E_FORKED   The request belongs to the parent process.
 *
 * @threads Callable from any thread, with the care described above.
 */
RQL_API rql_status rql_request_cancel(rql_request *request);

/**
 * Returns the fault, if there is one, that keeps a request from its lock: the fault of its last
 * try. Holders and requests in front are no faults.
 *
 * The request keeps trying until its time is over. A fault that cannot pass ends the request.
 *
 * @param[in]  request  The request. It may be used until its callback is called.
 * @param[out] error    Detail of the fault, or NULL.
 *
 * @retval RQL_OK             There is no fault: the last try got a reply, or no try has ended yet.
 * @retval RQL_E_IO           The server cannot be reached.
 * @retval RQL_E_UNKNOWN      The server has not replied for half of `io_timeout_ms`.
 * @retval RQL_E_READ_ONLY    The server is a replica.
 * @retval RQL_E_UNAVAILABLE  The server is loading, out of memory or busy, or the lock moves to
 *                            another node of its cluster, or no node has it.
 * @retval RQL_E_INVALID      @p request is NULL.
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

/** The callback for the outcome of a call. */
typedef struct rql_done {
    rql_done_fn fn;  /**< Called once, or NULL. */
    void *user_data; /**< Passed to `fn`. */
} rql_done;

/**
 * Releases a lock: rql_lock_release() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop   The loop.
 * @param[in]  lock   The lock, or NULL (the outcome is RQL_OK). Unless the call fails, invalid
 *                    afterwards.
 * @param[in]  done   The callback, or NULL. Copied. It gets any status of rql_lock_release().
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The release is in progress.
 * @retval RQL_E_INVALID  The loop is closed, and the caller is another thread or everything that
 *                        was in progress on the loop has ended; or the lock is of another client.
 *                        The lock is held as before.
 * @retval RQL_E_NOMEM    Out of memory; the lock is held as before.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_release_async(rql_loop *loop, rql_lock *lock,
                                                         const rql_done *done, rql_error *error);

/**
 * Makes a lock live longer: rql_lock_extend() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop    The loop.
 * @param[in]  lock    The lock. It must not be released before the callback.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[in]  done    The callback, or NULL. Copied. It gets any status of rql_lock_extend().
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The extension is in progress.
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
 * Called at the beginning of a block, when the lock is held.
 *
 * @param[in] hold       Ends the block: pass it to rql_hold_end(), from here or later, from any
 *                       thread.
 * @param[in] lock       The lock; do not release it.
 * @param[in] user_data  rql_async_block::user_data.
 */
typedef void (*rql_hold_fn)(rql_hold *hold, rql_lock *lock, void *user_data);

/**
 * Called with the outcome of a block.
 *
 * @param[in] status     Any status of rql_lock_run(), or ::RQL_CANCELLED.
 * @param[in] value      The value that was passed to rql_hold_end(); 0 if the block did not run.
 * @param[in] error      Why the status is not RQL_OK, valid during the call; NULL for RQL_OK.
 * @param[in] user_data  rql_async_block::user_data.
 */
typedef void (*rql_hold_done_fn)(rql_status status, int value, const rql_error *error,
                                 void *user_data);

/** A block that runs under a lock, on a loop. */
typedef struct rql_async_block {
    rql_hold_fn run;       /**< Called when the lock is held. */
    rql_hold_done_fn done; /**< Called when the lock is released, or was not obtained. */
    void *user_data;       /**< Passed to both. */
    rql_request *request;  /**< Set by the call; may be used until `run` or `done` is called. */
} rql_async_block;

/**
 * Acquires a lock, runs a block, and releases the lock: rql_lock_run() without blocking. The block
 * may continue after its function has returned.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL. Copied.
 * @param[in,out] block    The block to run, and the callback; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The request is in progress.
 * @retval RQL_E_INVALID  As for rql_lock_acquire_async(); or there is no block to run. Other faults
 *                        of rql_lock_acquire_async() are possible, too.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_run_async(rql_loop *loop, const char *name,
                                                     const rql_lock_options *options,
                                                     rql_async_block *block, rql_error *error);

/**
 * Ends a block: its lock is released.
 *
 * @param[in] hold   The hold of the block. Pass it only once; it is invalid afterwards.
 * @param[in] value  Passed to rql_async_block::done.
 *
 * @retval RQL_OK         The release is in progress.
 * @retval RQL_E_INVALID  @p hold is NULL.
 * @retval RQL_E_FORKED   The hold belongs to the parent process.
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

/** The callback for the outcome of the acquisition of a series, and the handle to cancel it. */
typedef struct rql_series_acquiring {
    rql_series_acquired_fn done; /**< Called once. */
    void *user_data;             /**< Passed to `done`. */
    rql_request *request;        /**< Set by the call; see rql_request_cancel(). */
} rql_series_acquiring;

/**
 * Acquires a series: rql_series_acquire() without blocking, in every mode.
 *
 * @param[in]     loop     The loop.
 * @param[in]     options  Which locks to acquire, and how. Copied, names too. Its `result`, if
 *                         set, is filled in before the callback and must live until then.
 * @param[in,out] what     The callback; read at once. Its `request` is set.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The request is in progress.
 * @retval RQL_E_INVALID  As for rql_series_acquire(), and as for rql_lock_acquire_async(), whose
 *                        other faults are possible, too.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_acquire_async(rql_loop *loop,
                                                           const rql_series_options *options,
                                                           rql_series_acquiring *what,
                                                           rql_error *error);

/**
 * Releases a series: rql_series_release() without blocking. For any series of the loop's client.
 *
 * @param[in]  loop    The loop.
 * @param[in]  series  The series, or NULL (the outcome is RQL_OK). Unless the call fails, invalid
 *                     afterwards.
 * @param[out] result  As for rql_series_release(), filled in before the callback; or NULL.
 * @param[in]  done    The callback, or NULL. Copied. It gets any status of rql_series_release().
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The release is in progress.
 * @retval RQL_E_INVALID  As for rql_lock_release_async(), whose other faults are possible, too.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_release_async(rql_loop *loop, rql_series *series,
                                                           rql_series_result *result,
                                                           const rql_done *done, rql_error *error);

/** A blocking call that runs on another thread; see rql_loop_run(). */
typedef struct rql_work {
    /**
     * Runs on a thread of libuv's pool. It may make any call of the library, such as
     * rql_locks_inspect() or rql_locks_clear(), with a client and memory for results that
     * `user_data` points to.
     *
     * @param[in]  user_data  The `user_data` of this struct.
     * @param[out] error      To be filled in on a fault; passed to `done`.
     * @return The status that is passed to `done`.
     */
    rql_status (*run)(void *user_data, rql_error *error);
    rql_done_fn done; /**< Called on the loop's thread when `run` has returned, or NULL. */
    void *user_data;  /**< Passed to both. */
} rql_work;

/**
 * Runs a blocking call of the library without blocking the loop. This makes inspections, sweeps and
 * the calls for operators asynchronous.
 *
 * libuv's pool has four threads unless UV_THREADPOOL_SIZE sets another number. The loop connects on
 * these threads, too: if calls occupy all of them, the loop cannot reconnect.
 *
 * @param[in]  loop   The loop.
 * @param[in]  work   The call to run, and the callback. Copied.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The call is in progress.
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
