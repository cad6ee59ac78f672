#ifndef RQL_STATUS_H
#define RQL_STATUS_H

/**
 * @file status.h
 * @brief Result codes and the caller-owned error detail.
 */

#include <rql/base.h>

RQL_BEGIN_DECLS

/**
 * Result of every fallible call.
 *
 * Zero means the call did what its name says. A positive value is an outcome the caller must expect
 * and handle. A negative value is a fault: pass it up. For both, ::rql_error says why. The values
 * never change.
 */
typedef enum rql_status {
    RQL_OK = 0, /**< Done. */

    RQL_TIMED_OUT = 1,        /**< The deadline passed (the gem: :timeout_reached). */
    RQL_RETRY_LIMIT = 2,      /**< All tries were used (:retry_limit_reached). */
    RQL_FAIL_FAST_NO_TRY = 3, /**< Held by another; never queued (:fail_fast_no_try). */
    RQL_FAIL_FAST_AFTER_TRY =
        4,                 /**< Others wait in front; left the queue (:fail_fast_after_try). */
    RQL_CONFLICT = 5,      /**< Held by this very acquirer (:conflict_dead_lock). */
    RQL_NOT_HELD = 6,      /**< The grant has ended: expired, released or taken away. */
    RQL_NOT_FOUND = 7,     /**< There is no such lock or queue. */
    RQL_BLOCK_OVERRAN = 8, /**< A timed block ran longer than its ttl. */
    RQL_STOPPED = 9,       /**< The caller's progress callback ended the call. */
    RQL_CANCELLED = 10,    /**< The caller cancelled its waiting request. */

    RQL_E_INVALID = -1,      /**< Bad argument or option. Nothing was sent. */
    RQL_E_NOMEM = -2,        /**< Allocation failed. */
    RQL_E_IO = -3,           /**< No connection. Nothing was done on the server. */
    RQL_E_UNKNOWN = -4,      /**< Sent, but no reply: the server may or may not have done it. */
    RQL_E_PROTOCOL = -5,     /**< The reply had an unexpected form; the connection was dropped. */
    RQL_E_SERVER = -6,       /**< The server refused the command for a reason not listed here. */
    RQL_E_AUTH = -7,         /**< NOAUTH, WRONGPASS, NOPERM: check the user and its rights. */
    RQL_E_WRONG_TYPE = -8,   /**< A key of the lock holds another type (WRONGTYPE). */
    RQL_E_READ_ONLY = -9,    /**< The server is a replica (READONLY, MASTERDOWN). */
    RQL_E_UNAVAILABLE = -10, /**< LOADING, BUSY, OOM, MISCONF and the like, no heartbeat of this
                                host has reached the swarm, or the server grants nothing for a
                                while (rql_options::recovery_delay_ms); in a cluster also: nobody
                                has the keys of this lock, or they move (MOVED, TRYAGAIN,
                                CLUSTERDOWN) for longer than there was time. Try again later. */
    RQL_E_FORKED = -11,      /**< The handle belongs to the parent process. */
    RQL_E_BUSY = -12,        /**< This acquirer is already waiting for this lock. */
    RQL_E_UNSUPPORTED = -13, /**< This library was built without it, or the server is of a kind that
                                the URL does not speak of: a node of a cluster, a sentinel; or the
                                user lacks a right that an option needs. Nothing was done. */
    RQL_E_TLS = -14, /**< No TLS with the server: its certificate is not trusted, has expired or is
                        another's, it refuses ours, or a file cannot be used. Nothing was done. A
                        server without TLS mostly does not answer: ::RQL_E_IO. */
    RQL_E_NOT_DURABLE = -15, /**< Granted or extended, but not as safely as asked for
                                (rql_lock_options::replicas, rql_lock_options::fsync): a grant was
                                given back, an extension is not counted on. */
} rql_status;

/** Size in bytes of rql_error::message, terminator included. */
#define RQL_ERROR_MESSAGE_SIZE 256

/**
 * Why a call did not return ::RQL_OK: a fault, or an outcome such as ::RQL_TIMED_OUT. A call that
 * returns ::RQL_OK leaves it as it is. Plain data: no release call, copy freely.
 *
 * For a lock that was not acquired the message names the holder if the client knows it; with
 * rql_lock_options::detailed_acq_timeout_error the server is asked.
 */
typedef struct rql_error {
    rql_status status;                    /**< The status the call returned; not ::RQL_OK. */
    int sys_errno;                        /**< `errno` at the point of failure, or 0. */
    char message[RQL_ERROR_MESSAGE_SIZE]; /**< English, one line: what, where, what may be true. */
} rql_error;

/**
 * Name a status.
 *
 * @param[in] status  Any value, known or not.
 * @return A short English text such as "timed out"; static, never NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_status_text(rql_status status);

RQL_END_DECLS

#endif
