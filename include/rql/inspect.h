#ifndef RQL_INSPECT_H
#define RQL_INSPECT_H

/**
 * @file inspect.h
 * @brief Inspect locks, queues, keys, servers, and the ids of a client.
 *
 * The calls here only read: none takes or changes a lock. The caller frees every result with one
 * call. Listings use SCAN in batches of `key_extraction_batch_size`. They never stall the server,
 * and they are not a snapshot.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** A list of texts in one allocation. */
typedef struct rql_text_list {
    size_t count;      /**< Number of items. */
    const char **item; /**< The texts, each terminated. */
} rql_text_list;

/**
 * Releases what a call of admin.h has returned: a list with its items, a description, or a reply.
 * An item of a list or of a reply is not released by itself.
 *
 * @param[in] result  The result, or NULL.
 * @return NULL.
 * @threads The result must not be in use by another thread.
 */
RQL_API void *rql_free(void *result);

/** The state in which a key was found. */
typedef enum rql_key_status {
    RQL_KEY_ALIVE = 0, /**< A complete lock, or a queue. */
    /** The key disappeared between SCAN and the read (the gem's :released). */
    RQL_KEY_RELEASED = 1,
    RQL_KEY_WRONG_TYPE = 2, /**< The key has another type. */
    /** A field is missing, a number cannot be read, the key or an id contains a NUL byte (and is
     *  cut there), or the key holds more than a listing reads. Metadata are cut at a NUL byte, too,
     *  but the lock is complete, so its state is ::RQL_KEY_ALIVE. */
    RQL_KEY_MALFORMED = 3,
} rql_key_status;

/** One lock, as it is stored on the server. An absent number is -1, an absent text is NULL. */
typedef struct rql_lock_info {
    rql_key_status status;     /**< Whether the other fields can be relied on. */
    const char *key;           /**< `rql:lock:<name>`. */
    const char *name;          /**< The name within the key. */
    const char *acquirer_id;   /**< The acquirer that holds the lock. */
    const char *host_id;       /**< The host of that acquirer. */
    int64_t acquired_at_us;    /**< Time of the acquisition, microseconds since 1970. */
    int64_t ttl_ms;            /**< The TTL with which the lock was acquired. */
    int64_t remaining_ms;      /**< The remaining TTL; ::RQL_FOREVER if the lock has none. */
    int64_t reentries;         /**< Re-entries so far. */
    int64_t reentered_at_us;   /**< Time of the last work_through re-entry. */
    int64_t extended_ms;       /**< Sum of extensions by re-entries. */
    int64_t extended_at_us;    /**< Time of the last extendable re-entry. */
    int64_t last_extension_ms; /**< The TTL of that re-entry. */
    int64_t token;             /**< Fencing token; -1 for a lock of the gem. */
    size_t n_meta;             /**< Number of metadata pairs. */
    const rql_meta *meta;      /**< The metadata, in the server's order. */
    const char
        *node; /**< Its server, as returned by rql_lock_node(); valid until the client is freed. */
    /** Time of the read, by the server's clock; -1: the server did not report it. The age of the
     *  lock is `server_us` minus `acquired_at_us`, whatever the local clock shows. */
    int64_t server_us;
    /** Released, and kept for the rest of rql_lock_options::hold_at_least_ms: the ids are those of
     *  no acquirer and of no host. */
    bool is_kept;
    /** Number of holders: 0 for a lock that is free or kept, 1 for a lock of one acquirer. If it is
     *  larger, or `acquirer_id` begins with `rql:acq:shared/`, several acquirers share the lock
     *  (share.h). The ids are then those of no acquirer and of no host, and rql_lock_holders()
     *  returns the holders, with their tokens and metadata. */
    int64_t n_holders;
    int64_t used_units; /**< Share units in use; 0 if the lock is held alone. */
    /** rql_lock_options::share_limit of all holders; 0 if the lock is held alone, or their limits
     *  differ. */
    int64_t share_limit;
} rql_lock_info;

