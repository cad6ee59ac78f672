#include "demo/worker.h"

#include "common/clock.h"
#include "common/connect.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORK_MIN_US = 500, WORK_SPREAD_US = 1501 };

struct worker {
    struct stage *stage;
    rql_client *client;
    rql_lock_options options;
    unsigned seed;
    int number;
    pthread_t thread;
};

/* Only called while the lock is held, so entries are in the order of the holds. NULL: full. */
static struct hold *enter(struct worker *self, const rql_lock *lock)
{
    int64_t entered_ns = now_ns();
    rql_lock_facts facts = rql_lock_describe(lock);
    size_t index = atomic_fetch_add(&self->stage->n_holds, 1);
    struct hold *hold = &self->stage->hold[index < HOLDS_MAX ? index : 0];

    if (index >= HOLDS_MAX) {
        atomic_store(&self->stage->stop, true);
        return NULL;
    }
    hold->granted_us = facts.ts_us;
    hold->entered_ns = entered_ns;
    hold->worker = self->number;
    hold->handed_over = facts.handed_over;
    atomic_store(&hold->token, rql_lock_token(lock));
    return hold;
}

/* The process was told to die while it holds the lock: stay until the parent's SIGKILL. */
static void meet_doom(struct worker *self)
{
    if (atomic_load(&self->stage->doomed) != process_of(self->number)) {
        return;
    }
    atomic_store(&self->stage->caught, self->number);
    for (;;) {
        (void)pause();
    }
}

static void work(struct worker *self)
{
    int64_t until_ns = now_ns() + (WORK_MIN_US + rand_r(&self->seed) % WORK_SPREAD_US) * RQLB_US;

    sleep_until_ns(until_ns);
}

static void use(struct worker *self, const rql_lock *lock)
{
    struct hold *hold = enter(self, lock);
    int64_t count = atomic_load(&self->stage->counter);

    if (!hold) {
        return;
    }
    meet_doom(self);
    work(self);
    atomic_store(&self->stage->counter, count + 1);
    atomic_store(&hold->left_ns, now_ns());
}

static bool take_turn(struct worker *self)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(self->client, LOCK_NAME, &self->options, &lock, &error);

    if (status) {
        fault_raise(&self->stage->fault, "acquire: %s %s", rql_status_text(status), error.message);
        return false;
    }
    use(self, lock);
    status = rql_lock_release(lock, &error);
    if (status && !is_passing_fault(status)) {
        fault_raise(&self->stage->fault, "release: %s %s", rql_status_text(status), error.message);
        return false;
    }
    return true;
}

static void *run_worker(void *argument)
{
    struct worker *self = argument;

    (void)rql_current_acquirer_id(self->client, 0, self->stage->acquirer[self->number]);
    (void)sem_post(&self->stage->ready);
    while (!atomic_load(&self->stage->stop) && take_turn(self)) {
    }
    return NULL;
}

static void fill(struct worker *self, struct stage *stage, rql_client *client, int number)
{
    self->stage = stage;
    self->client = client;
    self->number = number;
    self->seed = (unsigned)number + 1;
    rql_lock_options_init(client, &self->options);
    self->options.ttl_ms = LOCK_TTL_MS;
    self->options.timeout_ms = ACQUIRE_TIMEOUT_MS;
    self->options.retry_count = RQL_FOREVER;
}

int run_process(struct stage *stage, int process, const char *url)
{
    struct worker workers[THREADS];
    rql_options options;
    rql_client *client;
    int started = 0;

    rql_options_init(&options);
    options.url = url;
    client = connect_client(&options, &stage->fault);
    if (!client) {
        return 1;
    }
    while (started < THREADS) {
        fill(&workers[started], stage, client, process * THREADS + started);
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started])) {
            fault_raise(&stage->fault, "cannot start a thread");
            break;
        }
        started++;
    }
    while (started > 0) {
        (void)pthread_join(workers[--started].thread, NULL);
    }
    (void)rql_client_free(client);
    return 0;
}
