#ifndef RQL_LOCK_H
#define RQL_LOCK_H

/**
 * @file lock.h
 * @brief Acquire, hold, extend and release a lock.
 *
 * A lock has a TTL on the server. The holder counts the same time locally, from before the request
 * was sent, less a margin of max(5 ms, 1 % of the TTL). Its clock keeps running during suspend.
 * Until this local deadline the server grants the lock to no other request (rql-guarantees(7) has
 * the conditions). For protection beyond that, use the fencing token: let the protected resource
 * refuse every token that is lower than the highest one it has seen, and an equal token with
 * another secret.
 *
 * Any thread may use and release a lock. Renewal (rql_lock_options::auto_extend) is tied to the
 * thread that acquired the lock, and ends when that thread ends. See rql_lock_options::auto_extend
 * for a lock that has to outlive its thread.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** How far a holder may rely on its lock. */
typedef enum rql_lock_state {
    RQL_HELD = 0,     /**< Held at least until the local deadline. */
    RQL_DOUBTFUL = 1, /**< Before the deadline, but a renewal is late or the clock jumped. */
    RQL_GONE = 2,     /**< Lost, expired or released: another acquirer may hold the lock. */
} rql_lock_state;

/** How a lock was obtained (the gem's `process`). */
typedef enum rql_lock_process {
    RQL_LOCK_OBTAINING = 0,                   /**< A grant of its own. */
    RQL_CONFLICT_WORK_THROUGH = 1,            /**< A re-entry. */
    RQL_EXTENDABLE_CONFLICT_WORK_THROUGH = 2, /**< A re-entry that added its TTL. */
} rql_lock_process;

/**
 * Fills @p options from the client's settings. Use the macro rql_lock_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Size of the struct in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_lock_options_init_sized(const rql_client *client, rql_lock_options *options,
                                         size_t size);

/** Fills `*options` from the client and records the size that this program was compiled with. */
#define rql_lock_options_init(client, options)                                                     \
    rql_lock_options_init_sized((client), (options), sizeof *(options))

