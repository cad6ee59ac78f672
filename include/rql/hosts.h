#ifndef RQL_HOSTS_H
#define RQL_HOSTS_H

/**
 * @file hosts.h
 * @brief Inspect the swarm and its hosts, and flush dead ones by hand.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/inspect.h>
#include <rql/status.h>
#include <rql/swarm.h>
#include <rql/sweep.h>
#include <stdbool.h>

RQL_BEGIN_DECLS

/** The state of an element of a swarm. */
typedef enum rql_element_state {
    RQL_ELEMENT_OFF = 0,     /**< Not enabled, or stopped. */
    RQL_ELEMENT_RUNNING = 1, /**< The element is alive. */
    RQL_ELEMENT_HUNG = 2,    /**< A step takes too long; the element is ended and then restarted. */
    RQL_ELEMENT_DEAD = 3,    /**< The element was ended; the supervisor restarts it. */
} rql_element_state;

/** The state of an element's circuit breaker. */
typedef enum rql_breaker_state {
    RQL_BREAKER_CLOSED = 0, /**< The element calls its server. */
    RQL_BREAKER_OPEN = 1, /**< The element pauses its calls, because its last steps have failed. */
    /** The element takes one step to find out whether its server works again. */
    RQL_BREAKER_HALF_OPEN = 2,
} rql_breaker_state;

/** The status of one element of a swarm. The struct does not grow. */
typedef struct rql_element_status {
    bool enabled;              /**< Whether its option enables it. */
    rql_element_state state;   /**< Whether it takes its steps. */
    rql_breaker_state breaker; /**< Whether it calls its server. */
    int64_t steps;             /**< Steps that succeeded. */
    int64_t failures;          /**< Steps that failed. */
    int64_t restarts;          /**< Restarts by the supervisor. */
} rql_element_status;

/** The result of rql_swarm_get_status() (the gem's swarm_status). */
typedef struct rql_swarm_status {
    size_t size;                    /**< Bytes of this struct that were filled in. */
    bool auto_swarm;                /**< rql_options::auto_swarm of the client. */
    bool is_running;                /**< Started and not stopped. */
    bool is_flusher;                /**< This swarm was elected at the last step of its flusher. */
    int64_t hosts;                  /**< Hosts of this client that a server knows. */
    rql_element_status supervisor;  /**< Supervises the other two. */
    rql_element_status probe_hosts; /**< Sends heartbeats. */
    rql_element_status flush_zombies; /**< Flushes dead hosts. */
} rql_swarm_status;

/**
 * Gets the state of this client's swarm, without asking the server. Use the macro
 * rql_swarm_get_status().
 *
 * @param[in]  client  The client.
 * @param[out] out     The state; untouched unless RQL_OK.
 * @param[in]  size    Size of the struct in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set; all but its size is zero if there is no swarm.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 * @threads Callable from any thread; the swarm must not be freed during the call.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_get_status_sized(rql_client *client,
                                                             rql_swarm_status *out, size_t size,
                                                             rql_error *error);

/** Fills `*out` with the state of the client's swarm. */
#define rql_swarm_get_status(client, out, error)                                                   \
    rql_swarm_get_status_sized((client), (out), sizeof *(out), (error))

/**
 * Finds out which of all swarms of the server is elected to flush.
 *
 * @param[in]  client  The client.
 * @param[out] out     Identity of the flusher's own connection (not the rql_client_identity() of a
 *                     client); untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `out` is set.
 * @retval RQL_NOT_FOUND  No swarm is elected.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_flusher(rql_client *client, char out[RQL_ID_SIZE],
                                                    rql_error *error);

/** One host of the swarm, of any client. */
typedef struct rql_host_info {
    const char *host_id; /**< Its id. */
    /** The host has been silent for longer than the TTL, by the server's clock. */
    bool is_zombie;
    /** Time of the last heartbeat, microseconds since 1970; -1: there is none that can be read. */
    int64_t last_probe_us;
} rql_host_info;

/** All hosts, in one allocation. */
typedef struct rql_host_info_list {
    size_t count;         /**< Number of items. */
    rql_host_info **item; /**< The hosts, sorted by id. */
    int64_t server_us;    /**< Time of the read, by the server's clock. */
} rql_host_info_list;

/**
 * Lists all hosts of the server's swarm (the gem's swarm_info). Ids that contain a NUL byte are
 * left out.
 *
 * @param[in]  client         The client.
 * @param[in]  zombie_ttl_ms  A host that is silent for longer is dead; 1 to 31536000000.
 * @param[out] out            The hosts; untouched unless RQL_OK.
 * @param[out] error          Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The TTL is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_hosts(rql_client *client, int64_t zombie_ttl_ms,
                                                  rql_host_info_list **out, rql_error *error);

/** Dead hosts and what they held: found by rql_swarm_zombies(), or flushed by rql_swarm_flush(). */
typedef struct rql_zombies {
    rql_text_list *hosts;     /**< Host ids. */
    rql_text_list *acquirers; /**< Ids of the acquirers that held or shared the locks. */
    rql_text_list *locks;     /**< Names of the locks that were held or shared. */
    int64_t requests;         /**< Requests removed; 0 unless flushed. */
    int64_t handed_over;      /**< Locks or shares handed to a waiter at once; 0 unless flushed. */
} rql_zombies;

/**
 * Lists dead hosts and what they hold (the gem's zombies_info). The call changes nothing.
 *
 * @param[in]  client         The client.
 * @param[in]  zombie_ttl_ms  A host that is silent for longer is dead; 1 to 31536000000.
 * @param[out] out            The result; untouched unless RQL_OK.
 * @param[out] error          Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The TTL is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_zombies(rql_client *client, int64_t zombie_ttl_ms,
                                                    rql_zombies **out, rql_error *error);

/**
 * Sends one heartbeat by hand (the gem's probe_hosts).
 *
 * The heartbeat is for the calling thread, for all threads that hold locks of this client, and for
 * the hosts of its swarm, if there is one. If several servers share the locks, the calling thread
 * is included only if it holds a lock, too. After the first heartbeat, send at least two in each
 * `zombie_ttl_ms`. A running swarm does this itself.
 *
 * @param[in]  client  The client.
 * @param[out] hosts   The host ids that were written, or NULL; untouched unless RQL_OK.
 * @param[out] at_us   The time that was written, microseconds since 1970, or NULL.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    Done.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*hosts`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_probe(rql_client *client, rql_text_list **hosts,
                                                  int64_t *at_us, rql_error *error);

/**
 * Flushes dead hosts now, by hand (the gem's flush_zombies).
 *
 * The flush takes place at once, no matter which swarm is elected. It omits the second check that a
 * running swarm makes, so a host that is only slow loses its locks, too.
 *
 * @param[in]  client   The client.
 * @param[in]  options  Only `zombie_ttl_ms` and the scan sizes are used; NULL for the client's.
 * @param[out] out      What was flushed, or NULL; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL. A fault does not undo what was
 *                      flushed before it.
 * @retval RQL_OK         Done.
 * @retval RQL_E_INVALID  A setting is out of range.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_swarm_flush(rql_client *client,
                                                  const rql_swarm_options *options,
                                                  rql_zombies **out, rql_error *error);

RQL_END_DECLS

#endif
