#ifndef RQL_OPTIONS_H
#define RQL_OPTIONS_H

/**
 * @file options.h
 * @brief Settings of a client and of one acquisition.
 *
 * An init call fills each struct with the defaults of the running library; then change what you
 * want. Every value means itself: 0 is zero, ::RQL_FOREVER is "no limit". Durations are in
 * milliseconds. `rql help options` lists all options with their environment variables.
 *
 * The defaults are those of a worker: a request waits up to 10 seconds for its turn and keeps its
 * place in the queue, and a lock is renewed until it is released. rql_options_init_gem() has the
 * defaults of the Ruby gem.
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
        1, /**< Takes a free lock at once, whoever waits; a hand-over may choose it at random. */
} rql_access_strategy;

/** What happens when the acquirer already holds the lock it asks for. */
typedef enum rql_conflict_strategy {
    RQL_WAIT_FOR_LOCK = 0,           /**< Wait in the queue until the own lock ends. */
    RQL_WORK_THROUGH = 1,            /**< Re-enter: share the lock, change nothing of its ttl. */
    RQL_EXTENDABLE_WORK_THROUGH = 2, /**< Re-enter and add ttl; a block takes back what is left. */
    RQL_DEAD_LOCKING = 3,            /**< Fail with ::RQL_CONFLICT. */
} rql_conflict_strategy;

/** What is checked of a server that is spoken to by TLS. */
typedef enum rql_tls_verify {
    RQL_TLS_FULL = 0, /**< Its certificate is vouched for and names the host. */
    RQL_TLS_CA = 1,   /**< Its certificate is vouched for, whoever it names. */
    RQL_TLS_NONE = 2, /**< Nothing: whoever is on the way can read and change all. For trials. */
} rql_tls_verify;

/** One log line; see observe.h. */
typedef struct rql_log_record rql_log_record;

/** One event; see observe.h. */
typedef struct rql_event rql_event;

/**
 * Receives a log line. observe.h says on which thread, and what it may do.
 *
 * @param[in] record     The line; valid during the call.
 * @param[in] user_data  The `logger_data` beside the function.
 */
typedef void (*rql_log_fn)(const rql_log_record *record, void *user_data);

/**
 * Receives an event (the gem's instrumenter). observe.h says on which thread, and what it may do.
 *
 * @param[in] event      The event; valid during the call.
 * @param[in] user_data  The `instrumenter_data` beside the function.
 */
typedef void (*rql_event_fn)(const rql_event *event, void *user_data);

/**
 * Decides whether one case is logged, or instrumented. Only called when there is a listener,
 * sampling is on and the case is not wanted anyway; on the caller's thread, with no library mutex
 * held.
 *
 * @param[in] percent    The percentage of the options.
 * @param[in] user_data  The data beside the function.
 * @return true to report it.
 */
typedef bool (*rql_sampler_fn)(int64_t percent, void *user_data);

/** User and password of one login, for ::rql_credentials_fn. All empty when it is called. */
typedef struct rql_credentials {
    char user[256];      /**< Empty: the server's user `default`. */
    char password[4096]; /**< Empty, as the user: log in without a password. */
    int64_t valid_ms;    /**< For how long the server takes them; 0: no end is known. */
} rql_credentials;

/**
 * Says with which user and password to log in: with a token that expires, or a password that is
 * changed while the program runs. Called at each login, before the first command is sent; with TLS
 * the server is known by then. If they have an end it is called again after 80 % of that time, by
 * the next call that uses the connection, which then repeats AUTH; the connection that listens to
 * pushes is made anew. Where that is in vain it goes on as it was, and is tried again each second.
 *
 * Called on the thread that connects, with no library mutex held: a thread that calls the library,
 * the client's background thread, or, for loops and swarms, one of libuv's pool. Several may call
 * it at the same time, for a client has several connections. It may block, and takes its time from
 * the connect_timeout_ms of the login, which fails when none is left. It may not call the library
 * with the same client, which may be waiting for this connection. Without a known end a connection
 * that is there stays when its credentials expire, as long as the server keeps it. A swarm that was
 * given a URL of its own logs in with what that says.
 *
 * @param[out] credentials  To be filled in; the library wipes it when it has been sent.
 * @param[in]  timeout_ms   What is left until the login fails.
 * @param[in]  user_data    The `credentials_data` beside the function.
 *
 * @return RQL_OK to log in so; whatever else fails the login with ::RQL_E_AUTH.
 */
