#ifndef RQL_ASYNC_H
#define RQL_ASYNC_H

/**
 * @file async.h
 * @brief The same calls on an event loop: nothing blocks, and the outcome comes by callback.
 *
 * A ::rql_loop is a client's door to a libuv loop: the caller's, or one in a thread that the
 * library starts. All its requests share one command connection and, from the first wait on, one
 * subscriber connection, beside those of the client. A waiting request costs memory, and no
 * command: the server is asked by one request of each lock for all that wait there (see
 * rql_acquire_async()). A loop of the caller that ends, having nothing more to do, hangs its
 * subscriber up, for nobody would read it; the next wait connects it anew.
 *
 * Rules that hold for every call here:
 *
 * - ::RQL_OK means that it is under way, and its callback is called exactly once. Any other
 *   status means that nothing was done and no callback comes.
 * - Callbacks are called on the thread that runs the loop, with no library mutex held, never from
 *   inside the call that asked for them, and one at a time. They may call anything of the library;
 *   what blocks there blocks the loop.
 * - Calls come from any thread. A loop of the caller ends when nothing keeps it alive: what is
 *   under way does (an attempt to connect, too), a call that another thread is about to make
 *   does not.
 * - Locks that were obtained here are locks as any other: rql_lock_describe(), rql_lock_token(),
 *   rql_lock_remaining_ms(), rql_lock_lost_fd() and the like never block, and
 *   rql_lock_release() and its kin work on them from any thread, and do. Their
 *   rql_lock_options::on_lost is called from the client's background thread, as options.h says.
 * - Each request is an acquirer of its own: two requests for the same lock wait for each other.
 *   With rql_lock_options::task set (not 0) the acquirer is that task of the loop's thread, as
 *   it would be in rql_lock_acquire(); on one loop it may wait for a lock once (::RQL_E_BUSY).
 *   Two loops of one thread know nothing of each other: a task that waits for a lock on both has
 *   one place in the queue for the two, and loses it with the first that ends.
 * - A deadline is met by milliseconds when few requests end at once. A crowd whose time is over at
 *   the same instant is taken out of its queues as fast as the server answers; each is told when
 *   it is out.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/lock.h>
#include <rql/options.h>
#include <rql/series.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

struct uv_loop_s;

/** A client's door to an event loop. Opaque; made by rql_loop_open(). */
typedef struct rql_loop rql_loop;

/** An acquisition under way. Opaque; see rql_request_cancel() for how long it may be used. */
typedef struct rql_request rql_request;

/** A block that runs under a lock; see rql_with_async(). Opaque. */
typedef struct rql_hold rql_hold;

/**
 * Open a door to a loop. Connects when the first request needs it, without blocking.
 *
 * @param[out] out     The loop; untouched unless RQL_OK.
 * @param[in]  client  The client; outlives the loop: close it before rql_client_free().
 * @param[in]  uv      A `uv_loop_t` of the caller, or NULL: a thread is started that runs one. With
 *                     a loop of the caller, its thread makes this call (libuv's rule for handles),
 *                     or will run it: the thread counts as the host of all requests.
 * @param[out] error   Detail of a fault, or NULL; untouched unless negative.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_NOMEM    Out of memory, descriptors or threads.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; end it with rql_loop_close().
 * @threads Callable from any thread, but for a loop of the caller.
 */
RQL_API RQL_MUST_CHECK rql_status rql_loop_open(rql_loop **out, rql_client *client,
                                                struct uv_loop_s *uv, rql_error *error);

/**
 * Told when something is over.
 *
 * @param[in] user_data  Given beside the function.
 */
typedef void (*rql_closed_fn)(void *user_data);

/**
 * Close a loop: no new request is taken, all that wait are cancelled and get their callbacks;
 * releases under way come to their end, and so do blocks and calls of rql_run_async(). What the
 * server has not confirmed by then the client goes on withdrawing. Then `closed` is called, on the
 * loop's thread, and the loop is gone.
 *
 * With a loop of the library's own this call returns after that. With a loop of the caller it
 * returns at once; run it on until `closed` was called. It takes until the server has answered,
 * or an attempt to connect that is under way has ended: before a silent server, some
 * `connect_timeout_ms` + `io_timeout_ms`.
 *
 * @param[in]  loop       The loop. Afterwards only rql_hold_end() may still be called on its parts.
 * @param[in]  closed     Called at the end, or NULL.
 * @param[in]  user_data  Given to @p closed.
 * @param[out] error      Detail of a fault, or NULL.
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
 * Told how an acquisition ended.
 *
 * @param[in] status     Any status of rql_lock_acquire(), or ::RQL_CANCELLED.
 * @param[in] lock       The held lock, which is the callee's now; NULL unless RQL_OK.
 * @param[in] error      Detail of a fault; valid during the call. NULL unless negative.
 * @param[in] user_data  rql_acquiring::user_data.
 */