/**
 * Returns the size of ::rql_lock_options in the running library.
 *
 * A language binding allocates this many bytes instead of declaring the struct, and calls
 * rql_lock_options_set() instead of writing the fields.
 *
 * @return The size in bytes, for rql_lock_options_init_sized().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_lock_options_size(void);

/**
 * Sets one option of an acquisition by its name.
 *
 * @param[in,out] options  Options that were filled by rql_lock_options_init().
 * @param[in]     name     Name of a field that is a number, a switch, a strategy or a text, with
 *                         `_` or `-`: "ttl_ms", "fail-fast". `task` cannot be set by name.
 * @param[in]     value    Text, as for rql_options_set(): "30s", "forever", "true", "random". A
 *                         `traceparent` is borrowed until the acquisition has returned.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The option is set.
 * @retval RQL_E_INVALID  There is no such option, or the value is not valid for it; @p options is
 *                        unchanged.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_options_set(rql_lock_options *options, const char *name,
                                                       const char *value, rql_error *error);

/**
 * Acquires a lock, waiting in its queue.
 *
 * The call blocks until the lock is held, the deadline passes or the tries are used up. By default
 * the number of tries is not limited (`retry_count` is ::RQL_FOREVER). The gem's three tries
 * (rql_options_init_gem()) are used up after half a second.
 *
 * The deadline is `timeout_ms` after the call. A request that is still in the queue at the deadline
 * is withdrawn. The server has another 50 ms to confirm the withdrawal, or if that is longer, two
 * round trips as measured recently.
 *
 * On every result except RQL_OK and RQL_E_UNKNOWN the request has left the queue. After
 * RQL_E_UNKNOWN the client keeps withdrawing the request in the background until the server has
 * answered twice, with 100 ms between, that nothing of the request is there. A copy of the request
 * may be on its way for longer than that; the server refuses a copy that is older than twice
 * `io_timeout_ms`. So the client withdraws the request once more after that time. The end of the
 * client does not wait for this last withdrawal, unless it is just under way: a copy that arrives
 * later, and is not too old, waits, or holds the lock, until its time is over.
 *
 * An acquirer (thread and task) may have only one waiting request for a lock.
 *
 * Another thread or a signal handler can cancel the call by rql_lock_options::cancel_fd: the call
 * ends soon after this descriptor has become readable. That holds for each wait within the call,
 * also while it connects or resolves a name.
 *
 * - A grant that has arrived by then is kept: RQL_OK. Otherwise the request is withdrawn, and the
 *   server has as much time to confirm this as at the deadline. The result is RQL_CANCELLED, or
 *   RQL_E_UNKNOWN if the server has not confirmed it. If the descriptor is readable before the
 *   call, nothing is sent.
 * - Any descriptor that poll() accepts will do: an eventfd, a pipe, a signalfd, a pidfd. One
 *   descriptor can cancel many calls. The library never reads, writes or closes it. The caller
 *   keeps it open until the calls have returned; a descriptor that is not open cancels the call.
 * - The descriptor has no effect on a block that runs (rql_lock_run()), nor on the calls that a
 *   listener makes.
 *
 * A signal handler needs no function of the library:
 *
 * @code
 * static int ends[2]; // by pipe2(ends, O_CLOEXEC | O_NONBLOCK)
 *
 * static void on_signal(int number)
 * {
 *     int saved = errno;
 *
 *     (void)number;
 *     (void)!write(ends[1], "", 1);
 *     errno = saved;
 * }
 *
 * options.cancel_fd = ends[0];
 * status = rql_lock_acquire(client, "report", &options, &lock, &error); // RQL_CANCELLED
 * @endcode
 *
 * A call with this option polls where it
 * would otherwise sleep in recv() or on a futex. If it waits for another thread of its client, it
 * opens one descriptor more until it returns.
 *
 * @param[in]  client   The client.
 * @param[in]  name     Lock name, 1 to ::RQL_NAME_MAX bytes without control bytes. Copied.
 * @param[in]  options  Settings, or NULL for the client's defaults. Copied.
 * @param[out] out      The held lock; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK. If this
 *                      acquirer holds the lock itself, the message of a refusal says so.
 *
 * @retval RQL_OK                   The lock is held; see rql_lock_remaining_ms().
 * @retval RQL_TIMED_OUT            `timeout_ms` passed.
 * @retval RQL_RETRY_LIMIT          `retry_count` tries were refused, one every `retry_delay_ms`.
 *                                  With `fail_fast` there is one try. A grant that had expired when
 *                                  its reply arrived counts as a refused try, and the message of
 *                                  the refusal says so: the TTL must be longer than the round trip.
 * @retval RQL_FAIL_FAST_NO_TRY     `fail_fast`, and another holder has the lock.
 * @retval RQL_FAIL_FAST_AFTER_TRY  `fail_fast`, and the lock is free but other requests are in
 *                                  front.
 * @retval RQL_CANCELLED            rql_lock_options::cancel_fd became readable.
 * @retval RQL_QUEUE_FULL           Only with `max_waiters`: as many requests wait already. Nothing
 *                                  is left on the server.
 * @retval RQL_CONFLICT             This acquirer holds the lock, and the strategy is
 *                                  ::RQL_DEAD_LOCKING. Or the acquirer would wait for a lock that
 *                                  its client keeps renewing for it, and the wait would never end.
 * @retval RQL_E_INVALID            A name, an option or metadata is outside its limits; nothing was
 *                                  sent.
 * @retval RQL_E_IO                 No connection.
 * @retval RQL_E_UNKNOWN            The connection broke or went silent, and the deadline passed.
 * @retval RQL_E_BUSY               This acquirer is already waiting for this lock.
 * @retval RQL_E_WRONG_TYPE         A key of the lock holds another type.
 * @retval RQL_E_AUTH               Rights are missing.
 * @retval RQL_E_READ_ONLY          The server was a replica until the deadline; with `fail_fast`
 *                                  this is returned at once.
 * @retval RQL_E_UNAVAILABLE        The server was loading, out of memory or busy until the
 *                                  deadline; with `fail_fast` this is returned at once.
 * @retval RQL_E_SERVER             Any other error of the server.
 * @retval RQL_E_PROTOCOL           The reply could not be understood.
 * @retval RQL_E_NOMEM              Out of memory, or the thread that renews cannot be started.
 * @retval RQL_E_FORKED             The client belongs to the parent process.
 * @retval RQL_E_NOT_DURABLE        `replicas` or `fsync`: no grant was safe in time, and the lock
 *                                  is not held.
 * @retval RQL_E_UNSUPPORTED        `fsync`, and the server answers `WAITAOF` too early or not at
 *                                  all. Or the library is a light build, and a listener was given
 *                                  (observe.h).
 *
 * @owner   The caller owns `*out`, and ends it with rql_lock_release() or rql_lock_forget().
 * @threads Callable from any thread. The call holds no mutex while it waits. Thread cancellation is
 *          deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_acquire(rql_client *client, const char *name,
                                                   const rql_lock_options *options, rql_lock **out,
                                                   rql_error *error);

/**
 * Acquires a lock if it is available at once: rql_lock_acquire() with `fail_fast`.
 *
 * @param[in]  client   The client.
 * @param[in]  name     As for rql_lock_acquire().
 * @param[in]  options  Settings, or NULL; `fail_fast` is taken as true.
 * @param[out] out      The held lock; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK                   The lock is held.
 * @retval RQL_FAIL_FAST_NO_TRY     Another holder has the lock.
 * @retval RQL_FAIL_FAST_AFTER_TRY  The lock is free, but other requests are in front.
 * @retval RQL_RETRY_LIMIT          The lock was granted, but the grant had expired when the reply
 *                                  arrived.
 * @retval RQL_CONFLICT             As for rql_lock_acquire(), whose faults are possible, too.
 *
 * @owner   The caller owns `*out`.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_try(rql_client *client, const char *name,
                                               const rql_lock_options *options, rql_lock **out,
                                               rql_error *error);

/**
 * Releases a lock if its grant is still in force, hands it to the next waiter, and frees the
 * handle.
 *
 * The end of a re-entry does not release the lock: the outer hold continues. If an extendable
 * re-entry has not used all the time that it added, the unused time is subtracted again, as at the
 * end of a block in the gem. If the outer hold is released first, the lock is free, and its
 * re-entries are lost. After RQL_E_IO, RQL_E_NOMEM and RQL_E_UNKNOWN the client keeps releasing the
 * lock in the background until the server has confirmed the release or the lock has expired.
 *
 * With rql_lock_options::hold_at_least_ms a release that comes sooner keeps the lock: it belongs to
 * no acquirer and ends by its TTL when the time is over. Waiters stay in the queue, and the next of
 * them has the lock up to 1.7 s later. rql_lock_info::is_kept tells such a lock from one that is
 * held; rql_lock_force_unlock() frees it. If the release fails, the lock ends by the TTL that it
 * has. If the holder dies, it ends by its TTL, too: choose a long one where running twice is worse
 * than not running at all. rql_lock_release_by_secret() frees the lock at once.
 *
 * With rql_lock_options::lazy_release the call does not wait for the server's answer. RQL_OK then
 * means that the release is in the client's stream of commands, and that the lease was still in
 * force by the local deadline. The consequences are:
 *
 * - If the result of the release is anything but RQL_OK, the client reports it as a loss: by
 *   `on_lost`, by ::RQL_EVENT_LOCK_LOST with that status, and in rql_stats::lost_releases.
 *   ::RQL_NOT_HELD means that the lock had ended before the release reached the server. A fault
 *   means that the server refused the release, or did not confirm it within the time of a command,
 *   which is `connect_timeout_ms` plus `io_timeout_ms`. During this time the client repeats the
 *   release in the background. After this time it continues as after RQL_E_UNKNOWN.
 * - Other acquirers may find the lock held until the release has reached the server. That takes as
 *   long as a command takes to the server. If the connection breaks, it takes until the release is
 *   repeated.
 * - The next call of the same thread reaches the server after the release, unless the lock came
 *   over another connection than the thread's own (rql_options::connections), or the release has to
 *   be repeated. Until the client knows that the lock is released, its acquirer does not re-enter
 *   it, but waits for it like any other acquirer. If another thread releases the lock while its
 *   acquirer re-enters it, the re-entry is lost with the release.
 * - If a process ends without rql_client_free(), releases that are on their way can be lost. Those
 *   locks end by their TTL.
 *
 * Even with `lazy_release` the call waits where it needs the answer or gains nothing:
 *
 * - the lock is a re-entry, or its conflict strategy is not ::RQL_WAIT_FOR_LOCK;
 * - the lock is kept for `hold_at_least_ms`;
 * - the lock belongs to a series, or was acquired on a loop;
 * - the release hands the lock to another thread of this client;
 * - less than 20 ms are left of the lease;
 * - the connection that brought the lock has ended;
 * - 256 releases are unanswered.
 *
 * @param[in]  lock   The lock, or NULL (RQL_OK). Invalid afterwards, whatever the result.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Released; no other acquirer held the lock in the meantime.
 * @retval RQL_NOT_HELD   The lock had ended before: it expired, was taken away, or was lost with
 *                        the server's data.
 * @retval RQL_E_IO       No connection; the lock ends by its TTL at the latest.
 * @retval RQL_E_UNKNOWN  No answer. The lock may be released; it ends by its TTL at the latest.
 * @retval RQL_E_NOMEM    No memory for the release; the lock ends by its TTL at the latest.
 * @retval RQL_E_SERVER   The server refused; other faults of status.h likewise.
 * @retval RQL_E_FORKED   The lock belongs to the parent process; nothing was done.
 *
 * @threads Callable from any thread, not only the one that acquired the lock.
 */
