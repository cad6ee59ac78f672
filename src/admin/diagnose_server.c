#include "admin/diagnosis.h"

#include "net/conn/batch_threads.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Judges the replies to INFO, CONFIG GET and SLOWLOG GET, and says what they mean for locks. */

enum {
    WORD_SIZE = 64,
    SIZE_SIZE = 24, /* room for "4.0 GB" */
    SLOW_ENTRIES = 32,
    SLOW_US = 10000,
    SLOW_FORK_US = 100000,
    QUIET_S = 60,           /* a connection of ours may be quiet that long */
    PUBSUB_BYTES = 1 << 20, /* as much as pushes may pile up to */
    SCRIPTS_MAX = 10000,    /* the library has some twenty scripts */
    OLDEST_MAJOR = 6,       /* the oldest version is 6.2 */
    OLDEST_MINOR = 2,
    FULL_PERCENT = 90,
    CROWDED_PERCENT = 80,
    DAY_S = 86400,
    US_PER_S = 1000000,
};

/* Returns a value of CONFIG GET; NULL: the user has no right to it, or this server does not know
 * it. */
static const char *config_of(const struct rqli_told *told, const char *name)
{
    for (size_t i = 0; i < told->n_config; i++) {
        const struct rqli_reply *value = rqli_reply_field(&told->config[i], name, RQLI_REPLY_TEXT);

        if (value) {
            return value->text.data;
        }
    }
    return NULL;
}

static const char *print_size(int64_t bytes, char out[SIZE_SIZE])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, SIZE_SIZE, unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

/* ---- srv ---- */

/* Reads "7.0.15". A text that is no version is not too old. */
static bool is_too_old(const char *version)
{
    struct rqli_slice rest = rqli_slice_of(version);
    const struct rqli_slice first = rqli_slice_take(&rest, rqli_slice_before(rest, "."));
    int major;
    int minor;

    if (!rqli_slice_skip(&rest, ".") || !rqli_parse_within(first, 0, INT_MAX, &major) ||
        !rqli_parse_within((struct rqli_slice){rest.data, rqli_slice_before(rest, ".")}, 0, INT_MAX,
                           &minor)) {
        return false;
    }
    return major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR);
}

static void judge_kind(struct rqli_report *report, const struct rqli_told *told)
{
    const rql_server_info *server = told->server;
    const bool is_known =
        strcmp(server->product, "redis") == 0 || strcmp(server->product, "valkey") == 0;
    rqli_report_add(report, "srv.kind", is_known ? RQL_CHECK_OK : RQL_CHECK_WARN,
                    "the server is %s",
                    *server->product ? server->product : "of a kind that it does not tell");
    rqli_report_text(report, "product", server->product);
    rqli_report_say(report, "librql is tested with Redis and Valkey alone",
                    "use one of them, or watch closely what the other checks say");
    rqli_report_add(report, "srv.version",
                    is_too_old(server->version) ? RQL_CHECK_FAIL : RQL_CHECK_OK, "version %s",
                    server->version);
    rqli_report_text(report, "version", server->version);
    rqli_report_say(report, "what the scripts need came with 6.2",
                    "upgrade the server to Redis 6.2 or later");
    rqli_report_add(report, "srv.role",
                    strcmp(server->role, "replica") == 0 ? RQL_CHECK_FAIL : RQL_CHECK_OK,
                    "the server is a %s", server->role);
    rqli_report_text(report, "role", server->role);
    rqli_report_say(report, "locks can be looked at there, not taken",
                    "name the master in RQL_URL, or sentinels that know it");
}

