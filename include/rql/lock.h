#ifndef RQL_LOCK_H
#define RQL_LOCK_H

/**
 * @file lock.h
 * @brief Take, hold, extend and release a lock.
 *
 * A lock has a ttl on the server. Its holder counts the same time locally, from before the request
 * was sent, less a margin of max(5 ms, 1 % of the ttl), on a clock that runs through suspend. Until
 * that deadline nobody else is granted the lock (rql(7) has the conditions). For anything beyond
 * that use the token: let the protected resource refuse every
 * token lower than the highest it has seen, and an equal token with another secret.
 *
 * Any thread may use and release a lock. Renewal (rql_lock_options::auto_extend) is tied to the
 * thread that acquired the lock and ends with it; rql_lock_options says how to keep it going.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** What a holder may rely on. */
typedef enum rql_lock_state {
    RQL_HELD = 0,     /**< Held until the local deadline at least. */
    RQL_DOUBTFUL = 1, /**< Before the deadline, but a renewal is late or the clock jumped. */
    RQL_GONE = 2,     /**< Lost, expired or released: somebody else may hold it. */
} rql_lock_state;

/** How a lock was obtained (the gem's `process`). */
typedef enum rql_lock_process {
    RQL_LOCK_OBTAINING = 0,                   /**< A grant of its own. */
    RQL_CONFLICT_WORK_THROUGH = 1,            /**< A re-entry. */
    RQL_EXTENDABLE_CONFLICT_WORK_THROUGH = 2, /**< A re-entry that added its ttl. */
} rql_lock_process;

/**
 * Fill @p options from the client's settings. Use rql_lock_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_lock_options_init_sized(const rql_client *client, rql_lock_options *options,
                                         size_t size);

/** Fill `*options` from the client and record the size this program was compiled with. */
#define rql_lock_options_init(client, options)                                                     \
    rql_lock_options_init_sized((client), (options), sizeof *(options))

