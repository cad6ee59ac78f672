#ifndef RQL_DIAGNOSE_H
#define RQL_DIAGNOSE_H

/**
 * @file diagnose.h
 * @brief Check the server and the locks on it; explain each problem and how to fix it.
 *
 * The result is a list of checks, each with a verdict, its reason, and a fix. `rql doctor` prints
 * the list. A service can run the checks when it starts.
 *
 * The ids of the checks are part of the interface: they do not change, but more may be added.
 *
 * | id | subject |
 * |---|---|
 * | srv.kind, srv.version, srv.role | kind, version and role; a replica grants no locks |
 * | srv.busy, srv.slow | the server's connections and forks; slow commands of the last day |
 * | net.rtt | round trips: median, 99th percentile, longest |
 * | net.connect | time for a new connection, including the lookup of its host name |
 * | net.same_server | whether two connections lead to the same server |
 * | net.timeout | limits that close quiet connections, or those with many pushes |
 * | net.tls | when the server's certificate expires |
 * | mem.policy, mem.room, mem.evicted | whether locks can be evicted, or have no room |
 * | dur.persist, dur.replicas | locks that a crash or a failover may lose |
 * | acl.rights | commands, keys and channels that this user may not use |
 * | use.lock | a lock is taken, re-entered, extended and released |
 * | use.handover | a lock is handed to a waiter of another client; the time that takes |
 * | use.tracking | waiters are notified of locks that Ruby releases |
 * | use.scripts | scripts that the server keeps |
 * | swarm.alive, swarm.clock | dead hosts that no swarm flushes; heartbeats from the future |
 * | swarm.config | settings of the swarms that report them (rql_options::client_names) |
 * | keys.damaged, keys.old | keys that are not valid locks; old locks and requests |
 * | clk.skew, clk.rate | the server's clock compared with this machine's |
 * | clk.replicas | the clocks of its replicas compared with its own |
 * | opt.sense | options of this client that do not fit the server or each other |
 * | loc.limits | limits of this process |
 *
 * If several servers share the locks, these checks run on each server that has locks: all of srv,
 * mem, dur and acl, and net.timeout, use.lock, use.handover and use.scripts. From the second server
 * on, their titles begin with the server, and it is also one of their findings (`node`). The checks
 * of keys cover the keys of all servers. net.same_server and use.tracking are left out. All other
 * checks are about the first server.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/inspect.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** The verdict of a check. */
typedef enum rql_check_level {
    RQL_CHECK_OK = 0,   /**< No problem. */
    RQL_CHECK_NOTE = 1, /**< Good to know. */
    RQL_CHECK_WARN = 2, /**< Will cause problems. */
    RQL_CHECK_FAIL = 3, /**< Locks are not safe, or do not work. */
    RQL_CHECK_SKIP = 4, /**< The check could not run; the title says why. */
} rql_check_level;

/** One finding of a check. */
typedef struct rql_finding {
    const char *name; /**< Such as `evicted_keys`. */
    const char *text; /**< The value; NULL if it is a number. */
    int64_t number;   /**< The number. */
} rql_finding;

/** One check. */
typedef struct rql_check {
    const char *id;        /**< Such as `mem.policy`. */
    const char *group;     /**< The part of the id before the dot. */
    rql_check_level level; /**< The verdict. */
    const char *title;     /**< The result in one line. */
    /** The meaning of the result; NULL if the check is OK or was skipped. */
    const char *why;
    /** The fix, as a command if there is one; NULL under the same conditions as `why`. */
    const char *fix;
    size_t n_found;           /**< Number of findings. */
    const rql_finding *found; /**< The findings, for programs. */
} rql_check;