RQL_API rql_status rql_lock_release(rql_lock *lock, rql_error *error);

/**
 * Frees the handle and leaves the lock to its TTL (the gem's lock without a block). Renewal ends.
 *
 * A lock that was handed over and is not claimed yet is claimed now. If the claim gets no answer,
 * the client repeats it in the background until the server has confirmed it; rql_client_free()
 * continues this for up to `io_timeout_ms`.
 *
 * With a swarm (swarm.h) the lock still belongs to its thread. If the process dies, its hosts are
 * dead, and the lock is freed before its TTL is over. A thread that ends while its process lives is
 * not a dead host: it leaves the swarm. The locks that such a thread has left to their TTL are kept
 * for their whole TTL, even if the process dies later. (The gem frees them once the thread has been
 * gone for zombie_ttl.) If several servers share the locks, a thread also leaves the swarm in each
 * partition in which it holds no other lock and waits for none. From then on the locks that it has
 * left in this partition are kept for their whole TTL, too.
 *
 * @param[in] lock  The lock, or NULL.
 * @return NULL.
 * @threads Callable from any thread.
 */
RQL_API rql_lock *rql_lock_forget(rql_lock *lock);

/**
 * Makes the lock live at least @p ttl_ms from now, if its grant is still in force. The call never
 * shortens the TTL. It never revives a lock that is ::RQL_GONE, even if the server still has the
 * lock.
 *
 * @param[in]  lock    The lock.
 * @param[in]  ttl_ms  1 to ::RQL_TTL_MAX_MS.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Extended; rql_lock_remaining_ms() returns the time that is left.
 * @retval RQL_NOT_HELD   The grant has ended; the state is now ::RQL_GONE.
 * @retval RQL_E_INVALID  @p ttl_ms is out of range.
 * @retval RQL_E_IO       No connection; the old deadline stands.
 * @retval RQL_E_UNKNOWN  No reply; the old deadline stands.
 * @retval RQL_E_NOT_DURABLE  `replicas` or `fsync`: the extension was not safe in time; the old
 *                        deadline stands.
 * @retval RQL_E_SERVER   The server refused; other faults of status.h likewise.
 * @retval RQL_E_FORKED   The lock belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_extend(rql_lock *lock, int64_t ttl_ms, rql_error *error);

/**
 * Asks the server whether this grant is still in force (redis_exp_lock's key_owned?).
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
 * Returns how far the holder may rely on the lock now, without asking the server (redis_exp_lock's
 * locked?).
 *
 * @param[in] lock  The lock, or NULL (::RQL_GONE).
 * @return The state at this instant.
 * @threads Callable from any thread.
 */
