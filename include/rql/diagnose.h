#ifndef RQL_DIAGNOSE_H
#define RQL_DIAGNOSE_H

/**
 * @file diagnose.h
 * @brief Is this server fit for locks, and are locks well on it? A list of checks, each with a
 *        verdict, its reason, and what to do about it. `rql doctor` prints it; a service can ask
 *        when it starts.
 *
 * The ids of the checks are part of the interface: they stay, others may be added.
 *
 * | id | what is looked at |
 * |---|---|
 * | srv.kind, srv.version, srv.role | what the server is; a replica takes no locks |
 * | srv.busy, srv.slow | its connections and forks; commands of the last day that took long |
 * | net.rtt | round trips: median, 99 %, longest |
 * | net.connect | how long a new connection takes, its name being resolved |
 * | net.same_server | two connections lead to the same server |
 * | net.timeout | what ends quiet connections, or those that are pushed much to |
 * | net.tls | when its certificate ends |
 * | mem.policy, mem.room, mem.evicted | whether locks can be evicted, or have no room |
 * | dur.persist, dur.replicas | what a crash or a failover may cost |
 * | acl.rights | which commands, keys and channels this user may not use |
 * | use.lock | a lock is taken, re-entered, extended and released |
 * | use.handover | a lock is handed to a waiter of another client, and how fast |
 * | use.tracking | waiters are notified of what Ruby releases |
 * | use.scripts | scripts that the server keeps |
 * | swarm.alive, swarm.clock | dead hosts that nobody flushes; heartbeats from the future |
 * | swarm.config | what swarms are run with, as far as they tell (rql_options::client_names) |
 * | keys.damaged, keys.old | keys that are no locks; locks and requests of old |
 * | clk.skew, clk.rate | the server's clock beside this machine's |
 * | clk.replicas | the clocks of its replicas beside its own |
 * | opt.sense | options of this client that do not fit the server or each other |
 * | loc.limits | limits of this process |
 *
 * Of several servers srv, mem, dur, acl, net.timeout, use.lock, use.handover and use.scripts are
 * looked at on each that has locks: from the second on their titles begin with the server, which is
 * also among what was found (`node`). Keys are those of all, the rest is about the first;
 * net.same_server and use.tracking are left out.
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/options.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** The verdict of a check. */
typedef enum rql_check_level {
    RQL_CHECK_OK = 0,   /**< As it should be. */
    RQL_CHECK_NOTE = 1, /**< Good to know. */
    RQL_CHECK_WARN = 2, /**< Will hurt. */
    RQL_CHECK_FAIL = 3, /**< Locks are not safe, or do not work. */
    RQL_CHECK_SKIP = 4, /**< Could not be looked at; the title says why. */
} rql_check_level;

/** One thing that a check has found. */
typedef struct rql_finding {
    const char *name; /**< Such as `evicted_keys`. */
    const char *text; /**< What it is; NULL: a number. */
    int64_t number;   /**< The number. */
} rql_finding;

/** One check. */
typedef struct rql_check {
    const char *id;           /**< Such as `mem.policy`. */
    const char *group;        /**< What is in front of the point. */
    rql_check_level level;    /**< The verdict. */
    const char *title;        /**< What was found, in one line. */
    const char *why;          /**< What that means; NULL where it is well, or was skipped. */
    const char *fix;          /**< What to do, a command where there is one; NULL as `why`. */
    size_t n_found;           /**< Number of findings. */
    const rql_finding *found; /**< The same for programs. */
} rql_check;

/** The result of rql_diagnose(), freed with one call. */
typedef struct rql_report {
    const rql_server_info *server; /**< As rql_client_ping() says it. */
    int64_t uptime_s;              /**< For how long the server has been up; -1: not known. */
    size_t count;                  /**< Number of checks. */
    rql_check **check;             /**< The checks, in the order in which they were made. */
    int64_t n_notes;               /**< How many are ::RQL_CHECK_NOTE, */
    int64_t n_warnings;            /**< ::RQL_CHECK_WARN, */
    int64_t n_failures;            /**< ::RQL_CHECK_FAIL, */
    int64_t n_skipped;             /**< ::RQL_CHECK_SKIP. */
} rql_report;

/** Settings of one diagnosis. Fill with rql_diagnose_options_init(). */
typedef struct rql_diagnose_options {
    size_t size; /**< Set by rql_diagnose_options_init(); do not change. */

    /** No check begins later; those that are left are skipped. 100 to 60000. Default 5000. */
    int64_t time_limit_ms;
    /** About so many keys of the database are looked at, whatever they are. 0 to 100000000. Default
     *  100000. */
    int64_t max_keys;
    /** The groups that are looked at, a blank between two, such as `mem dur`; NULL, the default:
     *  all. What no check of these needs is not asked for. */
    const char *groups;
} rql_diagnose_options;

/**
 * Fill @p options with the defaults. Use rql_diagnose_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_diagnose_options_init_sized(rql_diagnose_options *options, size_t size);

/** Fill `*options` with the defaults and record this program's size. */
#define rql_diagnose_options_init(options)                                                         \
    rql_diagnose_options_init_sized((options), sizeof *(options))

/**
 * Look at a server, and at the locks on it. It changes nothing but a lock of its own,
 * `rql-doctor-<random>`, which it releases, and which ends within 2 s in any case. It asks cheap
 * commands only, so that others are served meanwhile, and makes a second client for as long as it
 * takes. What a missing right hides is skipped and said. For a user that lacks a right without
 * which no client can log in, the report has acl.rights alone.
 *
 * @param[in]  client   The client: its server, its user and its options are looked at.
 * @param[in]  options  Settings, or NULL for the defaults.
 * @param[out] out      The report; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. What is amiss is in it: count its failures.
 * @retval RQL_E_INVALID  A setting is out of range, or a group unknown.
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
 * Release a report.
 *
 * @param[in] report  The report, or NULL.
 * @return NULL.
 * @threads It must not be in use by another thread.
 */
RQL_API rql_report *rql_report_free(rql_report *report);

/** What rql_measure() measures. */
typedef enum rql_measured {
    RQL_MEASURE_PING = 0,       /**< How long one PING takes. */
    RQL_MEASURE_PLAIN_LOCK = 1, /**< How long the simplest lock takes, without queue and token: SET
                                     NX PX with a ttl of 10 s, then compare and delete. */
    RQL_MEASURE_SERVER_CPU = 2, /**< What CPU time the server has used since it was started, for
                                     whomever; two readings say how busy it is. */
} rql_measured;

/**
 * Measure once what the server does without a lock of this library: what its locks can be compared
 * with. `rql bench` repeats it.
 *
 * @param[in]  client  The client.
 * @param[in]  what    What to measure.
 * @param[in]  key     The key of the plain lock, which is gone afterwards; else NULL.
 * @param[out] out_us  Microseconds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out_us` is set.
 * @retval RQL_NOT_HELD   The key exists, or was deleted meanwhile.
 * @retval RQL_E_INVALID  A pointer is NULL, or there is no such measure.
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
