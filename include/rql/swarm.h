#ifndef RQL_SWARM_H
#define RQL_SWARM_H

/**
 * @file swarm.h
 * @brief The swarm: finds dead hosts, frees their locks and removes their requests.
 *
 * A host is a thread of a client. Locks name it as their hst_id. While a swarm runs, each thread
 * that has used its client is a host in `rql:swarm:hsts`, the hash that the gem uses, too. A host
 * sends a heartbeat every `probe_period_ms`. It leaves the swarm when its thread has ended and
 * holds no lock.
 *
 * All swarms of a server elect one flusher, which watches the hosts by the server's clock. A host
 * is dead when it has been silent for `zombie_ttl_ms` and the flusher has seen it silent twice, at
 * least half of that time apart. The flusher deletes the locks of a dead host, hands them to the
 * next waiters, and removes the host's requests from all queues. Each script that deletes checks
 * all of these conditions again, so a lock that has changed hands and a host that has come back are
 * left alone. The flusher never touches a host that never joined. Nor does it touch a lock that a
 * host gave up with rql_lock_forget() before it left the swarm: that lock ends by its TTL.
 *
 * A host that was only paused or cut off for `zombie_ttl_ms` loses its locks, too. While a swarm
 * runs, its client therefore relies on no lease for longer than `zombie_ttl_ms` (less a margin)
 * after the last heartbeat that the server confirmed. The client reports such a loss like any other
 * (rql_lock_options::on_lost). After an outage of `zombie_ttl_ms` the client acquires no lock until
 * the next heartbeat has arrived, at most a quarter of `zombie_ttl_ms` later. All swarms of a
 * server, including those of Ruby, need the same `zombie_ttl_ms`.
 *
 * If several servers share the locks, each of the 128 partitions has its own hosts. A thread is a
 * host of a partition only while it holds a lock there or waits for one. A request for a lock with
 * a TTL longer than `zombie_ttl_ms` registers its host in the same write. Otherwise the next
 * heartbeat registers the host; if the host dies before that, the lock ends by its TTL. If a server
 * cannot be reached, only the leases of its partitions end. The flusher is elected in the first
 * partition. While that partition cannot be reached, no swarm flushes, and leases end by their TTL.
 *
 * After fork() no part of a swarm runs in the child.
 */

#include <rql/async.h>
#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** The running swarm of a client. */
typedef struct rql_swarm rql_swarm;

/** Settings of a swarm. Fill with rql_swarm_options_init(). */
typedef struct rql_swarm_options {
    size_t size; /**< Set by rql_swarm_options_init(); do not change. */

    /** How often the supervisor checks the other elements. Default
     *  rql_options::swarm_liveness_probing_period_ms. */
    int64_t liveness_probing_period_ms;
    bool probe_hosts;        /**< Send heartbeats. Default rql_options::swarm_probe_hosts. */
    int64_t probe_period_ms; /**< Time between heartbeats; at most half of `zombie_ttl_ms`. Default
                                rql_options::swarm_probe_period_ms. */
    const char *probe_url; /**< The server for heartbeats, if not the client's; or NULL. Copied. */
    bool flush_zombies;    /**< Take part in the election of the flusher. Default
                              rql_options::swarm_flush_zombies. */
    int64_t zombie_ttl_ms; /**< A host that is silent for longer is dead. Default
                              rql_options::zombie_ttl_ms. */
    /** A dead host is found within this time after `zombie_ttl_ms`. Default
     *  rql_options::zombie_flush_period_ms. */
    int64_t zombie_flush_period_ms;
    /** COUNT of SCAN for locks; more than 1000 counts as 1000. Default
     *  rql_options::zombie_lock_scan_size. */
    int64_t zombie_lock_scan_size;
    /** COUNT of SCAN for queues; more than 1000 counts as 1000. Default
     *  rql_options::zombie_queue_scan_size. */
    int64_t zombie_queue_scan_size;
    const char *flush_url; /**< The server for the flusher, if not the client's; or NULL. Copied. */
    /** A `uv_loop_t` of the caller on which the swarm runs. NULL: the swarm runs a loop of its own
     *  in a thread. See rql_swarm_start(). */
    struct uv_loop_s *loop;
    /** With `loop`: called on the loop's thread when rql_swarm_free() is complete and no part of
     *  the swarm is left on the loop; or NULL. */
    rql_closed_fn closed;
    void *closed_data; /**< Passed to `closed`. */
} rql_swarm_options;

