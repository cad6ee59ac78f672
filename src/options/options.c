#include "options/options.h"

#include "base/error.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/text.h"
#include "options/text_forms.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <rql/inspect.h>
#include <rql/lock.h>
#include <rql/series.h>
#include <rql/swarm.h>
#include <rql/sweep.h>
#include <stdlib.h>
#include <string.h>

/* The index of a word is the value that it stands for. */
static const char *const bool_words[] = {"false", "true", NULL};
static const char *const access_words[] = {"queued", "random", NULL};
static const char *const conflict_words[] = {"wait_for_lock", "work_through",
                                             "extendable_work_through", "dead_locking", NULL};
static const char *const mode_words[] = {"atomic", "gem", "sorted", NULL};
static const char *const verify_words[] = {"full", "ca", "none", NULL};
const char *const rqli_history_words[] = {"off", "long", "all", NULL};

_Static_assert(sizeof(bool) == 1, "switches are read as bytes");
_Static_assert(sizeof(rql_access_strategy) == sizeof(int), "strategies are read as int");
_Static_assert(sizeof(rql_conflict_strategy) == sizeof(int), "strategies are read as int");
_Static_assert(sizeof(rql_series_mode) == sizeof(int), "modes are read as int");
_Static_assert(sizeof(rql_history_mode) == sizeof(int), "the mode is read as int");
_Static_assert(sizeof(rql_tls_verify) == sizeof(int), "what is verified is read as int");
_Static_assert(RQL_HEAD_START_MAX_MS == 3600000, "the table below says it in digits");
_Static_assert(RQL_SHARE_MAX == 4096, "the table below says it in digits");
_Static_assert(RQL_TTL_MAX_MS == 2592000000, "the table below says it in digits");

/* Room for any of the structs: they are checked on a copy. */
union any_options {
    rql_options of_client;
    rql_lock_options of_lock;
    rql_series_options of_series;
    rql_sweep_options of_sweep;
    rql_swarm_options of_swarm;
};

/* size: in this build. least: less than the first version of the struct had; no init call writes a
 * smaller size. */
static const struct {
    size_t size;
    size_t least;
} structs[] = {
    [RQLI_OF_CLIENT] = {sizeof(rql_options), offsetof(rql_options, connect_timeout_ms)},
    [RQLI_OF_LOCK] = {sizeof(rql_lock_options), offsetof(rql_lock_options, queue_ttl_ms)},
    [RQLI_OF_SERIES] = {sizeof(rql_series_options),
                        offsetof(rql_series_options, result) + sizeof(rql_series_result *)},
    [RQLI_OF_SWEEP] = {sizeof(rql_sweep_options), offsetof(rql_sweep_options, lock_scan_size)},
    [RQLI_OF_SWARM] = {sizeof(rql_swarm_options), offsetof(rql_swarm_options, probe_hosts)},
};

/* Macros that rows are written with. A number gives both the value and its text for the help, so
 * that the two cannot differ. Each OF_... says that a struct has the option, and under which name:
 * some options have another name in a lock's options than in the client's. */
#define OF(which, type, member) .in[which] = {#member, offsetof(type, member)}
#define OF_CLIENT(member, variable)                                                                \
    .shown.name = #member, .shown.env = (variable), OF(RQLI_OF_CLIENT, rql_options, member)
#define OF_LOCK(member) OF(RQLI_OF_LOCK, rql_lock_options, member)
#define OF_SERIES(member) OF(RQLI_OF_SERIES, rql_series_options, member)
#define OF_SWEEP(member) OF(RQLI_OF_SWEEP, rql_sweep_options, member)
#define OF_SWARM(member) OF(RQLI_OF_SWARM, rql_swarm_options, member)
#define WITHIN(low, high)                                                                          \
    .kind = RQLI_OPTION_INT, .shown.range = #low " to " #high, .min = INT64_C(low),                \
    .max = INT64_C(high)
/* RQL_FOREVER is -1, below every minimum, and so is a separate value. */
#define FROM_OR_FOREVER(low)                                                                       \
    .kind = RQLI_OPTION_INT, .shown.range = #low " or more, or forever", .min = INT64_C(low),      \
    .max = INT64_MAX, .forever = true
#define SWITCH                                                                                     \
    .kind = RQLI_OPTION_BOOL, .shown.range = "true | false", .max = 1, .words = bool_words,        \
    .shown.default_value = "false", .shown.unit = ""
#define SWITCH_ON                                                                                  \
    .kind = RQLI_OPTION_BOOL, .shown.range = "true | false", .max = 1, .words = bool_words,        \
    .shown.default_value = "true", .shown.unit = "", .fallback = 1
#define FILE_OR_EMPTY                                                                              \
    .kind = RQLI_OPTION_TEXT, .may_be_empty = true, .shown.unit = "", .shown.default_value = "",   \
    .shown.range = "a file, or empty"
/* Read as an int, as a strategy is, but it has no words. Linux has no larger descriptors. */
#define DESCRIPTOR                                                                                 \
    .kind = RQLI_OPTION_ENUM, .shown.range = "a descriptor, or -1", .min = -1, .max = 1 << 30,     \
    .fallback = -1, .shown.unit = ""
/* Values are 0 to the index of the last word; NULL ends the list. */
#define ONE_OF(list, range_text, first)                                                            \
    .kind = RQLI_OPTION_ENUM, .shown.range = (range_text), .words = (list),                        \
    .max = sizeof(list) / sizeof(list)[0] - 2, .shown.default_value = (first), .shown.unit = ""
