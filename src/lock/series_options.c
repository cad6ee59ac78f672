#include "lock/series.h"

#include "base/error.h"
#include "lock/client.h"
#include "lock/history.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * The options of a series are read, and checked before its first effect.
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

struct named {
    const rql_client *client;
    const char *const *names;
};

/* Compares the names at two places: by partition, and then by bytes, as every client does, whatever
 * its locale. */
static int compare(const void *a, const void *b, void *context)
{
    const struct named *self = context;
    const char *name = self->names[*(const size_t *)a];
    const char *other = self->names[*(const size_t *)b];
    unsigned set = rqli_key_set_index(rqli_client_key_set(self->client, name));
    unsigned set_of_other = rqli_key_set_index(rqli_client_key_set(self->client, other));

    return set == set_of_other ? strcmp(name, other) : (set > set_of_other) - (set < set_of_other);
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

/* Checks the longest ttl. In the gem's mode the first lock has the longest ttl of all; in the other
 * modes all locks have the ttl that was given. */
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

/* Returns the index of the first name of another partition than those before it; n_names: all are
 * in one. */
static size_t first_elsewhere(const rql_client *client, const rql_series_options *options)
{
    size_t i = 1;

    while (i < options->n_names && rqli_client_key_set(client, options->names[i]) ==
                                       rqli_client_key_set(client, options->names[0])) {
        i++;
    }
    return i;
}

static rql_status check_no_name_twice(const char *const *names, const size_t *sorted, size_t count,
                                      rql_error *error)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[sorted[i - 1]], names[sorted[i]]) == 0) {
            return rqli_fail(error, RQL_E_INVALID, "%s: is twice in one series", names[sorted[i]]);
        }
    }
    return RQL_OK;
}

/* Puts the locks in order. Every client takes them in the same order, whatever order they are named
 * in: so no two series wait for each other. A series that is spread takes the locks of one
 * partition in each step, and the locks that it has got are renewed until the last step is over. In
 * the gem's mode the given order is kept, and a name may come twice, as a re-entry. */
static rql_status put_in_order(struct rqli_series_plan *plan, const rql_client *client,
                               rql_error *error)
{
    const rql_series_options *options = &plan->options;
    struct named named = {client, options->names};
    size_t elsewhere = first_elsewhere(client, options);
    bool is_spread = options->mode != RQL_SERIES_GEM && elsewhere < options->n_names;
    size_t *sorted = is_spread ? plan->places : plan->order;

    for (size_t i = 0; i < options->n_names; i++) {
        plan->places[i] = i;
        plan->order[i] = i;
    }
    if (is_spread && options->mode == RQL_SERIES_ATOMIC) {
        return rqli_fail(error, RQL_E_INVALID,
                         "%s and %s: are in different partitions, which are not locked in one "
                         "step; a {tag} in the names puts them in one (\"orders:{42}:a\"), or "
                         "take them in a sorted series",
                         options->names[0], options->names[elsewhere]);
    }
    plan->stops_renewal = is_spread && !plan->lock.auto_extend;
    plan->lock.auto_extend = plan->lock.auto_extend || is_spread;
    if (options->mode == RQL_SERIES_GEM) {
        return RQL_OK;
    }
    qsort_r(sorted, options->n_names, sizeof *sorted, compare, &named);
    return check_no_name_twice(options->names, sorted, options->n_names, error);
}

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_client *client,
                            const rql_series_options *given, rql_error *error)
{
    rql_status status;

    /* Other calls take the defaults for NULL; there are none for names. */
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
    return status ? status : put_in_order(out, client, error);
}
