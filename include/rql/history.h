#ifndef RQL_HISTORY_H
#define RQL_HISTORY_H

/**
 * @file history.h
 * @brief What the clients have recorded of holds that have ended (rql_options::history).
 *
 * There are two records. The *usage* has sums for each lock, user, host and day, and is complete as
 * long as the server answers. A hold counts twice in it if another party has ended the hold and the
 * holder finds that out only when its TTL is over. Of *single holds*, the long ones are kept, or a
 * sample, and all that did not end by a release. Both leave out what no party has noticed: a hold
 * that ended by its TTL because its process was killed, if no swarm watches its host.
 *
 * With several servers both records are on the server that has the first partition.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** Days that the usage is kept for. */
#define RQL_USAGE_DAYS 35

/** What the processes of one user on one host have used a lock for on one day. */
typedef struct rql_usage_info {
    const char *name; /**< The lock. With empty `user` and `host`, "": all that found no room, since
                           a day has at most 2000 rows. */
    const char *user; /**< The user; empty if it is not known. */
    const char *host; /**< The host; empty if it is not known. */
    int64_t day_us;   /**< When the day began, in UTC by the server's clock, µs since 1970. */
    int64_t holds;    /**< Holds that ended on this day. A re-entry is no hold. */
    int64_t held_us;  /**< For how long these lasted, all together, in µs. */
    int64_t waited_us; /**< For how long they had been waited for, in µs. */
    int64_t lost;      /**< Of `holds`: those that did not end by a release. */
} rql_usage_info;

/** The usage of several days, freed with one call. */
typedef struct rql_usage_info_list {
    size_t count;          /**< Number of items. */
    rql_usage_info **item; /**< By day, user, host and name; freed with the list. */
    int64_t since_us;      /**< Begin of the first day with a record, µs since 1970; -1: none. */
    int64_t now_us;        /**< The server's time, µs since 1970. */
    int64_t dropped;       /**< Holds that the usage of these days lacks. */
    rql_history_mode mode; /**< That of the client that has written last; off: none has. */
} rql_usage_info_list;

/**
 * Lists the usage of the last days. A hold counts on the day on which it ended. What is held now is
 * not in it (rql_locks_inspect()).
 *
 * @param[in]  client  The client.
 * @param[in]  days    How many, with today: 1 to ::RQL_USAGE_DAYS.
 * @param[out] out     The usage; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set; it is empty if there is no record.
 * @retval RQL_E_INVALID  @p days is out of range, or a pointer is NULL; nothing was sent.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_usage_list(rql_client *client, int64_t days,
                                                 rql_usage_info_list **out, rql_error *error);

/** A single hold that has ended. */
typedef struct rql_history_info {
    const char *id;     /**< Of the record; later records have larger ones. */
    const char *name;   /**< The lock. */
    const char *user;   /**< Who held it; empty if that is not known. */
    const char *host;   /**< The same. */
    const char *client; /**< The process, as in "web-3 worker[814]"; empty if it is not known. */
    const char *reason; /**< The metadata `reason`; empty if there was none. */
    /** How it ended: "released"; "expired": by its TTL, and its holder found out by a release;
     *  "lost": as reported to the holder; "killed": released for a process that was killed;
     *  "flushed": its host was dead; "forced": by an operator; "unknown": its release had no
     *  answer. Later versions may have more words. */
    const char *ended;
    int64_t at_us;     /**< When it ended, by the server's clock, µs since 1970. */
    int64_t waited_us; /**< For how long it was waited for, in µs; -1: not known. */
    int64_t held_us;   /**< How long it lasted, in µs; -1: not known. */
    int64_t units;     /**< Units of a share; 0: it was held alone. */
    int64_t token;     /**< The fencing token; -1: a lock of the gem. */
} rql_history_info;

/** Single holds, freed with one call. */
typedef struct rql_history_info_list {
    size_t count;            /**< Number of items. */
    rql_history_info **item; /**< The latest first; freed with the list. */
} rql_history_info_list;

/**
 * Lists single holds that have ended within the last seven days, the latest first. There are 20000
 * at most, and 4 MB. If several parties have recorded the end of a hold, it is there once: as the
 * party has recorded it that ended it, which may not know how long it was waited for.
 *
 * @param[in]  client  The client.
 * @param[in]  most    The most to list; 1 or more.
 * @param[out] out     The holds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set; it is empty if there is no record.
 * @retval RQL_E_INVALID  @p most is less than 1, or a pointer is NULL; nothing was sent.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_history_list(rql_client *client, int64_t most,
                                                   rql_history_info_list **out, rql_error *error);

/**
 * Removes what is recorded of a lock, of a user, or of both: single holds and rows of the usage. A
 * client that still holds something adds new records when that ends.
 *
 * @param[in]  client   The client.
 * @param[in]  name     Records of this lock alone; or NULL: of all.
 * @param[in]  user     Records of this user alone; or NULL: of all. One of both must be given.
 * @param[out] removed  How many records were removed; untouched unless RQL_OK. May be NULL.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         No such record is left.
 * @retval RQL_E_INVALID  Neither @p name nor @p user is given, or the client is NULL; nothing was
 *                        sent.
 * @retval RQL_E_UNKNOWN  No reply: some of the records may be left. It is safe to repeat the call.
 *                        Also other faults of status.h.
 *
 * @threads Callable from any thread. Thread cancellation is deferred.
 */
RQL_API RQL_MUST_CHECK rql_status rql_history_forget(rql_client *client, const char *name,
                                                     const char *user, int64_t *removed,
                                                     rql_error *error);

RQL_END_DECLS

#endif
