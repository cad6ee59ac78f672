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

/* An acquisition of a series in a thread of its own. */
struct series_waiter {
    rql_client *client;
    struct wish wish;
    bool releases; /* at once, in its thread */
    pthread_t thread;
    rql_series *series;
    rql_status status;
    rql_error error;
    int64_t ended_us;
    int64_t token; /* of its first lock */
};

static inline void *run_series_waiter(void *data)
{
    struct series_waiter *self = data;

    self->status =
        rql_series_acquire(self->client, &self->wish.options, &self->series, &self->error);
    self->ended_us = wait_clock_us();
    if (self->status == RQL_OK) {
        self->token = rql_lock_token(rql_series_lock(self->series, 0));
    }
    if (self->releases && self->status == RQL_OK) {
        self->status = rql_series_release(self->series, NULL, &self->error);
        self->series = NULL;
    }
    return NULL;
}

static inline void series_waiter_init(struct series_waiter *self, rql_client *of,
                                      const char *const *names, size_t count)
{
    *self = (struct series_waiter){.client = of};
    wish_for(&self->wish, of, names, count);
}

static inline void series_waiter_start(struct series_waiter *self)
{
    assert_int_equal(pthread_create(&self->thread, NULL, run_series_waiter, self), 0);
}

/* Returns when the queue of its last name has `count` requests. */
static inline void series_waiter_start_as(struct series_waiter *self, int64_t count)
{
    series_waiter_start(self);
    await_int(count, "ZCARD rql:lock_queue:%s",
              self->wish.options.names[self->wish.options.n_names - 1]);
}

static inline rql_status series_waiter_join(struct series_waiter *self)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    return self->status;
}

#endif
