#ifndef RQL_OPTIONS_H
#define RQL_OPTIONS_H

/**
 * @file options.h
 * @brief Settings of a client and of one acquisition.
 *
 * An init call fills each struct with the defaults of the running library. Then change the fields
 * that need other values. Every value means itself: 0 is zero, ::RQL_FOREVER is "no limit".
 * Durations are in milliseconds. `rql help options` lists all options with their environment
 * variables.
 *
 * The defaults suit a worker: a request waits up to 10 seconds for its turn and keeps its place in
 * the queue, and a lock is renewed until it is released. rql_options_init_gem() sets the defaults
 * of the Ruby gem.
 */

#include <rql/base.h>
#include <rql/status.h>
#include <stdbool.h>
#include <stddef.h>

RQL_BEGIN_DECLS

/** How a request is served. */
typedef enum rql_access_strategy {
    RQL_QUEUED = 0, /**< In order of arrival. */
    RQL_RANDOM =
        1, /**< Takes a free lock at once, past waiters; a hand-over may pick it at random. */
} rql_access_strategy;

/** How a request is served if its acquirer already holds the lock. */
typedef enum rql_conflict_strategy {
    RQL_WAIT_FOR_LOCK = 0, /**< Wait in the queue until the acquirer's own lock ends. */
    /** Re-enter: share the lock and leave its TTL unchanged. With `auto_extend`, the re-entry
     *  renews the lock until it ends. */
    RQL_WORK_THROUGH = 1,
    /** Re-enter and add the TTL. The end of the re-entry takes back the part that was not used. */
    RQL_EXTENDABLE_WORK_THROUGH = 2,
    RQL_DEAD_LOCKING = 3, /**< Fail with ::RQL_CONFLICT. */
} rql_conflict_strategy;

/** How the certificate of a server with TLS is verified. */
typedef enum rql_tls_verify {
    RQL_TLS_FULL = 0, /**< The certificate must be trusted and must name the host. */
    RQL_TLS_CA = 1,   /**< The certificate must be trusted; it may name any host. */
    /** No verification: an attacker on the network path can read and change all data. For
     *  trials. */
    RQL_TLS_NONE = 2,
} rql_tls_verify;

/** Which holds are recorded when they end; see rql_options::history. */
typedef enum rql_history_mode {
    RQL_HISTORY_OFF = 0, /**< None. */
    /** The usage of all, and single holds if they, or the waits for them, lasted a second. */
    RQL_HISTORY_LONG = 1,
    /** The usage of all, and all single holds; with `instr_sampling_enabled`, as many of them as
     *  `instr_sampling_percent` says. */
    RQL_HISTORY_ALL = 2,
} rql_history_mode;

/** One log line; see observe.h. */
typedef struct rql_log_record rql_log_record;

/** One event; see observe.h. */
typedef struct rql_event rql_event;

/**
 * Receives a log line. observe.h says on which thread the function runs, and what it may do.
 *
 * @param[in] record     The line; valid during the call.
 * @param[in] user_data  The `logger_data` that was set with the function.
 */
typedef void (*rql_log_fn)(const rql_log_record *record, void *user_data);

/**
 * Receives an event (the gem's instrumenter). observe.h says on which thread the function runs, and
 * what it may do.
 *
 * @param[in] event      The event; valid during the call.
 * @param[in] user_data  The `instrumenter_data` that was set with the function.
 */
typedef void (*rql_event_fn)(const rql_event *event, void *user_data);

/**
 * Decides whether one acquisition or other call is logged, or sends events. The library calls the
 * function only if there is a listener, sampling is on, and the acquisition is not exempt from
 * sampling (rql_lock_options::log_sample_this, rql_lock_options::instr_sample_this). The function
 * runs on the caller's thread, with no library mutex held.
 *
 * @param[in] percent    The percentage of the options.
 * @param[in] user_data  The data that was set with the function.
 * @return true to report the acquisition or call.
 */
typedef bool (*rql_sampler_fn)(int64_t percent, void *user_data);

/** User and password of one login, for ::rql_credentials_fn to fill in. All fields are empty or 0
 *  when the function is called. */
