#ifndef RQL_INSPECT_H
#define RQL_INSPECT_H

/**
 * @file inspect.h
 * @brief Inspect locks, queues and keys. The calls here only read: none takes or changes a lock.
 *
 * The caller frees every result with one call. Listings use SCAN in batches of
 * `key_extraction_batch_size`. They never stall the server, and they are not a snapshot.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** The state in which a key was found. */
typedef enum rql_key_status {
    RQL_KEY_ALIVE = 0, /**< A complete lock, or a queue. */
    /** The key disappeared between SCAN and the read (the gem's :released). */
    RQL_KEY_RELEASED = 1,
    RQL_KEY_WRONG_TYPE = 2, /**< The key has another type. */
    /** A field is missing, a number cannot be read, the key or a text contains a NUL byte (and is
     *  cut there), or the key holds more than a listing reads. */
    RQL_KEY_MALFORMED = 3,
} rql_key_status;

/** One lock, as it is stored on the server. An absent number is -1, an absent text is NULL. */
typedef struct rql_lock_info {
    rql_key_status status;        /**< Whether the other fields can be relied on. */
    const char *lock_key;         /**< `rql:lock:<name>`. */
    const char *name;             /**< The name within the key. */
    const char *acq_id;           /**< The acquirer that holds the lock. */
    const char *hst_id;           /**< The host of that acquirer. */
    int64_t ts_us;                /**< Time of the acquisition, microseconds since 1970. */
    int64_t ini_ttl_ms;           /**< The TTL with which the lock was acquired. */
    int64_t rem_ttl_ms;           /**< The remaining TTL; ::RQL_FOREVER if the lock has none. */
    int64_t spc_cnt;              /**< Re-entries so far. */
    int64_t l_spc_ts_us;          /**< Time of the last work_through re-entry. */
    int64_t spc_ext_ttl_ms;       /**< Sum of extensions by re-entries. */
    int64_t l_spc_ext_ts_us;      /**< Time of the last extendable re-entry. */
    int64_t l_spc_ext_ini_ttl_ms; /**< The TTL of that re-entry. */
    int64_t token;                /**< Fencing token; -1 for a lock of the gem. */
    size_t n_meta;                /**< Number of metadata pairs. */
    const rql_meta *meta;         /**< The metadata, in the server's order. */
    const char
        *node; /**< Its server, as returned by rql_lock_node(); valid until the client is freed. */
    /** Time of the read, by the server's clock; -1: the server did not report it. The age of the
     *  lock is `server_us` minus `ts_us`, whatever the local clock shows. */
    int64_t server_us;
} rql_lock_info;

/** One request in a queue. */
typedef struct rql_request_info {
    const char *acq_id; /**< The acquirer that waits. */
    /** The host of that acquirer; NULL for a request of the gem, which does not record it. */
    const char *hst_id;
    /** The place in the queue: microseconds since 1970. */
    int64_t score_us;
    /** The position in the queue; 1 for the next request. */
    int64_t position;
} rql_request_info;

/** One queue, as it is stored on the server. */
typedef struct rql_queue_info {
    rql_key_status status;            /**< Whether the other fields can be relied on. */
    const char *lock_queue;           /**< `rql:lock_queue:<name>`. */
    const char *name;                 /**< The name within the key. */
    size_t n_requests;                /**< Number of requests. */
    const rql_request_info *requests; /**< The requests, in the order of the queue. */
    const char *node;                 /**< As rql_lock_info::node. */
    int64_t server_us;                /**< As rql_lock_info::server_us. */
} rql_queue_info;

/**
 * One client, as it describes itself (rql_options::client_names). A text that the client does not
 * report is "".
 */
typedef struct rql_client_info {
    const char *identity; /**< The last part of its acquirer and host ids. */
    const char *host;     /**< The machine on which it runs. */
    int64_t pid;          /**< Its process on that machine. */
    const char *program;  /**< The program that the process runs. */
    const char *user;     /**< The user that the process belongs to. */
    const char *version;  /**< The version of librql that it uses. */
    const char *label;    /**< rql_options::client_label. */
    int64_t since_us;     /**< Time of its first report, microseconds since 1970. */
    int64_t at_us;        /**< Time of its last report, microseconds since 1970. */
    /** rql_swarm_options::zombie_ttl_ms, if this is a connection of a swarm. For any other
     *  connection this field and the next two are -1. */
    int64_t zombie_ttl_ms;
    int64_t probe_period_ms; /**< Time between heartbeats of the swarm; 0: it sends none. */
    int64_t flush_period_ms; /**< rql_swarm_options::zombie_flush_period_ms; 0: the swarm does not
                                flush. */
} rql_client_info;

/** A list of clients, freed with one call. */
typedef struct rql_client_info_list {
    size_t count;           /**< Number of items. */
    rql_client_info **item; /**< The clients, sorted by identity; freed with the list. */
} rql_client_info_list;

/** A list of locks, freed with one call. */
typedef struct rql_lock_info_list {
    size_t count;         /**< Number of items. */
    rql_lock_info **item; /**< The locks; freed with the list. */
} rql_lock_info_list;

/** A list of queues, freed with one call. */
typedef struct rql_queue_info_list {
    size_t count;          /**< Number of items. */
    rql_queue_info **item; /**< The queues; freed with the list. */
} rql_queue_info_list;

/** Size of rql_refusal::message, including its terminator. */
#define RQL_REFUSAL_MESSAGE_SIZE 1024