#define DEFAULT_FOREVER(unit_text)                                                                 \
    .shown.default_value = "forever", .fallback = RQL_FOREVER, .shown.unit = (unit_text)
#define DEFAULT(number, unit_text)                                                                 \
    .shown.default_value = #number, .fallback = INT64_C(number), .shown.unit = (unit_text)

/* In the order in which the help shows them. The default of a row is that of all its structs. */
static const struct rqli_option rows[] = {
    {OF_CLIENT(url, "RQL_URL"), .kind = RQLI_OPTION_TEXT, .shown.unit = "",
     .shown.default_value = "",
     .shown.range = "redis[s]://user:pass@host:port/db, redis[s]+sentinel://host:port,.../master, "
                    "redis[s]+cluster://host:port,..., redis[s]+shards://host:port,..., "
                    "unix:///path?db=n or local:",
     .shown.help = "Where the server is."},
    {OF_CLIENT(local_start, "RQL_LOCAL_START"), SWITCH_ON,
     .shown.help = "The server of local: is started if none runs."},
    {OF_CLIENT(tls_verify, "RQL_TLS_VERIFY"), ONE_OF(verify_words, "full | ca | none", "full"),
     .shown.help = "What to verify of a server with TLS: all, its certificate, or nothing."},
    {OF_CLIENT(tls_ca_file, "RQL_TLS_CA_FILE"), FILE_OR_EMPTY,
     .shown.help = "Trusted authorities, PEM; empty: those of the system."},
    {OF_CLIENT(tls_cert_file, "RQL_TLS_CERT_FILE"), FILE_OR_EMPTY,
     .shown.help = "Client certificate, PEM; only with tls_key_file."},
    {OF_CLIENT(tls_key_file, "RQL_TLS_KEY_FILE"), FILE_OR_EMPTY,
     .shown.help = "Key of the client certificate, PEM, not encrypted."},
    {OF_CLIENT(tls_server_name, "RQL_TLS_SERVER_NAME"), .kind = RQLI_OPTION_TEXT,
     .may_be_empty = true, .accepts = rqli_is_server_name, .shown.unit = "",
     .shown.default_value = "", .shown.range = "a name of up to 255 bytes, or empty",
     .shown.help = "Name that the server's certificate must have; empty: the host."},
    {OF_CLIENT(sentinel_check_ms, "RQL_SENTINEL_CHECK_MS"), WITHIN(100, 60000), DEFAULT(1000, "ms"),
     .shown.help = "How often sentinels are asked which server is the master."},
    {OF_CLIENT(topology_refresh_ms, "RQL_TOPOLOGY_REFRESH_MS"), WITHIN(1000, 3600000),
     DEFAULT(30000, "ms"), .shown.help = "How often a cluster's map is read at least."},
    {OF_CLIENT(connect_timeout_ms, "RQL_CONNECT_TIMEOUT_MS"), WITHIN(1, 600000),
     DEFAULT(1000, "ms"), .shown.help = "Longest time to connect and log in."},
    {OF_CLIENT(io_timeout_ms, "RQL_IO_TIMEOUT_MS"), WITHIN(1, 600000), DEFAULT(1000, "ms"),
     .shown.help = "A connection is given up after this long without a byte, or four times as long "
                   "without the end of a reply."},
    {OF_CLIENT(spin_us, "RQL_SPIN_US"), WITHIN(0, 1000), DEFAULT(0, "us"),
     .shown.help = "How long a lone caller spins before it sleeps."},
    {OF_CLIENT(connections, "RQL_CONNECTIONS"), WITHIN(1, 4), DEFAULT(4, "connections"),
     .shown.help = "Command connections that threads share, at most; opened as needed."},
    {OF_CLIENT(recovery_delay_ms, "RQL_RECOVERY_DELAY_MS"), WITHIN(0, 3600000), DEFAULT(0, "ms"),
     .shown.help = "How long a server that may have lost writes grants nothing; no ttl is longer."},
    {OF_CLIENT(retry_count, "RQL_RETRY_COUNT"), OF_LOCK(retry_count), FROM_OR_FOREVER(0),
     DEFAULT_FOREVER("tries"), .shown.gem_value = "3",
     .shown.help = "Number of tries; 0 acts as 1."},
    {OF_CLIENT(retry_delay_ms, "RQL_RETRY_DELAY_MS"), OF_LOCK(retry_delay_ms), WITHIN(1, 3600000),
     DEFAULT(200, "ms"), .shown.help = "Time between tries."},
    {OF_CLIENT(retry_jitter_ms, "RQL_RETRY_JITTER_MS"), OF_LOCK(retry_jitter_ms),
     WITHIN(0, 3600000), DEFAULT(25, "ms"),
     .shown.help = "Random extra time between tries, 0 to this."},
    {OF_CLIENT(timeout_ms, "RQL_TIMEOUT_MS"), OF_LOCK(timeout_ms), FROM_OR_FOREVER(0),
     DEFAULT(10000, "ms"), .shown.help = "Longest time for a whole acquisition; 0: one try."},
    {OF_CLIENT(ttl_ms, "RQL_TTL_MS"), OF_LOCK(ttl_ms), WITHIN(1, 2592000000), DEFAULT(15000, "ms"),
     .shown.gem_value = "5000", .shown.help = "TTL of a lock."},
    {OF_CLIENT(queue_ttl_ms, "RQL_QUEUE_TTL_MS"), OF_LOCK(queue_ttl_ms), FROM_OR_FOREVER(1),
     DEFAULT_FOREVER("ms"), .shown.gem_value = "15000",
     .shown.help = "Time after which a request moves to the tail of its queue."},
    {OF_CLIENT(auto_extend, "RQL_AUTO_EXTEND"), OF_LOCK(auto_extend), SWITCH_ON,
     .shown.gem_value = "false",
     .shown.help = "A lock is renewed until it is released, or its thread ends."},
    {OF_CLIENT(timed, "RQL_TIMED"), OF_LOCK(timed), SWITCH,
     .shown.help = "Blocks that run longer than their ttl are reported."},
    {OF_CLIENT(detailed_acq_timeout_error, "RQL_DETAILED_ACQ_TIMEOUT_ERROR"),
     OF_LOCK(detailed_acq_timeout_error), SWITCH,
     .shown.help = "Refusals name the holder and the waiters of the lock."},
    {OF_CLIENT(conflict_strategy, "RQL_CONFLICT_STRATEGY"), OF_LOCK(conflict_strategy),
     ONE_OF(conflict_words, "wait_for_lock | work_through | extendable_work_through | dead_locking",
            "wait_for_lock"),
     .shown.help = "What happens when the acquirer already holds the lock."},
    {OF_CLIENT(access_strategy, "RQL_ACCESS_STRATEGY"), OF_LOCK(access_strategy),
     ONE_OF(access_words, "queued | random", "queued"), .shown.help = "How a request is served."},
    {OF_CLIENT(lazy_release, "RQL_LAZY_RELEASE"), OF_LOCK(lazy_release), SWITCH,
     .shown.help = "A release on a thread does not wait for its answer."},
    {OF_CLIENT(replicas, "RQL_REPLICAS"), OF_LOCK(replicas), WITHIN(0, 16), DEFAULT(0, "replicas"),
     .shown.help = "Replicas that must have a grant before it counts."},
    {OF_CLIENT(fsync, "RQL_FSYNC"), OF_LOCK(fsync), SWITCH,
     .shown.help = "A grant must be on the server's disk before it counts."},
    {OF_CLIENT(replica_timeout_ms, "RQL_REPLICA_TIMEOUT_MS"), OF_LOCK(replica_timeout_ms),
     WITHIN(1, 60000), DEFAULT(200, "ms"), .shown.help = "Longest wait for replicas and disk."},
    {OF_CLIENT(durability_is_advice, "RQL_DURABILITY_IS_ADVICE"), OF_LOCK(durability_is_advice),
     SWITCH, .shown.help = "A grant without replicas or disk is kept, and reported as such."},
    {OF_CLIENT(key_extraction_batch_size, "RQL_KEY_EXTRACTION_BATCH_SIZE"), WITHIN(1, 100000),
     DEFAULT(500, "keys"), .shown.help = "COUNT of each SCAN."},
    {OF_CLIENT(lock_release_batch_size, "RQL_LOCK_RELEASE_BATCH_SIZE"), OF_SWEEP(batch_size),
     WITHIN(1, 100000), DEFAULT(100, "keys"),
     .shown.help = "Keys examined and released at once when all locks or dead requests go."},
    {OF_CLIENT(clear_locks_of_lock_scan_size, "RQL_CLEAR_LOCKS_OF_LOCK_SCAN_SIZE"),
     OF_SWEEP(lock_scan_size), WITHIN(1, 100000), DEFAULT(300, "keys"),
     .shown.help = "Locks examined and released at once when those of one acquirer go."},
    {OF_CLIENT(clear_locks_of_queue_scan_size, "RQL_CLEAR_LOCKS_OF_QUEUE_SCAN_SIZE"),
     OF_SWEEP(queue_scan_size), WITHIN(1, 100000), DEFAULT(300, "keys"),
     .shown.help = "Queues examined at once when the locks of one acquirer go."},
    {OF_CLIENT(dead_request_ttl_ms, "RQL_DEAD_REQUEST_TTL_MS"), WITHIN(1, 315360000000),
     DEFAULT(86400000, "ms"), .shown.help = "Age from which a request may count as dead."},
    {OF_CLIENT(log_lock_try, "RQL_LOG_LOCK_TRY"), OF_LOCK(log_lock_try), SWITCH,
     .shown.help = "The steps of each try are logged as well."},
    {OF_CLIENT(log_sampling_enabled, "RQL_LOG_SAMPLING_ENABLED"), SWITCH,
     .shown.help = "Only some acquisitions are logged."},
    {OF_CLIENT(log_sampling_percent, "RQL_LOG_SAMPLING_PERCENT"), WITHIN(0, 100),
     DEFAULT(15, "percent"), .shown.help = "Percentage of acquisitions that are logged."},
    {OF_CLIENT(instr_sampling_enabled, "RQL_INSTR_SAMPLING_ENABLED"), SWITCH,
     .shown.help = "Only some acquisitions send events."},
    {OF_CLIENT(instr_sampling_percent, "RQL_INSTR_SAMPLING_PERCENT"), WITHIN(0, 100),
     DEFAULT(15, "percent"), .shown.help = "Percentage of acquisitions that send events."},
    {OF_CLIENT(auto_swarm, "RQL_AUTO_SWARM"), SWITCH,
     .shown.help = "A new client starts its swarm."},
    {OF_CLIENT(swarm_liveness_probing_period_ms, "RQL_SWARM_LIVENESS_PROBING_PERIOD_MS"),
     OF_SWARM(liveness_probing_period_ms), WITHIN(1, 3600000), DEFAULT(2000, "ms"),
     .shown.help = "How often a swarm's supervisor checks its parts."},
    {OF_CLIENT(swarm_probe_hosts, "RQL_SWARM_PROBE_HOSTS"), OF_SWARM(probe_hosts), SWITCH_ON,
     .shown.help = "A swarm sends heartbeats for the hosts of its client."},
    {OF_CLIENT(swarm_probe_period_ms, "RQL_SWARM_PROBE_PERIOD_MS"), OF_SWARM(probe_period_ms),
     WITHIN(1, 3600000), DEFAULT(2000, "ms"),
     .shown.help = "Time between heartbeats; at most half of zombie_ttl_ms."},
    {OF_CLIENT(swarm_flush_zombies, "RQL_SWARM_FLUSH_ZOMBIES"), OF_SWARM(flush_zombies), SWITCH_ON,
     .shown.help = "A swarm frees what dead hosts held."},
    {OF_CLIENT(zombie_ttl_ms, "RQL_ZOMBIE_TTL_MS"), OF_SWARM(zombie_ttl_ms), WITHIN(1, 31536000000),
     DEFAULT(15000, "ms"), .shown.help = "A host of the swarm that is silent for longer is dead."},
    {OF_CLIENT(zombie_flush_period_ms, "RQL_ZOMBIE_FLUSH_PERIOD_MS"),
     OF_SWARM(zombie_flush_period_ms), WITHIN(1, 3600000), DEFAULT(10000, "ms"),
     .shown.help = "Locks of dead hosts are free at most this much later."},
    {OF_CLIENT(zombie_lock_scan_size, "RQL_ZOMBIE_LOCK_SCAN_SIZE"), OF_SWARM(zombie_lock_scan_size),
     WITHIN(1, 100000), DEFAULT(500, "keys"),
     .shown.help = "Locks examined at once when dead hosts are flushed."},
    {OF_CLIENT(zombie_queue_scan_size, "RQL_ZOMBIE_QUEUE_SCAN_SIZE"),
     OF_SWARM(zombie_queue_scan_size), WITHIN(1, 100000), DEFAULT(500, "keys"),
     .shown.help = "Queues examined at once when dead hosts are flushed."},

    {OF_CLIENT(client_label, "RQL_CLIENT_LABEL"), .kind = RQLI_OPTION_TEXT, .may_be_empty = true,
     .shown.unit = "", .shown.default_value = "", .shown.range = "a text, or empty",
     .shown.help = "A word that is shown with host and program."},
    {OF_CLIENT(client_names, "RQL_CLIENT_NAMES"), SWITCH_ON,
     .shown.help = "Host, process and program are reported, to be shown in place of ids."},
    {OF_CLIENT(history, "RQL_HISTORY"), ONE_OF(rqli_history_words, "off | long | all", "off"),
     .shown.help = "Ended holds are recorded: long ones, or all."},
    {OF_CLIENT(bare_login, "RQL_BARE_LOGIN"), SWITCH,
     .shown.help = "A login asks for nothing; the client can only send commands and pings."},

    /* The other rows are options of single calls and not shown. option_at() ends at the first
     * of them. */
    {OF_LOCK(fail_fast), SWITCH},
    {OF_LOCK(nested), SWITCH},
    {OF_LOCK(log_sample_this), SWITCH},
    {OF_LOCK(instr_sample_this), SWITCH},
    {OF_LOCK(max_hold_ms), FROM_OR_FOREVER(1), .fallback = RQL_FOREVER, .shown.unit = "ms"},
    {OF_LOCK(hold_at_least_ms), WITHIN(0, 2592000000), .shown.unit = "ms"},
    {OF_LOCK(max_waiters), .kind = RQLI_OPTION_INT, .shown.range = "0 to 1000000, or forever",
     .max = 1000000, .forever = true, .fallback = RQL_FOREVER, .shown.unit = "requests"},
    {OF_LOCK(head_start_ms), WITHIN(0, 3600000), .shown.unit = "ms"},
    {OF_LOCK(share_units), WITHIN(0, 4096), .shown.unit = "units"},
    {OF_LOCK(share_limit), WITHIN(1, 4096), DEFAULT(4096, "units")},
    {OF_LOCK(share_slots), SWITCH},
    {OF_LOCK(cancel_fd), DESCRIPTOR},
    {OF_LOCK(traceparent), .kind = RQLI_OPTION_TEXT, .accepts = rqli_is_traceparent,
     .shown.unit = "", .shown.range = "a traceparent of W3C Trace Context, version 00"},
    {OF_SERIES(mode), ONE_OF(mode_words, "0, 1 or 2", "atomic")},
    /* A sweep may use any age, a client's default may not. */
    {OF_SWEEP(dead_ttl_ms), OF(RQLI_OF_CLIENT, rql_options, dead_request_ttl_ms),
     WITHIN(0, 315360000000), DEFAULT(86400000, "ms")},
    {OF_SWEEP(dry_run), SWITCH},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

_Static_assert(N_ROWS <= UCHAR_MAX, "lists of rows are of bytes");

const struct rqli_option *rqli_option_row(size_t index)
{
    return index < N_ROWS ? &rows[index] : NULL;
}

/* Returns the index-th option of the client, or NULL past the last one. */
static const struct rqli_option *option_at(size_t index)
{
    return index < N_ROWS && rows[index].shown.name ? &rows[index] : NULL;
}

const rql_option_row *rql_option_row_at(size_t index)
{
    const struct rqli_option *option = option_at(index);

    return option ? &option->shown : NULL;
}

/* ---- one option ---- */

static void *field_of(const struct rqli_option *option, enum rqli_option_struct which,
                      void *options)
{
    return (char *)options + option->in[which].offset;
}

size_t rqli_option_width(const struct rqli_option *self)
{
    /* The assertions at the top compare these with the types of the fields. */
    static const size_t widths[] = {
        [RQLI_OPTION_INT] = sizeof(int64_t),
        [RQLI_OPTION_BOOL] = sizeof(bool),
        [RQLI_OPTION_ENUM] = sizeof(int),
        [RQLI_OPTION_TEXT] = sizeof(char *),
    };

    return widths[self->kind];
}

/* Reads bytes, not the field's type: a caller's struct may hold any bytes, and a bool of 7 is
 * undefined. Not for texts. */
int64_t rqli_option_load(const struct rqli_option *self, const void *field)
{
    unsigned char byte;
    int64_t number;
    int word;

    if (self->kind == RQLI_OPTION_BOOL) {
        memcpy(&byte, field, sizeof byte);
        return byte;
    }
    if (self->kind == RQLI_OPTION_ENUM) {
        memcpy(&word, field, sizeof word);
        return word;
    }
    memcpy(&number, field, sizeof number);
    return number;
}

/* Stores a value that was accepted before, so it fits into the field. */
static void store_value(const struct rqli_option *self, void *field, int64_t value)
{
    unsigned char byte = (unsigned char)value;
    int word = (int)value;

    if (self->kind == RQLI_OPTION_BOOL) {
        memcpy(field, &byte, sizeof byte);
    } else if (self->kind == RQLI_OPTION_ENUM) {
        memcpy(field, &word, sizeof word);
    } else {
        memcpy(field, &value, sizeof value);
    }
}

static bool accepts_value(const struct rqli_option *self, int64_t value)
{
    return (value >= self->min && value <= self->max) || (self->forever && value == RQL_FOREVER);
}

/* Checks a text that is set. The message does not repeat it, because it may be of any length. */
static rql_status check_text(const struct rqli_option *self, const char *text, const char *name,
                             rql_error *error)
{
    return !text || !self->accepts || self->accepts(text)
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID, "%s is malformed; it must be %s", name,
                           self->shown.range);
}