typedef struct rql_credentials {
    char user[256]; /**< Empty: the server's user `default`. */
    /** Empty, with an empty `user`: log in without a password. */
    char password[4096];
    int64_t valid_ms; /**< How long the server accepts them; 0: no end is known. */
} rql_credentials;

/**
 * Provides the user and password for a login. Use it for a token that expires, or for a password
 * that changes while the program runs. The library calls the function at each login, before it
 * sends the first command. With TLS the handshake is complete by then, so the server is known.
 *
 * If the credentials have an end (rql_credentials::valid_ms), the library calls the function again
 * after 80 % of that time. The next call that uses the connection does so, and then repeats AUTH.
 * The connection that listens to pushes is opened again instead. If re-authentication fails, the
 * connection keeps its old credentials and tries again every second.
 *
 * The function runs on the thread that connects, with no library mutex held: a thread that calls
 * the library, a background thread of the client, or, for loops and swarms, a thread of libuv's
 * pool. Several threads may call the function at the same time, because a client has several
 * connections. The function may block. Its time counts towards the connect_timeout_ms of the login,
 * which fails when no time is left. The function must not call the library with the same client,
 * because that client may be waiting for this connection.
 *
 * If no end is known, an open connection stays open when its credentials expire, as long as the
 * server keeps it. A swarm with a URL of its own uses the login in that URL.
 *
 * @param[out] credentials  To be filled in; the library wipes it when the login has been sent.
 * @param[in]  timeout_ms   Time that is left until the login fails.
 * @param[in]  user_data    The `credentials_data` that was set with the function.
 *
 * @return RQL_OK to log in with these credentials; any other value fails the login with
 *         ::RQL_E_AUTH.
 */
typedef rql_status (*rql_credentials_fn)(rql_credentials *credentials, int64_t timeout_ms,
                                         void *user_data);

