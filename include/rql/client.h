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
 * Prepares the end of a client, for example when a signal asks a service to stop: nothing new is
 * begun, and what is held is brought to an end.
 *
 * From the call on, and until the client is freed, each acquisition returns ::RQL_E_UNAVAILABLE,
 * and requests that wait end with ::RQL_CANCELLED, within 1.7 s while the server answers; a request
 * that pauses between two tries ends when the pause does. A grant that comes meanwhile is given
 * back: ::RQL_E_UNAVAILABLE. The `on_wanted` of each held lock is called, once, with the time that
 * is left. The call then waits until all locks are released, or forgotten, by the threads and loops
 * that hold them; locks that are lost too. Renewals, extensions and releases go on.
 *
 * A release that has begun is not waited for. Before rql_client_free(), which does wait for it, let
 * the threads that use the client end.
 *
 * @param[in]  client      The client.
 * @param[in]  timeout_ms  How long to wait; 0: not at all; ::RQL_FOREVER: no limit.
 * @param[out] error       Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Nothing is held: each release has begun, at least.
 * @retval RQL_TIMED_OUT  Locks are still held. Call again to wait longer, or free the client: then
 *                        they end by their TTL.
 * @retval RQL_E_INVALID  @p client is NULL, or @p timeout_ms is below ::RQL_FOREVER.
 * @retval RQL_E_NOMEM    There is no thread or memory for the callbacks. The client is drained all
 *                        the same.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread, but not from a callback, and not on the thread of a loop that
 *          holds locks: it would wait for itself.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_drain(rql_client *client, int64_t timeout_ms,
                                                   rql_error *error);

/**
 * Connects now instead of at the first command, and checks what would make a later call fail. With
 * several servers (a cluster, shards, several masters) it connects to one of them: a server that is
 * down makes no difference as long as another one answers.
 *
 * @param[in]  client  The client.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK             Connected and logged in; the database is selected.
 * @retval RQL_E_IO           The server is unreachable, refuses the connection, or does not reply
 *                            within `connect_timeout_ms`; or, of several servers, no server has
 *                            replied within twice that time.
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

RQL_END_DECLS

#endif