static void judge_clients(struct rqli_report *report, const struct rqli_told *told)
{
    const int64_t clients = rqli_info_number(told->info, "\nconnected_clients:");
    const char *most_text = config_of(told, "maxclients");
    int64_t most = rqli_info_number(told->info, "\nmaxclients:");
    const int64_t fork_us = rqli_info_number(told->info, "\nlatest_fork_usec:");
    bool is_crowded;
    bool is_slow;

    if (most < 0 && most_text) {
        (void)rqli_parse_int(rqli_slice_of(most_text), &most);
    }
    is_crowded = most > 0 && clients * 100 > most * CROWDED_PERCENT;
    is_slow = fork_us > SLOW_FORK_US;
    if (is_crowded) {
        rqli_report_add(report, "srv.busy", RQL_CHECK_WARN,
                        "%" PRId64 " of %" PRId64 " connections are in use", clients, most);
        rqli_report_say(report, "when none is left new clients are refused",
                        "redis-cli CONFIG SET maxclients %" PRId64, 2 * most);
    } else if (is_slow) {
        rqli_report_add(report, "srv.busy", RQL_CHECK_WARN, "its last fork took %" PRId64 " ms",
                        fork_us / 1000);
        rqli_report_say(report, "nobody is answered meanwhile, also no renewal of a lock",
                        "give it less memory to save, or switch huge pages off; ttls should be "
                        "20 times as long");
    } else {
        rqli_report_add(report, "srv.busy", RQL_CHECK_OK, "%" PRId64 " connections are in use",
                        clients);
    }
    rqli_report_number(report, "connected_clients", clients);
    rqli_report_number(report, "maxclients", most);
    rqli_report_number(report, "latest_fork_us", fork_us);
}

/* An entry of the slow log has a number, seconds since 1970, microseconds, and the words. */
static void judge_slow(struct rqli_report *report, const struct rqli_told *told)
{
    const int64_t since_s = told->server_us / US_PER_S - DAY_S;
    const char *longest = "";
    int64_t longest_us = 0;
    int64_t count = 0;

    if (told->slowlog->type != RQLI_REPLY_ARRAY) {
        rqli_report_add(report, "srv.slow", RQL_CHECK_SKIP,
                        "slow commands: no right to SLOWLOG GET");
        return;
    }
    for (size_t i = 0; i < told->slowlog->count; i++) {
        const struct rqli_reply *entry = &told->slowlog->items[i];
        const bool is_whole = entry->type == RQLI_REPLY_ARRAY && entry->count > 3 &&
                              entry->items[3].count > 0 &&
                              entry->items[3].items[0].type == RQLI_REPLY_TEXT;

        if (!is_whole || entry->items[1].integer < since_s || entry->items[2].integer < SLOW_US) {
            continue;
        }
        count++;
        if (entry->items[2].integer > longest_us) {
            longest_us = entry->items[2].integer;
            longest = entry->items[3].items[0].text.data;
        }
    }
    if (count > 0) {
        rqli_report_add(report, "srv.slow", RQL_CHECK_WARN,
                        "%" PRId64 "%s commands took more than 10 ms in the last 24 h, the longest "
                        "%" PRId64 " ms (%.32s)",
                        count, count == SLOW_ENTRIES ? " or more" : "", longest_us / 1000, longest);
    } else {
        rqli_report_add(report, "srv.slow", RQL_CHECK_OK, "no slow commands in the last 24 h");
    }
    rqli_report_number(report, "count", count);
    rqli_report_number(report, "longest_us", longest_us);
    rqli_report_say(report, "nobody is answered meanwhile, also no renewal of a lock",
                    "redis-cli SLOWLOG GET shows them and who sent them");
}

/* ---- net.timeout ---- */

/* Reads "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"; 0: no limit. */
static int64_t pubsub_limit(const char *limits)
{
    const char *at = limits ? strstr(limits, "pubsub ") : NULL;
    int64_t bytes = 0;

    if (at) {
        struct rqli_slice rest = rqli_slice_of(at + strlen("pubsub "));

        (void)rqli_parse_int(rqli_slice_word(&rest), &bytes);
    }
    return bytes;
}