/* Checks a field. name: the name that the user knows it by. */
static rql_status check_field(const struct rqli_option *self, const void *field, const char *name,
                              rql_error *error)
{
    const char *text;
    int64_t value;

    if (self->kind == RQLI_OPTION_TEXT) {
        memcpy(&text, field, sizeof text);
        return check_text(self, text, name, error);
    }
    value = rqli_option_load(self, field);
    if (!accepts_value(self, value)) {
        return rqli_fail(error, RQL_E_INVALID, "%s is %" PRId64 "; it must be %s", name, value,
                         self->shown.range);
    }
    return RQL_OK;
}

/* ---- a struct of options ---- */

rql_status rqli_options_check_set_up(enum rqli_option_struct which, const void *options,
                                     rql_error *error)
{
    return options && rqli_is_set_up(options, structs[which].least)
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID, "options: not set up by their init call");
}

void rqli_options_fill(enum rqli_option_struct which, void *out, const rql_options *client)
{
    /* A member that is in no row is 0 or NULL: listeners, metadata, padding. The size is the first
     * member of each struct. */
    memset(out, 0, structs[which].size);
    memcpy(out, &structs[which].size, sizeof structs[which].size);
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct rqli_option *row = &rows[i];
        void *field = field_of(row, which, out);
        int64_t value = row->fallback;

        if (!row->in[which].name) {
            continue;
        }
        /* An option that the client also has takes the client's value. No text is in both. */
        if (client && row->in[RQLI_OF_CLIENT].name && row->kind != RQLI_OPTION_TEXT) {
            value = rqli_option_load(row, (const char *)client + row->in[RQLI_OF_CLIENT].offset);
        }
        if (row->kind == RQLI_OPTION_TEXT) {
            memcpy(field, &row->shown.default_value, sizeof row->shown.default_value);
        } else {
            store_value(row, field, value);
        }
    }
    /* Listeners are in no row, because they are neither numbers nor words. */
    if (which == RQLI_OF_LOCK && client) {
        rql_lock_options *of_lock = out;

        of_lock->logger = client->logger;
        of_lock->logger_data = client->logger_data;
        of_lock->instrumenter = client->instrumenter;
        of_lock->instrumenter_data = client->instrumenter_data;
    }
}