typedef void (*rql_acquired_fn)(rql_status status, rql_lock *lock, const rql_error *error,
                                void *user_data);

/** Who is told of an acquisition, and how to take it back. */
typedef struct rql_acquiring {
    rql_acquired_fn done; /**< Called once. */
    void *user_data;      /**< Given to `done`. */
    rql_request *request; /**< Set by the call, when it answers RQL_OK; see rql_request_cancel(). */
} rql_acquiring;

/**
 * Take a lock, waiting in its queue: rql_lock_acquire() without blocking.
 *
 * The request stands in the queue like any other, in the order of the calls. Of all requests of a
 * loop that wait for the same lock the oldest asks the server now and then for all of them, as
 * often as rql_lock_acquire() does; the others sleep until a release hands them the lock, their
 * time is over, or they come to be the oldest. So idle cost grows with the number of locks that are
 * waited for, not with the number of requests.
 *
 * `timeout_ms` counts from the call, and what is withdrawn then has the time that it has in
 * rql_lock_acquire(), and more while the server is answering others of this loop. `retry_count`
 * counts as in rql_lock_acquire(): with the default of 3 a request gives up after half a second, so
 * a request that is to wait wants ::RQL_FOREVER. rql_lock_options::refusal, if set, is filled in
 * before the callback and must live until then.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL for the client's defaults. Copied, metadata too.
 * @param[in,out] what     Who is told; read at once. Its `request` is set.
 * @param[out]    error    Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_lock_acquire(); the loop is closed; or no callback.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 * @retval RQL_E_UNSUPPORTED  A light build, and somebody wants to listen (observe.h).
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_acquire_async(rql_loop *loop, const char *name,
                                                    const rql_lock_options *options,
                                                    rql_acquiring *what, rql_error *error);

/**
 * Take a request back: out of its queue, and what it was granted meanwhile is released.
 *
 * Its callback then gets ::RQL_CANCELLED; or what it had come to already; or ::RQL_E_UNKNOWN when
 * the server did not confirm it, and the client goes on withdrawing it. Of a series all locks are
 * meant; of rql_with_async() only the waiting: a block that runs goes on.
 *
 * @param[in] request  The request. It may be used until its callback is called: on the loop's
 *                     thread that is easy to know; another thread has to make sure by itself.
 *
 * @retval RQL_OK         Its callback is on its way.
 * @retval RQL_E_INVALID  NULL.
 * @retval RQL_E_FORKED   It belongs to the parent process.
 *
 * @threads Callable from any thread, with that care.
 */
RQL_API rql_status rql_request_cancel(rql_request *request);

/**
 * What keeps a request from its lock, other than those who hold it or stand in front: the fault of
 * its last try. The request goes on trying until its time is over; a fault that no time can mend
 * ends it.
 *
 * @param[in]  request  The request. It may be used until its callback is called.
 * @param[out] error    Detail of the fault, or NULL.
 *
 * @retval RQL_OK             Nothing: its last try was answered, or it has not been tried yet.
 * @retval RQL_E_IO           The server cannot be reached.
 * @retval RQL_E_UNKNOWN      It does not answer; half of `io_timeout_ms` has passed.
 * @retval RQL_E_READ_ONLY    It is a replica.
 * @retval RQL_E_UNAVAILABLE  It is loading, out of memory or busy.
 * @retval RQL_E_INVALID      NULL.
 *
 * @threads The loop's thread only.
 */
RQL_API rql_status rql_request_fault(const rql_request *request, rql_error *error);

/**
 * Told how a call ended.
 *
 * @param[in] status     Any status of the blocking call.
 * @param[in] error      Detail of a fault; valid during the call. NULL unless negative.
 * @param[in] user_data  rql_done::user_data.
 */
typedef void (*rql_done_fn)(rql_status status, const rql_error *error, void *user_data);

/** Who is told that a call is done. */
typedef struct rql_done {
    rql_done_fn fn;  /**< Called once, or NULL: nobody. */
    void *user_data; /**< Given to `fn`. */
} rql_done;

