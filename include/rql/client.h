#ifndef RQL_CLIENT_H
#define RQL_CLIENT_H

/**
 * @file client.h
 * @brief A client: a few connections to the server, shared by all threads of the process.
 *
 * A client has one command connection, which its callers read and write themselves, and up to
 * rql_options::connections of them when its threads ask at the same time; one subscriber connection
 * from the first wait on, and one background thread from the first lease that needs watching. It
 * installs no signal handler, writes to no stream and changes no state of the process.
 *
 * Threads that the library starts block all signals but SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGABRT and SIGSYS, so that the program's own threads receive what is sent to the process. Your
 * callbacks run with that mask on such threads: those of a loop or swarm that has a thread of its
 * own, rql_lock_options::on_lost, instrumenters and credentials.
 *
 * After fork() every call on a handle of the parent returns ::RQL_E_FORKED in the child and touches
 * nothing of the parent's. The functions that free a handle may still be called; in the child they
 * free nothing and close no descriptor. A child makes its own client.
 *
 * The same is true of a child that clone() or _Fork() made with memory of its own (Linux 4.14 or
 * later), with two differences: copies of the parent's connections stay open in it until it calls
 * exec or ends, so that the server does not notice meanwhile that the parent has died; and it can
 * make a client of its own only after exec. A child that shares its parent's memory, as after
 * vfork(), must not call the library.
 */

#include <rql/base.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** A thread-safe client. Opaque; made by rql_client_open() or rql_client_new(). */
typedef struct rql_client rql_client;

/**
 * Make a client with the settings of the environment; does not connect.
 *
 * The same as rql_options_init(), rql_options_from_env(), and rql_client_new(), with @p url in
 * place of `RQL_URL` if it is given.
 *
 * @param[in]  url    Where the server is (rql_options::url); NULL: where `RQL_URL` says. Copied.
 * @param[out] out    The new client; untouched unless RQL_OK.
 * @param[out] error  Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  Neither @p url nor `RQL_URL` names a server, the URL cannot be read, or a
 *                        variable is no value of its option. Nothing was done.
 * @retval RQL_E_NOMEM    Out of memory, or the system gave no random numbers.
 *
 * @owner   The caller owns `*out`; release with rql_client_free().
 * @threads Callable from any thread; no other thread may change the environment meanwhile.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_open(const char *url, rql_client **out,
                                                  rql_error *error);

/**
 * Make a client; does not connect. rql_client_open() is the shorter form.
 *
 * @param[out] out      The new client; untouched unless RQL_OK.
 * @param[in]  options  Settings, of which `url` has to be set. Copied.
 * @param[out] error    Why the call did not return RQL_OK, or NULL; untouched on RQL_OK.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_E_INVALID  An option is out of range, or the URL is missing or cannot be read.
 *                        Nothing was done.
 * @retval RQL_E_NOMEM    Out of memory, or the system gave no random numbers.
 * @retval RQL_E_UNSUPPORTED  A light build, and a listener was given (observe.h).
 *
 * @owner   The caller owns `*out`; release with rql_client_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_new(const rql_options *options, rql_client **out,
                                                 rql_error *error);

/**
 * End a client: stop its background thread and close its connections.
 *
 * Locks that are still held are left to their ttl; release them first. Releases, lazy ones too, and
 * cancellations that the server has not confirmed yet get at most another `io_timeout_ms`; an
 * attempt to connect that is under way, its `connect_timeout_ms`; what the nodes of a cluster are
 * asked about it, a second. A lazy release that is not confirmed by then is told as a loss, from
 * within this call.
 *
 * @param[in] client  The client, or NULL.
 * @return NULL, so that `c = rql_client_free(c)` leaves no dangling pointer.
 * @threads No other thread may use @p client or a lock of it during or after this call.
 */
RQL_API rql_client *rql_client_free(rql_client *client);

/**
 * Connect now instead of at the first command, and check what would make a later call fail.
 *
 * @param[in]  client  The client.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             Connected, logged in, the database is selected.
 * @retval RQL_E_IO           Unreachable, refused, or no reply within `connect_timeout_ms`.
 * @retval RQL_E_AUTH         Wrong user or password, or rights are missing.
 * @retval RQL_E_READ_ONLY    Connected, to a replica that takes no writes: locks can be inspected,
 *                            not acquired. A later call checks again.
 * @retval RQL_E_UNSUPPORTED  It is a node of a cluster and the URL says nothing of one, or the
 *                            reverse; it is a sentinel; or it is older than Redis 7.0, and the URL
 *                            is `redis+cluster://` or `redis+shards://`, or has several masters.
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

/** At most so many rights are missing. */
#define RQL_SERVER_REFUSED_MAX 8

