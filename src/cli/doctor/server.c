#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* srv, mem, dur, net.timeout: judges the server by its replies to INFO and CONFIG GET. */

enum {
    WORD_SIZE = 64,
    LINE_SIZE = 512,
    QUIET_S = 60,           /* a connection of a client may be quiet for this long */
    PUBSUB_BYTES = 1 << 20, /* pushes may pile up to this size */
    FULL_PERCENT = 90,
    CROWDED_PERCENT = 80,
    OLDEST_MAJOR = 6, /* the oldest version is 6.2 */
    OLDEST_MINOR = 2,
};

/* Copies a setting; *out is empty if the user may not read it, or the server does not have it. */
static void read_setting(struct doctor *self, const char *name, char *out, size_t size)
{
    CLI_AUTO(rql_free) rql_reply *reply = DOCTOR_ASK(self, "CONFIG", "GET", name);

    (void)snprintf(out, size, "%s", rql_reply_text(rql_reply_item(reply, 1), NULL));
}

/* Reads "7.0.15". A text that is no version does not count as too old. */
static bool is_too_old(const char *version)
{
    char *end = NULL;
    const long major = strtol(version, &end, 10);
    const long minor = *end == '.' ? strtol(end + 1, &end, 10) : OLDEST_MINOR;

    return end != version &&
           (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR));
}

static void read_description(struct doctor *self, const rql_reply *info)
{
    const rql_server_info *server = &self->server;
    const int64_t clients = doctor_info_number(info, "\nconnected_clients:");
    const int64_t most = doctor_info_number(info, "\nmaxclients:");

    doctor_text(self, "srv.role", "product", *server->product ? server->product : "unknown");
    doctor_text(self, "srv.role", "version", server->version);
    doctor_text(self, "srv.role", "role", server->role);
    doctor_flag(self, "is_replica", strcmp(server->role, "replica") == 0);
    doctor_flag(self, "is_old", is_too_old(server->version));
    doctor_flag(self, "is_unknown",
                strcmp(server->product, "redis") != 0 && strcmp(server->product, "valkey") != 0);
    doctor_number(self, "srv.busy", "connected_clients", clients);
    doctor_number(self, "srv.busy", "maxclients", most);
    doctor_number(self, "", "more_clients", 2 * most);
    doctor_flag(self, "is_crowded", most > 0 && clients * 100 > most * CROWDED_PERCENT);
}

static void read_memory(struct doctor *self, const rql_reply *info)
{
    const int64_t limit = doctor_info_number(info, "\nmaxmemory:");
    const int64_t used = doctor_info_number(info, "\nused_memory:");
    const int64_t evicted = doctor_info_number(info, "\nevicted_keys:");
    char policy[WORD_SIZE];
    bool can_evict;

    doctor_info_text(info, "\nmaxmemory_policy:", policy, sizeof policy);
    can_evict = strcmp(policy, "noeviction") != 0;
    doctor_text(self, "mem.policy", "policy", policy);
    doctor_number(self, "mem.policy", "maxmemory", limit);
    doctor_number(self, "mem.evicted", "evicted_keys", evicted);
    doctor_number(self, "mem.room", "used_memory", used);
    doctor_number(self, "mem.room", "maxmemory", limit);
    doctor_number(self, "", "more_memory", 2 * limit);
    doctor_flag(self, "has_no_policy", !*policy);
    doctor_flag(self, "can_evict", can_evict);
    doctor_flag(self, "does_evict", can_evict && limit > 0);
    doctor_flag(self, "has_evicted", evicted > 0);
    doctor_flag(self, "evicts_again", evicted > 0 && can_evict);
    doctor_flag(self, "is_limited", limit > 0);
    doctor_flag(self, "is_full", limit > 0 && used > limit / 100 * FULL_PERCENT);
}

static bool info_says(const rql_reply *info, const char *mark, const char *word)
{
    char text[WORD_SIZE];

    doctor_info_text(info, mark, text, sizeof text);
    return strcmp(text, word) == 0;
}

