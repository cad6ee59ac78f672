#ifndef RQL_ADMIN_H
#define RQL_ADMIN_H

/**
 * @file admin.h
 * @brief The calls of operators' tools, in addition to those of a worker in <rql/rql.h>.
 *
 * A tool inspects servers, locks, queues and hosts, and ends locks of other clients. A worker needs
 * nothing of it.
 */

#include <rql/base.h>
#include <rql/command.h>
#include <rql/history.h>
#include <rql/hosts.h>
#include <rql/inspect.h>
#include <rql/rql.h>
#include <rql/stats.h>
#include <rql/status.h>
#include <rql/sweep.h>
#include <rql/watch.h>

RQL_BEGIN_DECLS

/**
 * Reads a duration as people write it: "500ms", "0.5s", "1h30m", "30d".
 *
 * A duration is one number or more, each with its unit: `d`, `h`, `m`, `s` or `ms`. The units go
 * from the longest to the shortest, and each occurs at most once. The last number may have up to
 * nine digits after a decimal point. Only 0 needs no unit. A '-' in front makes the duration
 * negative.
 *
 * @param[in]  text    The text.
 * @param[out] out_ms  The duration in milliseconds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out_ms` is set.
 * @retval RQL_E_INVALID  The text is not a duration, is not a whole number of milliseconds, or is
 *                        too long for 64 bits; or a pointer is NULL.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_duration_parse(const char *text, int64_t *out_ms,
                                                     rql_error *error);

/** A lock that a host holds, or its share of one. */
typedef struct rql_hold_info {
    const char *name;              /**< The name of the lock. */
    const rql_holder_info *holder; /**< Its holder. */
    /** The holder was asked, now or before: it has rql_lock_options::on_wanted. It is notified if
     * it still renews the lock. */
    bool is_asked;
} rql_hold_info;

/** What a host holds, freed with one call. */
typedef struct rql_hold_list {
    size_t count;         /**< Number of items. */
    rql_hold_info **item; /**< The holds; freed with the list. */
} rql_hold_list;

/**
 * Asks a host to release all that it holds, for example before the machine is shut down.
 *
 * The `on_wanted` of each of its locks is called with the answer to the next renewal, so within a
 * third of the lock's TTL, with the time that is left then. Nothing else follows: a holder decides
 * by itself whether it releases, and what the host acquires later is not asked for.
 *
 * Call again to find out what is still held, and to ask new holders. A holder that was asked before
 * is notified once more only if the new time is earlier by more than a second, or if the time of
 * the old one has come and @p within_ms is not 0. What is still held at the end can be ended by
 * rql_locks_clear_of(). To drain a client of your own process use rql_client_drain().
 *
 * A machine is found by what its clients report. So the locks of the gem are not found, nor those
 * of clients with `client_names` switched off, nor those that a client has left to their TTL before
 * it was freed. Name their host id instead. If an acquirer has entered a lock again, the
 * `on_wanted` of its first request decides whether it is asked.
 *
 * @param[in]  client     The client.
 * @param[in]  host       The name of a machine, as in rql_client_info::host: all processes and
 *                        threads there. Or a host id, as in rql_holder_info::host_id: one thread.
 * @param[in]  within_ms  Time within which the locks should be released, 0 to ::RQL_TTL_MAX_MS.
 * @param[out] out        What the host holds; untouched unless RQL_OK.
 * @param[out] error      Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set.
 * @retval RQL_NOT_FOUND  No client is listed for a machine of this name (rql_clients_list()). A
 *                        client that is freed leaves the list.
 * @retval RQL_E_INVALID  @p within_ms is out of range, or a pointer is NULL; nothing was sent.
 * @retval RQL_E_UNKNOWN  No reply. Some of the holders may have been asked. It is safe to repeat
 *                        the call. Also other faults of status.h.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_host_drain(rql_client *client, const char *host,
                                                 int64_t within_ms, rql_hold_list **out,
                                                 rql_error *error);

/** One row of the options table. All strings are static. */
typedef struct rql_option_row {
    const char *name;  /**< Field of ::rql_options. */
    const char *env;   /**< Environment variable. */
    const char *unit;  /**< "ms", "us", "tries", "keys", "percent", or "" for texts and switches. */
    const char *range; /**< For people: "1 to 600000", "queued | random". */
    const char *default_value; /**< The library's default, as text. */
    const char *gem_value;     /**< The gem's default, as text; NULL: the library's. */
    const char *help;          /**< One line that describes the option. */
} rql_option_row;

/**
 * Returns a row of the options table. The library validates, documents and parses options by this
 * table.
 *
 * @param[in] index  0 for the first row.
 * @return The row, which is static; or NULL past the last one.
 * @threads Callable from any thread.
 */
RQL_API const rql_option_row *rql_option_row_at(size_t index);

RQL_END_DECLS

#endif