/** What a server says of itself. What it does not say, or may not, is "" or -1. */
typedef struct rql_server_info {
    size_t size;                        /**< Bytes of this struct that were filled in. */
    char url[RQL_SERVER_URL_SIZE];      /**< Without user, password and query; of one of several
                                             shards, or masters, its own. */
    char node[RQL_SERVER_NODE_SIZE];    /**< `host:port`, or a path: by a URL of sentinels the
                                             master that was found. */
    char product[RQL_SERVER_WORD_SIZE]; /**< `redis` or `valkey`. */
    char version[RQL_SERVER_WORD_SIZE]; /**< Such as `7.0.15`. */
    char role[RQL_SERVER_WORD_SIZE];    /**< `master` or `replica`. */
    bool is_tls;                        /**< The connection is encrypted. */
    /** Whom the server's certificate names, as `/CN=localhost`. */
    char tls_subject[RQL_SERVER_SUBJECT_SIZE];
    int64_t tls_expires_us;         /**< When that ends, microseconds since 1970. */
    bool is_by_sentinels;           /**< The URL names sentinels. */
    int64_t round_trip_us;          /**< The median of five PINGs. */
    int64_t replicas;               /**< Connected replicas. */
    int64_t min_replicas_to_write;  /**< The server's `min-replicas-to-write`; 0 is also: it is
                                         not in force. By sentinels it should be 1 or more, or
                                         an old master may go on granting after a failover. */
    int64_t min_replicas_max_lag_s; /**< Its `min-replicas-max-lag`, in seconds. */
    size_t n_refused;               /**< Rights that are of use and missing. */
    const char *refused[RQL_SERVER_REFUSED_MAX]; /**< Their commands, such as `CLIENT KILL`;
                                                      constant texts. */
    int64_t partitions; /**< Where locks are spread over several servers, by 128 partitions: how
                           many of these it has. */
    /** By a URL of sentinels: the name of the master. */
    char master[RQL_SERVER_NODE_SIZE];
} rql_server_info;

/**
 * Ask the server what it is, how far, and what this user may not do there. Connects if need be;
 * changes nothing. Use rql_client_ping().
 *
 * @param[in]  client  The client.
 * @param[out] out     Filled in; untouched unless RQL_OK.
 * @param[in]  size    Its size in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. A replica is fine.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_IO       No reply; also other faults of rql_client_connect().
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_ping_sized(rql_client *client, rql_server_info *out,
                                                        size_t size, rql_error *error);

/** Fill `*out` with what the server of `client`, or the first of several, says of itself. */
#define rql_client_ping(client, out, error)                                                        \
    rql_client_ping_sized((client), (out), sizeof *(out), (error))

/**
 * The same of each server that has locks: of a cluster the masters, by its map. Use
 * rql_client_ping_node().
 *
 * @param[in]  client  The client.
 * @param[in]  n       Which: from 0 up, until there are no more.
 * @param[out] out     Filled in; untouched unless RQL_OK.
 * @param[in]  size    Its size in bytes in the calling program.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  There are not so many.
 * @retval RQL_E_INVALID  A pointer is NULL.
 * @retval RQL_E_IO       No reply; also other faults of rql_client_connect(). There may be more.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_ping_node_sized(rql_client *client, size_t n,
                                                             rql_server_info *out, size_t size,
                                                             rql_error *error);

/** Fill `*out` with what the server number `n` of `client` says of itself. */
#define rql_client_ping_node(client, n, out, error)                                                \
    rql_client_ping_node_sized((client), (n), (out), sizeof *(out), (error))

/**
 * The client's identity: the last part of every id that it uses.
 *
 * @param[in] client  The client.
 * @return 32 hexadecimal digits (the gem has 16); valid until the client is freed.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_client_identity(const rql_client *client);

/**
 * The acquirer id that the calling thread takes locks with.
 *
 * @param[in]  client  The client.
 * @param[in]  task    As rql_lock_options::task; 0 for plain threads.
 * @param[out] out     `rql:acq:<pid>/<thread>/<task>/0/<identity>`, terminated. The thread's number
 * is the library's own: 1 for the first thread of the process that used it. It is never used for a
 * second thread.
 * @return @p out.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_client_acquirer_id(const rql_client *client, uint64_t task,
                                           char out[RQL_ID_SIZE]);

/**
 * The host id of the calling thread: what the swarm probes.
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
 * Release a list.
 *
 * @param[in] list  The list, or NULL.
 * @return NULL.
 * @threads The list must not be in use by another thread.
 */
RQL_API rql_text_list *rql_text_list_free(rql_text_list *list);

/**
 * The host ids that threads of this process can have: one for each thread that has used the library
 * and has not ended (the gem's possible_host_ids), the calling thread included.
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
 * The names of the locks that this client holds right now, without asking the server (redislock's
 * getAcquiredLocks). Re-entries are listed too; lost locks are not.
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