/** Settings of one client. Fill with rql_options_init(). */
typedef struct rql_options {
    size_t size; /**< Set by rql_options_init(); do not change. */

    /**
     * Where the servers are, and how to log in. The URL has one of these forms:
     *
     * - `redis://user:pass@host:port/db` is one server; `rediss://...` is one server with TLS.
     * - `unix:///path?db=n` is one server, reached by its Unix socket.
     * - `local:` is one private server per user, which starts when it is needed. Its socket is
     *   `/tmp/rql-UID/redis.sock`, or `redis.sock` in the folder that `RQL_LOCAL_DIR` names. The
     *   library refuses a folder that belongs to another user, or that other users can write to.
     * - `redis+sentinel://user:pass@host:port,host:port/master/db` is the master that these
     *   sentinels know by that name, and after a failover the next master. The default port is
     *   26379. The login is that of the master; `?sentinel_user=...&sentinel_password=...` is that
     *   of the sentinels. With `rediss+sentinel://` the master and the sentinels use TLS, with
     *   `sentinel_tls=false` only the master.
     * - `redis+sentinel://.../m1,m2/db` is up to 64 masters that the same sentinels watch. Each
     *   master has a share of the locks, as a shard does. All clients name all masters. The login
     *   of all masters is the same.
     * - `redis+cluster://user:pass@host:port,host:port` is a cluster. The URL names any of its
     *   nodes; the client learns the other nodes from these.
     * - `redis+shards://host:port,host:port/db` is up to 64 servers that know nothing of each
     *   other. Each server has a share of the locks. All clients name all servers, in the same way.
     *
     * For a cluster and for shards the default port is 6379, the login is that of all nodes, and
     * `rediss+...://` means TLS to all nodes. Their servers are Redis 7.0 or later, or Valkey.
     *
     * Copied. Default empty: no server, and rql_client_new() returns ::RQL_E_INVALID.
     */
    const char *url;
    /** Start the server of `local:` if none runs. If false, a call that finds no server returns
     *  ::RQL_E_IO. Default true. */
    bool local_start;
    int64_t connect_timeout_ms; /**< Limit for connect and login. 1 to 600000. Default 1000. */
    /** Give up a connection after this long without a byte from the server, or after four times as
     *  long without the end of a reply. 1 to 600000. Default 1000. */
    int64_t io_timeout_ms;
    /** How long a caller that is alone on its connection spins before it sleeps. 0 to 1000. Default
     *  0. */
    int64_t spin_us;

    int64_t retry_count; /**< Number of tries; 0 acts as 1. Default ::RQL_FOREVER: no limit. */

    /**
     * Time between tries, as they are counted. The client polls the server at this pace only if no
     * notification would come: the subscription is down, or a Ruby client is in front. Otherwise
     * the client polls every 1.7 s. 1 to 3600000. Default 200.
     */
    int64_t retry_delay_ms;
    int64_t retry_jitter_ms; /**< Random extra time, 0 to this. 0 to 3600000. Default 25. */
    int64_t timeout_ms;      /**< Limit for a whole acquisition, or ::RQL_FOREVER. Default 10000. */
    int64_t ttl_ms;          /**< TTL of a lock. 1 to ::RQL_TTL_MAX_MS. Default 15000. */
    /** After this long a request moves to the tail of its queue. Default ::RQL_FOREVER: the request
     *  keeps its place as long as it waits. The server checks the time when the request polls. The
     *  first waiter of a client for a lock polls every 5/3 s, so its move can come that much later.
     *  Other waiters of that client keep their places until they are the first. A late move changes
     *  the order of the waiters and nothing else. */
    int64_t queue_ttl_ms;
    bool auto_extend;                /**< See rql_lock_options::auto_extend. Default true. */
    bool timed;                      /**< See rql_lock_options::timed. Default false. */
    bool detailed_acq_timeout_error; /**< Refusals name the holder and the queue. Default false. */
    rql_conflict_strategy conflict_strategy; /**< Default ::RQL_WAIT_FOR_LOCK. */
    rql_access_strategy access_strategy;     /**< Default ::RQL_QUEUED. */
    int64_t key_extraction_batch_size;       /**< COUNT of each SCAN. 1 to 100000. Default 500. */

    /** See rql_sweep_options::batch_size. 1 to 100000. Default 100. */
    int64_t lock_release_batch_size;
    /** See rql_sweep_options::lock_scan_size. 1 to 100000. Default 300. */
    int64_t clear_locks_of_lock_scan_size;
    /** See rql_sweep_options::queue_scan_size. 1 to 100000. Default 300. */
    int64_t clear_locks_of_queue_scan_size;
    /** Age from which a request may count as dead. 1 to 315360000000 (ten years). Default 86400000
     *  (one day). */
    int64_t dead_request_ttl_ms;

    /* Log lines and events; see observe.h. */
    bool log_lock_try;           /**< Log the steps of each try as well. Default false. */
    bool log_sampling_enabled;   /**< Log only some acquisitions. Default false. */
    bool instr_sampling_enabled; /**< Send events for only some acquisitions. Default false. */
    /** Approximate percentage of acquisitions that are logged. 0 to 100. Default 15. */
    int64_t log_sampling_percent;
    /** Approximate percentage of acquisitions that send events. 0 to 100. Default 15. */
    int64_t instr_sampling_percent;
    rql_log_fn logger; /**< Receives log lines, or NULL (default). */
    void *logger_data; /**< Given to `logger`. */
    /** Decides which acquisitions are logged. NULL (default): as in the gem, an acquisition is
     *  logged if `percent` >= a random number of 0 to 100. */
    rql_sampler_fn log_sampler;
    void *log_sampler_data;       /**< Given to `log_sampler`. */
    rql_event_fn instrumenter;    /**< Receives events, or NULL (default). */
    void *instrumenter_data;      /**< Given to `instrumenter`. */
    rql_sampler_fn instr_sampler; /**< As `log_sampler`, for events. */
    void *instr_sampler_data;     /**< Given to `instr_sampler`. */

    /* The swarm; see swarm.h. */
    bool auto_swarm;          /**< A new client starts its swarm. Default false. */
    bool swarm_probe_hosts;   /**< Send heartbeats. Default true. */
    bool swarm_flush_zombies; /**< Free the locks and requests of dead hosts. Default true. */
    /** How often the supervisor checks the other parts of the swarm. 1 to 3600000. Default 2000. */
    int64_t swarm_liveness_probing_period_ms;
    int64_t swarm_probe_period_ms; /**< Time between heartbeats. 1 to 3600000. Default 2000. */
    /** A host that is silent for longer is dead. 1 to 31536000000. Default 15000. */
    int64_t zombie_ttl_ms;
    /** The swarm finds dead hosts within this time. 1 to 3600000. Default 10000. */
    int64_t zombie_flush_period_ms;
    int64_t zombie_lock_scan_size;  /**< COUNT of SCAN for locks. 1 to 100000. Default 500. */
    int64_t zombie_queue_scan_size; /**< COUNT of SCAN for queues. 1 to 100000. Default 500. */

    /**
     * Largest number of command connections that the client's threads share. 1 to 4. Default 4.
     *
     * The client has one connection as long as no two threads call at the same time. When two
     * threads have met on a connection, the client opens one more if the server accepts it within
     * 20 ms. The additional connection stays open. If about 28 threads or more call at the same
     * time, all threads use the first connection, until 20 or fewer call at the same time. The
     * commands of many threads then go out together, which costs the server less time.
     *
     * With TLS the client opens one more connection only when the commands that are sent at the
     * same time fill a record of 16 KiB. A server reads one record after the other, and a few long
     * records cost it less time than many short ones.
     *
     * Use 1 if many processes with a few threads each keep one server busy. The client's loops, the
     * subscription and the background thread have other connections.
     */
    int64_t connections;

    bool lazy_release; /**< See rql_lock_options::lazy_release. Default false. */

    /* TLS, for `rediss://`; ignored for other servers. Texts are copied. A setting in the URL
     * (`?tls_ca_file=...`) takes precedence. */
    rql_tls_verify tls_verify; /**< How the server is verified. Default ::RQL_TLS_FULL. */
    /** Certificates of trusted authorities, PEM. Default empty: those that the system trusts. */
    const char *tls_ca_file;
    /** The client's certificate with its chain, PEM; only with `tls_key_file`. Default empty:
     *  none. */
    const char *tls_cert_file;
    /** Key of the client's certificate, PEM, not encrypted. Default empty. */
    const char *tls_key_file;
    /** Name to ask the server for, and to find in the server's certificate. Default empty: the
     *  URL's host. */
    const char *tls_server_name;

    /** Provides the user and password for each login, in place of those in `url`; or NULL
     *  (default). */
    rql_credentials_fn credentials;
    void *credentials_data; /**< Given to `credentials`. */

    /** How often the client asks the sentinels of `redis+sentinel://` which server is the master.
     *  The client also asks each time that it connects, and asks every 250 ms while the sentinels
     *  consider the master dead. 100 to 60000. Default 1000. */
    int64_t sentinel_check_ms;

    /**
     * A server that was restarted, or that has replaced another, may have lost its last writes, and
     * with them a grant that a holder still relies on. For this long such a server grants nothing.
     * 0 to 3600000. Default 0: the server grants at once, and a lock may have two holders; the
     * older one has the lower fencing token. All clients of a server need the same value. None of
     * them may be the gem or a version of this library without this option.
     *
     * A TTL that is longer than this delay is refused with ::RQL_E_INVALID, so a delay below 15 s
     * needs a `ttl_ms` that is not longer. Choose at least the longest TTL plus the time for which
     * an old master may go on granting. A server that was never used with this option begins with
     * such a pause. Requests wait in their queues during the pause; a request that does not wait
     * ends with ::RQL_E_UNAVAILABLE. In a cluster each partition has its own pause. A partition
     * whose slot has moved has none, if the previous master still answers. The user needs the right
     * to `INFO`; without this right the result is ::RQL_E_UNSUPPORTED.
     */
    int64_t recovery_delay_ms;

    int64_t replicas; /**< See rql_lock_options::replicas. 0 to 16. Default 0. */
    /** See rql_lock_options::replica_timeout_ms. 1 to 60000. Default 200. */
    int64_t replica_timeout_ms;
    bool fsync;                /**< See rql_lock_options::fsync. Default false. */
    bool durability_is_advice; /**< See rql_lock_options::durability_is_advice. Default false. */

    /** Report host, process, program, user and `client_label` to the server. Operators see them in
     *  place of ids (rql_clients_list()), and host and process in the server's `CLIENT LIST`. The
     *  report needs no round trip of its own. A user without the right to write `rql:clients`
     *  reports nothing there. Default true. */
    bool client_names;
    /** A connection sends `AUTH` or `HELLO` and `SELECT` at its login, and nothing else. So a user
     *  that lacks the rights to lock can still examine its server. Such a client sends commands and
     *  pings (rql_client_command(), rql_client_ping()); every other call returns ::RQL_E_INVALID.
     *  Default false. */
    bool bare_login;
    /** Records the holds that have ended, so that `rql history` can say who has used a lock, and
     *  for how long others have waited (rql_usage_list(), rql_history_list()). A client sends what
     *  it has recorded once a second at most, from its background thread; no acquisition or release
     *  waits for it. What ends otherwise than by a release is recorded with any mode but
     *  ::RQL_HISTORY_OFF. Records have name, user, host, process, token, times and the metadata
     *  `reason`, no other metadata. With `client_names` switched off they have no user, host or
     *  process. Default ::RQL_HISTORY_OFF. */
    rql_history_mode history;
    /** A word, such as `billing`, that `rql who` and other commands show next to host and program;
     *  its first 63 bytes at most. Default empty. */
    const char *client_label;

    /** How often the client reads the map of `redis+cluster://`, which says which node has which
     *  locks, if there is no other reason to read it. The client also reads the map when a node
     *  reports that locks have moved, and every 200 ms while a node does not answer. 1000 to
     *  3600000. Default 30000. */
    int64_t topology_refresh_ms;
} rql_options;

