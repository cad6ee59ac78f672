#include "perf/library.h"

#include "common/connect.h"

#include <rql/admin.h>
#include <stdlib.h>

enum { TTL_MS = 5000, SPIN_US = 40, REPLICAS_MS = 5000 };

struct shared {
    rql_options options;
    rql_client *client; /* NULL: each thread has its own */
    struct fault *fault;
};

struct hand {
    struct shared *shared;
    rql_client *client;
    rql_lock_options options;
    rql_lock *lock;
};

/* In what the ways of using it differ. */
struct way {
    int64_t spin_us;
    bool is_lazy;
    int64_t replicas;
};

static struct shared *open_shared(const struct site *site, const struct way *way)
{
    struct shared *self = calloc(1, sizeof *self);

    if (!self) {
        fault_raise(site->fault, "out of memory");
        return NULL;
    }
    rql_options_init_gem(&self->options);
    self->options.url = site->address;
    self->options.spin_us = way->spin_us;
    self->options.lazy_release = way->is_lazy;
    self->options.replicas = way->replicas;
    self->options.replica_timeout_ms = REPLICAS_MS;
    self->fault = site->fault;
    return self;
}

static void *open_own(const struct site *site)
{
    return open_shared(site, &(struct way){0});
}

static void close_shared(void *shared)
{
    struct shared *self = shared;

    (void)rql_client_free(self->client);
    free(self);
}

static void *open_one(const struct site *site, const struct way *way)
{
    struct shared *self = open_shared(site, way);

    if (!self) {
        return NULL;
    }
    self->client = connect_client(&self->options, self->fault);
    if (!self->client) {
        close_shared(self);
        return NULL;
    }
    return self;
}

static void *open_sleeping(const struct site *site)
{
    return open_one(site, &(struct way){0});
}

static void *open_spinning(const struct site *site)
{
    return open_one(site, &(struct way){.spin_us = SPIN_US});
}

static void *open_lazy(const struct site *site)
{
    return open_one(site, &(struct way){.is_lazy = true});
}

static void *open_lazy_spinning(const struct site *site)
{
    return open_one(site, &(struct way){.spin_us = SPIN_US, .is_lazy = true});
}

static void *open_durable(const struct site *site)
{
    return open_one(site, &(struct way){.replicas = 1});
}

static void leave(void *hand)
{
    struct hand *self = hand;

    if (!self->shared->client) {
        (void)rql_client_free(self->client);
    }
    free(self);
}

static void *enter(void *shared, int seat)
{
    struct shared *all = shared;
    struct hand *self = calloc(1, sizeof *self);

    (void)seat;
    if (!self) {
        fault_raise(all->fault, "out of memory");
        return NULL;
    }
    self->shared = all;
    self->client = all->client ? all->client : connect_client(&all->options, all->fault);
    if (!self->client) {
        leave(self);
        return NULL;
    }
    rql_lock_options_init(self->client, &self->options);
    self->options.ttl_ms = TTL_MS;
    self->options.timeout_ms = RQL_FOREVER;
    self->options.retry_count = RQL_FOREVER;
    return self;
}

static bool judge(const struct hand *self, const char *what, rql_status status,
                  const rql_error *error)
{
    if (status) {
        fault_raise(self->shared->fault, "%s: %s %s", what, rql_status_text(status),
                    error->message);
    }
    return !status;
}

static bool take(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    rql_error error = {0};

    return judge(self, "acquire",
                 rql_lock_acquire(self->client, prize->name, &self->options, &self->lock, &error),
                 &error);
}

static bool give(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    rql_lock *lock = self->lock;
    rql_error error = {0};

    (void)prize;
    self->lock = NULL;
    return judge(self, "release", rql_lock_release(lock, &error), &error);
}

const struct contender contender_shared = {
    .name = "shared",
    .open = open_sleeping,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_own = {
    .name = "own",
    .open = open_own,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_spin = {
    .name = "spin",
    .open = open_spinning,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_lazy = {
    .name = "lazy",
    .open = open_lazy,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_lazy_spin = {
    .name = "lazy-spin",
    .open = open_lazy_spinning,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_durable = {
    .name = "durable",
    .open = open_durable,
    .close = close_shared,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};
