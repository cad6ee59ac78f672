#ifndef RQL_INSPECT_H
#define RQL_INSPECT_H

/**
 * @file inspect.h
 * @brief Inspect locks, queues and keys. Reads only; nothing here takes or changes a lock.
 *
 * The caller frees every result with one call. Listings use SCAN in batches of
 * `key_extraction_batch_size`: they never stall the server, and are not a snapshot.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** What was found under a key. */
typedef enum rql_key_status {
    RQL_KEY_ALIVE = 0,      /**< A complete lock, or a queue. */
    RQL_KEY_RELEASED = 1,   /**< Gone between SCAN and the reading (the gem's :released). */
    RQL_KEY_WRONG_TYPE = 2, /**< The key holds something else. */
    /** A field is missing, a number cannot be read, a text or the key has a zero byte (it is cut
       there), or the key holds more than a listing reads. */
    RQL_KEY_MALFORMED = 3,
} rql_key_status;

/** One lock as it is on the server. Absent numbers are -1, texts NULL. */
typedef struct rql_lock_info {
    rql_key_status status;        /**< Whether the rest can be relied on. */
    const char *lock_key;         /**< `rql:lock:<name>`. */
    const char *name;             /**< The name within the key. */
    const char *acq_id;           /**< Who holds it. */
    const char *hst_id;           /**< On which host. */
    int64_t ts_us;                /**< When it was taken, microseconds since 1970. */
    int64_t ini_ttl_ms;           /**< The ttl it was taken with. */
    int64_t rem_ttl_ms;           /**< What is left of it; ::RQL_FOREVER if it has none. */
    int64_t spc_cnt;              /**< Re-entries so far. */
    int64_t l_spc_ts_us;          /**< Last work_through re-entry. */
    int64_t spc_ext_ttl_ms;       /**< Sum of extensions by re-entries. */
    int64_t l_spc_ext_ts_us;      /**< Last extendable re-entry. */
    int64_t l_spc_ext_ini_ttl_ms; /**< Its ttl. */
    int64_t token;                /**< Fencing token; -1 for a lock of the gem. */
    size_t n_meta;                /**< Number of metadata pairs. */
    const rql_meta *meta;         /**< The metadata, in the server's order. */
    const char
        *node; /**< Where it is, as rql_lock_node() says it; valid until the client is freed. */
    int64_t server_us; /**< When this was read, by the server's clock: less `ts_us` the lock's age,
                          whatever the clock here shows; -1: the server did not say. */
} rql_lock_info;

/** One request in a queue. */
typedef struct rql_request_info {
    const char *acq_id; /**< Who waits. */
    const char *hst_id; /**< On which host; NULL for requests of the gem, which do not say. */
    int64_t score_us;   /**< Its place in line: microseconds since 1970. */
    int64_t position;   /**< 1 for the next in line. */
} rql_request_info;

/** One queue as it is on the server. */
typedef struct rql_queue_info {
    rql_key_status status;            /**< Whether the rest can be relied on. */
    const char *lock_queue;           /**< `rql:lock_queue:<name>`. */
    const char *name;                 /**< The name within the key. */
    size_t n_requests;                /**< Number of requests. */
    const rql_request_info *requests; /**< First in line first. */
    const char *node;                 /**< As rql_lock_info::node. */
    int64_t server_us;                /**< As rql_lock_info::server_us. */
} rql_queue_info;

/** One client, as it says itself (rql_options::client_names). Texts that it does not say are "". */
typedef struct rql_client_info {
    const char *identity; /**< What its acquirer and host ids end with. */
    const char *host;     /**< The machine. */
    int64_t pid;          /**< The process there. */
    const char *program;  /**< What that runs. */
    const char *user;     /**< For whom. */
    const char *version;  /**< Of this library. */
    const char *label;    /**< rql_options::client_label. */
    int64_t since_us;     /**< When it first said so, microseconds since 1970. */
    int64_t at_us;        /**< When it last did. */
    /** Of a connection of a swarm: rql_swarm_options::zombie_ttl_ms; else -1, as the next two. */
    int64_t zombie_ttl_ms;
    int64_t probe_period_ms; /**< How often it probes; 0: it does not. */
    int64_t flush_period_ms; /**< How often it flushes; 0: it does not. */
} rql_client_info;