/** One pair of metadata. The pair is stored in the lock, and every client can read it. */
typedef struct rql_meta {
    /** 1 byte or more. Not the name of a field of a lock; does not begin with `rql_`. */
    const char *name;
    const char *value; /**< Any text. */
} rql_meta;

/** A held lock; see lock.h. */
typedef struct rql_lock rql_lock;

/** Why and how an acquisition was refused; see inspect.h. */
typedef struct rql_refusal rql_refusal;

/**
 * Called once when a held lock is lost: it was not renewed in time, it was taken away, or its
 * server's clock jumped. Also called if a lazy release that has returned turns out to have come too
 * late.
 *
 * The function runs on the client's background thread, with no library mutex held. The function
 * may call anything but rql_client_free() and rql_loop_close(). The function must return soon,
 * because renewals of the same client wait for it. A call that releases the lock waits for the
 * function as well; on a loop, everything on the loop waits.
 *
 * @param[in] lock       The lost lock. It still belongs to the code that acquired it, and still has
 *                       to be released. If its lazy release has returned (rql_lock_release()), the
 *                       function may only describe the lock. Such a lock is gone when the function
 *                       returns, and releasing it has no effect.
 * @param[in] user_data  rql_lock_options::on_lost_data.
 */
typedef void (*rql_lost_fn)(rql_lock *lock, void *user_data);

