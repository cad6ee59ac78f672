#include "demo/worker.h"

#include "common/clock.h"
#include "common/connect.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORK_MIN_US = 500, WORK_SPREAD_US = 1501, PULSE_MS = 10 };

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
    int64_t entered_us = real_us();
    size_t index = atomic_fetch_add(&self->stage->n_holds, 1);
    struct hold *hold = &self->stage->hold[index < HOLDS_MAX ? index : 0];
    int64_t remaining_ms;
    rql_lock_facts facts;

    if (index >= HOLDS_MAX) {
        atomic_store(&self->stage->stop, true);
        return NULL;
    }
    hold->entered_ns = entered_ns;
    hold->entered_us = entered_us;
    /* After the index was taken: a lease that still lasts proves that the entries are in order. */
    hold->until_ns = now_ns();
    remaining_ms = rql_lock_remaining_ms(lock);
    hold->until_ns = remaining_ms > 0 ? hold->until_ns + remaining_ms * RQLB_MS : 0;
    hold->worker = self->number;
    rql_lock_describe(lock, &facts);
    hold->handed_over = facts.handed_over;
    atomic_store(&hold->token, rql_lock_token(lock));
    return hold;
}

/* The process was told to die while it holds the lock: stay until the parent's SIGKILL, or until
 * the demo is over before that came. */
static void meet_doom(struct worker *self)
{
    if (atomic_load(&self->stage->doomed) != process_of(self->number)) {
        return;
    }
    atomic_store(&self->stage->caught, self->number);
    while (!atomic_load(&self->stage->stop)) {
        sleep_until_ns(now_ns() + RQLB_MS);
    }
}

static void work(struct worker *self)
{
    int64_t until_ns = now_ns() + (WORK_MIN_US + rand_r(&self->seed) % WORK_SPREAD_US) * RQLB_US;

    sleep_until_ns(until_ns);
}

/* Returns what was written down of the hold. */
static const struct hold *use(struct worker *self, const rql_lock *lock)
{
    struct hold *hold = enter(self, lock);
    int64_t count = atomic_load(&self->stage->counter);

    if (!hold) {
        return NULL;
    }
    meet_doom(self);
    work(self);
    atomic_store(&self->stage->counter, count + 1);
    atomic_store(&hold->left_ns, now_ns());
    return hold;
}

/* Whether the lock was lost because its holder stood still until the lease was over. */
static bool is_outlived(rql_status status, const struct hold *hold)
{
    return status == RQL_NOT_HELD && hold && now_ns() > hold->until_ns;
}

static bool take_turn(struct worker *self)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(self->client, LOCK_NAME, &self->options, &lock, &error);
    const struct hold *hold;

    if (status) {
        fault_raise(&self->stage->fault, "acquire: %s %s", rql_status_text(status), error.message);
        return false;
    }
    hold = use(self, lock);
    status = rql_lock_release(lock, &error);
    if (status && !is_passing_fault(status) && !is_outlived(status, hold)) {
        fault_raise(&self->stage->fault, "release: %s %s", rql_status_text(status), error.message);
        return false;
    }
    return true;
}

static void *run_worker(void *argument)
{
    struct worker *self = argument;

    (void)rql_client_acquirer_id(self->client, 0, self->stage->acquirer[self->number]);
    (void)sem_post(&self->stage->ready);
    while (!atomic_load(&self->stage->stop) && take_turn(self)) {
    }
    return NULL;
}

/* Watches whether this process runs: a sleep that ends late was a time in which it did not. Ends
 * after the pause that lasts when it is told to.
 */
static void *run_pulse(void *argument)
{
    struct pulse *pulse = argument;
    int64_t then_us = real_us();
    bool is_over = false;
    int64_t now_us;

    while (!is_over) {
        is_over = atomic_load(&pulse->is_over);
        sleep_until_ns(now_ns() + PULSE_MS * RQLB_MS);
        now_us = real_us();
        note_pause(pulse, then_us, now_us);
        then_us = now_us;
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
    pthread_t pulse;
    int started = 0;

    rql_options_init(&options);
    options.url = url;
    client = connect_client(&options, &stage->fault);
    if (!client) {
        return 1;
    }
    if (pthread_create(&pulse, NULL, run_pulse, &stage->pulse[process])) {
        fault_raise(&stage->fault, "cannot start a thread");
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
    atomic_store(&stage->pulse[process].is_over, true);
    (void)pthread_join(pulse, NULL);
    (void)rql_client_free(client);
    return 0;
}
