#include "base/error.h"
#include "lock/history.h"
#include "lock/series.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * What a series is asked for: read, and checked before its first effect.
 */

void rql_series_options_init_sized(rql_series_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SERIES, options, size, NULL);
}

int64_t rqli_series_ttl_ms(const rql_lock_options *options, size_t count, size_t index)
{
    return (options->ttl_ms + options->retry_delay_ms + options->retry_jitter_ms) *
           (int64_t)(count - index);
}

/* What is sorted are the places of the names. By bytes, as every client does, whatever its locale.
 */
static int compare(const void *a, const void *b, void *options)
{
    const char *const *names = ((const rql_series_options *)options)->names;

    return strcmp(names[*(const size_t *)a], names[*(const size_t *)b]);
}

static rql_status check_names(const rql_series_options *options, rql_error *error)
{
    rql_status status = RQL_OK;

    if (!options->names || options->n_names < 1 || options->n_names > RQL_SERIES_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "a series of %zu names; it must have 1 to %d",
                         options->names ? options->n_names : 0, RQL_SERIES_MAX);
    }
    for (size_t i = 0; !status && i < options->n_names; i++) {
        status = rqli_name_check(options->names[i], error);
    }
    return status;
}

/* The gem's first lock has the longest ttl of all. In the atomic mode all have the one that was
 * given. */
static rql_status check_ttl(const rql_client *client, const struct rqli_series_plan *plan,
                            rql_error *error)
{
    int64_t longest_ms = rqli_series_ttl_ms(&plan->lock, plan->options.n_names, 0);

    if (plan->options.mode != RQL_SERIES_GEM) {
        return RQL_OK;
    }
    if (longest_ms > RQL_TTL_MAX_MS) {
        return rqli_fail(error, RQL_E_INVALID,
                         "the first of %zu locks would have a ttl of %lld ms; at most %lld",
                         plan->options.n_names, (long long)longest_ms, (long long)RQL_TTL_MAX_MS);
    }
    return rqli_history_check_ttl(client, longest_ms, error);
}

/* Everybody takes them in the same order, whatever order they are named in: so no two series wait
 * for each other. In the gem's mode the given order is kept, and a name may come twice, as a re-
 * entry. */
static rql_status put_in_order(struct rqli_series_plan *plan, rql_error *error)
{
    const rql_series_options *options = &plan->options;
    const char *const *names = options->names;

    for (size_t i = 0; i < options->n_names; i++) {
        plan->order[i] = i;
    }
    qsort_r(plan->order, options->n_names, sizeof *plan->order, compare, &plan->options);
    for (size_t i = 1; options->mode == RQL_SERIES_ATOMIC && i < options->n_names; i++) {
        if (strcmp(names[plan->order[i - 1]], names[plan->order[i]]) == 0) {
            return rqli_fail(error, RQL_E_INVALID, "%s: is twice in one series",
                             names[plan->order[i]]);
        }
    }
    return RQL_OK;
}

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_client *client,
                            const rql_series_options *given, rql_error *error)
{
    rql_status status;

    /* Where other calls take the defaults for NULL, there are none for names. */
    if (!given) {
        return rqli_fail(error, RQL_E_INVALID, "a series without options has no names");
    }
    status = rqli_options_read(RQLI_OF_SERIES, &out->options, NULL, given, error);
    if (!status) {
        status = check_names(&out->options, error);
    }
    if (!status) {
        status = rqli_call_options_read(client, &out->lock, out->options.lock, error);
    }
    if (!status) {
        status = check_ttl(client, out, error);
    }
    return status ? status : put_in_order(out, error);
}