/** What is known of the requests that wait for a held lock; see ::rql_wanted_fn. New members are
 * only ever appended. */
typedef struct rql_wanted {
    /** Number of requests in the queue, those of the gem included. 0 under rql_host_drain() if none
     * waits; -1: not known, because the client is drained. */
    int64_t waiters;
    /** Time within which the lock should be released: asked for by rql_client_drain(), or by
     * rql_host_drain() (admin.h). ::RQL_FOREVER: no limit; or others wait, and nothing was asked or
     * its time has passed. */
    int64_t within_ms;
} rql_wanted;

/**
 * Called when others begin to wait for a held lock, so that its holder can make way: release the
 * lock early, lower it (share.h), or finish after the current piece of work. Nothing else follows
 * from it. Called as well when the holder's host is drained.
 *
 * A renewal of the lock asks how many wait. So the function is called at most a third of the TTL
 * after the first one has come, once for each time that the queue was empty before. It is also
 * called at most a third of the TTL after an rql_host_drain() that asks for this lock. It runs on
 * the same thread, with the same rules, as ::rql_lost_fn. It may release the lock, if the
 * acquisition has returned it; a part of a series only its owner may release, with the series.
 * Under rql_client_drain() the function may be called before the acquisition has returned.
 *
 * @param[in] lock       The lock.
 * @param[in] wanted     What is known; valid during the call.
 * @param[in] user_data  rql_lock_options::on_wanted_data.
 */
