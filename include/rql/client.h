#ifndef RQL_CLIENT_H
#define RQL_CLIENT_H

/**
 * @file client.h
 * @brief A client: a few connections to the server, shared by all threads of the process.
 *
 * A client has one command connection, which its callers read and write themselves. If its threads
 * call at the same time, the client opens more command connections, up to rql_options::connections.
 * It has one subscriber connection from the first wait on, and one background thread from the first
 * lease that needs watching. A client installs no signal handler, writes to no stream and changes
 * no state of the process.
 *
 * Threads that the library starts block all signals but SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGABRT and SIGSYS, so that the program's own threads receive the signals that are sent to the
 * process. On such threads the program's callbacks run with this mask: the callbacks of a loop or
 * swarm that has a thread of its own, rql_lock_options::on_lost, instrumenters and credentials.
 *
 * After fork() every call on a handle of the parent returns ::RQL_E_FORKED in the child, and
 * touches nothing that belongs to the parent. The functions that free a handle may still be called:
 * in the child they free nothing and close no descriptor. A child makes its own client.
 *
 * The same rules apply to a child that clone() or _Fork() made with memory of its own (Linux 4.14
 * or later), with two differences. Copies of the parent's connections stay open in the child until
 * it calls exec or ends, so the server does not notice meanwhile that the parent has died. The
 * child can make a client of its own only after exec. A child that shares its parent's memory, as
 * after vfork(), must not call the library.
 */

#include <rql/base.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** A thread-safe client. Opaque; made by rql_client_open() or rql_client_new(). */
typedef struct rql_client rql_client;

/**
 * Makes a client with the settings of the environment; does not connect.
 *
 * The call does the same as rql_options_init(), rql_options_from_env() and rql_client_new(), one
 * after the other. If @p url is given, it takes the place of `RQL_URL`.
 *
 * @param[in]  url    URL of the server (rql_options::url); NULL: the value of `RQL_URL`. Copied.
 * @param[out] out    The new client; untouched unless RQL_OK.
 * @param[out] error  Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  Neither @p url nor `RQL_URL` names a server, the URL is malformed, or a
 *                        variable has a value that its option does not accept. Nothing was done.
 * @retval RQL_E_NOMEM    Out of memory, or the system returned no random numbers.
 *
 * @owner   The caller owns `*out`; release with rql_client_free().
 * @threads Callable from any thread; no other thread may change the environment during the call.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_open(const char *url, rql_client **out,
                                                  rql_error *error);

/**
 * Makes a client; does not connect. rql_client_open() is the shorter form.
 *
 * @param[in]  options  Settings; `url` must be set. Copied.
 * @param[out] out      The new client; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  An option is out of range, or the URL is missing or malformed.
 *                        Nothing was done.
 * @retval RQL_E_NOMEM    Out of memory, or the system returned no random numbers.
 * @retval RQL_E_UNSUPPORTED  This is a light build, and a listener was given (observe.h).
 *
 * @owner   The caller owns `*out`; release with rql_client_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_new(const rql_options *options, rql_client **out,
                                                 rql_error *error);

/**
 * Ends a client: stops its background thread and closes its connections.
 *
 * Locks that are still held end by their TTL; release them first. The call waits for work that is
 * under way, each kind with its own limit:
 *
 * - releases, lazy ones too, and cancellations that the server has not confirmed yet: at most
 *   another `io_timeout_ms`;
 * - an attempt to connect: its `connect_timeout_ms`;
 * - a question to the nodes of a cluster about the cluster: one second.
 *
 * A lazy release that is not confirmed by then is reported as a loss, from within this call.
 *
 * @param[in] client  The client, or NULL.
 * @return NULL, so that `c = rql_client_free(c)` leaves no dangling pointer.
 * @threads No other thread may use @p client or a lock of it during or after this call.
 */
RQL_API rql_client *rql_client_free(rql_client *client);

/**
 * Connects now instead of at the first command, and checks what would make a later call fail.
 *
 * @param[in]  client  The client.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             Connected and logged in; the database is selected.
 * @retval RQL_E_IO           The server is unreachable, refuses the connection, or does not reply
 *                            within `connect_timeout_ms`.
 * @retval RQL_E_AUTH         Wrong user or password, or rights are missing.
 * @retval RQL_E_READ_ONLY    Connected to a replica that takes no writes: locks can be inspected,
 *                            but not acquired. A later call checks again.
 * @retval RQL_E_UNSUPPORTED  The server is a node of a cluster and the URL does not name a cluster,
 *                            or the reverse; the server is a sentinel; or the server is older than
 *                            Redis 7.0, and the URL is `redis+cluster://` or `redis+shards://`, or
 *                            has several masters.
 * @retval RQL_E_UNAVAILABLE  The server is loading its data.
 * @retval RQL_E_PROTOCOL     The peer does not speak the Redis protocol.
 * @retval RQL_E_FORKED       The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_connect(rql_client *client, rql_error *error);

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
    /** `host:port`, or a path. If the URL names sentinels: the master that was found. */
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
 * @param[out] out     Filled in; untouched unless RQL_OK.
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
 * @param[out] out     Filled in; untouched unless RQL_OK.
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

/** A list of texts in one allocation. */
typedef struct rql_text_list {
    size_t count;      /**< Number of items. */
    const char **item; /**< The texts, each terminated. */
} rql_text_list;

/**
 * Frees a list.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads No other thread may use the list.
 */
RQL_API rql_text_list *rql_text_list_free(rql_text_list *list);

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
 * @owner   The caller owns `*out`; release with rql_text_list_free().
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
 * @owner   The caller owns `*out`; release with rql_text_list_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_held_locks(rql_client *client, rql_text_list **out,
                                                        rql_error *error);

RQL_END_DECLS

#endif