/**
 * Release a lock: rql_lock_release() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop   The loop.
 * @param[in]  lock   The lock, or NULL (RQL_OK is told). Unless the call fails, invalid afterwards.
 * @param[in]  done   Who is told, or NULL. Copied. Any status of rql_lock_release().
 * @param[out] error  Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  The loop is closed, or the lock is of another client; it is held as
 * before.
 * @retval RQL_E_NOMEM    Out of memory; it is held as before.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_release_async(rql_loop *loop, rql_lock *lock,
                                                    const rql_done *done, rql_error *error);

/**
 * Make a lock live longer: rql_lock_extend() without blocking. For any lock of the loop's client.
 *
 * @param[in]  loop    The loop.
 * @param[in]  lock    The lock. Nobody may release it before the callback.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[in]  done    Who is told, or NULL. Copied. Any status of rql_lock_extend().
 * @param[out] error   Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range, @p lock is NULL or of another client, or the
 *                        loop is closed.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_extend_async(rql_loop *loop, rql_lock *lock, int64_t ttl_ms,
                                                   const rql_done *done, rql_error *error);

/**
 * The begin of a block: the lock is held.
 *
 * @param[in] hold       Ends the block: rql_hold_end(), from here or later, from any thread.
 * @param[in] lock       The lock; do not release it.
 * @param[in] user_data  rql_async_block::user_data.
 */
typedef void (*rql_hold_fn)(rql_hold *hold, rql_lock *lock, void *user_data);

/**
 * Told how a block went.
 *
 * @param[in] status     Any status of rql_with_lock(), or ::RQL_CANCELLED.
 * @param[in] value      What rql_hold_end() was given; 0 if the block did not run.
 * @param[in] error      Detail of a fault; valid during the call. NULL unless negative.
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
 * Acquire, run a block, release: rql_with_lock() without blocking. The block may last beyond its
 * function.
 *
 * @param[in]     loop     The loop.
 * @param[in]     name     As for rql_lock_acquire(). Copied.
 * @param[in]     options  Settings, or NULL. Copied.
 * @param[in,out] block    What to run, and who is told; read at once. Its `request` is set.
 * @param[out]    error    Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_acquire_async(); or there is no block to run. Other faults of
 *                        rql_acquire_async() likewise.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_with_async(rql_loop *loop, const char *name,
                                                 const rql_lock_options *options,
                                                 rql_async_block *block, rql_error *error);

/**
 * End a block: its lock is released.
 *
 * @param[in] hold   The block's; once. Invalid afterwards.
 * @param[in] value  Handed to rql_async_block::done.
 *
 * @retval RQL_OK         The release is under way.
 * @retval RQL_E_INVALID  NULL.
 * @retval RQL_E_FORKED   It belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API rql_status rql_hold_end(rql_hold *hold, int value);

/**
 * Told how the acquisition of a series ended.
 *
 * @param[in] status     Any status of rql_series_acquire(), or ::RQL_CANCELLED.
 * @param[in] series     The held series, which is the callee's now; NULL unless RQL_OK.
 * @param[in] error      Detail of a fault; valid during the call. NULL unless negative.
 * @param[in] user_data  rql_series_acquiring::user_data.
 */
typedef void (*rql_series_acquired_fn)(rql_status status, rql_series *series,
                                       const rql_error *error, void *user_data);

/** Who is told of the acquisition of a series, and how to take it back. */
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
 * @param[in,out] what     Who is told; read at once. Its `request` is set.
 * @param[out]    error    Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_series_acquire(), and as rql_acquire_async(); other faults of that
 *                        likewise.
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
 * @param[in]  series  The series, or NULL (RQL_OK is told). Unless the call fails, invalid
 *                     afterwards.
 * @param[out] result  As rql_series_release(), filled in before the callback; or NULL.
 * @param[in]  done    Who is told, or NULL. Copied. Any status of rql_series_release().
 * @param[out] error   Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  As rql_release_async(); other faults of that likewise.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_series_release_async(rql_loop *loop, rql_series *series,
                                                           rql_series_result *result,
                                                           const rql_done *done, rql_error *error);

/** A blocking call that runs aside; see rql_run_async(). */
typedef struct rql_work {
    /**
     * Runs on a thread of libuv's pool: any call of the library, such as rql_list_locks_info() or
     * rql_clear_locks(), with a client and places for results that `user_data` leads to.
     *
     * @param[in]  user_data  The `user_data` beside it.
     * @param[out] error      To be filled on a fault, and handed to `done`.
     * @return Handed to `done`.
     */
    rql_status (*run)(void *user_data, rql_error *error);
    rql_done_fn done; /**< Called on the loop's thread when `run` has returned, or NULL. */
    void *user_data;  /**< Given to both. */
} rql_work;

/**
 * Run a blocking call of the library without blocking the loop: inspections, sweeps, and what
 * operators do become asynchronous this way. The pool has four threads unless UV_THREADPOOL_SIZE
 * says otherwise. The loop connects there, too: calls that all wait keep it from coming back.
 *
 * @param[in]  loop   The loop.
 * @param[in]  work   What to run, and who is told. Copied.
 * @param[out] error  Detail of a fault, or NULL.
 *
 * @retval RQL_OK         Under way.
 * @retval RQL_E_INVALID  The loop is closed, or there is nothing to run.
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The loop belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_run_async(rql_loop *loop, const rql_work *work,
                                                rql_error *error);

RQL_END_DECLS

#endif