/** Many clients, freed with one call. */
typedef struct rql_client_info_list {
    size_t count;           /**< Number of items. */
    rql_client_info **item; /**< The clients, sorted by identity; freed with the list. */
} rql_client_info_list;

/** Many locks, freed with one call. */
typedef struct rql_lock_info_list {
    size_t count;         /**< Number of items. */
    rql_lock_info **item; /**< The locks; freed with the list. */
} rql_lock_info_list;

/** Many queues, freed with one call. */
typedef struct rql_queue_info_list {
    size_t count;          /**< Number of items. */
    rql_queue_info **item; /**< The queues; freed with the list. */
} rql_queue_info_list;

/** Size of rql_refusal::message with its terminator. */
#define RQL_REFUSAL_MESSAGE_SIZE 1024

/** Why an acquisition was refused. Set to zero before use; see rql_lock_options::refusal. */
struct rql_refusal {
    rql_status reason; /**< The outcome the call returned. */
    /** Grants that were over by the time that their replies were here: the ttl is shorter than a
     *  round trip. */
    uint32_t n_over;
    int64_t waited_us; /**< How long it tried. */
    int64_t tries;     /**< How often. */
    int64_t position;  /**< Last known position in the queue, 1 for the first; 0 if not queued. */
    rql_lock_info *holder; /**< Who holds it, if asked for and still there; else NULL. */
    rql_queue_info *queue; /**< Who waits, if asked for and still there; else NULL. */
    char message[RQL_REFUSAL_MESSAGE_SIZE]; /**< The gem's message, cut to size. */
};

/**
 * Release what a refusal refers to and set it to zero.
 *
 * @param[in,out] refusal  The refusal, or NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API void rql_refusal_clear(rql_refusal *refusal);

/**
 * Is somebody holding this lock? (The gem's locked?, redis_exp_lock's key_locked?.)
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The answer; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_exists(rql_client *client, const char *name, bool *out,
                                                  rql_error *error);

/**
 * Is somebody waiting for this lock? (The gem's queued?.)
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The answer; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queue_exists(rql_client *client, const char *name, bool *out,
                                                   rql_error *error);

/**
 * Describe one lock.
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
 * Describe one queue.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The queue; untouched unless RQL_OK. Check its `status` first.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  Nobody waits.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_queue_info_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queue_inspect(rql_client *client, const char *name,
                                                    rql_queue_info **out, rql_error *error);

/**
 * Release a lock's description.
 *
 * @param[in] info  The description, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_lock_info *rql_lock_info_free(rql_lock_info *info);

/**
 * Release a queue's description.
 *
 * @param[in] info  The description, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_queue_info *rql_queue_info_free(rql_queue_info *info);

/**
 * The names of all locks that are held.
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
 * The names of all locks for which a request waits.
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
 * All keys that the gem counts as its own: `rql:lock*`.
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
 * Describe all locks. A key that is not a lock is listed with its status; the listing goes on.
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
 * Describe all queues. A key that is not a queue is listed with its status; the listing goes on.
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
 * Who the clients of this server are: those of librql that have said so within the last hour. A
 * client that has ended may still be there. What a client says of itself is not proven.
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
 * Find the client that an acquirer or host id belongs to.
 *
 * @param[in] list  The clients, or NULL.
 * @param[in] id    rql_lock_info::acq_id and the like, or an identity; or NULL.
 * @return A client of @p list, or NULL: it is not known, or none of librql.
 * @threads The list must not be freed meanwhile.
 */
RQL_API const rql_client_info *rql_clients_find(const rql_client_info_list *list, const char *id);

/**
 * Release a list of clients.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_client_info_list *rql_client_info_list_free(rql_client_info_list *list);

/**
 * Release a list of locks.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_lock_info_list *rql_lock_info_list_free(rql_lock_info_list *list);

/**
 * Release a list of queues.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_queue_info_list *rql_queue_info_list_free(rql_queue_info_list *list);

RQL_END_DECLS

#endif