typedef rql_status (*rql_credentials_fn)(rql_credentials *credentials, int64_t timeout_ms,
                                         void *user_data);

/** Settings of one client. Fill with rql_options_init(). */
typedef struct rql_options {
    size_t size; /**< Set by rql_options_init(); do not change. */

    /**
     * Where the server is: `redis://user:pass@host:port/db`, `rediss://...` for the same with TLS,
     * `unix:///path?db=n`, or `local:` for one private server per user that starts when needed.
     * Its socket is `/tmp/rql-UID/redis.sock`, or `redis.sock` in the folder that `RQL_LOCAL_DIR`
     * names. A folder that belongs to another user, or that others can write to, is refused.
     * `redis+sentinel://user:pass@host:port,host:port/master/db` is the master that these sentinels
     * (port 26379 if none is said) know by that name, and after a failover the next one; with
     * `rediss+sentinel://` all of them have TLS. The login is the master's; that of the sentinels
     * is `?sentinel_user=...&sentinel_password=...`, and `sentinel_tls=false` says that they have
     * no TLS. `.../m1,m2/db` are up to 64 masters that the same sentinels watch, each with its
     * share of the locks, as shards below have; all clients name them all, and their login is one.
     *
     * `redis+cluster://user:pass@host:port,host:port` is a cluster, of which any nodes are named:
     * the others are learned from these. `redis+shards://host:port,host:port/db` are up to 64
     * servers that know nothing of each other and have all to be named, by all clients alike; each
     * has its share of the locks. Of both the port is 6379 if none is said, the login is that of
     * all nodes, `rediss+...://` is TLS to all, and they are of Redis 7.0 or Valkey, or later.
     *
     * Copied. Default empty: no server, and rql_client_new() returns ::RQL_E_INVALID.
     */
    const char *url;
    bool local_start; /**< Start the server of `local:` if none runs; else a call that needs it
                         returns ::RQL_E_IO. Default true. */
    int64_t connect_timeout_ms; /**< Connect and log in. 1 to 600000. Default 1000. */
    int64_t io_timeout_ms;      /**< Give up on a connection after this long without a byte from the
                                   server, or four times as long without the end of a reply.
                                   1 to 600000. Default 1000. */
    int64_t spin_us; /**< How long a caller that is alone spins before it sleeps. 0 to 1000. Default
                        0. */

    int64_t retry_count; /**< Tries in all; 0 acts as 1. Default ::RQL_FOREVER: no limit. */

    /**
     * Time between tries, as they are counted. The server is asked as often only where no
     * notification would come (the subscription is down, or Ruby is in front), else every 1.7 s.
     * 1 to 3600000. Default 200.
     */
    int64_t retry_delay_ms;
    int64_t retry_jitter_ms; /**< Random extra time, 0 to this. 0 to 3600000. Default 25. */
    int64_t timeout_ms;      /**< Whole acquisition, or ::RQL_FOREVER. Default 10000. */
    int64_t ttl_ms;          /**< Life of a lock. 1 to ::RQL_TTL_MAX_MS. Default 15000. */
    int64_t queue_ttl_ms;    /**< After this long a request moves to the tail of its queue. Default
                                ::RQL_FOREVER: it keeps its place as long as it waits. */
    bool auto_extend;        /**< See rql_lock_options::auto_extend. Default true. */
    bool timed;              /**< Blocks are timed. Default false. */
    bool detailed_acq_timeout_error;         /**< Refusals name holder and queue. Default false. */
    rql_conflict_strategy conflict_strategy; /**< Default ::RQL_WAIT_FOR_LOCK. */
    rql_access_strategy access_strategy;     /**< Default ::RQL_QUEUED. */
    int64_t key_extraction_batch_size;       /**< COUNT of each SCAN. 1 to 100000. Default 500. */

    /** See rql_sweep_options::batch_size. 1 to 100000. Default 100. */
    int64_t lock_release_batch_size;
    /** See rql_sweep_options::lock_scan_size. 1 to 100000. Default 300. */
    int64_t clear_locks_of_lock_scan_size;
    /** See rql_sweep_options::queue_scan_size. 1 to 100000. Default 300. */
    int64_t clear_locks_of_queue_scan_size;
    /** Age from which a request may count as dead. 1 to 315360000000 (ten years). Default one day:
     *  86400000. */
    int64_t dead_request_ttl_ms;

    /* What is reported; see observe.h. */
    bool log_lock_try;              /**< Log the steps of each try too. Default false. */
    bool log_sampling_enabled;      /**< Log only some acquisitions. Default false. */
    bool instr_sampling_enabled;    /**< The same for events. Default false. */
    int64_t log_sampling_percent;   /**< About how many of 100. 0 to 100. Default 15. */
    int64_t instr_sampling_percent; /**< The same for events. Default 15. */
    rql_log_fn logger;              /**< Receives log lines, or NULL (default). */
    void *logger_data;              /**< Given to `logger`. */
    /** Decides what is logged. NULL (default): as the gem does, if `percent` >= a random number of
     * 0 to 100. */
    rql_sampler_fn log_sampler;
    void *log_sampler_data;       /**< Given to `log_sampler`. */
    rql_event_fn instrumenter;    /**< Receives events, or NULL (default). */
    void *instrumenter_data;      /**< Given to `instrumenter`. */
    rql_sampler_fn instr_sampler; /**< As `log_sampler`, for events. */
    void *instr_sampler_data;     /**< Given to `instr_sampler`. */

    /* Of the swarm; see swarm.h. */
    bool auto_swarm;                          /**< A new client starts its swarm. Default false. */
    bool swarm_probe_hosts;                   /**< Send heartbeats. Default true. */
    bool swarm_flush_zombies;                 /**< Free what dead hosts held. Default true. */
    int64_t swarm_liveness_probing_period_ms; /**< How often the supervisor checks the others. 1 to
                                                 3600000. Default 2000. */
    int64_t swarm_probe_period_ms; /**< Time between heartbeats. 1 to 3600000. Default 2000. */
    int64_t zombie_ttl_ms; /**< A host that is silent for longer is dead. 1 to 31536000000. Default
                              15000. */
    /** Dead hosts are found within it. 1 to 3600000. Default 10000. */
    int64_t zombie_flush_period_ms;
    int64_t zombie_lock_scan_size;  /**< COUNT of SCAN for locks. 1 to 100000. Default 500. */
    int64_t zombie_queue_scan_size; /**< The same for queues. Default 500. */

    /**
     * Command connections that the client's threads share, at most. 1 to 4. Default 4. There is one
     * as long as no two threads ask at the same time; one more is opened when two have met on one
     * of them, if the server takes it within 20 ms, and stays open. From about 28 who ask at a time
     * all use the first, until they are 20 or less: what many ask goes out together, which takes
     * the server less time. With TLS one more is not opened before what they ask at a time fills a
     * record, 16 KiB, for a server reads one record after the other: a few long ones cost it less
     * than many short ones. 1 is best where many processes of a few threads keep one server busy.
     * Its loops, the subscription and the background thread have others.
     */
    int64_t connections;

    bool lazy_release; /**< See rql_lock_options::lazy_release. Default false. */

    /* Of `rediss://`, TLS; at other servers they are not looked at. Texts are copied. What the URL
     * says of them (`?tls_ca_file=...`) goes before. */
    rql_tls_verify tls_verify; /**< What is checked of the server. Default ::RQL_TLS_FULL. */
    const char *tls_ca_file;   /**< Whom to trust, PEM. Default empty: those the system trusts. */
    const char *tls_cert_file; /**< Our own certificate, PEM, with those that vouch for it; only
                                  with `tls_key_file`. Default empty: none. */
    const char *tls_key_file;  /**< Its key, PEM, not encrypted. Default empty. */
    /** The name to ask for and to find in the server's certificate. Default empty: the URL's
     * host. */
    const char *tls_server_name;

    /** Asked for user and password at each login, in place of those in `url`; or NULL (default). */
    rql_credentials_fn credentials;
    void *credentials_data; /**< Given to `credentials`. */

    /** How often the sentinels of `redis+sentinel://` are asked who the master is, besides each
     * time that a connection is made; every 250 ms while they take it for dead. 100 to 60000.
     * Default 1000. */
    int64_t sentinel_check_ms;

    /**
     * A server that was restarted, or that has replaced another, may have lost its last writes, and
     * with them a grant that a holder still relies on. For this long it grants nothing. 0 to
     * 3600000. Default 0: it grants at once, and a lock may have two holders; the older one has the
     * lower fencing token. All clients of a server need the same value. None of them may be the gem
     * or a version of this library without this option.
     *
     * No ttl may be longer, in milliseconds: ::RQL_E_INVALID. Choose at least the longest ttl plus
     * the time for which an old master may go on granting. A server that was never used with this
     * option begins with such a pause. Requests wait in their queues meanwhile; a request that does
     * not wait ends with ::RQL_E_UNAVAILABLE. In a cluster each partition has its own pause. A
     * partition whose slot has moved has none, if the previous master still answers. The user needs
     * the right to `INFO`; without it the result is ::RQL_E_UNSUPPORTED.
     */
    int64_t recovery_delay_ms;

    int64_t replicas; /**< See rql_lock_options::replicas. 0 to 16. Default 0. */
    /** See rql_lock_options::replica_timeout_ms. 1 to 60000. Default 200. */
    int64_t replica_timeout_ms;
    bool fsync;                /**< See rql_lock_options::fsync. Default false. */
    bool durability_is_advice; /**< See rql_lock_options::durability_is_advice. Default false. */

    /** Tell host, process, program, user and `client_label`, to be shown to operators in place of
     *  ids (rql_clients_list()) and in the server's `CLIENT LIST`. It needs no round trip of its
     *  own; without the right to write `rql:clients` nothing is told. Default true. */
    bool client_names;
    /** A word of yours that `rql who` and others show beside host and program, as `billing`; at
     *  most 63 bytes of it. Default empty. */
    const char *client_label;

    /** How often the map of `redis+cluster://`, which says which node has which locks, is read
     *  without need: it is read anyway when a node says that locks have moved, and every 200 ms
     *  while one does not answer. 1000 to 3600000. Default 30000. */
    int64_t topology_refresh_ms;
} rql_options;

