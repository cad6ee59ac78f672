#ifndef RQL_WATCH_H
#define RQL_WATCH_H

/**
 * @file watch.h
 * @brief Report what happens to locks and queues.
 *
 * A watch reads locks and queues again and again, and reports the differences between two readings.
 * It never subscribes to anything. What began and ended between two readings is not seen:
 * rql_change::has_missed says that there was something. The readings are 50 ms apart while
 * something changes, and up to 1 s while nothing does; farther if the server is slow. A reading
 * costs the server a few commands for each lock.
 *
 * A watch cannot tell a release by the holder from an unlock by force, a sweep, or the deletion
 * of its key: the key has gone before its time, and that is ::RQL_CHANGE_RELEASED.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** A watch. */
typedef struct rql_watch rql_watch;

/** What has happened. */
typedef enum rql_change_kind {
    RQL_CHANGE_NOW = 0,       /**< Nothing: this is the state when the watch begins. */
    RQL_CHANGE_GRANTED = 1,   /**< An acquirer has the lock to itself. */
    RQL_CHANGE_SHARED = 2,    /**< An acquirer has a share of the lock. */
    RQL_CHANGE_LEFT = 3,      /**< A share has ended. */
    RQL_CHANGE_RELEASED = 4,  /**< A grant has ended before its TTL was over. */
    RQL_CHANGE_EXPIRED = 5,   /**< A grant or a share has ended, and its TTL was over. */
    RQL_CHANGE_EXTENDED = 6,  /**< A holder has more time left than before: a renewal. */
    RQL_CHANGE_CONVERTED = 7, /**< A holder has another share of the lock than before. */
    RQL_CHANGE_QUEUED = 8,    /**< A request has entered the queue. */
    RQL_CHANGE_WITHDREW = 9,  /**< A request has left the queue without the lock. */
    RQL_CHANGE_REQUEUED = 10, /**< A request has another place in the queue than before. */
    RQL_CHANGE_AWAY = 11,     /**< The server does not answer; reported once, up to an answer. */
    RQL_CHANGE_BACK = 12,     /**< The server answers again; changes follow. */
} rql_change_kind;

/** One change. An absent number is -1, an absent text is NULL. Valid during the callback. */
typedef struct rql_change {
    size_t size;             /**< Bytes of this struct that the library has filled in. */
    rql_change_kind kind;    /**< What has happened. */
    const char *name;        /**< The lock's name; NULL for ::RQL_CHANGE_AWAY, ::RQL_CHANGE_BACK. */
    const char *acquirer_id; /**< Of whom. For ::RQL_CHANGE_NOW the only holder. */
    const char *host_id;     /**< The host of that acquirer. */
    /** Time of the reading that found it, by the server's clock, microseconds since 1970; -1 for
     *  ::RQL_CHANGE_AWAY and ::RQL_CHANGE_BACK. */
    int64_t at_us;
    int64_t token;     /**< Fencing token of the grant; -1 for a request, or a lock of the gem. */
    int64_t waited_ms; /**< How long a request waited, or has waited by now. */
    int64_t held_ms;   /**< How long a grant or a share was held, or is held by now. */
    int64_t remaining_ms; /**< Time that a holder has left; ::RQL_FOREVER if its lock has no TTL. */
    int64_t share_units;  /**< rql_holder_info::share_units, or of a request; 0: alone. */
    int64_t share_limit;  /**< rql_holder_info::share_limit, or of a request; 0: alone. */
    int64_t n_holders;    /**< Number of holders by now. */
    int64_t waiting;      /**< Number of requests in the queue by now. */
    /** A request that was in front has left the queue between the two readings, and may have had
     * the lock in between. */
    bool has_missed;
    size_t n_meta;          /**< Number of metadata pairs of the acquirer. */
    const rql_meta *meta;   /**< The metadata of the acquirer. */
    const rql_error *error; /**< For ::RQL_CHANGE_AWAY: why there is no answer; otherwise NULL. */
} rql_change;

/**
 * Called for each change, in the order of time as far as it is known. Changes of one reading have
 * the same time.
 *
 * Called on the thread of the watch, with no library mutex held. The next reading waits for it. It
 * may call the library, but not rql_watch_close().
 *
 * @param[in] change     The change.
 * @param[in] user_data  rql_watch_options::user_data.
 */
typedef void (*rql_change_fn)(const rql_change *change, void *user_data);

/** What is watched. Fill with rql_watch_options_init(). */
typedef struct rql_watch_options {
    size_t size; /**< Set by rql_watch_options_init(); do not change. */
    /** Names of the locks; copied. NULL (default): all locks. A lock whose name is new is then
     * found by a SCAN, every 10 s. */
    const char *const *names;
    size_t n_names;          /**< Number of names. */
    rql_change_fn on_change; /**< Called for each change; required. */
    void *user_data;         /**< Passed to `on_change`. */
} rql_watch_options;

/**
 * Fills @p options with the defaults. Use rql_watch_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_watch_options_init_sized(rql_watch_options *options, size_t size);

/** Fills `*options` and records the size this program was compiled with. */
#define rql_watch_options_init(options) rql_watch_options_init_sized((options), sizeof *(options))

/**
 * Begins to watch locks. The first reading is reported as ::RQL_CHANGE_NOW: for each of the named
 * locks, or for all locks that are held or waited for.
 *
 * @param[in]  client   The client; it must outlive the watch.
 * @param[in]  options  What is watched, and the callback.
 * @param[out] out      The watch; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. Whether the server answers is reported by the callback.
 * @retval RQL_E_INVALID  A pointer is NULL, or a name is malformed.
 * @retval RQL_E_NOMEM    Out of memory, or no thread is available.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; end it with rql_watch_close().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_watch_open(rql_client *client,
                                                 const rql_watch_options *options, rql_watch **out,
                                                 rql_error *error);

/**
 * Ends a watch. After it has returned, the callback is not called any more. It waits for a callback
 * and for a reading that are under way, so for rql_options::io_timeout_ms if the server is silent.
 *
 * @param[in] watch  The watch, or NULL.
 * @return NULL.
 * @threads Not from the callback of this watch. The watch must not be in use by another thread.
 */
RQL_API rql_watch *rql_watch_close(rql_watch *watch);

RQL_END_DECLS

#endif