/** One holder of a lock. An absent number is -1, an absent text is NULL. */
typedef struct rql_holder_info {
    const char *acquirer_id; /**< The acquirer that holds the lock, or a share of it. */
    const char *host_id;     /**< The host of that acquirer. */
    int64_t token;           /**< Fencing token; -1 for a lock of the gem. */
    /** Time of the acquisition, microseconds since 1970. A share next to others has only its token,
     *  which is that time unless the server's clock was set back before. */
    int64_t acquired_at_us;
    int64_t ttl_ms;       /**< The TTL with which the lock or share was acquired. */
    int64_t remaining_ms; /**< The remaining TTL; ::RQL_FOREVER if the lock has none. */
    int64_t share_units;  /**< rql_lock_options::share_units; 0: it holds the lock alone. */
    int64_t share_limit;  /**< rql_lock_options::share_limit; 0: it holds the lock alone. */
    size_t n_slots;       /**< Number of slots; 0 without rql_lock_options::share_slots. */
    const int *slots;     /**< The slots, rising; NULL if there are none. */
    size_t n_meta;        /**< Number of metadata pairs. */
    const rql_meta *meta; /**< The metadata, in the server's order. */
} rql_holder_info;

/** The holders of a lock, freed with one call. */
typedef struct rql_holder_list {
    /** Whether the holders can be relied on; ::RQL_KEY_RELEASED if the lock is free. */
    rql_key_status status;
    size_t count;           /**< Number of items; 0 for a lock that is free or kept. */
    rql_holder_info **item; /**< The holders, by their tokens; freed with the list. */
    int64_t server_us;      /**< As rql_lock_info::server_us. */
} rql_holder_list;

/** One request in a queue. */
typedef struct rql_request_info {
    const char *acquirer_id; /**< The acquirer that waits. */
    /** The host of that acquirer; NULL for a request of the gem, which does not record it. */
    const char *host_id;
    /** The place in the queue: microseconds since 1970. */
    int64_t score_us;
    /** The position in the queue; 1 for the next request. */
    int64_t position;
    int64_t share_units;  /**< rql_lock_options::share_units; 0: it waits for the lock alone. */
    int64_t share_limit;  /**< rql_lock_options::share_limit; 0: it waits for the lock alone. */
    size_t n_meta;        /**< Number of metadata pairs; 0 for a request of the gem. */
    const rql_meta *meta; /**< rql_lock_options::meta; NULL if there are none. */
} rql_request_info;

