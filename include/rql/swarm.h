#ifndef RQL_SWARM_H
#define RQL_SWARM_H

/**
 * @file swarm.h
 * @brief The swarm: finds dead hosts, frees their locks and removes their requests.
 *
 * A host is a thread of a client: what locks name as their hst_id. While a swarm runs, each thread
 * that has used its client is a host in `rql:swarm:hsts`, the gem's hash, and sends a heartbeat
 * every `probe_period_ms`; it leaves when it ends and holds nothing. One flusher, elected among all
 * swarms of a server, watches the hosts by the server's clock. A host that has been silent for
 * `zombie_ttl_ms`, and was seen silent twice, at least half of that time apart, is dead: its locks
 * are deleted and handed to the next waiters, its requests leave all queues. Each script that
 * deletes checks all of that again, so a lock that changed hands and a host that came back are left
 * alone. Hosts that never joined are never touched, and neither is what a host left behind with
 * rql_lock_forget() before it left the swarm: that ends by its ttl.
 *
 * The price: a host that was only paused or cut off for that long loses its locks, too. While a
 * swarm runs, its client relies on no lease for longer than `zombie_ttl_ms` (less a margin) after
 * the last heartbeat that the server confirmed; such a loss is reported like any other
 * (rql_lock_options::on_lost). After an outage that long nothing is acquired until the next
 * heartbeat has arrived, at most a quarter of `zombie_ttl_ms` later. All swarms of a server, Ruby's
 * too, need the same `zombie_ttl_ms`.
 *
 * Where several servers share the locks, each of the 128 partitions has hosts of its own: a thread
 * is one where it holds a lock or waits for one, and no longer than that. Who asks there for a lock
 * with a longer ttl than `zombie_ttl_ms` is made known by the same write; a shorter lock ends by
 * its ttl. A server that cannot be reached ends the leases of its partitions alone. The flusher is
 * elected in the first partition: while that cannot be reached nobody flushes, and leases end by
 * their ttl.
 *
 * After fork() nothing of this runs in the child.
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

    int64_t liveness_probing_period_ms; /**< How often the supervisor checks the others. Default
                                           rql_options::swarm_liveness_probing_period_ms. */
    bool probe_hosts;               /**< Send heartbeats. Default rql_options::swarm_probe_hosts. */
    int64_t probe_period_ms;        /**< How often; at most half of `zombie_ttl_ms`. Default
                                       rql_options::swarm_probe_period_ms. */
    const char *probe_url;          /**< Their server, if not the client's; or NULL. Copied. */
    bool flush_zombies;             /**< Take part in the election of the flusher. Default
                                       rql_options::swarm_flush_zombies. */
    int64_t zombie_ttl_ms;          /**< A host that is silent for longer is dead. Default
                                       rql_options::zombie_ttl_ms. */
    int64_t zombie_flush_period_ms; /**< A dead host is found at most this much later. Default
                                       rql_options::zombie_flush_period_ms. */
    int64_t zombie_lock_scan_size;  /**< COUNT of SCAN for locks, 1000 at most. Default
                                       rql_options::zombie_lock_scan_size. */
    int64_t zombie_queue_scan_size; /**< The same for queues. Default
                                       rql_options::zombie_queue_scan_size. */
    const char *flush_url;  /**< The flusher's server, if not the client's; or NULL. Copied. */
    struct uv_loop_s *loop; /**< A `uv_loop_t` of the caller that the swarm runs on; or NULL: one of
                               its own, in a thread. See rql_swarm_start(). */
    rql_closed_fn closed;   /**< With `loop`: called on its thread when rql_swarm_free() is done and
                               nothing of the swarm is left on it; or NULL. */
    void *closed_data;      /**< Given to `closed`. */
} rql_swarm_options;

/**
 * Fill @p options from the client's settings. Use rql_swarm_options_init().
 *
 * @param[in]  client   The client, or NULL for the library's defaults.
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_swarm_options_init_sized(const rql_client *client, rql_swarm_options *options,
                                          size_t size);

/** Fill `*options` from `client` (NULL: defaults) and record this program's size. */
#define rql_swarm_options_init(client, options)                                                    \
    rql_swarm_options_init_sized((client), (options), sizeof *(options))