/* The caller's struct may be shorter or longer than ours: it contains its size, which is kept. The
 * part of a longer one beyond ours is 0, as copy_given() requires later. */
void rqli_options_init(enum rqli_option_struct which, void *out, size_t size,
                       const rql_options *client)
{
    union any_options filled;

    rqli_options_fill(which, &filled, client);
    memset(out, 0, size);
    memcpy(out, &filled, size < structs[which].size ? size : structs[which].size);
    memcpy(out, &size, sizeof size);
}

void rql_options_init_sized(rql_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_CLIENT, options, size, NULL);
}

size_t rql_options_size(void)
{
    return sizeof(rql_options);
}

/* Copies the fields of a caller's struct over those in *out. An older program has fewer of them. */
static rql_status copy_given(enum rqli_option_struct which, void *out, const void *given,
                             rql_error *error)
{
    const size_t known = structs[which].size;
    rql_status status = rqli_options_check_set_up(which, given, error);
    size_t size;

    status = status ? status : rqli_check_known(given, known, error);
    if (status) {
        return status;
    }
    memcpy(&size, given, sizeof size);
    memcpy(out, given, size < known ? size : known);
    /* The copy has all fields, however many the caller has. */
    memcpy(out, &known, sizeof known);
    return RQL_OK;
}