/** One queue, as it is stored on the server. */
typedef struct rql_queue_info {
    rql_key_status status;       /**< Whether the other fields can be relied on. */
    const char *key;             /**< `rql:lock_queue:<name>`. */
    const char *name;            /**< The name within the key. */
    size_t n_requests;           /**< Number of requests. */
    rql_request_info **requests; /**< The requests, in the order of the queue. */
    const char *node;            /**< As rql_lock_info::node. */
    int64_t server_us;           /**< As rql_lock_info::server_us. */
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
 * Details of a refused acquisition. Set up with rql_result_init() before use; see
 * rql_lock_options::refusal.
 */
struct rql_refusal {
    size_t size;       /**< Set by rql_result_init(). */
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
 * Frees the memory that a refusal refers to, and sets the refusal up for its next use.
 *
 * @param[in,out] refusal  The refusal, which rql_result_init() has set up; or NULL.
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
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_inspect(rql_client *client, const char *name,
                                                   rql_lock_info **out, rql_error *error);

/**
 * Describes the holders of one lock: one for a lock that is held alone, none for a lock that is
 * free or kept, or each acquirer that has a share of it.
 *
 * @param[in]  client  The client.
 * @param[in]  name    The lock's name.
 * @param[out] out     The holders; untouched unless RQL_OK. Check its `status` first.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  The name is malformed.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_lock_holders(rql_client *client, const char *name,
                                                   rql_holder_list **out, rql_error *error);

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
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queue_inspect(rql_client *client, const char *name,
                                                    rql_queue_info **out, rql_error *error);

/**
 * Lists the names of all locks that are held.
 *
 * @param[in]  client  The client.
 * @param[out] out     The names, sorted, each once; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK    `*out` is set.
 * @retval RQL_E_IO  No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
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
 * @owner   The caller owns `*out`; release with rql_free().
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
 * @owner   The caller owns `*out`; release with rql_free().
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
 * @owner   The caller owns `*out`; release with rql_free().
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
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queues_inspect(rql_client *client, rql_queue_info_list **out,
                                                     rql_error *error);

/**
 * Describes the locks of these names, in batches of up to 500. A lock that is free has the
 * status ::RQL_KEY_RELEASED.
 *
 * A tool that looks again and again needs no SCAN of all keys for what it knows.
 *
 * @param[in]  client   The client.
 * @param[in]  names    Names of locks, in any order; may be NULL if @p n_names is 0. They are not
 *                      checked, because a listing has names of other programs, too.
 * @param[in]  n_names  Number of names.
 * @param[out] out      The locks, each name once, in the order of their keys; untouched unless
 *                      RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  A pointer or a name is NULL.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_locks_read(rql_client *client, const char *const *names,
                                                 size_t n_names, rql_lock_info_list **out,
                                                 rql_error *error);

/**
 * Describes the queues of these names, in batches of up to 500. A queue without requests has
 * the status ::RQL_KEY_RELEASED.
 *
 * A tool that looks again and again needs no SCAN of all keys for what it knows.
 *
 * @param[in]  client   The client.
 * @param[in]  names    Names of locks, in any order; may be NULL if @p n_names is 0. They are not
 *                      checked, because a listing has names of other programs, too.
 * @param[in]  n_names  Number of names.
 * @param[out] out      The queues, each name once, in the order of their keys; untouched unless
 *                      RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  A pointer or a name is NULL.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_queues_read(rql_client *client, const char *const *names,
                                                  size_t n_names, rql_queue_info_list **out,
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
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_clients_list(rql_client *client, rql_client_info_list **out,
                                                   rql_error *error);

/**
 * Finds the client that an acquirer or host id belongs to.
 *
 * @param[in] list  The clients, or NULL.
 * @param[in] id    An acquirer or host id, such as rql_lock_info::acquirer_id, or an identity; or
 * NULL.
 * @return A client of @p list; NULL if the client is not listed, or does not use librql.
 * @threads The list must not be freed during the call.
 */
RQL_API const rql_client_info *rql_clients_find(const rql_client_info_list *list, const char *id);

/** Size of rql_server_info::url with its terminator. */
#define RQL_SERVER_URL_SIZE 1024

/** Size of rql_server_info::node with its terminator. */
#define RQL_SERVER_NODE_SIZE 272

/** Size of a short text of rql_server_info with its terminator. */
#define RQL_SERVER_WORD_SIZE 32

/** Size of rql_server_info::tls_subject with its terminator. */
#define RQL_SERVER_SUBJECT_SIZE 256

/** Largest number of entries of rql_server_info::refused. */
#define RQL_SERVER_REFUSED_MAX 8

/** A server's description of itself. A text that the server does not report, or that this user may
 *  not read, is "". Such a number is -1. */
typedef struct rql_server_info {
    size_t size; /**< Bytes of this struct that were filled in. */
    /** URL without user, password and query. For one of several shards or masters: its own URL. */
    char url[RQL_SERVER_URL_SIZE];
    /** `host:port`, or a path. If the URL names sentinels: the master that was found, or "". */
    char node[RQL_SERVER_NODE_SIZE];
    char product[RQL_SERVER_WORD_SIZE]; /**< `redis` or `valkey`. */
    char version[RQL_SERVER_WORD_SIZE]; /**< Such as `7.0.15`. */
    char role[RQL_SERVER_WORD_SIZE];    /**< `master` or `replica`. */
    bool is_tls;                        /**< The connection is encrypted. */
    /** Subject of the server's certificate, such as `/CN=localhost`. */
    char tls_subject[RQL_SERVER_SUBJECT_SIZE];
    int64_t tls_expires_us; /**< When the certificate expires, microseconds since 1970. */
    bool is_by_sentinels;   /**< The URL names sentinels. */
    int64_t round_trip_us;  /**< The median of five PINGs. */
    int64_t replicas;       /**< Connected replicas. */
    /** The server's `min-replicas-to-write`; also 0 if the requirement is not in force. With
     *  sentinels it should be 1 or more: otherwise an old master may go on granting locks after a
     *  failover. */
    int64_t min_replicas_to_write;
    int64_t min_replicas_max_lag_s; /**< The server's `min-replicas-max-lag`, in seconds. */
    size_t n_refused;               /**< Number of useful rights that the user lacks. */
    /** Commands of the missing rights, such as `CLIENT KILL`; constant texts. */
    const char *refused[RQL_SERVER_REFUSED_MAX];
    /** If locks are spread over several servers, by 128 partitions: number of partitions that this
     *  server has. */
    int64_t partitions;
    /** If the URL names sentinels: the name of the master. */
    char master[RQL_SERVER_NODE_SIZE];
} rql_server_info;

/**
 * Asks the server for its description, measures the round trip, and finds the rights that this user
 * lacks. Connects if necessary; changes nothing. Use rql_client_ping().
 *
 * @param[in]  client  The client.
 * @param[out] out     Filled in. If the server does not answer, only `url`, `node`, `master` and
 *                     `partitions` can be relied on. Untouched on RQL_E_INVALID and RQL_E_FORKED.
 * @param[in]  size    Its size in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. The server may be a replica.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_IO       No reply; also other faults of rql_client_connect().
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_ping_sized(rql_client *client, rql_server_info *out,
                                                        size_t size, rql_error *error);

/** Fills `*out` with the description of the server of `client`, or of the first of several. */
#define rql_client_ping(client, out, error)                                                        \
    rql_client_ping_sized((client), (out), sizeof *(out), (error))

/**
 * Asks one of the servers that have locks for its description, as rql_client_ping() does. In a
 * cluster these servers are the masters in its map. Use rql_client_ping_node().
 *
 * @param[in]  client  The client.
 * @param[in]  n       Index of the server: 0 for the first, up to the first ::RQL_NOT_FOUND.
 * @param[out] out     As for rql_client_ping(); untouched on RQL_NOT_FOUND, too.
 * @param[in]  size    Its size in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  There are only @p n servers, or fewer.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_IO       No reply; also other faults of rql_client_connect(). More servers may
 *                        follow.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_ping_node_sized(rql_client *client, size_t n,
                                                             rql_server_info *out, size_t size,
                                                             rql_error *error);

/** Fills `*out` with the description of server `n` of `client`. */
#define rql_client_ping_node(client, n, out, error)                                                \
    rql_client_ping_node_sized((client), (n), (out), sizeof *(out), (error))

/**
 * Returns the client's identity: the last part of every id that the client uses.
 *
 * @param[in] client  The client.
 * @return 32 hexadecimal digits (the gem has 16); valid until the client is freed.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_client_identity(const rql_client *client);

/**
 * Writes the acquirer id with which the calling thread takes locks.
 *
 * @param[in]  client  The client.
 * @param[in]  task    As rql_lock_options::task; 0 for plain threads.
 * @param[out] out     `rql:acq:<pid>/<thread>/<task>/0/<identity>`, terminated. The library numbers
 *                     threads itself: 1 is the first thread of the process that used the library.
 *                     A number is never used for a second thread.
 * @return @p out.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_client_acquirer_id(const rql_client *client, uint64_t task,
                                           char out[RQL_ID_SIZE]);

/**
 * Writes the host id of the calling thread, which the swarm probes.
 *
 * @param[in]  client  The client.
 * @param[out] out     `rql:hst:<pid>/<thread>/0/<identity>`, terminated.
 * @return @p out.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_client_host_id(const rql_client *client, char out[RQL_ID_SIZE]);

/**
 * Returns the host ids that threads of this process can have (the gem's possible_host_ids). There
 * is one for each thread that has used the library and has not ended, the calling thread included.
 *
 * @param[in]  client  The client.
 * @param[out] out     The list; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   Out of memory.
 * @retval RQL_E_FORKED  The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_host_ids(rql_client *client, rql_text_list **out,
                                                      rql_error *error);

/**
 * Returns the names of the locks that this client holds now, without asking the server (redislock's
 * getAcquiredLocks). The list includes re-entries, but no lost locks.
 *
 * @param[in]  client  The client.
 * @param[out] out     The list; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK        `*out` is set.
 * @retval RQL_E_NOMEM   Out of memory.
 * @retval RQL_E_FORKED  The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_held_locks(rql_client *client, rql_text_list **out,
                                                        rql_error *error);

/**
 * Returns the server that has a lock, as far as the client knows: in a cluster the keys may move.
 * No I/O.
 *
 * @param[in] lock  The lock, or NULL.
 * @return The address of the node in a cluster, or of the shard, else the URL without its login;
 *         valid until the client is freed. NULL for NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_lock_node(const rql_lock *lock);

RQL_END_DECLS

#endif