/**
 * The size of ::rql_lock_options in the running library: for a binding, which has memory in place
 * of the struct, and rql_lock_options_set() in place of its fields.
 *
 * @return The size in bytes, to be given to rql_lock_options_init_sized().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_lock_options_size(void);

/**
 * Set one option of an acquisition by its name.
 *
 * @param[in,out] options  Filled by rql_lock_options_init().
 * @param[in]     name     Name of a field that is a number, a switch or a strategy, with `_` or
 *                         `-`: "ttl_ms", "fail-fast". `task` is not set by name.
 * @param[in]     value    Text, as for rql_options_set(): "30s", "forever", "true", "random".
 * @param[out]    error    What was wrong; or NULL.
 *
 * @retval RQL_OK         Set.
 * @retval RQL_E_INVALID  No such option, or no value of it; @p options is unchanged.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_options_set(rql_lock_options *options, const char *name,
                                                       const char *value, rql_error *error);

/**
 * Take a lock, waiting in its queue.
 *
 * Blocks until the lock is held, the deadline passes or the tries are used up. The default tries,
 * the gem's three, are used up after half a second: to wait to the deadline, set `retry_count` to
 * ::RQL_FOREVER.
 *
 * On every result other than RQL_OK and RQL_E_UNKNOWN the request has left the queue; after
 * RQL_E_UNKNOWN the client keeps withdrawing it in the background until the server has confirmed,
 * and if a copy of the request is still on its way, the server refuses it after twice
 * `io_timeout_ms`.
 *
 * The deadline is `timeout_ms` from the call. A request that is still in the queue then is
 * withdrawn, for which the server has another 50 ms, or two round trips as measured recently if
 * that is more.
 *
 * One acquirer (thread and task) may wait once for a lock at a time.
 *
 * @param[in]  client   The client.
 * @param[in]  name     Lock name, 1 to ::RQL_NAME_MAX bytes without control bytes. Copied.
 * @param[in]  options  Settings, or NULL for the client's defaults. Copied.
 * @param[out] out      The held lock; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK                   Held; see rql_lock_remaining_ms().
 * @retval RQL_TIMED_OUT            `timeout_ms` passed.
 * @retval RQL_RETRY_LIMIT          `retry_count` tries were refused, one every `retry_delay_ms`. A
 *                                  grant that had expired when its reply arrived counts as such a
 *                                  try: the ttl must be longer than the round trip; the refusal's
 *                                  message says so. With `fail_fast` there is one try.
 * @retval RQL_FAIL_FAST_NO_TRY     `fail_fast`, and another holds the lock.
 * @retval RQL_FAIL_FAST_AFTER_TRY  `fail_fast`, the lock is free but others are in front.
 * @retval RQL_CONFLICT             This acquirer holds it, and the strategy is ::RQL_DEAD_LOCKING;
 *                                  or it would wait for a lock that it keeps extending itself.
 * @retval RQL_E_INVALID            A name, an option or metadata outside its limits; nothing was
 *                                  sent.
 * @retval RQL_E_IO                 No connection.
 * @retval RQL_E_UNKNOWN            The connection broke or fell silent, and the deadline passed.
 * @retval RQL_E_BUSY               This acquirer is waiting for this lock already.
 * @retval RQL_E_WRONG_TYPE         A key of the lock has a foreign type.
 * @retval RQL_E_AUTH               Rights are missing.
 * @retval RQL_E_READ_ONLY          The server was a replica until the deadline; with `fail_fast`
 *                                  returned at once.
 * @retval RQL_E_UNAVAILABLE        It is loading, out of memory or busy; likewise.
 * @retval RQL_E_SERVER             Any other error of the server.
 * @retval RQL_E_PROTOCOL           The reply could not be understood.
 * @retval RQL_E_NOMEM              Out of memory.
 * @retval RQL_E_FORKED             The client belongs to the parent process.
 * @retval RQL_E_UNSUPPORTED        A light build, and a listener was given (observe.h).
 *
 * @owner   The caller owns `*out`; end it with rql_lock_release() or rql_lock_forget().
 * @threads Callable from any thread. Holds no mutex while it waits. Thread cancellation is
 *          deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_acquire(rql_client *client, const char *name,
                                                   const rql_lock_options *options, rql_lock **out,
                                                   rql_error *error);

/**
 * Take a lock if it is available at once: rql_lock_acquire() with `fail_fast`.
 *
 * @param[in]  client   The client.
 * @param[in]  name     As for rql_lock_acquire().
 * @param[in]  options  Settings, or NULL; `fail_fast` is taken as true.
 * @param[out] out      The held lock; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK                   Held.
 * @retval RQL_FAIL_FAST_NO_TRY     Another holds the lock.
 * @retval RQL_FAIL_FAST_AFTER_TRY  The lock is free but others are in front.
 * @retval RQL_RETRY_LIMIT          It was granted, but had expired when the reply arrived.
 * @retval RQL_CONFLICT             As for rql_lock_acquire(); faults too.
 *
 * @owner   The caller owns `*out`.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_try(rql_client *client, const char *name,
                                               const rql_lock_options *options, rql_lock **out,
                                               rql_error *error);

/**
 * Release a lock if it is still ours, hand it to the next waiter, and free the handle.
 *
 * A re-entry ends without releasing: the outer hold continues. What an extendable re-entry added
 * and did not use is subtracted again, as at the end of a block in the gem. After RQL_E_IO,
 * RQL_E_NOMEM and RQL_E_UNKNOWN the client keeps releasing in the background until the server has
 * confirmed or the lock has expired.
 *
 * With rql_lock_options::lazy_release it does not wait for the answer. RQL_OK says then that the
 * release is in the client's stream of commands, and that the lease was in force by the local
 * deadline. That changes:
 *
 * - What the server says later is told as a loss if it is anything but RQL_OK: by `on_lost`, by
 *   ::RQL_EVENT_LOCK_LOST with that status, and in rql_stats::lost_releases. ::RQL_NOT_HELD: the
 *   lock had ended before the server heard of it. A fault: it was refused, or not confirmed in the
 *   time of a command, which is `connect_timeout_ms` and `io_timeout_ms`. For that long the client
 *   repeats it in the background, and beyond that as after RQL_E_UNKNOWN.
 * - Others may find the lock held for as long as a command takes to the server; if the connection
 *   breaks, until the release is repeated. What the same thread asks next comes behind the release,
 *   but for a lock that came over another connection than its own (rql_options::connections). Who
 *   enters again a lock whose release is to be repeated loses it with that.
 * - A process that ends without rql_client_free() may lose releases that are on their way: those
 *   locks end by their ttl.
 *
 * It waits all the same where it has to know the answer, or gains nothing: re-entries, and conflict
 * strategies other than ::RQL_WAIT_FOR_LOCK; locks of a series, of a loop, and those handed to
 * another thread of this client; with less than 20 ms left of the lease; when the connection that
 * has brought the lock has ended; with 256 releases unanswered.
 *
 * @param[in]  lock   The lock, or NULL (RQL_OK). Invalid afterwards, whatever the result.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Released. Nobody else held the lock up to now.
 * @retval RQL_NOT_HELD   It had ended before: expired, taken away or lost with the server's data.
 * @retval RQL_E_IO       No connection; the lock ends by its ttl at the latest.
 * @retval RQL_E_UNKNOWN  No answer; it may be released, and ends by its ttl at the latest.
 * @retval RQL_E_NOMEM    No memory to ask for it; the lock ends by its ttl at the latest.
 * @retval RQL_E_SERVER   The server refused; other faults of status.h likewise.
 * @retval RQL_E_FORKED   The lock belongs to the parent process; nothing was done.
 *
 * @threads Callable from any thread, not only the one that acquired.
 */