/* Returns whether the name is one of the lock's own fields, or one that a description of it has.
 * Metadata is stored as further fields of the lock's hash, so its names must differ from those that
 * the gem or the scripts read. The fields of librql all begin with rql_, and some end in a nonce,
 * so no list could have them. */
static bool is_reserved(const char *name)
{
    static const char *const fields[] = {"acq_id",       "hst_id",      "ts",
                                         "ini_ttl",      "lock_key",    "rem_ttl",
                                         "spc_cnt",      "spc_ext_ttl", "l_spc_ext_ini_ttl",
                                         "l_spc_ext_ts", "l_spc_ts"};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        /* Nearly all names differ in the first letter already. */
        if (*fields[i] == *name && strcmp(fields[i], name) == 0) {
            return true;
        }
    }
    return strncmp(name, "rql_", 4) == 0;
}

/* Returns what is wrong with the last of n pairs, or NULL. Lengths are measured no further than the
 * limit, so that a value without a terminator is not read to its end. */
static const char *fault_of_last(const rql_meta *meta, size_t n, size_t *n_bytes)
{
    const rql_meta *pair = &meta[n - 1];

    if (!pair->name || !pair->value) {
        return "name or value is NULL";
    }
    *n_bytes += strnlen(pair->name, RQL_META_MAX_BYTES + 1);
    *n_bytes += strnlen(pair->value, RQL_META_MAX_BYTES + 1);
    if (*n_bytes > RQL_META_MAX_BYTES) {
        _Static_assert(RQL_META_MAX_BYTES == 16384, "the message says it in digits");
        return "the pairs have too many bytes; at most 16384 are allowed";
    }
    if (pair->name[0] == '\0') {
        return "name is empty";
    }
    if (is_reserved(pair->name)) {
        return "name is reserved: a field of the lock, or begins with rql_";
    }
    /* A field of a hash has one value: if two pairs had the same name, only the last would be
     * kept. */
    for (size_t i = 0; i + 1 < n; i++) {
        if (strcmp(meta[i].name, pair->name) == 0) {
            return "name is there twice";
        }
    }
    return NULL;
}

