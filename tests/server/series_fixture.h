#ifndef SERIES_FIXTURE_H
#define SERIES_FIXTURE_H

/* What the tests of series share. */

#include "fixture.h"

static const char *const abc[] = {"a", "b", "c"};
static const char *const cba[] = {"c", "b", "a"};

/* Three names of a free choice, as long as it takes. Not to be copied: it refers to itself. */
struct wish {
    rql_series_options options;
    rql_lock_options lock;
    rql_series_result result;
};

static inline void wish_for(struct wish *self, const rql_client *of, const char *const *names,
                            size_t count)
{
    rql_series_options_init(&self->options);
    self->lock = patient(of);
    self->result = (rql_series_result){.count = 0};
    self->options.names = names;
    self->options.n_names = count;
    self->options.lock = &self->lock;
    self->options.result = &self->result;
}

static inline rql_series *take_series_with(rql_client *of, const struct wish *wish)
{
    rql_series *series = NULL;
    rql_error error = {0};
    rql_status status = rql_series_acquire(of, &wish->options, &series, &error);

    if (status) {
        fail_msg("series: %s %s", rql_status_text(status), error.message);
    }
    return series;
}

static inline rql_series *take_series(rql_client *of, const char *const *names, size_t count)
{
    struct wish wish;

    wish_for(&wish, of, names, count);
    return take_series_with(of, &wish);
}

#define CHECK_NOTHING_OF(name)                                                                     \
    do {                                                                                           \
        assert_int_equal(ask_int("EXISTS rql:lock:%s", name), 0);                                  \
        CHECK_QUEUE_IS_EMPTY(name);                                                                \
    } while (0)

#define CHECK_NOTHING_OF_ABC()                                                                     \
    do {                                                                                           \
        CHECK_NOTHING_OF("a");                                                                     \
        CHECK_NOTHING_OF("b");                                                                     \
        CHECK_NOTHING_OF("c");                                                                     \
    } while (0)

#endif