/** One pair of metadata, kept in the lock and readable by everybody. */
typedef struct rql_meta {
    const char *name; /**< 1 byte or more; no field name of a lock, nothing starting with `rql_`. */
    const char *value; /**< Any text. */
} rql_meta;

/** A held lock; see lock.h. */
typedef struct rql_lock rql_lock;

/** Why and how an acquisition was refused; see inspect.h. */
typedef struct rql_refusal rql_refusal;

/**
 * Called once when a held lock is lost: not renewed in time, taken away, or its server's clock
 * jumped; or when a lazy release that had returned turns out to have come too late.
 *
 * Called from the client's background thread with no library mutex held. It may call anything but
 * rql_client_free() and rql_loop_close(), and must return soon: renewals of the same client wait
 * for it, and so does whoever releases the lock, including a loop with everything on it.
 *
 * @param[in] lock       The lost lock; still owned by whoever acquired it, still to be released.
 * One whose lazy release has returned (rql_lock_release()) may only be described, and is gone when
 * this returns; to release it changes nothing.
 * @param[in] user_data  rql_lock_options::user_data.
 */
typedef void (*rql_lost_fn)(rql_lock *lock, void *user_data);

/** Settings of one acquisition. Fill with rql_lock_options_init(). */
typedef struct rql_lock_options {
    size_t size; /**< Set by rql_lock_options_init(); do not change. */

    int64_t ttl_ms;         /**< Life of the lock. 1 to ::RQL_TTL_MAX_MS. */
    int64_t queue_ttl_ms;   /**< After this long the request moves to the tail, or ::RQL_FOREVER. */
    int64_t timeout_ms;     /**< Whole acquisition; 0: one try; ::RQL_FOREVER: no limit. */
    int64_t retry_count;    /**< See rql_options::retry_count. */
    int64_t retry_delay_ms; /**< See rql_options::retry_delay_ms. */
    int64_t retry_jitter_ms;                 /**< See rql_options::retry_jitter_ms. */
    rql_access_strategy access_strategy;     /**< Queued or random. */
    rql_conflict_strategy conflict_strategy; /**< When this acquirer holds the lock already. */
    bool fail_fast;                          /**< Do not wait at all. Default false. */
    bool timed;                              /**< rql_lock_run() reports a block that overran. */

    const rql_meta *meta; /**< Pairs to keep in the lock, or NULL. Borrowed for the call. */
    size_t n_meta; /**< Number of pairs, at most ::RQL_META_MAX_PAIRS; 0: `meta` is not read. */

    /** Distinguishes several acquirers of one thread: the gem's fiber slot. Default 0. Up to 99999
     * the server keeps the lock in its compact form; a longer one may take it twice the memory. */
    uint64_t task;
    /** The caller holds other locks that this client does not know of: through another client, or
     * because the process runs under a lock, as `rql run` says by RQL_LOCK. Default false. A free
     * lock that is kept for a series is then not kept from this request (see series.h): the series
     * may be waiting for one of those. What this acquirer holds through this client is known
     * anyway. Set where nothing is held, it only makes series wait. */
    bool nested;

    /** Renew the lock at each third of its TTL until it is released. Default the client's: true.
     * Renewal ends when `max_hold_ms` is over. It also ends when the thread that acquired the lock,
     * or that runs the loop on which it was acquired, has ended: no code works under the lock any
     * more, and the lock ends by its TTL. A lock that is to outlive its thread is acquired on a
     * thread that stays, with a `task` of its own so that it is a separate acquirer, or on a
     * loop. */
    bool auto_extend;
    /** No renewal lasts beyond this, counted from the acquisition. 1 or more, or ::RQL_FOREVER
     *  (default). */
    int64_t max_hold_ms;
    rql_lost_fn on_lost; /**< Called when the lock is lost, or NULL. */
    void *user_data;     /**< Given to `on_lost`. */

    bool detailed_acq_timeout_error; /**< Ask who holds the lock: for ::rql_error, and with the
                                          queue for `refusal`. */
    /** Where a refusal is described, or NULL. Filled on positive outcomes; rql_refusal_clear(). */
    rql_refusal *refusal;

    bool log_lock_try;         /**< See rql_options::log_lock_try. */
    bool log_sample_this;      /**< Logged whatever the sampling decides. Default false. */
    bool instr_sample_this;    /**< Instrumented whatever the sampling decides. Default false. */
    rql_log_fn logger;         /**< Receives its log lines; default the client's. */
    void *logger_data;         /**< Given to `logger`. */
    rql_event_fn instrumenter; /**< Receives its events; default the client's. */
    void *instrumenter_data;   /**< Given to `instrumenter`. */
    void *instrument;          /**< Passed on in rql_event::instrument. Default NULL. */

    /** rql_lock_release() does not wait for the server's answer; it says what that changes. Only
     * with ::RQL_WAIT_FOR_LOCK. Default the client's. */
    bool lazy_release;

    /**
     * The grant counts when it is on the server's disk (`WAITAOF`). What an acquisition, an
     * extension or a renewal writes goes over a connection of its own then, with the question
     * whether it is safe behind all that goes together. What is not in time is not relied on: a
     * grant is given back, and asked for again as a try of its own, with its place in the queue;
     * at the end the result is ::RQL_E_NOT_DURABLE. An extension or a renewal leaves the deadline
     * as it was. The lock's deadline counts from before the grant was asked for, as ever: waiting
     * makes it no longer.
     *
     * Needs a server that is known not to answer too early: `appendfsync always`, or Redis 8.0 or
     * later; and the rights to `WAITAOF`, `INFO` and `CONFIG GET`. Else ::RQL_E_UNSUPPORTED, before
     * anything is asked for. Default the client's.
     */
    bool fsync;
    bool durability_is_advice; /**< What is not as safe as asked for is kept; rql_lock_describe()
                                  says how safe it is. Default the client's. */
    /** The same of so many replicas (`WAIT`): they have the grant, and whichever of them takes over
     * from the server knows it. 0 to 16. Default the client's. */
    int64_t replicas;
    /** Longest wait for both, in milliseconds. It ends before the deadline of the call, by 100 ms
     * where there is that much time. Calls that are sent together wait no longer than the least
     * patient of them: the client then asks again for an acquisition, and an extension ends as
     * ::RQL_E_NOT_DURABLE. 1 to 60000. Default the client's. */
    int64_t replica_timeout_ms;
} rql_lock_options;

