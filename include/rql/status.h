#ifndef RQL_STATUS_H
#define RQL_STATUS_H

/**
 * @file status.h
 * @brief Result codes and the caller-owned error detail.
 */

#include <rql/base.h>
#include <stddef.h>

RQL_BEGIN_DECLS

/**
 * Result of every call that can fail.
 *
 * Zero means that the call did what its name says. A positive value is an outcome that the caller
 * must expect and handle. A negative value is a fault: return it to your own caller. For outcomes
 * and faults, ::rql_error says why. The values never change.
 */
typedef enum rql_status {
    RQL_OK = 0, /**< Done. */

    RQL_TIMED_OUT = 1,   /**< The deadline passed (the gem: :timeout_reached). */
    RQL_RETRY_LIMIT = 2, /**< All tries were used (:retry_limit_reached). */
    /** Another acquirer holds the lock; the request was never queued (:fail_fast_no_try). */
    RQL_FAIL_FAST_NO_TRY = 3,
    RQL_FAIL_FAST_AFTER_TRY =
        4, /**< Other requests are in front; the request left the queue (:fail_fast_after_try). */
    RQL_CONFLICT = 5,      /**< This acquirer already holds the lock (:conflict_dead_lock). */
    RQL_NOT_HELD = 6,      /**< The grant has ended: it expired, was released or was taken away. */
    RQL_NOT_FOUND = 7,     /**< There is no such lock or queue. */
    RQL_BLOCK_OVERRAN = 8, /**< A timed block ran longer than its TTL. */
    RQL_STOPPED = 9,       /**< The caller's progress callback ended the call. */
    RQL_CANCELLED = 10,    /**< The caller cancelled its waiting request. */
    RQL_QUEUE_FULL = 11,   /**< As many requests wait as rql_lock_options::max_waiters allows. */

    RQL_E_INVALID = -1, /**< Bad argument or option. Nothing was sent. */
    RQL_E_NOMEM = -2,   /**< Allocation failed. */
    RQL_E_IO = -3,      /**< No connection. Nothing was done on the server. */
    /** The command was sent, but no reply came: the server may or may not have executed it. */
    RQL_E_UNKNOWN = -4,
    RQL_E_PROTOCOL = -5,   /**< The reply had an unexpected form; the connection was dropped. */
    RQL_E_SERVER = -6,     /**< The server refused the command for a reason not listed here. */
    RQL_E_AUTH = -7,       /**< NOAUTH, WRONGPASS, NOPERM: check the user and its rights. */
    RQL_E_WRONG_TYPE = -8, /**< A key of the lock holds another type (WRONGTYPE). */
    RQL_E_READ_ONLY = -9,  /**< The server is a replica (READONLY, MASTERDOWN). */
    /** LOADING, BUSY, OOM, MISCONF and similar replies; no heartbeat of this host has reached the
     *  swarm; or the server grants nothing for a while (rql_options::recovery_delay_ms). In a
     *  cluster also: no node has the keys of this lock, or they were being moved (MOVED, TRYAGAIN,
     *  CLUSTERDOWN) for longer than the call had time. Try again later. */
    RQL_E_UNAVAILABLE = -10,
    RQL_E_FORKED = -11, /**< The handle belongs to the parent process. */
    RQL_E_BUSY = -12,   /**< This acquirer is already waiting for this lock. */
    /** The library was built without the feature; the server is of a kind that the URL does not
     *  name: a node of a cluster, or a sentinel; or the user lacks a right that an option needs.
     *  Nothing was done. */
    RQL_E_UNSUPPORTED = -13,
    /** No TLS connection with the server: its certificate is not trusted, has expired or belongs to
     *  another server; the server refuses the client's certificate; or a file cannot be used.
     *  Nothing was done. A server without TLS usually does not answer: ::RQL_E_IO. */
    RQL_E_TLS = -14,
    /** Granted or extended, but not as safely as requested (rql_lock_options::replicas,
     *  rql_lock_options::fsync). A grant was given back; the client does not rely on an extension.
     */
    RQL_E_NOT_DURABLE = -15,
} rql_status;

/** Size in bytes of rql_error::message, terminator included. */
#define RQL_ERROR_MESSAGE_SIZE 256

/**
 * Why a call did not return ::RQL_OK: a fault, or an outcome such as ::RQL_TIMED_OUT. A call that
 * returns ::RQL_OK leaves the struct unchanged. The struct is plain data: it needs no release call
 * and can be copied freely.
 *
 * If a lock was not acquired, the message names the holder if the client knows it. With
 * rql_lock_options::detailed_acq_timeout_error the client asks the server for the holder.
 */
typedef struct rql_error {
    rql_status status; /**< The status that the call returned; not ::RQL_OK. */
    int sys_errno;     /**< `errno` at the point of failure, or 0. */
    /** One line of English: what failed, on which lock or server, and what may now be true. */
    char message[RQL_ERROR_MESSAGE_SIZE];
} rql_error;

/**
 * Returns a short text for a status.
 *
 * @param[in] status  Any value, known or not.
 * @return A short English text such as "timed out"; static, never NULL.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_status_text(rql_status status);

/**
 * Prepares a struct in which a call returns its result: ::rql_refusal, rql_series_result, or
 * rql_sweep_result. Use the macro rql_result_init().
 *
 * @param[out] result  The struct, which becomes zero except for its size.
 * @param[in]  size    Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_result_init_sized(void *result, size_t size);

/** Sets `*result` to zero, and records the size that this program was compiled with. */
#define rql_result_init(result) rql_result_init_sized((result), sizeof *(result))

RQL_END_DECLS

#endif