/**
 * Start the swarm of a client (the gem's swarmize!): a supervisor and, where enabled, prober and
 * flusher, the last two with a connection of their own. All three live on one libuv loop, in a
 * thread of the swarm. Returns at once; if the server is away, it is tried again in the background.
 * rql_options::auto_swarm does it for a new client. Connecting takes place on libuv's pool, as for
 * a ::rql_loop.
 *
 * With rql_swarm_options::loop they live on that loop, and no thread is started. Its thread makes
 * this call (libuv's rule for handles), or will run it. The swarm keeps the loop from ending until
 * it is freed, and runs as long as the loop does: while that stands still no heartbeats are sent,
 * the locks of the client are lost after `zombie_ttl_ms`, and hosts count as dead.
 *
 * Listeners are called on the thread of the loop. One that blocks holds up the whole swarm: a step
 * that takes too long by that counts as hung, and its element is begun anew.
 *
 * @param[in]  client   The client; it has one swarm at most.
 * @param[in]  options  Settings, or NULL for the client's.
 * @param[out] out      The swarm; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` runs.
 * @retval RQL_E_INVALID  A setting is out of range, or a URL malformed.
 * @retval RQL_E_BUSY     The client has a swarm already.
 * @retval RQL_E_NOMEM    No memory, or no thread could be had.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_swarm_free() before the client.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_start(rql_client *client,
                                                  const rql_swarm_options *options, rql_swarm **out,
                                                  rql_error *error);

/**
 * Stop a swarm (the gem's deswarmize!): the flusher steps down, and hosts that hold nothing leave.
 * Those that hold locks keep sending heartbeats until they hold none, or until rql_swarm_free().
 * Waits for what is under way and for one call of each, at most twice the client's
 * connect_timeout_ms + io_timeout_ms. It does not wait with a loop of the caller, nor in a callback
 * of the swarm's own: then all this is done when the loop goes on.
 *
 * @param[in] swarm  The swarm, or NULL. Stopped already is fine.
 * @threads It must not be freed meanwhile.
 */
RQL_API void rql_swarm_stop(rql_swarm *swarm);

/**
 * Stop a swarm and release it. All its hosts leave, so nobody flushes locks that are still held:
 * they end by their ttl. If the server cannot be reached, the hosts stay in the hash, and what
 * these threads acquire later may be flushed: free the client, too. In a fork child it does
 * nothing.
 *
 * With a loop of the caller it returns at once. Keep running the loop until
 * rql_swarm_options::closed has been called, which takes as long as rql_swarm_stop() may; the
 * client lives until then, and uv_loop_close() says UV_EBUSY until then.
 *
 * @param[in] swarm  The swarm, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread, and this is no callback of its own thread.
 */
RQL_API rql_swarm *rql_swarm_free(rql_swarm *swarm);

/** The state of a part of a swarm. */
typedef enum rql_element_state {
    RQL_ELEMENT_OFF = 0,     /**< Not enabled, or stopped. */
    RQL_ELEMENT_RUNNING = 1, /**< Alive. */
    RQL_ELEMENT_HUNG = 2,    /**< Its step takes too long; it is ended, and then begun anew. */
    RQL_ELEMENT_DEAD = 3,    /**< It was ended; the supervisor begins it anew. */
} rql_element_state;

/** Whether a part of a swarm calls its server. */
typedef enum rql_breaker_state {
    RQL_BREAKER_CLOSED = 0,    /**< It does. */
    RQL_BREAKER_OPEN = 1,      /**< It does not for a while: its last steps have failed. */
    RQL_BREAKER_HALF_OPEN = 2, /**< One step shows whether it works again. */
} rql_breaker_state;

/** One part of a swarm. */
typedef struct rql_element_status {
    bool enabled;              /**< By its option. */
    rql_element_state state;   /**< Whether it takes its steps. */
    rql_breaker_state breaker; /**< Of its circuit breaker. */
    int64_t steps;             /**< Steps that succeeded. */
    int64_t failures;          /**< Steps that failed. */
    int64_t restarts;          /**< By the supervisor. */
} rql_element_status;

/** The result of rql_swarm_get_status() (the gem's swarm_status). */
typedef struct rql_swarm_status {
    bool auto_swarm;                  /**< rql_options::auto_swarm of the client. */
    bool is_running;                  /**< Started and not stopped. */
    bool is_flusher;                  /**< Elected at the flusher's last step. */
    int64_t hosts;                    /**< Hosts of this client that a server knows. */
    rql_element_status supervisor;    /**< Supervises the other two. */
    rql_element_status probe_hosts;   /**< Sends heartbeats. */
    rql_element_status flush_zombies; /**< Frees what dead hosts held. */
} rql_swarm_status;