RQL_API rql_lock_state rql_lock_get_state(const rql_lock *lock);

/**
 * Returns the milliseconds until the local deadline, computed at the call.
 *
 * A lock that was handed over lives on the server for at most one second, until the client has
 * claimed the rest of its TTL. The client's background thread does this a third of a second after
 * the hand-over. Until then the returned time counts to the end of that second. For a lock that was
 * handed over inside the client, the returned time counts to the deadline of the previous holder
 * until the server has answered, which takes a round trip; on a loop also until the callbacks of
 * this moment have returned.
 *
 * @param[in] lock  The lock, or NULL.
 * @return 0 when the lock is gone, or for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_lock_remaining_ms(const rql_lock *lock);

/**
 * Returns a descriptor that becomes readable when the lock is lost. Poll it; do not read or close
 * it.
 *
 * @param[in]  lock   The lock.
 * @param[out] out    The descriptor, valid until the lock is released or forgotten.
 * @param[out] error  Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   No descriptor is available, or the background thread cannot be started.
 * @retval RQL_E_FORKED  The lock belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_lost_fd(rql_lock *lock, int *out, rql_error *error);

/**
 * Returns the fencing token of a lock. It is larger than every earlier token of this lock, as long
 * as the server's clock is not set back and only one master at a time grants the lock
 * (rql-guarantees(7)). A re-entry has the token of the outer grant.
 *
 * The tokens of all locks of a server increase together, so one resource can be protected by
 * several locks. If several servers share the locks, the tokens of each partition increase
 * together.
 *
 * There is one exception: a lock that is handed over inside the client gets its token before the
 * server knows of the hand-over. The client makes this token larger than every token that it has
 * seen, and no smaller than the earliest time that the server's clock can show at that moment. A
 * token that another client got for another lock just before the hand-over can be larger. "Just
 * before" means up to a round trip of this client's newest call before the hand-over, plus 200 µs
 * for each second since that call.
 *
 * @param[in] lock  The lock, or NULL.
 * @return The token, above 0 and below 2^53; 0 for NULL.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_lock_token(const rql_lock *lock);

/**
 * Returns the name of a lock.
 *
 * @param[in] lock  The lock, or NULL.
 * @return The name; valid until the lock is released or forgotten. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_name(const rql_lock *lock);

/** The facts of an acquisition. */
typedef struct rql_lock_facts {
    size_t size;              /**< Bytes of this struct that were filled in. */
    const char *name;         /**< The lock's name. */
    const char *key;          /**< The lock's key, `rql:lock:<name>`. */
    const char *acquirer_id;  /**< Id of the acquirer. */
    const char *host_id;      /**< Id of the host. */
    rql_lock_process process; /**< Obtained, or re-entered. */
    int64_t acquired_at_us;   /**< Server time of the grant, microseconds since 1970; approximate
                        for a hand-over inside the client, and for a repeated try after
                        the server's clock was set back. */
    int64_t ttl_ms;           /**< The TTL that was asked for. */
    int64_t waited_us;        /**< From the call to the arrival of the grant. */
    int64_t tries;            /**< Number of tries, counted by timer as in the gem. */
    bool handed_over; /**< Granted by another holder's release, not by a try of this request. With a
                         TTL of a second or less, true only if the push arrived. */
    bool fsynced;     /**< The grant was on the server's disk when the lock was granted; set only if
                         rql_lock_options::fsync asked for this. */
    int replicas_acked;  /**< Number of replicas that had the grant when the lock was granted, if
                            rql_lock_options::replicas asked for any. It can be larger than that
                            option. */
    int64_t share_units; /**< Units of its share (share.h); 0: it is held alone. */
    int64_t share_limit; /**< The limit that its share was granted with; 0: it is held alone. */
} rql_lock_facts;