/* Checks metadata: few and small pairs. RQL_E_INVALID names the first pair that is wrong, by its
 * index. */
static rql_status check_meta(const rql_lock_options *options, rql_error *error)
{
    const rql_meta *meta = options->meta;
    const size_t n_meta = options->n_meta;
    size_t n_bytes = 0;

    if (!meta && n_meta > 0) {
        return rqli_fail(error, RQL_E_INVALID, "meta is NULL while n_meta is %zu", n_meta);
    }
    if (n_meta > RQL_META_MAX_PAIRS) {
        return rqli_fail(error, RQL_E_INVALID, "n_meta is %zu; it must be 0 to %d", n_meta,
                         RQL_META_MAX_PAIRS);
    }
    /* Checks each pair against those before it. Their names are valid by then, and short enough to
     * compare. */
    for (size_t n = 1; n <= n_meta; n++) {
        const char *fault = fault_of_last(meta, n, &n_bytes);

        if (!fault && options->traceparent && strcmp(meta[n - 1].name, RQLI_TRACEPARENT) == 0) {
            fault = "name is that of the option traceparent, which is set";
        }
        if (fault) {
            return rqli_fail(error, RQL_E_INVALID, "meta[%zu]: %s", n - 1, fault);
        }
    }
    return RQL_OK;
}

static bool has_listener(enum rqli_option_struct which, const union any_options *read)
{
    const rql_options *of_client = &read->of_client;
    const rql_lock_options *of_lock = &read->of_lock;

    return (which == RQLI_OF_CLIENT && (of_client->logger || of_client->instrumenter)) ||
           (which == RQLI_OF_LOCK && (of_lock->logger || of_lock->instrumenter));
}

/* Checks what the table does not cover: metadata, and listeners in a light build, which would never
 * call them without any sign of the reason. */
static rql_status check_others(enum rqli_option_struct which, const union any_options *read,
                               rql_error *error)
{
    const rql_lock_options *of_lock = &read->of_lock;
    rql_status status = RQL_OK;

    if (which == RQLI_OF_LOCK) {
        status = check_meta(of_lock, error);
        status = status
                     ? status
                     : rqli_result_check(of_lock->refusal, RQLI_UP_TO(rql_refusal, message), error);
    }
    if (!status && RQLI_LIGHT && has_listener(which, read)) {
        return rqli_fail(error, RQL_E_UNSUPPORTED,
                         "librql was built without logs, events and statistics; nothing was sent");
    }
    return status;
}

