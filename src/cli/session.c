#include "cmd.h"
#include "output.h"
#include "scope.h"

#include <stdio.h>

enum { HOLDER_SIZE = 2 * RQL_ID_SIZE + 32 };

static rql_status connect(const struct cli_args *args, rql_client **out, rql_error *error)
{
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    rql_status status = rql_client_new(&client, &args->options, error);

    if (status == RQL_OK) {
        status = rql_client_connect(client, error);
    }
    if (status == RQL_E_READ_ONLY) {
        status = RQL_OK; /* to look at locks is possible, and it may become a master */
    }
    if (status == RQL_OK) {
        *out = client;
        client = NULL;
    }
    return status;
}

rql_client *cli_open(const struct cli_args *args, int *code_out)
{
    rql_client *client = NULL;
    rql_error error = {.status = RQL_OK};

    cli_say_unknown_variables();
    if (args->env_status != RQL_OK) {
        *code_out = cli_fault(&args->env_error);
        return NULL;
    }
    if (connect(args, &client, &error) != RQL_OK) {
        *code_out = cli_fault(&error);
    }
    return client;
}

static void fill(const struct cli_args *args, const rql_client *client, rql_lock_options *out)
{
    rql_lock_options_init(client, out);
    out->meta = args->n_meta > 0 ? args->meta : NULL;
    out->n_meta = args->n_meta;
    out->fail_fast = args->fail_fast;
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
    if (args->max_hold_ms != CLI_UNSET) {
        out->max_hold_ms = args->max_hold_ms;
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

static void say_refused(const struct cli_args *args, rql_status status, const rql_refusal *refusal)
{
    char holder[HOLDER_SIZE];

    describe_holder(refusal, holder);
    cli_say("%s: not acquired: %s%s", args->name, rql_status_text(status), holder);
}

/* A lock that was handed over lives for a second until it is claimed (protocol.md 4). The claim is
 * made before anybody relies on the lock, and tells at once when it is gone already. */
static int claim(const struct cli_args *args, rql_lock *lock)
{
    const rql_lock_facts facts = rql_lock_describe(lock);
    rql_error error = {.status = RQL_OK};
    rql_status status = RQL_OK;

    if (facts.handed_over) {
        status = rql_lock_extend(lock, facts.ttl_ms, &error);
    }
    if (status == RQL_NOT_HELD) {
        cli_say("%s: lost as soon as it was acquired", args->name);
        return CLI_LOST;
    }
    return status == RQL_OK ? CLI_DONE : cli_fault(&error);
}

int cli_acquire(const struct cli_args *args, rql_client *client, rql_lock **out)
{
    __attribute__((cleanup(rql_refusal_clear_p))) rql_refusal refusal = {.reason = RQL_OK};
    rql_lock_options options;
    rql_error error = {.status = RQL_OK};
    rql_lock *lock = NULL;
    rql_status status;
    int code;

    fill(args, client, &options);
    fill_renewal(args, &options);
    options.refusal = &refusal;
    status = rql_lock_acquire(client, args->name, &options, &lock, &error);
    if (status > 0) {
        if (args->json) {
            cli_json_print(cli_json_text(NULL));
        }
        say_refused(args, status, &refusal);
        return (int)args->conflict_exit_code;
    }
    if (status < 0) {
        return cli_fault(&error);
    }
    code = claim(args, lock);
    if (code != CLI_DONE) {
        (void)rql_lock_release(lock, NULL);
        return code;
    }
    *out = lock;
    return CLI_DONE;
}

static void say_series_refused(const struct cli_args *args, const rql_series_result *result,
                               const rql_refusal *refusal)
{
    const char *name = result->failed_on < args->n_names ? args->names[result->failed_on] : "";
    char holder[HOLDER_SIZE];

    describe_holder(refusal, holder);
    cli_say("%s: not acquired: %s%s%s%s", args->name, rql_status_text(result->reason),
            *name ? "; failed on " : "", name, holder);
}

/* As claim(): what was handed over on the way (gem). */
static int claim_series(const struct cli_args *args, rql_series *series)
{
    rql_error error = {.status = RQL_OK};
    rql_status status = RQL_OK;
    size_t i;

    for (i = 0; status == RQL_OK && i < rql_series_count(series); i++) {
        const rql_lock_facts facts = rql_lock_describe(rql_series_lock(series, i));

        if (facts.handed_over) {
            status = rql_series_extend(series, facts.ttl_ms, &error);
        }
    }
    if (status == RQL_NOT_HELD) {
        cli_say("%s: lost as soon as it was acquired", args->name);
        return CLI_LOST;
    }
    return status == RQL_OK ? CLI_DONE : cli_fault(&error);
}

int cli_acquire_series(const struct cli_args *args, rql_client *client, rql_series **out)
{
    __attribute__((cleanup(rql_refusal_clear_p))) rql_refusal refusal = {.reason = RQL_OK};
    rql_series_result result = {.reason = RQL_OK};
    rql_lock_options lock;
    rql_series_options options;
    rql_error error = {.status = RQL_OK};
    rql_series *series = NULL;
    rql_status status;
    int code;

    fill(args, client, &lock);
    fill_renewal(args, &lock);
    lock.refusal = &refusal;
    rql_series_options_init(&options);
    options.mode = args->gem ? RQL_SERIES_GEM : RQL_SERIES_ATOMIC;
    options.names = args->names;
    options.n_names = args->n_names;
    options.lock = &lock;
    options.result = &result;
    status = rql_series_acquire(client, &options, &series, &error);
    if (status > 0) {
        say_series_refused(args, &result, &refusal);
        return (int)args->conflict_exit_code;
    }
    if (status < 0) {
        return cli_fault(&error);
    }
    code = claim_series(args, series);
    if (code != CLI_DONE) {
        (void)rql_series_release(series, NULL, NULL);
        return code;
    }
    *out = series;
    return CLI_DONE;
}
