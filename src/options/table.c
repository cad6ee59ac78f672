#include "options/table.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

/* Longer structs are uninitialised memory, not newer programs. */
enum { STRUCT_SIZE_MAX = 4096 };

static const char *const bool_words[] = {"false", "true", NULL};
static const char *const access_words[] = {"queued", "random", NULL};
static const char *const conflict_words[] = {"wait_for_lock", "work_through",
                                             "extendable_work_through", "dead_locking", NULL};

_Static_assert(sizeof(bool) == 1, "switches are read as bytes");
_Static_assert(sizeof(rql_access_strategy) == sizeof(int), "strategies are read as int");
_Static_assert(sizeof(rql_conflict_strategy) == sizeof(int), "strategies are read as int");
_Static_assert(RQL_TTL_MAX_MS == 2592000000, "the table below says it in digits");

#define FIELD(member, variable)                                                                    \
    .shown.name = #member, .shown.env = (variable), .offset = offsetof(rql_options, member)
#define PER_CALL(member) .call_name = #member, .call_offset = offsetof(rql_lock_options, member)
#define WITHIN(low, high)                                                                          \
    .kind = RQLI_OPTION_INT, .shown.range = #low " to " #high, .min = INT64_C(low),                \
    .max = INT64_C(high)
#define FROM_OR_FOREVER(low)                                                                       \
    .kind = RQLI_OPTION_INT, .shown.range = #low " or more, or forever", .min = INT64_C(low),      \
    .max = INT64_MAX, .forever = true
#define SWITCH                                                                                     \
    .kind = RQLI_OPTION_BOOL, .shown.range = "true | false", .max = 1, .words = bool_words,        \
    .shown.default_value = "false", .shown.unit = ""
#define SWITCH_ON                                                                                  \
    .kind = RQLI_OPTION_BOOL, .shown.range = "true | false", .max = 1, .words = bool_words,        \
    .shown.default_value = "true", .shown.unit = "", .fallback = 1
#define ONE_OF(list, range_text, first)                                                            \
    .kind = RQLI_OPTION_ENUM, .shown.range = (range_text), .words = (list),                        \
    .max = sizeof(list) / sizeof(list)[0] - 2, .shown.default_value = (first), .shown.unit = ""
#define DEFAULT(number, unit_text)                                                                 \
    .shown.default_value = #number, .fallback = INT64_C(number), .shown.unit = (unit_text)