static void judge_timeout(struct rqli_report *report, const struct rqli_told *told)
{
    const char *timeout = config_of(told, "timeout");
    const int64_t limit = pubsub_limit(config_of(told, "client-output-buffer-limit"));
    int64_t seconds = 0;
    char size[SIZE_SIZE];

    if (!timeout) {
        rqli_report_add(report, "net.timeout", RQL_CHECK_SKIP, "timeout: no right to CONFIG GET");
        return;
    }
    (void)rqli_parse_int(rqli_slice_of(timeout), &seconds);
    if (seconds > 0 && seconds < QUIET_S) {
        rqli_report_add(report, "net.timeout", RQL_CHECK_WARN,
                        "connections that are quiet for %" PRId64 " s are ended", seconds);
        rqli_report_say(report, "each is made again, while a lock is waited for or renewed",
                        "redis-cli CONFIG SET timeout 0");
    } else if (limit > 0 && limit < PUBSUB_BYTES) {
        rqli_report_add(report, "net.timeout", RQL_CHECK_WARN,
                        "a connection is ended when %s of pushes wait for it",
                        print_size(limit, size));
        rqli_report_say(report, "waiters are not told of their turn until it is made again",
                        "redis-cli CONFIG SET client-output-buffer-limit 'pubsub 32mb 8mb 60'");
    } else {
        rqli_report_add(report, "net.timeout", RQL_CHECK_OK, "quiet connections are left alone");
    }
    rqli_report_number(report, "timeout_s", seconds);
    rqli_report_number(report, "pubsub_limit", limit);
}

/* ---- mem ---- */

static void judge_memory(struct rqli_report *report, const struct rqli_told *told)
{
    const int64_t limit = rqli_info_number(told->info, "\nmaxmemory:");
    const int64_t used = rqli_info_number(told->info, "\nused_memory:");
    const int64_t evicted = rqli_info_number(told->info, "\nevicted_keys:");
    char policy[WORD_SIZE] = "";
    char size[SIZE_SIZE];
    char used_size[SIZE_SIZE];
    bool can_evict;

    rqli_reply_copy_between(policy, sizeof policy, told->info, "\nmaxmemory_policy:", "\r");
    if (!*policy) {
        rqli_report_add(report, "mem.policy", RQL_CHECK_SKIP,
                        "maxmemory-policy: the server does not tell it");
        return;
    }
    can_evict = strcmp(policy, "noeviction") != 0;
    (void)print_size(limit, size);
    rqli_report_add(report, "mem.policy",
                    !can_evict  ? RQL_CHECK_OK
                    : limit > 0 ? RQL_CHECK_FAIL
                                : RQL_CHECK_WARN,
                    "maxmemory-policy is %s, memory is %s%s", policy,
                    limit > 0 ? "limited to " : "not limited", limit > 0 ? size : "");
    rqli_report_text(report, "policy", policy);
    rqli_report_number(report, "maxmemory", limit);
    rqli_report_say(report, "an evicted lock is free while somebody still holds it",
                    "redis-cli CONFIG SET maxmemory-policy noeviction");

    rqli_report_add(report, "mem.evicted",
                    evicted <= 0 ? RQL_CHECK_OK
                    : can_evict  ? RQL_CHECK_FAIL
                                 : RQL_CHECK_NOTE,
                    "%" PRId64 " keys were evicted", evicted);
    rqli_report_number(report, "evicted_keys", evicted);
    rqli_report_say(report,
                    can_evict ? "there may have been locks among them: two held what one should"
                              : "there may have been locks among them, under an earlier policy",
                    "%s, then redis-cli CONFIG RESETSTAT",
                    can_evict ? "set maxmemory-policy noeviction" : "look into what they guarded");

    rqli_report_add(report, "mem.room",
                    limit > 0 && used > limit / 100 * FULL_PERCENT ? RQL_CHECK_WARN : RQL_CHECK_OK,
                    "%s of memory are used%s%s", print_size(used, used_size),
                    limit > 0 ? " of " : "", limit > 0 ? size : "");
    rqli_report_number(report, "used_memory", used);
    rqli_report_number(report, "maxmemory", limit);
    rqli_report_say(report, "when it is full no lock can be taken",
                    "redis-cli CONFIG SET maxmemory %" PRId64, 2 * limit);
}

/* ---- dur ---- */

static bool info_says(const struct rqli_reply *info, const char *mark, const char *word)
{
    char text[WORD_SIZE] = "";

    rqli_reply_copy_between(text, sizeof text, info, mark, "\r");
    return strcmp(text, word) == 0;
}