RQL_API rql_status rql_lock_release(rql_lock *lock, rql_error *error);

/**
 * Free the handle and leave the lock to its ttl (the gem's lock without a block). Renewal ends.
 *
 * What was handed over and is not claimed yet is claimed now; where that gets no answer, the client
 * goes on in the background until the server has confirmed, rql_client_free() for up to
 * `io_timeout_ms`.
 *
 * With a swarm (swarm.h) the lock still belongs to its thread: if the process dies, its hosts are
 * dead, and the lock is freed before its ttl is over. A thread that ends while its process lives is
 * no dead host: it leaves the swarm, and the locks that it has left are kept for their whole ttl,
 * even if the process dies later. (The gem frees them once the thread has been gone for
 * zombie_ttl.) Where several servers share the locks it leaves each partition in which it holds
 * nothing else and waits for nothing: there the same is true from then on.
 *
 * @param[in] lock  The lock, or NULL.
 * @return NULL.
 * @threads Callable from any thread.
 */
RQL_API rql_lock *rql_lock_forget(rql_lock *lock);

/**
 * Make the lock live at least @p ttl_ms from now, if it is still ours. Never shortens, and never
 * revives a lock that is ::RQL_GONE, even if the server has not noticed yet.
 *
 * @param[in]  lock    The lock.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Extended; rql_lock_remaining_ms() says until when.
 * @retval RQL_NOT_HELD   The grant has ended; the state is now ::RQL_GONE.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range.
 * @retval RQL_E_IO       No connection; the old deadline stands.
 * @retval RQL_E_UNKNOWN  No reply; the old deadline stands.
 * @retval RQL_E_SERVER   The server refused; other faults of status.h likewise.
 * @retval RQL_E_FORKED   The lock belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_extend(rql_lock *lock, int64_t ttl_ms, rql_error *error);

/**
 * Ask the server whether this grant is still in force (redis_exp_lock's key_owned?).
 *
 * @param[in]  lock   The lock.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        In force.
 * @retval RQL_NOT_HELD  The grant has ended; the state is now ::RQL_GONE.
 * @retval RQL_E_IO      No reply; also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_verify(rql_lock *lock, rql_error *error);

/**
 * What the holder may rely on now, without asking the server (redis_exp_lock's locked?).
 *
 * @param[in] lock  The lock, or NULL (::RQL_GONE).
 * @return The state at this instant.
 * @threads Callable from any thread.
 */
RQL_API rql_lock_state rql_lock_get_state(const rql_lock *lock);