static const struct rqli_option rows[] = {
    {FIELD(url, "RQL_URL"), .kind = RQLI_OPTION_TEXT, .shown.unit = "",
     .shown.default_value = "local:",
     .shown.range = "redis://user:pass@host:port/db, unix:///path?db=n or local:",
     .shown.help = "Where the server is."},
    {FIELD(connect_timeout_ms, "RQL_CONNECT_TIMEOUT_MS"), WITHIN(1, 600000), DEFAULT(1000, "ms"),
     .shown.help = "Longest time to connect and log in."},
    {FIELD(io_timeout_ms, "RQL_IO_TIMEOUT_MS"), WITHIN(1, 600000), DEFAULT(1000, "ms"),
     .shown.help = "Longest silence of the server."},
    {FIELD(spin_us, "RQL_SPIN_US"), WITHIN(0, 1000), DEFAULT(0, "us"),
     .shown.help = "How long a caller that is alone spins before it sleeps."},
    {FIELD(retry_count, "RQL_RETRY_COUNT"), PER_CALL(retry_count), FROM_OR_FOREVER(0),
     DEFAULT(3, "tries"), .shown.help = "Tries in all; 0 acts as 1."},
    {FIELD(retry_delay_ms, "RQL_RETRY_DELAY_MS"), PER_CALL(retry_delay_ms), WITHIN(1, 3600000),
     DEFAULT(200, "ms"), .shown.help = "Time between tries."},
    {FIELD(retry_jitter_ms, "RQL_RETRY_JITTER_MS"), PER_CALL(retry_jitter_ms), WITHIN(0, 3600000),
     DEFAULT(25, "ms"), .shown.help = "Random extra time between tries, 0 to this."},
    {FIELD(try_to_lock_timeout_ms, "RQL_TRY_TO_LOCK_TIMEOUT_MS"), PER_CALL(timeout_ms),
     FROM_OR_FOREVER(0), DEFAULT(10000, "ms"),
     .shown.help = "Longest time for a whole acquisition; 0: one try."},
    {FIELD(default_lock_ttl_ms, "RQL_DEFAULT_LOCK_TTL_MS"), PER_CALL(ttl_ms), WITHIN(1, 2592000000),
     DEFAULT(5000, "ms"), .shown.help = "Life of a lock."},
    {FIELD(default_queue_ttl_ms, "RQL_DEFAULT_QUEUE_TTL_MS"), PER_CALL(queue_ttl_ms),
     FROM_OR_FOREVER(1), DEFAULT(15000, "ms"),
     .shown.help = "Time after which a request moves to the tail of its queue."},
    {FIELD(is_timed_by_default, "RQL_IS_TIMED_BY_DEFAULT"), PER_CALL(timed), SWITCH,
     .shown.help = "Blocks that run longer than their ttl are reported."},
    {FIELD(detailed_acq_timeout_error, "RQL_DETAILED_ACQ_TIMEOUT_ERROR"),
     PER_CALL(detailed_acq_timeout_error), SWITCH,
     .shown.help = "Refusals say who holds the lock and who waits for it."},
    {FIELD(default_conflict_strategy, "RQL_DEFAULT_CONFLICT_STRATEGY"), PER_CALL(conflict_strategy),
     ONE_OF(conflict_words, "wait_for_lock | work_through | extendable_work_through | dead_locking",
            "wait_for_lock"),
     .shown.help = "What happens when the acquirer already holds the lock."},
    {FIELD(default_access_strategy, "RQL_DEFAULT_ACCESS_STRATEGY"), PER_CALL(access_strategy),
     ONE_OF(access_words, "queued | random", "queued"), .shown.help = "How a request is served."},
    {FIELD(key_extraction_batch_size, "RQL_KEY_EXTRACTION_BATCH_SIZE"), WITHIN(1, 100000),
     DEFAULT(500, "keys"), .shown.help = "COUNT of each SCAN."},
    {FIELD(lock_release_batch_size, "RQL_LOCK_RELEASE_BATCH_SIZE"), WITHIN(1, 100000),
     DEFAULT(100, "keys"),
     .shown.help = "Keys looked for and released at once when all locks or dead requests go."},
    {FIELD(clear_locks_of_lock_scan_size, "RQL_CLEAR_LOCKS_OF_LOCK_SCAN_SIZE"), WITHIN(1, 100000),
     DEFAULT(300, "keys"),
     .shown.help = "Locks looked for and released at once when those of one acquirer go."},
    {FIELD(clear_locks_of_queue_scan_size, "RQL_CLEAR_LOCKS_OF_QUEUE_SCAN_SIZE"), WITHIN(1, 100000),
     DEFAULT(300, "keys"), .shown.help = "The same for the queues that the acquirer waits in."},
    {FIELD(dead_request_ttl_ms, "RQL_DEAD_REQUEST_TTL_MS"), WITHIN(1, 315360000000),
     DEFAULT(86400000, "ms"), .shown.help = "Age from which a request may count as dead."},
    {FIELD(log_lock_try, "RQL_LOG_LOCK_TRY"), PER_CALL(log_lock_try), SWITCH,
     .shown.help = "The steps of each try are logged too."},
    {FIELD(log_sampling_enabled, "RQL_LOG_SAMPLING_ENABLED"), SWITCH,
     .shown.help = "Only some acquisitions are logged."},
    {FIELD(log_sampling_percent, "RQL_LOG_SAMPLING_PERCENT"), WITHIN(0, 100),
     DEFAULT(15, "percent"), .shown.help = "About how many of them."},
    {FIELD(instr_sampling_enabled, "RQL_INSTR_SAMPLING_ENABLED"), SWITCH,
     .shown.help = "Only some acquisitions send events."},
    {FIELD(instr_sampling_percent, "RQL_INSTR_SAMPLING_PERCENT"), WITHIN(0, 100),
     DEFAULT(15, "percent"), .shown.help = "About how many of them."},
    {FIELD(auto_swarm, "RQL_AUTO_SWARM"), SWITCH, .shown.help = "A new client starts its swarm."},
    {FIELD(swarm_liveness_probing_period_ms, "RQL_SWARM_LIVENESS_PROBING_PERIOD_MS"),
     WITHIN(1, 3600000), DEFAULT(2000, "ms"),
     .shown.help = "How often a swarm's supervisor looks at its parts."},
    {FIELD(swarm_probe_hosts, "RQL_SWARM_PROBE_HOSTS"), SWITCH_ON,
     .shown.help = "A swarm gives signs of life for the hosts of its client."},
    {FIELD(swarm_probe_period_ms, "RQL_SWARM_PROBE_PERIOD_MS"), WITHIN(1, 3600000),
     DEFAULT(2000, "ms"), .shown.help = "How often; at most half of zombie_ttl_ms."},
    {FIELD(swarm_flush_zombies, "RQL_SWARM_FLUSH_ZOMBIES"), SWITCH_ON,
     .shown.help = "A swarm frees what dead hosts held."},
    {FIELD(zombie_ttl_ms, "RQL_ZOMBIE_TTL_MS"), WITHIN(1, 31536000000), DEFAULT(15000, "ms"),
     .shown.help = "A host of the swarm that is silent for longer is dead."},
    {FIELD(zombie_flush_period_ms, "RQL_ZOMBIE_FLUSH_PERIOD_MS"), WITHIN(1, 3600000),
     DEFAULT(10000, "ms"), .shown.help = "What the dead held is free this much later at most."},
    {FIELD(zombie_lock_scan_size, "RQL_ZOMBIE_LOCK_SCAN_SIZE"), WITHIN(1, 100000),
     DEFAULT(500, "keys"), .shown.help = "Locks looked for at once when the dead are flushed."},
    {FIELD(zombie_queue_scan_size, "RQL_ZOMBIE_QUEUE_SCAN_SIZE"), WITHIN(1, 100000),
     DEFAULT(500, "keys"), .shown.help = "The same for queues."},
};