/* Without the right to CONFIG, assumes the default: a server that cannot save refuses to write. */
static void judge_persistence(struct rqli_report *report, const struct rqli_told *told)
{
    const char *stops = config_of(told, "stop-writes-on-bgsave-error");
    const char *fsync = config_of(told, "appendfsync");
    const char *save = config_of(told, "save");
    const bool has_aof = info_says(told->info, "\naof_enabled:", "1");
    const bool is_broken = (has_aof && info_says(told->info, "\naof_last_write_status:", "err")) ||
                           (info_says(told->info, "\nrdb_last_bgsave_status:", "err") &&
                            !(stops && strcmp(stops, "no") == 0));
    const bool is_safe = has_aof && fsync && strcmp(fsync, "always") == 0;

    if (is_broken) {
        rqli_report_add(report, "dur.persist", RQL_CHECK_FAIL, "the server cannot write its data");
        rqli_report_say(report, "it refuses all writes until it can: no lock can be taken",
                        "look for a full disk or missing rights in its log");
    } else if (has_aof) {
        rqli_report_add(report, "dur.persist", is_safe ? RQL_CHECK_OK : RQL_CHECK_NOTE,
                        "appendfsync is %s", fsync ? fsync : "not known");
        rqli_report_say(report,
                        "a power loss may free the locks of the last second; tokens go on rising",
                        "if that is too much: redis-cli CONFIG SET appendfsync always, or "
                        "recovery_delay_ms");
    } else {
        rqli_report_add(report, "dur.persist", RQL_CHECK_NOTE,
                        save && *save == 0 ? "nothing is written to disk"
                                           : "snapshots alone are written to disk");
        rqli_report_say(report, "a restart frees locks that are still held; tokens go on rising",
                        "if that is too much: redis-cli CONFIG SET appendonly yes, or "
                        "recovery_delay_ms");
    }
    rqli_report_number(report, "aof", has_aof);
    rqli_report_text(report, "fsync", fsync ? fsync : "");
}

/* Returns the text after a mark, up to the next comma. */
static struct rqli_slice part_of(const char *line, const char *mark)
{
    const char *at = strstr(line, mark);
    struct rqli_slice rest = rqli_slice_of(at ? at + strlen(mark) : "");

    return (struct rqli_slice){rest.data, rqli_slice_before(rest, ",")};
}

bool rqli_read_replica(const struct rqli_reply *info, int index, struct rqli_address *at,
                       int64_t *lag_s)
{
    char mark[WORD_SIZE];
    char line[RQLI_HOST_SIZE + 2 * WORD_SIZE] = "";
    struct rqli_slice host;

    (void)snprintf(mark, sizeof mark, "\nslave%d:", index);
    rqli_reply_copy_between(line, sizeof line, info, mark, "\r");
    host = part_of(line, "ip=");
    if (host.length == 0 || host.length >= sizeof at->host ||
        !rqli_parse_within(part_of(line, ",port="), 1, RQLI_PORT_MAX, &at->port) ||
        !rqli_parse_int(part_of(line, ",lag="), lag_s)) {
        return false;
    }
    (void)snprintf(at->host, sizeof at->host, "%.*s", (int)host.length, host.data);
    return true;
}

static int64_t longest_lag(const struct rqli_reply *info)
{
    struct rqli_address at;
    int64_t longest_s = 0;
    int64_t lag_s;

    for (int i = 0; i < RQLI_REPLICAS_MAX && rqli_read_replica(info, i, &at, &lag_s); i++) {
        longest_s = lag_s > longest_s ? lag_s : longest_s;
    }
    return longest_s;
}

/* With sentinels, a master that was replaced may go on granting locks until it knows. */
static void judge_replicas(struct rqli_report *report, const struct rqli_told *told)
{
    const rql_server_info *server = told->server;
    const int64_t lag_s = longest_lag(told->info);

    if (server->replicas < 0) {
        rqli_report_add(report, "dur.replicas", RQL_CHECK_SKIP, "replicas: no right to INFO");
        return;
    }
    if ((server->replicas > 0 || server->is_by_sentinels) && server->min_replicas_to_write < 0) {
        rqli_report_add(report, "dur.replicas", RQL_CHECK_SKIP,
                        "min-replicas-to-write: no right to CONFIG GET");
    } else if ((server->replicas > 0 || server->is_by_sentinels) &&
               server->min_replicas_to_write == 0) {
        rqli_report_add(report, "dur.replicas", RQL_CHECK_WARN,
                        "%" PRId64 " replicas, and min-replicas-to-write is 0", server->replicas);
        rqli_report_say(report, "an old master may go on granting after a failover",
                        "redis-cli CONFIG SET min-replicas-to-write 1, on each server; and "
                        "min-replicas-max-lag 1");
    } else if (lag_s > 1) {
        rqli_report_add(report, "dur.replicas", RQL_CHECK_WARN, "a replica is %" PRId64 " s behind",
                        lag_s);
        rqli_report_say(report, "a failover loses the locks of that time",
                        "look at its network and load: redis-cli INFO replication");
    } else {
        rqli_report_add(report, "dur.replicas", RQL_CHECK_OK, "%" PRId64 " replicas",
                        server->replicas);
    }
    rqli_report_number(report, "replicas", server->replicas);
    rqli_report_number(report, "min_replicas_to_write", server->min_replicas_to_write);
    rqli_report_number(report, "lag_s", lag_s);
}