typedef void (*rql_wanted_fn)(rql_lock *lock, const rql_wanted *wanted, void *user_data);

/** Settings of one acquisition. Fill with rql_lock_options_init(). */
typedef struct rql_lock_options {
    size_t size; /**< Set by rql_lock_options_init(); do not change. */

    int64_t ttl_ms;          /**< TTL of the lock. 1 to ::RQL_TTL_MAX_MS. */
    int64_t queue_ttl_ms;    /**< See rql_options::queue_ttl_ms. */
    int64_t timeout_ms;      /**< Limit for the acquisition; 0: one try; ::RQL_FOREVER: no limit. */
    int64_t retry_count;     /**< See rql_options::retry_count. */
    int64_t retry_delay_ms;  /**< See rql_options::retry_delay_ms. */
    int64_t retry_jitter_ms; /**< See rql_options::retry_jitter_ms. */
    rql_access_strategy access_strategy;     /**< Queued or random. */
    rql_conflict_strategy conflict_strategy; /**< If this acquirer already holds the lock. */
    bool fail_fast;                          /**< Do not wait at all. Default false. */
    bool timed; /**< rql_lock_run() reports a block that ran longer than the TTL. */

    /** Pairs to store in the lock and in the request, or NULL. Borrowed for the call. `rql who` and
     *  other commands show two of them: `reason`, and `holder` in place of the client's program. */
    const rql_meta *meta;
    size_t n_meta; /**< Number of pairs, at most ::RQL_META_MAX_PAIRS; 0: `meta` is not read. */

    /** Distinguishes several acquirers of one thread: the gem's fiber slot. Default 0. Up to 99999
     *  the server keeps the lock in its compact form; with a larger number the lock may take twice
     *  the memory. */
    uint64_t task;
    /** Share the lock with other requests that share it: the request takes this many units of
     *  `share_limit`. 0 (default): it wants the lock alone; up to `share_limit`. A reader is 1 unit
     *  of ::RQL_SHARE_MAX, a permit of a semaphore of 5 is 1 of 5. See share.h, also for two calls
     *  that set these options. Not for series. */
    int64_t share_units;
    /** Most units in use at the time of the grant, its own included. Each request has a limit of
     * its own. 1 to ::RQL_SHARE_MAX (default). Not read without `share_units`. */
    int64_t share_limit;
    /** The share has as many slots as units: numbers from 0 to `share_limit` - 1 that no other
     * share with slots has (rql_lock_slots()). At most ::RQL_SLOT_UNITS_MAX units of
     *  ::RQL_SLOT_LIMIT_MAX. Not read without `share_units`. Default false. */
    bool share_slots;
    /** The caller holds other locks that this client does not know of: through another client, or
     *  because the process runs under a lock, as `rql run` reports in RQL_LOCK. Default false. Such
     *  a request can take a free lock that is reserved for a series (see series.h), because the
     *  series may be waiting for one of those other locks. The client knows the locks that this
     *  acquirer holds through it, without this option. If no other locks are held, the option only
     *  makes series wait. */
    bool nested;

    /** Renew the lock at each third of its TTL until it is released. Default: the client's value,
     *  true. Renewal ends when `max_hold_ms` is over. Renewal also ends when the thread that
     *  acquired the lock, or that runs the loop on which it was acquired, has ended: no code works
     *  under the lock any more, and the lock ends by its TTL. To let a lock outlive its thread,
     *  acquire it on a thread that stays, with a `task` of its own so that it is a separate
     *  acquirer, or on a loop. */
    bool auto_extend;
    /** No renewal lasts beyond this time, counted from the acquisition. 1 or more, or
     *  ::RQL_FOREVER (default). */
    int64_t max_hold_ms;
    /** A newcomer does not wait if this many requests wait for the lock already: ::RQL_QUEUE_FULL.
     * It then left nothing on the server. Before that the dead among the first eight are removed.
     *  Requests of the gem count. 0: wait for none; up to 1000000, or ::RQL_FOREVER (default): any
     *  number. A request that waits already keeps its place. Not for series. */
    int64_t max_waiters;
    /** Wait as if the request had come this much earlier, in milliseconds: in front of all that
     * came within this time, of whatever client. Only requests that come within this time after it
     * can get in front of it, so it starves no other. Hand-overs inside a client pass it up to the
     * limit of rql-guarantees(7). 0 (default) to ::RQL_HEAD_START_MAX_MS. Not for series. */
    int64_t head_start_ms;
    /** The lock goes to no other request sooner than this after the grant, in milliseconds: a lock
     *  that is released before is kept for the rest of the time. So what is done under the lock is
     *  done at most once in this time. 0 (default): it is free when it is released; up to
     *  ::RQL_TTL_MAX_MS. rql_lock_release() describes it. Not for series. */
    int64_t hold_at_least_ms;
    rql_lost_fn on_lost; /**< Called when the lock is lost, or NULL. */
    void *on_lost_data;  /**< Given to `on_lost`. */
    rql_wanted_fn
        on_wanted; /**< Called when others wait for the lock, or NULL. Needs `auto_extend`. */
    void *on_wanted_data; /**< Given to `on_wanted`. */

    /** On a refusal, ask the server for the holder, so that ::rql_error names it. If `refusal` is
     *  set, ask for the queue as well. Nothing is asked after ::RQL_CANCELLED. */
    bool detailed_acq_timeout_error;
    /** Receives the description of a refusal, or NULL. Filled in on positive outcomes; release its
     *  contents with rql_refusal_clear(). */
    rql_refusal *refusal;

    bool log_lock_try;         /**< See rql_options::log_lock_try. */
    bool log_sample_this;      /**< Log the acquisition without sampling. Default false. */
    bool instr_sample_this;    /**< Send the events without sampling. Default false. */
    rql_log_fn logger;         /**< Receives the log lines; default: the client's function. */
    void *logger_data;         /**< Given to `logger`. */
    rql_event_fn instrumenter; /**< Receives the events; default: the client's function. */
    void *instrumenter_data;   /**< Given to `instrumenter`. */
    void *instrument;          /**< Passed on in rql_event::instrument. Default NULL. */

    /** rql_lock_release() does not wait for the server's reply; its documentation lists the
     *  consequences. Only with ::RQL_WAIT_FOR_LOCK. Default: the client's value. */
    bool lazy_release;

    /**
     * A grant counts only when it is on the server's disk (`WAITAOF`). Acquisitions, extensions and
     * renewals then use a connection of their own. The client asks once, after all calls that are
     * sent together, whether their writes are on disk. The client does not rely on a write that is
     * not on disk in time:
     *
     * - The client gives a grant back and asks again. This counts as a try of its own, and the
     *   request keeps its place in the queue. If the acquisition ends without a safe grant, the
     *   result is ::RQL_E_NOT_DURABLE.
     * - An extension or a renewal leaves the deadline as it was.
     *
     * The lock's deadline counts from before the grant was asked for, as it does without this
     * option: waiting makes it no longer.
     *
     * The server must be known not to answer too early: it has `appendfsync always`, or it is Redis
     * 8.0 or later. The user needs the rights to `WAITAOF`, `INFO` and `CONFIG GET`. Otherwise the
     * result is ::RQL_E_UNSUPPORTED, before anything is asked for. Default: the client's value.
     */
    bool fsync;
    /** Keep a grant or an extension that is not as safe as requested; rql_lock_describe() says how
     *  safe it is. Default: the client's value. */
    bool durability_is_advice;
    /** A descriptor that cancels the call when it becomes readable, or -1 (default).
     *  rql_lock_acquire() describes it. The calls that wait on a thread use it: also
     *  rql_lock_try(), rql_lock_run(), rql_series_acquire(), rql_series_run() and
     *  rql_lock_wait_until_free(). Calls on a loop ignore it; they have rql_request_cancel(). */
    int cancel_fd;
    /** A grant counts only when this many replicas have it (`WAIT`); if they do not have it in
     *  time, the client proceeds as for `fsync`. A replica that has the grant and takes over from
     *  the server knows the grant. 0 to 16. Default: the client's value. */
    int64_t replicas;
    /** Longest wait for `replicas` and `fsync`, in milliseconds. The wait ends before the deadline
     *  of the call, by 100 ms if there is that much time. Calls that are sent together wait no
     *  longer than the call with the shortest wait. If that was too short for another call, the
     *  client asks again for an acquisition, and an extension ends with ::RQL_E_NOT_DURABLE. 1 to
     *  60000. Default: the client's value. */
    int64_t replica_timeout_ms;
    /** The span that the lock is held in, as `traceparent` of W3C Trace Context writes it: version
     *  00, 55 bytes. NULL (default): none. It is stored with `meta`, as one more pair of the name
     *  `traceparent`, so a waiter can see whose trace it waits for (rql_lock_info::meta). `meta`
     *  may then have no pair of this name. Borrowed for the call. */
    const char *traceparent;
} rql_lock_options;