/**
 * The state of this client's swarm, without asking the server.
 *
 * @param[in]  client  The client.
 * @param[out] out     The state; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set; all zero if there is no swarm.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 * @threads Callable from any thread; the swarm must not be freed meanwhile.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_get_status(rql_client *client, rql_swarm_status *out,
                                                       rql_error *error);

/**
 * Which of all swarms of the server is elected to flush.
 *
 * @param[in]  client  The client.
 * @param[out] out     Identity of the flusher's own connection (not the rql_client_identity() of a
 *                     client); untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `out` is set.
 * @retval RQL_NOT_FOUND  None is.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_flusher(rql_client *client, char out[RQL_ID_SIZE],
                                                    rql_error *error);

/** One host of the swarm, of any client. */
typedef struct rql_host_info {
    const char *hst_id;    /**< Its id. */
    bool is_zombie;        /**< Silent for longer than the ttl, by the server's clock. */
    int64_t last_probe_us; /**< Its last heartbeat, microseconds since 1970; -1: none that can be
                              read. */
} rql_host_info;

/** All hosts, in one allocation. */
typedef struct rql_host_info_list {
    size_t count;              /**< Number of items. */
    const rql_host_info *item; /**< The hosts, sorted by id. */
    int64_t server_us;         /**< When they were read, by the server's clock. */
} rql_host_info_list;

/**
 * All hosts of the server's swarm (the gem's swarm_info). Ids with a zero byte are left out.
 *
 * @param[in]  client         The client.
 * @param[in]  zombie_ttl_ms  A host that is silent for longer is dead; 1 to 31536000000.
 * @param[out] out            The hosts; untouched unless RQL_OK.
 * @param[out] error          Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The ttl is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_host_info_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_hosts(rql_client *client, int64_t zombie_ttl_ms,
                                                  rql_host_info_list **out, rql_error *error);

/**
 * Release a list of hosts.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_host_info_list *rql_host_info_list_free(rql_host_info_list *list);

/** What dead hosts left behind, or what was flushed of it. */
typedef struct rql_zombies {
    rql_text_list *hosts;     /**< Host ids. */
    rql_text_list *acquirers; /**< Ids of those that held the locks. */
    rql_text_list *locks;     /**< Names of the locks. */
    int64_t rem_request_cnt;  /**< Requests removed; 0 unless flushed. */
    int64_t handed_over_cnt;  /**< Locks that went to a waiter at once; 0 unless flushed. */
} rql_zombies;

/**
 * Release a result of rql_swarm_zombies() or rql_swarm_flush().
 *
 * @param[in] zombies  The result, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_zombies *rql_zombies_free(rql_zombies *zombies);

/**
 * Dead hosts and what they hold (the gem's zombies_info). Changes nothing.
 *
 * @param[in]  client         The client.
 * @param[in]  zombie_ttl_ms  A host that is silent for longer is dead; 1 to 31536000000.
 * @param[out] out            What was found; untouched unless RQL_OK.
 * @param[out] error          Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The ttl is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_zombies_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_zombies(rql_client *client, int64_t zombie_ttl_ms,
                                                    rql_zombies **out, rql_error *error);

/**
 * Send one heartbeat by hand (the gem's probe_hosts): for the calling thread, for all threads that
 * hold locks of this client, and for the hosts of its swarm if there is one. Where several servers
 * share the locks, for the calling thread only if it holds one, too. Once you have started, go on,
 * at least twice in each zombie ttl; a running swarm does.
 *
 * @param[in]  client  The client.
 * @param[out] hosts   The host ids that were written, or NULL; untouched unless RQL_OK.
 * @param[out] at_us   The time that was written, microseconds since 1970, or NULL.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    Done.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*hosts`; release with rql_text_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_probe(rql_client *client, rql_text_list **hosts,
                                                  int64_t *at_us, rql_error *error);

/**
 * Flush now, by hand (the gem's flush_zombies): whoever is elected, and at once, without the second
 * check that a running swarm makes. A host that is only slow loses its locks, too.
 *
 * @param[in]  client   The client.
 * @param[in]  options  `zombie_ttl_ms` and the scan sizes are read; or NULL for the client's.
 * @param[out] out      What was flushed, or NULL; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL. What was done by then is done.
 * @retval RQL_OK         Done.
 * @retval RQL_E_INVALID  A setting is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_zombies_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_flush(rql_client *client,
                                                  const rql_swarm_options *options,
                                                  rql_zombies **out, rql_error *error);

RQL_END_DECLS

#endif