/* ---- use.scripts ---- */

static void judge_scripts(struct rqli_report *report, const struct rqli_told *told)
{
    const int64_t count = rqli_info_number(told->info, "\nnumber_of_cached_scripts:");
    const int64_t bytes = rqli_info_number(told->info, "\nused_memory_scripts:");

    rqli_report_add(report, "use.scripts", count > SCRIPTS_MAX ? RQL_CHECK_WARN : RQL_CHECK_OK,
                    "%" PRId64 " scripts are kept", count);
    rqli_report_number(report, "scripts", count);
    rqli_report_number(report, "bytes", bytes);
    rqli_report_say(report,
                    "somebody sends scripts with data in their texts: memory, and time of all, go",
                    "redis-cli SCRIPT FLUSH ASYNC, and have that program send data as arguments");
}

/* ---- all ---- */

void rqli_judge_server(struct rqli_report *report, const struct rqli_told *told)
{
    static const char *const ids[] = {"srv.busy", "mem.policy",  "mem.evicted",
                                      "mem.room", "dur.persist", "use.scripts"};

    judge_kind(report, told);
    judge_slow(report, told);
    judge_timeout(report, told);
    judge_replicas(report, told);
    if (told->info->type != RQLI_REPLY_TEXT) {
        for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
            rqli_report_add(report, ids[i], RQL_CHECK_SKIP, "%s: no right to INFO", ids[i]);
        }
        return;
    }
    judge_clients(report, told);
    judge_memory(report, told);
    judge_persistence(report, told);
    judge_scripts(report, told);
}

void rqli_diagnose_server(struct rqli_diagnosis *self)
{
    /* Each command has one name, because servers before 7.0 take no more. */
    static const char *const names[] = {"timeout",     "client-output-buffer-limit",
                                        "maxclients",  "stop-writes-on-bgsave-error",
                                        "appendfsync", "save"};

    enum { INFO, SLOWLOG, CONFIG, N_CONFIG = sizeof names / sizeof names[0] };

    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_batch_take(rqli_conns_choose(&self->node->conns));
    struct rqli_told told;
    int64_t lag_s;

    if (batch) {
        rqli_command_words(&batch->command, "INFO", NULL);
        rqli_command_words(&batch->command, "SLOWLOG", "GET", "32", NULL);
    }
    for (size_t i = 0; batch && i < N_CONFIG; i++) {
        rqli_command_words(&batch->command, "CONFIG", "GET", names[i], NULL);
    }
    if (!rqli_diagnosis_run(self, "srv.busy", batch)) {
        return;
    }
    told = (struct rqli_told){
        .server = &self->server,
        .info = &batch->reply[INFO],
        .slowlog = &batch->reply[SLOWLOG],
        .config = &batch->reply[CONFIG],
        .n_config = N_CONFIG,
        .server_us = self->first.server_us,
    };
    if (self->uptime_s < 0) { /* with several servers: the first's */
        self->uptime_s = rqli_info_number(told.info, "\nuptime_in_seconds:");
    }
    while (self->n_replicas < RQLI_REPLICAS_MAX &&
           rqli_read_replica(told.info, (int)self->n_replicas, &self->replicas[self->n_replicas],
                             &lag_s)) {
        self->n_replicas++;
    }
    rqli_judge_server(self->report, &told);
}