/* Without the right to CONFIG, assumes the default: a server that cannot save refuses to write. */
static void read_persistence(struct doctor *self, const rql_reply *info)
{
    const bool has_aof = info_says(info, "\naof_enabled:", "1");
    char stops[WORD_SIZE];
    char fsync[WORD_SIZE];
    char save[LINE_SIZE];

    read_setting(self, "stop-writes-on-bgsave-error", stops, sizeof stops);
    read_setting(self, "appendfsync", fsync, sizeof fsync);
    read_setting(self, "save", save, sizeof save);
    doctor_number(self, "dur.persist", "aof", has_aof);
    doctor_text(self, "dur.persist", "fsync", fsync);
    doctor_flag(self, "saves", *save != '\0');
    doctor_flag(self, "writes_soon", has_aof);
    doctor_flag(self, "writes_at_once", has_aof && strcmp(fsync, "always") == 0);
    doctor_flag(
        self, "cannot_write",
        (has_aof && info_says(info, "\naof_last_write_status:", "err")) ||
            (info_says(info, "\nrdb_last_bgsave_status:", "err") && strcmp(stops, "no") != 0));
}

/* Copies the text between a mark and the next comma. */
static void copy_part(const char *line, const char *mark, char *out, size_t size)
{
    const char *at = strstr(line, mark);

    at = at ? at + strlen(mark) : "";
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, ","), at);
}

/* Reads the lines "slave<index>:ip=...,port=...,state=online,offset=1,lag=0" of INFO. Returns the
 * longest lag. */
static int64_t read_replicas(struct doctor *self, const rql_reply *info)
{
    int64_t longest_s = 0;

    for (int i = 0; i < DOCTOR_REPLICAS; i++) {
        int64_t lag_s;
        char line[LINE_SIZE];
        char part[LINE_SIZE];
        char port[WORD_SIZE];

        (void)snprintf(part, sizeof part, "\nslave%d:", i);
        doctor_info_text(info, part, line, sizeof line);
        copy_part(line, ",lag=", part, sizeof part);
        lag_s = strtoll(part, NULL, 10);
        longest_s = lag_s > longest_s ? lag_s : longest_s;
        copy_part(line, "ip=", part, sizeof part);
        copy_part(line, ",port=", port, sizeof port);
        if (self->node == 0 && *part && *port) {
            (void)snprintf(self->replicas[self->n_replicas++], DOCTOR_ADDRESS,
                           strchr(part, ':') ? "[%.200s]:%s" : "%.200s:%s", part, port);
        }
    }
    return longest_s;
}

/* Reads "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"; 0: no limit. */
static int64_t read_pubsub_limit(struct doctor *self)
{
    char limits[LINE_SIZE];
    const char *at;

    read_setting(self, "client-output-buffer-limit", limits, sizeof limits);
    at = strstr(limits, "pubsub ");
    return at ? strtoll(at + strlen("pubsub "), NULL, 10) : 0;
}

/* With sentinels, a master that was replaced may go on granting locks until it knows. */
static void read_failover(struct doctor *self, const rql_reply *info)
{
    const rql_server_info *server = &self->server;
    const bool may_fail_over = server->replicas > 0 || server->is_by_sentinels;
    const int64_t lag_s = read_replicas(self, info);

    doctor_number(self, "dur.replicas", "replicas", server->replicas);
    doctor_number(self, "dur.replicas", "min_replicas_to_write", server->min_replicas_to_write);
    doctor_number(self, "dur.replicas", "lag_s", lag_s);
    doctor_flag(self, "hides_replicas", server->replicas < 0);
    doctor_flag(self, "hides_least", may_fail_over && server->min_replicas_to_write < 0);
    doctor_flag(self, "needs_no_replica", may_fail_over && server->min_replicas_to_write == 0);
    doctor_flag(self, "lags", lag_s > 1);
}