/* The rows of each struct, in the order of the table, which is long: every call with options checks
 * its struct. N_ROWS ends a list. */
static unsigned char rows_of[sizeof structs / sizeof structs[0]][N_ROWS + 1];
static pthread_once_t rows_listed = PTHREAD_ONCE_INIT;

static void list_rows_of(size_t which)
{
    unsigned char *next = rows_of[which];

    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].in[which].name) {
            *next++ = (unsigned char)i;
        }
    }
    *next = N_ROWS;
}

static void list_rows(void)
{
    for (size_t which = 0; which < sizeof structs / sizeof structs[0]; which++) {
        list_rows_of(which);
    }
}

/* Reports only the first fault in the order of the table, by the name in this struct. */
static rql_status check_fields(enum rqli_option_struct which, const void *options, rql_error *error)
{
    rql_status status = RQL_OK;

    (void)pthread_once(&rows_listed, list_rows);
    for (const unsigned char *at = rows_of[which]; !status && *at < N_ROWS; at++) {
        const struct rqli_option *row = &rows[*at];

        status = check_field(row, (const char *)options + row->in[which].offset,
                             row->in[which].name, error);
    }
    return status;
}

/* Checks a copy: *out changes only if all values are valid. */
rql_status rqli_options_read_over(enum rqli_option_struct which, void *out, const void *defaults,
                                  const void *given, rql_error *error)
{
    union any_options read;
    rql_status status;

    if (!given) { /* the defaults were checked */
        memcpy(out, defaults, structs[which].size);
        return RQL_OK;
    }
    memcpy(&read, defaults, structs[which].size);
    status = copy_given(which, &read, given, error);
    if (!status) {
        status = check_fields(which, &read, error);
    }
    if (!status) {
        status = check_others(which, &read, error);
    }
    if (!status) {
        memcpy(out, &read, structs[which].size);
    }
    return status;
}

rql_status rqli_options_read(enum rqli_option_struct which, void *out, const rql_options *client,
                             const void *given, rql_error *error)
{
    union any_options defaults;

    rqli_options_fill(which, &defaults, client);
    return rqli_options_read_over(which, out, &defaults, given, error);
}

/* ---- options as text ---- */

/* Longest value or name that a message repeats. */
enum { REPEAT_MAX = 40 };

/* Returns text that a message may repeat. Text from outside is only repeated if it cannot harm a
 * terminal or fill the message: the value itself, or a word that says why it is not repeated. */
static const char *repeatable(const char *value)
{
    size_t length = strnlen(value, REPEAT_MAX + 1);

    if (length == 0 || length > REPEAT_MAX) {
        return length == 0 ? "empty" : "too long";
    }
    for (size_t i = 0; i < length; i++) {
        if (value[i] < 0x20 || value[i] > 0x7E) {
            return "unreadable";
        }
    }
    return value;
}

/* Parses a value: a plain number is in the option's own unit; with a unit it is a duration. The
 * index of a word in its list is its value, which needs no range check. On false, *out may be
 * anything. */
static bool parse_value(const struct rqli_option *option, const char *value, int64_t *out)
{
    if (option->words) {
        *out = 0;
        while (option->words[*out] && strcmp(option->words[*out], value) != 0) {
            ++*out;
        }
        return option->words[*out] != NULL;
    }
    if (option->forever && strcmp(value, "forever") == 0) {
        *out = RQL_FOREVER;
        return true;
    }
    /* A sign of a duration is refused: -1ms is not "forever". */
    return (rqli_parse_int(rqli_slice_of(value), out) ||
            (strcmp(option->shown.unit, "ms") == 0 && *value != '-' &&
             rql_duration_parse(value, out, NULL) == RQL_OK)) &&
           accepts_value(option, *out);
}

/* Sets a field. name is the name that the user wrote: of the option, or of the variable. */
static rql_status assign_value(const struct rqli_option *option, void *field, const char *name,
                               const char *value, rql_error *error)
{
    int64_t number;

    if (option->kind == RQLI_OPTION_TEXT) {
        rql_status status = check_text(option, value, name, error);

        if (!status) { /* it is borrowed: the option is the pointer that was passed */
            memcpy(field, &value, sizeof value);
        }
        return status;
    }
    if (!parse_value(option, value, &number)) {
        return rqli_fail(error, RQL_E_INVALID, "%s is %s; it must be %s", name, repeatable(value),
                         option->shown.range);
    }
    store_value(option, field, number);
    return RQL_OK;
}

/* Sets what the gem has in place of our defaults. The struct of an older program has no room for
 * newer options. */
static void use_gem_values(rql_options *options)
{
    const struct rqli_option *option;

    for (size_t i = 0; (option = option_at(i)); i++) {
        if (option->shown.gem_value &&
            option->in[RQLI_OF_CLIENT].offset + rqli_option_width(option) <= options->size) {
            (void)assign_value(option, field_of(option, RQLI_OF_CLIENT, options),
                               option->shown.name, option->shown.gem_value, NULL);
        }
    }
}

void rql_options_init_gem_sized(rql_options *options, size_t size)
{
    rql_options_init_sized(options, size);
    use_gem_values(options);
}