/**
 * Details of a refused acquisition. Set the struct to zero before use; see
 * rql_lock_options::refusal.
 */
struct rql_refusal {
    rql_status reason; /**< The outcome that the call returned. */
    /** Number of grants that had expired when their replies arrived, because the TTL is shorter
     *  than a round trip. */
    uint32_t n_over;
    int64_t waited_us; /**< How long the acquisition tried. */
    int64_t tries;     /**< Number of tries. */
    int64_t position;  /**< Last known position in the queue, 1 for the first; 0 if not queued. */
    /** The lock with its holder, if rql_lock_options::detailed_acq_timeout_error is set and the
     *  lock still exists; else NULL. */
    rql_lock_info *holder;
    /** The queue with its waiters, if rql_lock_options::detailed_acq_timeout_error is set and the
     *  queue still exists; else NULL. */
    rql_queue_info *queue;
    char message[RQL_REFUSAL_MESSAGE_SIZE]; /**< The gem's message, cut to size. */
};

/**
 * Frees the memory that a refusal refers to, and sets the refusal to zero.
 *
 * @param[in,out] refusal  The refusal, or NULL.
 * @threads The refusal must not be in use by another thread.
 */
RQL_API void rql_refusal_clear(rql_refusal *refusal);

/**
 * Checks whether a lock is held (the gem's locked?, redis_exp_lock's key_locked?).
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     true if the lock is held; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_exists(rql_client *client, const char *name, bool *out,
                                                  rql_error *error);

/**
 * Checks whether a request waits for a lock (the gem's queued?).
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     true if a request waits; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queue_exists(rql_client *client, const char *name, bool *out,
                                                   rql_error *error);

/**
 * Describes one lock.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The lock; untouched unless RQL_OK. Check its `status` first.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  There is no such lock.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_lock_info_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_inspect(rql_client *client, const char *name,
                                                   rql_lock_info **out, rql_error *error);

/**
 * Describes one queue.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The queue; untouched unless RQL_OK. Check its `status` first.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  No request waits for the lock.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_queue_info_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queue_inspect(rql_client *client, const char *name,
                                                    rql_queue_info **out, rql_error *error);

/**
 * Releases a lock's description.
 *
 * @param[in] info  The description, or NULL.
 * @return NULL.
 * @threads The description must not be in use by another thread.
 */
RQL_API rql_lock_info *rql_lock_info_free(rql_lock_info *info);

/**
 * Releases a queue's description.
 *
 * @param[in] info  The description, or NULL.
 * @return NULL.
 * @threads The description must not be in use by another thread.
 */
RQL_API rql_queue_info *rql_queue_info_free(rql_queue_info *info);

/**
 * Lists the names of all locks that are held.
 *
 * @param[in]  client  The client.
 * @param[out] out     The names, sorted, each once; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_text_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_list(rql_client *client, rql_text_list **out,
                                                 rql_error *error);

/**
 * Lists the names of all locks for which a request waits.
 *
 * @param[in]  client  The client.
 * @param[out] out     The names, sorted, each once; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_text_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queues_list(rql_client *client, rql_text_list **out,
                                                  rql_error *error);

/**
 * Lists all keys that the gem counts as its own: `rql:lock*`.
 *
 * @param[in]  client  The client.
 * @param[out] out     The full key names, each once; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_text_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_keys_list(rql_client *client, rql_text_list **out,
                                                rql_error *error);

/**
 * Describes all locks. A key that is not a lock is listed with its status and does not end the
 * listing.
 *
 * @param[in]  client  The client.
 * @param[out] out     The locks; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_lock_info_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_inspect(rql_client *client, rql_lock_info_list **out,
                                                    rql_error *error);

/**
 * Describes all queues. A key that is not a queue is listed with its status and does not end the
 * listing.
 *
 * @param[in]  client  The client.
 * @param[out] out     The queues; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_queue_info_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queues_inspect(rql_client *client, rql_queue_info_list **out,
                                                     rql_error *error);

/**
 * Lists the librql clients of this server that have reported themselves within the last hour. A
 * client that has ended may still be listed. Each client writes its own description, which is not
 * verified.
 *
 * @param[in]  client  The client.
 * @param[out] out     The clients; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_client_info_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_clients_list(rql_client *client, rql_client_info_list **out,
                                                   rql_error *error);

/**
 * Finds the client that an acquirer or host id belongs to.
 *
 * @param[in] list  The clients, or NULL.
 * @param[in] id    An acquirer or host id, such as rql_lock_info::acq_id, or an identity; or NULL.
 * @return A client of @p list; NULL if the client is not listed, or does not use librql.
 * @threads The list must not be freed during the call.
 */
RQL_API const rql_client_info *rql_clients_find(const rql_client_info_list *list, const char *id);

/**
 * Releases a list of clients.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads The list must not be in use by another thread.
 */
RQL_API rql_client_info_list *rql_client_info_list_free(rql_client_info_list *list);

/**
 * Releases a list of locks.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads The list must not be in use by another thread.
 */
RQL_API rql_lock_info_list *rql_lock_info_list_free(rql_lock_info_list *list);

/**
 * Releases a list of queues.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads The list must not be in use by another thread.
 */
RQL_API rql_queue_info_list *rql_queue_info_list_free(rql_queue_info_list *list);

RQL_END_DECLS

#endif