/**
 * Milliseconds until the local deadline, computed at the call.
 *
 * A lock that was handed over lives on the server for at most one second, until the client's
 * background thread has claimed the rest, a third of a second after the hand-over. Until then this
 * counts to the end of that second. One that was handed over inside the client counts to the end of
 * the lock before, until the server has answered, which takes a round trip.
 *
 * @param[in] lock  The lock, or NULL.
 * @return 0 when the lock is gone, or for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_lock_remaining_ms(const rql_lock *lock);

/**
 * A descriptor that becomes readable when the lock is lost. Poll it; do not read or close it.
 *
 * @param[in]  lock   The lock.
 * @param[out] out    The descriptor, valid until the lock is released or forgotten.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   No descriptor or no background thread could be had.
 * @retval RQL_E_FORKED  The lock belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_lost_fd(rql_lock *lock, int *out, rql_error *error);

/**
 * The fencing token: larger than every earlier token of this lock, as long as the server's clock is
 * not set back and only one master at a time grants the lock (rql(7)). A re-entry
 * has the token of the outer grant.
 *
 * The tokens of all locks of a server increase together; where several servers share the locks,
 * those of each partition do. So one resource can be protected by several locks. There is one
 * exception: a lock that is handed on inside its client has a token before the server knows. The
 * client makes it larger than every token that it has seen, and takes the earliest time that the
 * server's clock can show at that moment. A token that another client got for another lock just
 * before can be larger: up to a round trip of this client's newest call before the hand-over, plus
 * 200 µs for each second since that call.
 *
 * @param[in] lock  The lock, or NULL.
 * @return The token, above 0 and below 2^53; 0 for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_lock_token(const rql_lock *lock);

/**
 * The secret of the grant: rql_lock_release_by_secret() accepts it from any process.
 *
 * @param[in] lock  The lock, or NULL.
 * @return 32 hexadecimal digits; valid until the lock is released or forgotten. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_secret(const rql_lock *lock);

/**
 * The name of a lock.
 *
 * @param[in] lock  The lock, or NULL.
 * @return Its name; valid until the lock is released or forgotten. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_name(const rql_lock *lock);

/** The facts of an acquisition. */
typedef struct rql_lock_facts {
    size_t size;              /**< Bytes of this struct that were filled in. */
    const char *name;         /**< The lock's name. */
    const char *lock_key;     /**< Its key, `rql:lock:<name>`. */
    const char *acq_id;       /**< The acquirer. */
    const char *hst_id;       /**< The host. */
    rql_lock_process process; /**< Obtained, or re-entered. */
    int64_t ts_us;            /**< Server time of the grant, microseconds since 1970; of a hand-over
                                 inside the client about. */
    int64_t ttl_ms;           /**< The ttl that was asked for. */
    int64_t waited_us;        /**< From the call to the grant's arrival. */
    int64_t tries;            /**< Tries, counted as the gem does: by timer. */
    bool handed_over; /**< Granted by someone else's release, not by a try of its own. With a ttl of
                         a second or less: only if the push arrived. */
    bool fsynced;     /**< On the server's disk when it was granted; if rql_lock_options::fsync
                         asked for it. */
    int replicas_acked; /**< Replicas that had the grant then, if rql_lock_options::replicas asked
                           for any; more than these may be counted. */
} rql_lock_facts;

/**
 * Describe a lock. No I/O. Use rql_lock_describe().
 *
 * @param[in]  lock  The lock, or NULL.
 * @param[out] out   The facts; the texts are valid until the lock is released or forgotten. All
 *                   zero but the size for NULL.
 * @param[in]  size  Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_lock_describe_sized(const rql_lock *lock, rql_lock_facts *out, size_t size);

/** Fill `*out` with the facts of `lock`. */
#define rql_lock_describe(lock, out) rql_lock_describe_sized((lock), (out), sizeof *(out))

/**
 * Where a lock is, as far as the client knows: in a cluster its keys may move. No I/O.
 *
 * @param[in] lock  The lock, or NULL.
 * @return The address of the node of a cluster, or of a shard, else the URL without its login;
 *         valid until the client is freed. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_node(const rql_lock *lock);

/**
 * The work that a block does.
 *
 * @param[in] lock       The lock; do not release it.
 * @param[in] user_data  rql_block::user_data.
 * @return Any value; it is kept in rql_block::value.
 */
typedef int (*rql_block_fn)(rql_lock *lock, void *user_data);

/** A block that runs under a lock; see rql_lock_run(). */
typedef struct rql_block {
    rql_block_fn run; /**< Called once, on the calling thread, when the lock is held. */
    void *user_data;  /**< Given to `run`. */
    int value;        /**< What `run` returned; set whenever it did. */
} rql_block;