static void read_timeouts(struct doctor *self)
{
    const int64_t limit = read_pubsub_limit(self);
    char timeout[WORD_SIZE];
    int64_t timeout_s;

    read_setting(self, "timeout", timeout, sizeof timeout);
    timeout_s = *timeout ? strtoll(timeout, NULL, 10) : -1;
    doctor_number(self, "net.timeout", "timeout_s", timeout_s);
    doctor_number(self, "net.timeout", "pubsub_limit", limit);
    doctor_flag(self, "hides_timeout", timeout_s < 0);
    doctor_flag(self, "ends_quiet_ones", timeout_s > 0 && timeout_s < QUIET_S);
    doctor_flag(self, "ends_slow_ones", limit > 0 && limit < PUBSUB_BYTES);
}

static bool read_server(struct doctor *self)
{
    CLI_AUTO(rql_free) rql_reply *info = DOCTOR_ASK(self, "INFO");

    if (!info) {
        return false;
    }
    doctor_flag(self, "lacks_info", rql_reply_get_type(info) != RQL_REPLY_TEXT);
    read_description(self, info);
    read_memory(self, info);
    read_persistence(self, info);
    read_failover(self, info);
    read_timeouts(self);
    return true;
}

static const struct doctor_row rows[] = {
    {"srv.role", DOCTOR_FAIL, "is_replica", "the server is a replica: locks can be read, not taken",
     "a replica grants no lock", "name the master in RQL_URL, or sentinels that know it"},
    {"srv.role", DOCTOR_FAIL, "is_old", "{product} {version} is too old",
     "the scripts of librql need Redis 6.2", "upgrade the server to Redis 6.2 or later"},
    {"srv.role", DOCTOR_WARN, "is_unknown", "the server is neither Redis nor Valkey: {product}",
     "librql is tested with Redis and Valkey only", "use Redis or Valkey"},
    DOCTOR_GOOD_ROW("srv.role", NULL, "{product} {version}, a {role}"),

    DOCTOR_SKIP_ROW("srv.busy", "lacks_info", "connections: no right to INFO"),
    {"srv.busy", DOCTOR_WARN, "is_crowded",
     "{connected_clients} of {maxclients} connections are in use",
     "the server refuses new clients when no connection is left",
     "redis-cli CONFIG SET maxclients {more_clients}"},
    DOCTOR_GOOD_ROW("srv.busy", NULL,
                    "{connected_clients} connection{connected_clients:plural} in use"),

    DOCTOR_SKIP_ROW("mem.policy", "lacks_info", "maxmemory-policy: no right to INFO"),
    DOCTOR_SKIP_ROW("mem.policy", "has_no_policy",
                    "maxmemory-policy: the server does not report it"),
    {"mem.policy", DOCTOR_FAIL, "does_evict",
     "maxmemory-policy is {policy}, memory is limited to {maxmemory:size}",
     "the server may evict a lock that a client still holds",
     "redis-cli CONFIG SET maxmemory-policy noeviction"},
    {"mem.policy", DOCTOR_WARN, "can_evict", "maxmemory-policy is {policy}, memory is not limited",
     "with a limit, the server may evict a lock that a client still holds",
     "redis-cli CONFIG SET maxmemory-policy noeviction"},
    DOCTOR_GOOD_ROW("mem.policy", NULL, "maxmemory-policy is noeviction"),

    DOCTOR_SKIP_ROW("mem.evicted", "lacks_info", "evicted keys: no right to INFO"),
    {"mem.evicted", DOCTOR_FAIL, "evicts_again",
     "the server has evicted {evicted_keys} key{evicted_keys:plural}",
     "if a lock was among them, two clients have held it at the same time",
     "set maxmemory-policy to noeviction, then: redis-cli CONFIG RESETSTAT"},
    {"mem.evicted", DOCTOR_NOTE, "has_evicted",
     "the server has evicted {evicted_keys} key{evicted_keys:plural} under an earlier policy",
     "if a lock was among them, two clients have held it at the same time",
     "check the data that the locks guard, then: redis-cli CONFIG RESETSTAT"},
    DOCTOR_GOOD_ROW("mem.evicted", NULL, "no key was evicted"),

    DOCTOR_SKIP_ROW("mem.room", "lacks_info", "memory: no right to INFO"),
    {"mem.room", DOCTOR_WARN, "is_full", "memory: {used_memory:size} of {maxmemory:size} used",
     "no lock can be taken when the memory is full",
     "redis-cli CONFIG SET maxmemory {more_memory}"},
    DOCTOR_GOOD_ROW("mem.room", "is_limited",
                    "memory: {used_memory:size} of {maxmemory:size} used"),
    DOCTOR_GOOD_ROW("mem.room", NULL, "memory: {used_memory:size} used, no limit"),

    DOCTOR_SKIP_ROW("dur.persist", "lacks_info", "disk: no right to INFO"),
    {"dur.persist", DOCTOR_FAIL, "cannot_write", "the server cannot write its data to disk",
     "until it can, it refuses all writes, and no lock can be taken",
     "look in the server's log for a full disk or missing rights"},
    DOCTOR_GOOD_ROW("dur.persist", "writes_at_once", "each write is on disk before it is answered"),
    {"dur.persist", DOCTOR_NOTE, "writes_soon", "writes are on disk within about a second",
     "a power loss may free locks of the last second, unless clients set recovery_delay_ms; tokens "
     "keep rising",
     "redis-cli CONFIG SET appendfsync always && redis-cli CONFIG REWRITE"},
    {"dur.persist", DOCTOR_NOTE, "saves", "only snapshots are written to disk",
     "a restart frees locks that are still held, unless clients set recovery_delay_ms; tokens keep "
     "rising",
     "redis-cli CONFIG SET appendonly yes && redis-cli CONFIG REWRITE"},
    {"dur.persist", DOCTOR_NOTE, NULL, "nothing is written to disk",
     "a restart frees locks that are still held, unless clients set recovery_delay_ms; tokens keep "
     "rising",
     "redis-cli CONFIG SET appendonly yes && redis-cli CONFIG REWRITE"},

    DOCTOR_SKIP_ROW("dur.replicas", "hides_replicas", "replicas: no right to INFO"),
    DOCTOR_SKIP_ROW("dur.replicas", "hides_least", "min-replicas-to-write: no right to CONFIG GET"),
    {"dur.replicas", DOCTOR_WARN, "needs_no_replica",
     "{replicas} replica{replicas:plural}, but min-replicas-to-write is 0",
     "after a failover, the old master may continue to grant locks; set this on each server",
     "redis-cli CONFIG SET min-replicas-to-write 1 && redis-cli CONFIG SET min-replicas-max-lag 1"},
    {"dur.replicas", DOCTOR_WARN, "lags", "a replica is {lag_s} s behind",
     "a failover loses the locks of that time",
     "check the network and the load of the replica: redis-cli INFO replication"},
    DOCTOR_GOOD_ROW("dur.replicas", NULL, "{replicas} replica{replicas:plural}"),

    DOCTOR_SKIP_ROW("net.timeout", "hides_timeout", "timeout: no right to CONFIG GET"),
    {"net.timeout", DOCTOR_WARN, "ends_quiet_ones",
     "the server closes connections that are quiet for {timeout_s} s",
     "clients connect again while they wait for a lock or renew one",
     "redis-cli CONFIG SET timeout 0"},
    {"net.timeout", DOCTOR_WARN, "ends_slow_ones",
     "the server closes a connection when {pubsub_limit:size} of pushes wait for it",
     "until the client has connected again, its waiters learn late that they have a lock",
     "redis-cli CONFIG SET client-output-buffer-limit 'pubsub 32mb 8mb 60'"},
    DOCTOR_GOOD_ROW("net.timeout", NULL, "the server does not close quiet connections"),
};

const struct doctor_group doctor_server = {rows, sizeof rows / sizeof rows[0], read_server,
                                           DOCTOR_EACH | DOCTOR_BRIEF};