/**
 * Fill @p options with the defaults of the running library. Use rql_options_init().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_options_init_sized(rql_options *options, size_t size);

/** Fill `*options` with defaults and record the size this program was compiled with. */
#define rql_options_init(options) rql_options_init_sized((options), sizeof *(options))

/**
 * Fill @p options with the defaults of the Ruby gem: 3 tries, a TTL of 5 seconds that is not
 * renewed, and a place in the queue for 15 seconds. All other options have the library's defaults.
 * Use rql_options_init_gem().
 *
 * @param[out] options  The struct to fill.
 * @param[in]  size     Its size in bytes in the calling program.
 * @threads Callable from any thread.
 */
RQL_API void rql_options_init_gem_sized(rql_options *options, size_t size);

/** Fill `*options` with the gem's defaults and record the size this program was compiled with. */
#define rql_options_init_gem(options) rql_options_init_gem_sized((options), sizeof *(options))

/**
 * The size of ::rql_options in the running library: for a binding, which has memory in place of the
 * struct, and rql_options_set() in place of its fields.
 *
 * @return The size in bytes, to be given to rql_options_init_sized().
 * @threads Callable from any thread.
 */
RQL_API size_t rql_options_size(void);

/**
 * Read a duration in the form that people write: "500ms", "0.5s", "1h30m", "30d".
 *
 * One number or more, each with its unit: `d`, `h`, `m`, `s`, `ms`, from the longest to the
 * shortest, each at most once. The last number may have up to nine digits behind a point. Only 0
 * needs no unit. A '-' in front makes it negative.
 *
 * @param[in]  text    The text.
 * @param[out] out_ms  The duration in milliseconds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         Read.
 * @retval RQL_E_INVALID  Not a duration, not a whole number of milliseconds, or too long for 64
 *                        bits; or a pointer is NULL.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_duration_parse(const char *text, int64_t *out_ms,
                                                     rql_error *error);

/**
 * Take what is set in the environment: `RQL_URL`, `RQL_RETRY_COUNT`, … one variable per option,
 * with values as for rql_options_set(). An empty variable counts as not set, unless its option may
 * be empty. `RQL_PROFILE=gem` comes before all others, and sets what rql_options_init_gem() has
 * instead of the library's defaults.
 *
 * @param[in,out] options  Filled by rql_options_init(). `url` then points into the environment.
 * @param[out]    error    Names the variable and its range; or NULL.
 *
 * @retval RQL_OK         All variables that are set were read.
 * @retval RQL_E_INVALID  A variable is no value of its option; @p options is unchanged.
 *
 * @threads No other thread may change the environment meanwhile.
 */