/**
 * Acquire, run a block, and release however the block ends.
 *
 * The release also happens when the block is left by a C++ exception, pthread_exit() or thread
 * cancellation; longjmp() out of it leaves the lock to its ttl. With `timed`, a block that ran for
 * longer than its ttl is reported; C cannot interrupt it; let it check rql_lock_remaining_ms().
 *
 * @param[in]     client   The client.
 * @param[in]     name     As for rql_lock_acquire().
 * @param[in]     options  Settings, or NULL.
 * @param[in,out] block    What to run; its `value` is filled in.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             The block ran, and the lock was held until its end.
 * @retval RQL_BLOCK_OVERRAN  `timed`, and the block ran longer than the ttl.
 * @retval RQL_NOT_HELD       The block ran, but the lock had ended before it did.
 * @retval RQL_TIMED_OUT      Not acquired, the block did not run; also other outcomes and faults of
 *                            rql_lock_acquire().
 * @retval RQL_E_UNKNOWN      Not acquired, or the block ran and the release got no reply.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_run(rql_client *client, const char *name,
                                               const rql_lock_options *options, rql_block *block,
                                               rql_error *error);

/**
 * Release a grant by its secret, from any process (fencelock's release).
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
 * Make a grant live at least @p ttl_ms from now by its secret, from any process. Never shortens.
 *
 * Its holder does not learn of it, and relies on its own deadline as before.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  secret  rql_lock_secret() of the grant.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Extended.
 * @retval RQL_NOT_HELD   No grant with this secret is in force.
 * @retval RQL_E_INVALID  The name or the secret is malformed, or @p ttl_ms out of range.
 * @retval RQL_E_UNKNOWN  No reply; it is safe to repeat the call. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_extend_by_secret(rql_client *client, const char *name,
                                                            const char *secret, int64_t ttl_ms,
                                                            rql_error *error);

/**
 * Wait until nobody holds a lock, without taking it (redislock's check).
 *
 * Asks every `retry_delay_ms` plus jitter, and when the lock's ttl ends, until it is free, for at
 * most `retry_count` times and `timeout_ms`. By the time this returns somebody may have taken it.
 *
 * @param[in]  client   The client.
 * @param[in]  name     The lock's name.
 * @param[in]  options  Settings, or NULL; only the waiting ones matter.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK                It was free.
 * @retval RQL_RETRY_LIMIT       Held at each of `retry_count` checks.
 * @retval RQL_TIMED_OUT         Held until `timeout_ms` passed; the last reply may come as much
 *                               later as for rql_lock_acquire().
 * @retval RQL_FAIL_FAST_NO_TRY  Held, and `fail_fast`.
 * @retval RQL_E_INVALID         A name or option is out of range.
 * @retval RQL_E_IO              No reply; also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_wait_until_free(rql_client *client, const char *name,
                                                           const rql_lock_options *options,
                                                           rql_error *error);

/** What rql_lock_force_unlock() found. */
typedef struct rql_unlock_result {
    bool lock_released;  /**< There was a lock. */
    bool queue_released; /**< There was a queue. */
    int64_t rel_time_us; /**< How long it took. */
} rql_unlock_result;

/**
 * Release a lock whoever holds it and empty its queue: the gem's unlock.
 *
 * The holder is not asked, and finds out at its next renewal or release. Live waiters keep their
 * places: those of librql are put back at once and the first is served, the gem's put themselves
 * back with their next try. For operators.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     What was there, or NULL; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK            Done; see @p out.
 * @retval RQL_E_INVALID     The name is malformed.
 * @retval RQL_E_WRONG_TYPE  The lock's key holds something else, and nothing was changed; or the
 *                           queue's does, and the lock was released.
 * @retval RQL_E_UNKNOWN     No reply. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_force_unlock(rql_client *client, const char *name,
                                                        rql_unlock_result *out, rql_error *error);

/**
 * Add to the ttl of a lock whoever holds it: the gem's extend_lock_ttl. For operators.
 *
 * As in the gem, a lock without a ttl counts as one with nothing left: it gets @p add_ms. The ttl
 * is then ::RQL_TTL_MAX_MS at most. If this ends the lock, it goes to the next waiter.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[in]  add_ms  Added to the remaining ttl; negative shortens, and ends the lock at 0.
 *                     Within ± ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Done.
 * @retval RQL_NOT_FOUND  There is no such lock (:async_expire_or_no_lock).
 * @retval RQL_E_INVALID  The name or @p add_ms is out of range.
 * @retval RQL_E_UNKNOWN  No reply; repeating would add again. Also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_force_extend(rql_client *client, const char *name,
                                                        int64_t add_ms, rql_error *error);

RQL_END_DECLS

#endif
