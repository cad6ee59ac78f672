#include "check.h"

#include "lock/client.h"
#include "lock/series.h"
#include "options/options.h"

#include <stdlib.h>

static rql_options client;
static bool is_partitioned;
static rql_series_options given;
static struct rqli_series_plan plan;
static rql_error error;

enum { ATOMIC = RQL_SERIES_ATOMIC, GEM = RQL_SERIES_GEM, SORTED = RQL_SERIES_SORTED };

#define MIXED "b", "\xc3\xa9", "a", "B", "aa"
#define SPREAD "a", "{b}x", "c", "{b}a"

static const char *const names[] = {MIXED};

/* As a client with these options plans it. */
static rql_status make_plan(const rql_series_options *options)
{
    rql_client whole = {.is_partitioned = is_partitioned};

    rqli_options_fill(RQLI_OF_LOCK, &whole.of_calls, &client);
    return rqli_series_plan(&plan, &whole, options, &error);
}

BEFORE_EACH(set_up)
{
    rql_options_init(&client);
    client.auto_extend = false;
    is_partitioned = false;
    rql_series_options_init(&given);
    given.names = names;
    given.n_names = 5;
    memset(&plan, 0xA5, sizeof plan);
    memset(&error, 0, sizeof error);
}

/* Bytewise, whatever the locale: all clients agree on it. Partitions by `CLUSTER KEYSLOT`: "aa" 9,
 * "b", "{b}x" and "{b}a" 25, "c" 57, "\xc3\xa9" 79, "B" 81, "a" 121. */
TEST(names_are_sorted_by_partition_and_bytes_unless_as_the_gem)
{
    /* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
    static const struct {
        const char *name;
        bool is_partitioned;
        int mode;
        size_t n_names;
        const char *names[5];
        size_t places[5];
        size_t order[5];
        bool renews;      /* meanwhile */
        bool is_extended; /* at the end, and so it is from the beginning */
    } rows[] = {
        {"spread", true, SORTED, 4, {SPREAD}, {3, 1, 2, 0}, {0, 1, 2, 3}, true, false},
        {"extended", true, SORTED, 5, {MIXED}, {4, 0, 1, 3, 2}, {0, 1, 2, 3, 4}, true, true},
        {"on one server", false, SORTED, 4, {SPREAD}, {0, 1, 2, 3}, {0, 2, 3, 1}, false, false},
        {"atomic", false, ATOMIC, 5, {MIXED}, {0, 1, 2, 3, 4}, {3, 2, 4, 0, 1}, false, false},
        {"of one partition", true, SORTED, 1, {"a"}, {0}, {0}, false, false},
        {"of a tag", true, ATOMIC, 2, {"{b}x", "{b}a"}, {0, 1}, {1, 0}, false, false},
        {"as the gem", true, GEM, 4, {SPREAD}, {0, 1, 2, 3}, {0, 1, 2, 3}, false, false},
    };

    rql_lock_options extended;

    rqli_options_fill(RQLI_OF_LOCK, &extended, &client);
    extended.auto_extend = true;
    EACH_ROW (row, rows) {
        is_partitioned = row->is_partitioned;
        given.names = row->names;
        given.n_names = row->n_names;
        given.mode = (rql_series_mode)row->mode;
        given.lock = row->is_extended ? &extended : NULL;
        CHECK_OK(make_plan(&given));
        assert_memory_equal(plan.places, row->places, row->n_names * sizeof(size_t));
        assert_memory_equal(plan.order, row->order, row->n_names * sizeof(size_t));
        assert_int_equal(plan.lock.auto_extend, row->renews);
        assert_int_equal(plan.stops_renewal, row->renews && !row->is_extended);
    }
}

TEST(names_mode_and_the_ttl_of_each_lock_have_limits)
{
    /* The gem holds the first of five for this long, times five, with the pauses of 225 ms. */
    static const int64_t longest_ms = RQL_TTL_MAX_MS / 5 - 225;
    static const char *const twice[] = {"x", "y", "x"};
    static const char *many[RQL_SERIES_MAX + 1];
    static char texts[RQL_SERIES_MAX + 1][8];

    /* As the rows read. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
    const struct {
        const char *name;
        const char *const *names;
        size_t n_names;
        int mode;
        int64_t ttl_ms;
        rql_status status;
    } rows[] = {
        {"the most", many, RQL_SERIES_MAX, ATOMIC, 5000, RQL_OK},
        {"one more", many, RQL_SERIES_MAX + 1, ATOMIC, 5000, RQL_E_INVALID},
        {"none", many, 0, ATOMIC, 5000, RQL_E_INVALID},
        {"an unknown mode", many, 1, 3, 5000, RQL_E_INVALID},
        {"a name twice", twice, 3, ATOMIC, 5000, RQL_E_INVALID},
        {"a name twice, sorted", twice, 3, SORTED, 5000, RQL_E_INVALID},
        {"a name twice, as the gem", twice, 3, GEM, 5000, RQL_OK},
        {"no ttl", names, 5, ATOMIC, 0, RQL_E_INVALID},
        {"the longest ttl", names, 5, ATOMIC, RQL_TTL_MAX_MS, RQL_OK},
        {"the longest ttl, as the gem", names, 5, GEM, longest_ms, RQL_OK},
        {"longer, as the gem", names, 5, GEM, longest_ms + 1, RQL_E_INVALID},
    };

    rql_lock_options lock;

    for (size_t i = 0; i <= RQL_SERIES_MAX; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%zu", i);
        many[i] = texts[i];
    }
    assert_int_equal(make_plan(NULL), RQL_E_INVALID);
    EACH_ROW (row, rows) {
        rqli_options_fill(RQLI_OF_LOCK, &lock, &client);
        lock.ttl_ms = row->ttl_ms;
        given.lock = &lock;
        given.names = row->names;
        given.n_names = row->n_names;
        given.mode = (rql_series_mode)row->mode;
        assert_int_equal(make_plan(&given), row->status);
        assert_true(row->names != twice || row->mode == GEM ||
                    strstr(error.message, "x: occurs twice"));
    }
}