/**
 * Fills @p options with the defaults of the running library. Use rql_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_options_init_sized(rql_options *options, size_t size);

/** Fills `*options` with defaults and records the size that this program was compiled with. */
#define rql_options_init(options) rql_options_init_sized((options), sizeof *(options))

/**
 * Fills @p options with the defaults of the Ruby gem: 3 tries, a TTL of 5 seconds that is not
 * renewed, and a place in the queue for 15 seconds. All other options get the library's defaults.
 * Use rql_options_init_gem().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_options_init_gem_sized(rql_options *options, size_t size);

/** Fills `*options` with the gem's defaults and records the size that this program was compiled
 * with. */
#define rql_options_init_gem(options) rql_options_init_gem_sized((options), sizeof *(options))

/**
 * Returns the size of ::rql_options in the running library. A binding allocates this much memory in
 * place of the struct, and calls rql_options_set() in place of setting fields.
 *
 * @return The size in bytes, to be given to rql_options_init_sized().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_options_size(void);

/**
 * Reads options from the environment: one variable per option, such as `RQL_URL` and
 * `RQL_RETRY_COUNT`, with values as for rql_options_set(). An empty variable counts as not set,
 * unless its option may be empty. `RQL_PROFILE=gem` is applied before all other variables: it sets
 * the values of rql_options_init_gem(), also where the program has set other values before.
 *
 * @param[in,out] options  Filled by rql_options_init(). `url` may then point into the environment.
 * @param[out]    error    Names the variable and its range; or NULL.
 *
 * @retval RQL_OK         All variables that are set were read.
 * @retval RQL_E_INVALID  A variable has a value that its option does not accept; @p options is
 *                        unchanged.
 *
 * @threads No other thread may change the environment during the call.
 */
RQL_API RQL_MUST_CHECK rql_status rql_options_from_env(rql_options *options, rql_error *error);

/**
 * Sets one option by its name, as the command line does.
 *
 * @param[in,out] options  Filled by rql_options_init().
 * @param[in]     name     Name of the field, with `_` or `-`: "retry_delay_ms", "retry-delay-ms".
 * @param[in]     value    Text: a whole number, "forever", "true"/"false", a strategy, a URL. An
 *                         option in milliseconds also accepts a duration, see rql_duration_parse().
 *                         A URL is borrowed until rql_client_new().
 * @param[out]    error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         The option is set.
 * @retval RQL_E_INVALID  There is no such option, or it does not accept the value; @p options is
 *                        unchanged.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_options_set(rql_options *options, const char *name,
                                                  const char *value, rql_error *error);

RQL_END_DECLS

#endif