/**
 * Fills @p options from the client's settings. Use rql_swarm_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_swarm_options_init_sized(const rql_client *client, rql_swarm_options *options,
                                          size_t size);

/** Fills `*options` from `client` (NULL: defaults) and records this program's size. */
#define rql_swarm_options_init(client, options)                                                    \
    rql_swarm_options_init_sized((client), (options), sizeof *(options))

/**
 * Starts the swarm of a client (the gem's swarmize!).
 *
 * A swarm has up to three elements: a supervisor and, if enabled, a prober and a flusher. The
 * prober and the flusher each have a connection of their own. All elements run on one libuv loop,
 * in a thread of the swarm. Connections are made on libuv's thread pool, as for a ::rql_loop. The
 * call returns at once. If the server cannot be reached, the swarm tries again in the background.
 * With rql_options::auto_swarm a new client starts its swarm itself.
 *
 * With rql_swarm_options::loop the elements run on that loop, and no thread is started. By libuv's
 * rule for handles, the call must be made by the thread that runs the loop, or will run it. The
 * swarm keeps the loop alive until the swarm is freed, and it works only while the loop runs. While
 * the loop stands still, the swarm sends no heartbeats: the client loses its locks after
 * `zombie_ttl_ms`, and its hosts count as dead.
 *
 * Listeners are called on the thread of the loop. A listener that blocks delays the whole swarm. If
 * it makes a step take too long, that step counts as hung, and its element is restarted.
 *
 * @param[in]  client   The client; it has at most one swarm.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      The swarm; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is running.
 * @retval RQL_E_INVALID  A setting is out of range, or a URL is malformed.
 * @retval RQL_E_BUSY     The client already has a swarm.
 * @retval RQL_E_NOMEM    Out of memory, or no thread could be started.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_swarm_free() before the client.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_start(rql_client *client,
                                                  const rql_swarm_options *options, rql_swarm **out,
                                                  rql_error *error);

/**
 * Stops a swarm (the gem's deswarmize!). The flusher steps down, and hosts that hold no lock leave
 * the swarm. Hosts that hold locks keep sending heartbeats until they hold none, or until
 * rql_swarm_free().
 *
 * The call waits for the steps that are under way and for one more server call each by the prober
 * and the flusher. It waits for at most twice the sum of the client's connect_timeout_ms and
 * io_timeout_ms. With a loop of the caller, or in a callback of the swarm itself, the call does not
 * wait: the stop completes when the loop runs again.
 *
 * @param[in] swarm  The swarm, or NULL. It may already be stopped.
 * @threads The swarm must not be freed during the call.
 */
RQL_API void rql_swarm_stop(rql_swarm *swarm);

/**
 * Stops a swarm and frees it. All its hosts leave, so no swarm flushes the locks that they still
 * hold: those locks end by their TTL. If the server cannot be reached, the hosts stay in the hash,
 * and the locks that their threads acquire later may be flushed. In that case, free the client,
 * too. In a child made by fork() the call does nothing.
 *
 * With a loop of the caller the call returns at once. Keep running the loop until
 * rql_swarm_options::closed has been called, which can take as long as rql_swarm_stop(). Until then
 * the client must not be freed, and uv_loop_close() returns UV_EBUSY.
 *
 * @param[in] swarm  The swarm, or NULL.
 * @return NULL.
 * @threads The swarm must not be in use by another thread. Not callable from a callback on the
 *          swarm's own thread.
 */
RQL_API rql_swarm *rql_swarm_free(rql_swarm *swarm);

RQL_END_DECLS

#endif