/* Applies RQL_PROFILE. */
static rql_status read_profile(rql_options *options, rql_error *error)
{
    /* The contract rules out changes during the call. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *profile = getenv("RQL_PROFILE");

    if (!profile || *profile == '\0') {
        return RQL_OK;
    }
    if (strcmp(profile, "gem") != 0) {
        return rqli_fail(error, RQL_E_INVALID, "RQL_PROFILE is %s; it must be gem",
                         repeatable(profile));
    }
    use_gem_values(options);
    return RQL_OK;
}

/* Sets a copy, and stops at the first variable that is wrong. */
rql_status rql_options_from_env(rql_options *options, rql_error *error)
{
    const struct rqli_option *option;
    rql_options changed;
    rql_status status = rqli_options_check_set_up(RQLI_OF_CLIENT, options, error);
    size_t known;

    if (status) {
        return status;
    }
    /* The shorter struct of an older program takes the variables of its own fields. Fields beyond
     * it in the copy are set and never read. */
    known = options->size < sizeof changed ? options->size : sizeof changed;
    memcpy(&changed, options, known);
    status = read_profile(&changed, error);
    for (size_t i = 0; !status && (option = option_at(i)); i++) {
        /* The contract rules out changes during the call. NOLINTNEXTLINE(concurrency-mt-unsafe) */
        const char *value = getenv(option->shown.env);

        /* An empty variable counts as not set, because a unit or a compose file leaves one behind,
         * unless empty is a value of its option. */
        if (value && (*value != '\0' || option->may_be_empty)) {
            status = assign_value(option, field_of(option, RQLI_OF_CLIENT, &changed),
                                  option->shown.env, value, error);
        }
    }
    if (!status) {
        memcpy(options, &changed, known);
    }
    return status;
}

/* io-timeout-ms is the same as io_timeout_ms. */
static bool same_name(const char *field, const char *name)
{
    for (; *field != '\0' && *name != '\0'; field++, name++) {
        if (*field != *name && !(*field == '_' && *name == '-')) {
            return false;
        }
    }
    return *field == *name;
}

/* Finds an option by its name in this struct. If two rows have one field, the first is meant. */
static const struct rqli_option *find_option(enum rqli_option_struct which, const char *name)
{
    const struct rqli_option *option;

    for (size_t i = 0; (option = rqli_option_row(i)); i++) {
        if (option->in[which].name && same_name(option->in[which].name, name)) {
            return option;
        }
    }
    return NULL;
}

static rql_status set_option(enum rqli_option_struct which, void *options, const char *name,
                             const char *value, rql_error *error)
{
    const struct rqli_option *option;
    rql_status status = rqli_options_check_set_up(which, options, error);
    size_t size;

    if (status) {
        return status;
    }
    if (!name || !value) {
        return rqli_fail(error, RQL_E_INVALID, "options: name or value is NULL");
    }
    memcpy(&size, options, sizeof size);
    option = find_option(which, name);
    /* The struct of an older program has no room for newer options. */
    if (!option || option->in[which].offset + rqli_option_width(option) > size) {
        return rqli_fail(error, RQL_E_INVALID, "options: no such option: %s", repeatable(name));
    }
    return assign_value(option, field_of(option, which, options), option->in[which].name, value,
                        error);
}

rql_status rql_options_set(rql_options *options, const char *name, const char *value,
                           rql_error *error)
{
    return set_option(RQLI_OF_CLIENT, options, name, value, error);
}

rql_status rql_lock_options_set(rql_lock_options *options, const char *name, const char *value,
                                rql_error *error)
{
    return set_option(RQLI_OF_LOCK, options, name, value, error);
}

/* A URL may set only the options of the server's TLS, by names that are written as in the table.
 * The message of the table is not used, because it would repeat the value. */
rql_status rqli_options_set_of_url(rql_options *options, const char *query, rql_error *error)
{
    while (query && *query != '\0') {
        const struct rqli_option *option = find_option(RQLI_OF_CLIENT, query);

        if (!option || strncmp(query, "tls_", 4) != 0 || strcmp(query, option->shown.name) != 0) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: unknown query key; rediss:// knows tls_verify, tls_ca_file, "
                             "tls_cert_file, tls_key_file and tls_server_name");
        }
        query += strlen(query) + 1;
        if (assign_value(option, field_of(option, RQLI_OF_CLIENT, options), option->shown.name,
                         query, NULL)) {
            return rqli_fail(error, RQL_E_INVALID, "url: %s must be %s", option->shown.name,
                             option->shown.range);
        }
        query += strlen(query) + 1;
    }
    return RQL_OK;
}

/* Moves each text to `next`, which has room for it; NULL: only measures. */
static size_t move_texts(rql_options *options, char *next)
{
    const struct rqli_option *option;
    size_t length = 0;

    for (size_t i = 0; (option = option_at(i)); i++) {
        void *field = field_of(option, RQLI_OF_CLIENT, options);
        const char *text = NULL;

        if (option->kind == RQLI_OPTION_TEXT) {
            memcpy(&text, field, sizeof text);
        }
        if (text && next) {
            text = memcpy(next + length, text, strlen(text) + 1);
            memcpy(field, &text, sizeof text);
        }
        length += text ? strlen(text) + 1 : 0;
    }
    return length;
}

char *rqli_options_keep_texts(rql_options *options)
{
    char *texts = rqli_secret_new(move_texts(options, NULL));

    if (texts) {
        (void)move_texts(options, texts);
    }
    return texts;
}