/**
 * Describes a lock. No I/O. Use the macro rql_lock_describe().
 *
 * @param[in]  lock  The lock, or NULL.
 * @param[out] out   The facts. Their texts are valid until the lock is released or forgotten. For
 *                   NULL, all fields except `size` are zero.
 * @param[in]  size  Size of the struct in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_lock_describe_sized(const rql_lock *lock, rql_lock_facts *out, size_t size);

/** Fills `*out` with the facts of `lock`. */
#define rql_lock_describe(lock, out) rql_lock_describe_sized((lock), (out), sizeof *(out))

/**
 * The work that a block does.
 *
 * @param[in] lock       The lock; do not release it.
 * @param[in] user_data  rql_block::user_data.
 * @return Any value; it is stored in rql_block::value.
 */
typedef int (*rql_block_fn)(rql_lock *lock, void *user_data);

/** A block that runs under a lock; see rql_lock_run(). */
typedef struct rql_block {
    rql_block_fn run; /**< Called once, on the calling thread, when the lock is held. */
    void *user_data;  /**< Passed to `run`. */
    int value;        /**< Return value of `run`; set whenever `run` has returned. */
} rql_block;

/**
 * Acquires a lock, runs a block, and releases the lock however the block ends.
 *
 * The lock is also released if the block is left by a C++ exception, pthread_exit() or thread
 * cancellation. A longjmp() out of the block leaves the lock to its TTL; with musl, the thread must
 * not end by pthread_exit() or cancellation afterwards. With `timed`, the result reports a block
 * that ran longer than the TTL. C cannot interrupt the block: let it check rql_lock_remaining_ms().
 *
 * @param[in]     client   The client.
 * @param[in]     name     As for rql_lock_acquire().
 * @param[in]     options  Settings, or NULL.
 * @param[in,out] block    The block to run; its `value` is filled in.
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             The block ran, and the lock was held until its end.
 * @retval RQL_BLOCK_OVERRAN  `timed`, and the block ran longer than the TTL.
 * @retval RQL_NOT_HELD       The block ran, but the lock had ended before it did.
 * @retval RQL_TIMED_OUT      The lock was not acquired, and the block did not run. Other outcomes
 *                            and faults of rql_lock_acquire() are possible, too.
 * @retval RQL_E_UNKNOWN      The lock was not acquired, or the block ran and the release got no
 *                            reply.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_run(rql_client *client, const char *name,
                                               const rql_lock_options *options, rql_block *block,
                                               rql_error *error);

/**
 * Waits until a lock is free, without acquiring it (redislock's check).
 *
 * The call checks the lock every `retry_delay_ms` plus jitter, and when the lock's TTL ends. It
 * ends when the lock is free, after `retry_count` checks, or after `timeout_ms`. When the call
 * returns, another acquirer may already have the lock. A check that fails while the server is away,
 * or a replica is promoted, counts, and is followed by the next one, as in rql_lock_acquire().
 *
 * @param[in]  client   The client.
 * @param[in]  name     The lock's name.
 * @param[in]  options  Settings, or NULL; only those about waiting matter.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK                The lock was free.
 * @retval RQL_RETRY_LIMIT       The lock was held at each of `retry_count` checks.
 * @retval RQL_TIMED_OUT         The lock was held until `timeout_ms` passed: at the last check, or
 *                               at one within `io_timeout_ms` before, if the last ones got no
 *                               reply. The last reply may come as much later as in
 *                               rql_lock_acquire().
 * @retval RQL_FAIL_FAST_NO_TRY  `fail_fast`, and the lock is held.
 * @retval RQL_CANCELLED         rql_lock_options::cancel_fd became readable, as for
 *                               rql_lock_acquire().
 * @retval RQL_E_INVALID         A name or option is out of range.
 * @retval RQL_E_IO              No reply for the last `io_timeout_ms`, or the server has never
 *                               answered this client; also other faults of status.h.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_wait_until_free(rql_client *client, const char *name,
                                                           const rql_lock_options *options,
                                                           rql_error *error);

RQL_END_DECLS

#endif