/** The result of rql_diagnose(), freed with one call. */
typedef struct rql_report {
    const rql_server_info *server; /**< As reported by rql_client_ping(). */
    int64_t uptime_s;              /**< How long the server has been up; -1: not known. */
    size_t count;                  /**< Number of checks. */
    rql_check **check;             /**< The checks, in the order in which they were made. */
    int64_t n_notes;               /**< Number of checks with ::RQL_CHECK_NOTE. */
    int64_t n_warnings;            /**< Number of checks with ::RQL_CHECK_WARN. */
    int64_t n_failures;            /**< Number of checks with ::RQL_CHECK_FAIL. */
    int64_t n_skipped;             /**< Number of checks with ::RQL_CHECK_SKIP. */
} rql_report;

/** Settings of one diagnosis. Fill with rql_diagnose_options_init(). */
typedef struct rql_diagnose_options {
    size_t size; /**< Set by rql_diagnose_options_init(); do not change. */

    /** No check begins after this time; the remaining checks are skipped. 100 to 60000.
     *  Default 5000. */
    int64_t time_limit_ms;
    /** Approximate number of keys of the database that are examined, of any kind. 0 to 100000000.
     *  Default 100000. */
    int64_t max_keys;
    /** The groups of checks to run, separated by blanks, such as `mem dur`; NULL, the default: all.
     *  The library does not ask the server for data that these checks do not need. */
    const char *groups;
} rql_diagnose_options;

/**
 * Fills @p options with the defaults. Use rql_diagnose_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_diagnose_options_init_sized(rql_diagnose_options *options, size_t size);

/** Fills `*options` with the defaults and records this program's size. */
#define rql_diagnose_options_init(options)                                                         \
    rql_diagnose_options_init_sized((options), sizeof *(options))

/**
 * Checks a server and the locks on it.
 *
 * The call changes nothing except a lock of its own, `rql-doctor-<random>`. It releases that lock,
 * which ends within 2 s in any case. It sends only cheap commands, so that the server keeps serving
 * other clients. For its duration it makes a second client. A check that a missing right prevents
 * is skipped, and its title says so. For a user that lacks a right without which no client can log
 * in, the report has only acl.rights.
 *
 * @param[in]  client   The client. Its server, its user and its options are checked.
 * @param[in]  options  Settings, or NULL for the defaults.
 * @param[out] out      The report; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. The report lists all problems; check its `n_failures`.
 * @retval RQL_E_INVALID  A setting is out of range, or a group is unknown.
 * @retval RQL_E_IO       The server does not answer; also other faults of rql_client_ping().
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_report_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_diagnose(rql_client *client,
                                               const rql_diagnose_options *options,
                                               rql_report **out, rql_error *error);

/**
 * Releases a report.
 *
 * @param[in] report  The report, or NULL.
 * @return NULL.
 * @threads The report must not be in use by another thread.
 */
RQL_API rql_report *rql_report_free(rql_report *report);

/** The quantities that rql_measure() measures. */
typedef enum rql_measured {
    RQL_MEASURE_PING = 0, /**< Duration of one PING. */
    /** Duration of the simplest lock, without queue and token: SET NX PX with a TTL of 10 s, then
     *  compare and delete. */
    RQL_MEASURE_PLAIN_LOCK = 1,
    /** CPU time that the server has used since it was started, for all of its clients. Two readings
     *  show how busy it is. */
    RQL_MEASURE_SERVER_CPU = 2,
} rql_measured;

/**
 * Measures the server once, without a lock of this library.
 *
 * The result is a baseline with which the locks of this library can be compared. `rql bench`
 * repeats the measurement.
 *
 * @param[in]  client  The client.
 * @param[in]  what    The quantity to measure.
 * @param[in]  key     The key of the plain lock, which is deleted afterwards; else NULL.
 * @param[out] out_us  Microseconds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out_us` is set.
 * @retval RQL_NOT_HELD   The key already exists, or was deleted meanwhile.
 * @retval RQL_E_INVALID  A pointer is NULL, or the quantity is unknown.
 * @retval RQL_E_AUTH     A right is missing: `PING`, `SET` and `EVAL`, or `INFO`.
 * @retval RQL_E_IO       No reply; also other faults of status.h.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_measure(rql_client *client, rql_measured what,
                                              const char *key, int64_t *out_us, rql_error *error);

RQL_END_DECLS

#endif