/* Fields that only one acquisition has. */
static const struct rqli_option call_rows[] = {
    {PER_CALL(fail_fast), SWITCH},
    {PER_CALL(auto_extend), SWITCH},
    {PER_CALL(nested), SWITCH},
    {PER_CALL(log_sample_this), SWITCH},
    {PER_CALL(instr_sample_this), SWITCH},
    {PER_CALL(max_hold_ms), FROM_OR_FOREVER(1), .fallback = RQL_FOREVER},
};

const struct rqli_option *rqli_option_at(size_t index)
{
    return index < sizeof rows / sizeof rows[0] ? &rows[index] : NULL;
}

const struct rqli_option *rqli_call_option_at(size_t index)
{
    return index < sizeof call_rows / sizeof call_rows[0] ? &call_rows[index] : NULL;
}

size_t rqli_option_width(const struct rqli_option *self)
{
    static const size_t widths[] = {
        [RQLI_OPTION_INT] = sizeof(int64_t),
        [RQLI_OPTION_BOOL] = sizeof(bool),
        [RQLI_OPTION_ENUM] = sizeof(int),
        [RQLI_OPTION_TEXT] = sizeof(char *),
    };

    return widths[self->kind];
}

/* Bytes, not the field's type: a caller's struct may hold any, and a bool of 7 is undefined. */
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

void rqli_option_store(const struct rqli_option *self, void *field, int64_t value)
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

bool rqli_option_accepts(const struct rqli_option *self, int64_t value)
{
    return (value >= self->min && value <= self->max) || (self->forever && value == RQL_FOREVER);
}

static rql_status check_text(const struct rqli_option *self, const char *text, const char *name,
                             rql_error *error)
{
    if (!text || text[0] == '\0') {
        return rqli_fail(error, RQL_E_INVALID, "%s is %s; it must be %s", name,
                         text ? "empty" : "NULL", self->shown.range);
    }
    return RQL_OK;
}

rql_status rqli_option_check(const struct rqli_option *self, const void *field, const char *name,
                             rql_error *error)
{
    const char *text;
    int64_t value;

    if (self->kind == RQLI_OPTION_TEXT) {
        memcpy(&text, field, sizeof text);
        return check_text(self, text, name, error);
    }
    value = rqli_option_load(self, field);
    if (!rqli_option_accepts(self, value)) {
        return rqli_fail(error, RQL_E_INVALID, "%s is %" PRId64 "; it must be %s", name, value,
                         self->shown.range);
    }
    return RQL_OK;
}

rql_status rqli_option_check_size(size_t size, size_t least, rql_error *error)
{
    if (size < least || size > STRUCT_SIZE_MAX || size % alignof(rql_options) != 0) {
        return rqli_fail(error, RQL_E_INVALID, "options: not set up by their init call");
    }
    return RQL_OK;
}