RQL_API RQL_MUST_CHECK rql_status rql_options_from_env(rql_options *options, rql_error *error);

/**
 * Set one option by its name, as the command line does.
 *
 * @param[in,out] options  Filled by rql_options_init().
 * @param[in]     name     Name of the field, with `_` or `-`: "retry_delay_ms", "retry-delay-ms".
 * @param[in]     value    Text: a whole number, "forever", "true"/"false", a strategy, a URL. What
 *                         is counted in milliseconds may be a duration, see rql_duration_parse().
 *                         A URL is borrowed until rql_client_new().
 * @param[out]    error    What was wrong; or NULL.
 *
 * @retval RQL_OK         Set.
 * @retval RQL_E_INVALID  No such option, or no value of it; @p options is unchanged.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_options_set(rql_options *options, const char *name,
                                                  const char *value, rql_error *error);

/** One row of the options table. All strings are static. */
typedef struct rql_option_row {
    const char *name;  /**< Field of ::rql_options. */
    const char *env;   /**< Environment variable. */
    const char *unit;  /**< "ms", "us", "tries", "keys", "percent", or "" for texts and switches. */
    const char *range; /**< Human text: "1 to 600000", "queued | random". */
    const char *default_value; /**< As text. */
    const char *gem_value;     /**< The gem's default, as text; NULL: the same. */
    const char *help;          /**< One line. */
} rql_option_row;

/**
 * Read the options table: the one that validates, documents and parses.
 *
 * @param[in] index  0 for the first row.
 * @return The row, or NULL past the last one. Static.
 * @threads Callable from any thread.
 */
RQL_API const rql_option_row *rql_option_row_at(size_t index);

RQL_END_DECLS

#endif
