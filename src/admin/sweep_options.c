#include "admin/sweep_options.h"

#include "lock/client.h"
#include "options/table.h"

#include <string.h>

enum { LEAST = offsetof(rql_sweep_options, lock_scan_size) };

/* .offset is of the client's option that gives the default, .call_offset of the field here. */
#define NUMBER(member, source, low, high)                                                          \
    {                                                                                              \
        .kind = RQLI_OPTION_INT, .call_name = #member,                                             \
        .call_offset = offsetof(rql_sweep_options, member),                                        \
        .offset = offsetof(rql_options, source), .shown.range = #low " to " #high,                 \
        .min = INT64_C(low), .max = INT64_C(high)                                                  \
    }

static const struct rqli_option numbers[] = {
    NUMBER(batch_size, lock_release_batch_size, 1, 100000),
    NUMBER(lock_scan_size, clear_locks_of_lock_scan_size, 1, 100000),
    NUMBER(queue_scan_size, clear_locks_of_queue_scan_size, 1, 100000),
    NUMBER(dead_ttl_ms, dead_request_ttl_ms, 0, 315360000000),
};

static const struct rqli_option dry_run = {
    .kind = RQLI_OPTION_BOOL,
    .call_name = "dry_run",
    .call_offset = offsetof(rql_sweep_options, dry_run),
    .shown.range = "true | false",
    .max = 1,
};

enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

static void fill(rql_sweep_options *out, const rql_options *client)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    for (size_t i = 0; i < N_NUMBERS; i++) {
        rqli_option_store(&numbers[i], (char *)out + numbers[i].call_offset,
                          rqli_option_load(&numbers[i], (const char *)client + numbers[i].offset));
    }
}

static rql_status check(const struct rqli_option *option, const rql_sweep_options *options,
                        rql_error *error)
{
    return rqli_option_check(option, (const char *)options + option->call_offset, option->call_name,
                             error);
}

rql_status rqli_sweep_options_read(rql_sweep_options *out, const rql_options *client,
                                   const rql_sweep_options *given, rql_error *error)
{
    rql_status status = RQL_OK;
    rql_sweep_options read;

    fill(&read, client);
    if (given) {
        status = rqli_options_lay_over(&read, sizeof read, given, LEAST, error);
    }
    for (size_t i = 0; !status && i < N_NUMBERS; i++) {
        status = check(&numbers[i], &read, error);
    }
    if (!status) {
        status = check(&dry_run, &read, error);
    }
    if (!status) {
        *out = read;
    }
    return status;
}

void rql_sweep_options_init_sized(const rql_client *client, rql_sweep_options *options, size_t size)
{
    rql_options defaults;
    rql_sweep_options filled;

    rql_options_init(&defaults);
    fill(&filled, client ? &client->options : &defaults);
    rqli_options_hand_out(options, size, &filled, sizeof filled);
}
