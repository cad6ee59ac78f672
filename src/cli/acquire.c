#include "acquire.h"

#include "output.h"
#include "scope.h"
#include "waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLDER_SIZE = 2 * RQL_ID_SIZE + 32 };

/* This program is run by one that holds locks: `rql run`. */
static bool is_nested(void)
{
    const char *held = getenv("RQL_LOCK"); /* NOLINT(concurrency-mt-unsafe) */

    return held && held[0] != '\0';
}

static void fill(const struct cli_args *args, const rql_client *client, rql_lock_options *out)
{
    rql_lock_options_init(client, out);
    out->meta = args->n_meta > 0 ? args->meta : NULL;
    out->n_meta = args->n_meta;
    out->fail_fast = args->fail_fast;
    out->nested = is_nested();
    out->detailed_acq_timeout_error = true;
    if (args->ttl_ms != CLI_UNSET) {
        out->ttl_ms = args->ttl_ms;
    }
    if (args->wait_ms != CLI_UNSET) {
        out->timeout_ms = args->wait_ms;
        out->retry_count = RQL_FOREVER;
    }
}

/* `lock` leaves its lock to the ttl, so only `run` renews. */
static void fill_renewal(const struct cli_args *args, rql_lock_options *out)
{
    out->auto_extend = args->command && args->auto_extend;
    if (args->max_hold_ms == CLI_UNSET) {
        return;
    }
    out->max_hold_ms = args->max_hold_ms;
    /* Then it ends in time also when nobody is left to release it. */
    if (args->max_hold_ms != RQL_FOREVER && args->max_hold_ms < out->ttl_ms) {
        out->ttl_ms = args->max_hold_ms;
    }
}

static void describe_holder(const rql_refusal *refusal, char out[HOLDER_SIZE])
{
    *out = '\0';
    if (refusal->holder && refusal->holder->acq_id && refusal->holder->hst_id) {
        (void)snprintf(out, HOLDER_SIZE, "; held by %s on %s", refusal->holder->acq_id,
                       refusal->holder->hst_id);
    }
}

/* What the library says of grants that were over by the time that their answer was here: that the
 * ttl has to outlast the round trip. */
static int find_over(const char *message, const char **out)
{
    static const char last[] = " must outlast the round trip.";
    const char *end = strstr(message, last);
    const char *begin = end;

    while (begin && begin > message && begin[-1] != '.') {
        begin--;
    }
    *out = begin ? begin : "";
    return begin ? (int)(end - begin) + (int)sizeof last - 2 : 0;
}

static void say_refused(const struct cli_args *args, const struct cli_waiting *waiting,
                        const rql_series_result *result, const rql_refusal *refusal)
{
    const bool is_named = !waiting->name && result->failed_on < args->n_names;
    char holder[HOLDER_SIZE];
    const char *over;
    const int over_length = find_over(refusal->message, &over);

    describe_holder(refusal, holder);
    cli_say("%s: not acquired: %s%s%s%s%s%.*s", waiting->label, rql_status_text(waiting->status),
            is_named ? "; failed on " : "", is_named ? args->names[result->failed_on] : "", holder,
            over_length > 0 ? ";" : "", over_length, over);
}

static void fill_series(const struct cli_args *args, const rql_lock_options *lock,
                        rql_series_result *result, rql_series_options *out)
{
    rql_series_options_init(out);
    out->mode = args->gem ? RQL_SERIES_GEM : RQL_SERIES_ATOMIC;
    out->names = args->names;
    out->n_names = args->n_names;
    out->lock = lock;
    out->result = result;
}

/* A lock that was handed over lives for a second until it is claimed. The claim is made before
 * anybody relies on the lock, and tells at once when it is gone already. */
static rql_status claim(const struct cli_held *held, rql_error *error)
{
    rql_lock_facts facts = rql_lock_describe(held->lock);
    rql_status status = RQL_OK;
    size_t i;

    if (facts.handed_over) {
        return rql_lock_extend(held->lock, facts.ttl_ms, error);
    }
    for (i = 0; status == RQL_OK && i < rql_series_count(held->series); i++) {
        facts = rql_lock_describe(rql_series_lock(held->series, i));
        if (facts.handed_over) {
            status = rql_series_extend(held->series, facts.ttl_ms, error);
        }
    }
    return status;
}

/* What is held is given back when it cannot be claimed. */
static int hold(struct cli_held *held, const struct cli_waiting *waiting)
{
    rql_error error = {.status = RQL_OK};
    rql_status status;

    held->lock = waiting->lock;
    held->series = waiting->series;
    status = claim(held, &error);
    if (status == RQL_OK) {
        return CLI_DONE;
    }
    (void)cli_held_release(held, NULL);
    cli_wait_unblock(&held->mask);
    if (status == RQL_NOT_HELD) {
        cli_say("%s: lost as soon as it was acquired", held->label);
        return CLI_LOST;
    }
    return cli_fault(&error);
}

/* How a wait ended that is not held. */
static int refuse(const struct cli_args *args, const struct cli_waiting *waiting,
                  const rql_series_result *result, const rql_refusal *refusal)
{
    if (waiting->signal != 0) {
        return -waiting->signal;
    }
    if (waiting->status < 0) {
        return cli_fault(&waiting->error);
    }
    if (args->json) {
        cli_json_print(cli_json_text(NULL));
    }
    say_refused(args, waiting, result, refusal);
    return (int)args->conflict_exit_code;
}

int cli_acquire(const struct cli_args *args, rql_client *client, struct cli_held *held)
{
    __attribute__((cleanup(rql_refusal_clear_p))) rql_refusal refusal = {.reason = RQL_OK};
    rql_series_result result = {.reason = RQL_OK};
    rql_lock_options options;
    rql_series_options series;
    struct cli_waiting waiting = {.label = held->label,
                                  .name = args->n_names > 0 ? NULL : args->name,
                                  .options = &options,
                                  .series_options = &series};

    fill(args, client, &options);
    fill_renewal(args, &options);
    options.refusal = &refusal;
    fill_series(args, &options, &result, &series);
    cli_wait(&waiting, client);
    if (waiting.signal != 0 || waiting.status != RQL_OK) {
        return refuse(args, &waiting, &result, &refusal);
    }
    held->mask = waiting.mask;
    return hold(held, &waiting);
}
