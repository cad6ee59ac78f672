#include "lock/client.h"
#include "options/table.h"
#include "swarm_inside.h"

#include <string.h>

enum { LEAST = offsetof(rql_swarm_options, probe_hosts) };

/* .offset is of the client's option that gives the default, .call_offset of the field here. */
#define ROW(member, source)                                                                        \
    .call_name = #member, .call_offset = offsetof(rql_swarm_options, member),                      \
    .offset = offsetof(rql_options, source)
#define NUMBER(low, high)                                                                          \
    .kind = RQLI_OPTION_INT, .shown.range = #low " to " #high, .min = INT64_C(low),                \
    .max = INT64_C(high)
#define SWITCH .kind = RQLI_OPTION_BOOL, .shown.range = "true | false", .max = 1

static const struct rqli_option rows[] = {
    {ROW(liveness_probing_period_ms, swarm_liveness_probing_period_ms), NUMBER(1, 3600000)},
    {ROW(probe_hosts, swarm_probe_hosts), SWITCH},
    {ROW(probe_period_ms, swarm_probe_period_ms), NUMBER(1, 3600000)},
    {ROW(flush_zombies, swarm_flush_zombies), SWITCH},
    {ROW(zombie_ttl_ms, zombie_ttl_ms), NUMBER(1, 31536000000)},
    {ROW(zombie_flush_period_ms, zombie_flush_period_ms), NUMBER(1, 3600000)},
    {ROW(zombie_lock_scan_size, zombie_lock_scan_size), NUMBER(1, 100000)},
    {ROW(zombie_queue_scan_size, zombie_queue_scan_size), NUMBER(1, 100000)},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

static void fill(rql_swarm_options *out, const rql_options *client)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    for (size_t i = 0; i < N_ROWS; i++) {
        rqli_option_store(&rows[i], (char *)out + rows[i].call_offset,
                          rqli_option_load(&rows[i], (const char *)client + rows[i].offset));
    }
}

static rql_status check_all(const rql_swarm_options *options, rql_error *error)
{
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && i < N_ROWS; i++) {
        status = rqli_option_check(&rows[i], (const char *)options + rows[i].call_offset,
                                   rows[i].call_name, error);
    }
    return status;
}

rql_status rqli_swarm_options_read(rql_swarm_options *out, const rql_options *client,
                                   const rql_swarm_options *given, rql_error *error)
{
    rql_status status = RQL_OK;
    rql_swarm_options read;

    fill(&read, client);
    if (given) {
        status = rqli_options_lay_over(&read, sizeof read, given, LEAST, error);
    }
    status = status ? status : check_all(&read, error);
    if (!status) {
        *out = read;
    }
    return status;
}

void rql_swarm_options_init_sized(const rql_client *client, rql_swarm_options *options, size_t size)
{
    rql_options defaults;
    rql_swarm_options filled;

    rql_options_init(&defaults);
    fill(&filled, client ? &client->options : &defaults);
    rqli_options_hand_out(options, size, &filled, sizeof filled);
}
