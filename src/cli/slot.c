#include "slot.h"

#include "exit.h"
#include "format.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Runs threads that repeat an operation, or requests on loops that pass one lock on. At the end of
 * a slot all its changes are undone. */

enum {
    NAME_SIZE = 96,
    TIMES_MAX = 1 << 16,            /* hand-overs per slot whose times are kept */
    FILLING_US = 1000000,           /* time until all requests are in the queue */
    CONNECTED = 3 * CLI_SLOT_CROWD, /* turns, only possible once all loops are connected */
    LOOK_US = 500,
    ENDING_S = 2, /* time to undo changes after a signal */
    US_PER_S = 1000000,
};

bool cli_slots_pass(struct cli_slots *self, int64_t us)
{
    const struct timespec time = {.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
    const int found = self->signal == 0 ? sigtimedwait(&self->signals, NULL, &time) : 0;

    if (found > 0) {
        self->signal = found;
        (void)alarm(ENDING_S);
    }
    return self->signal == 0;
}

int64_t cli_slots_cpu_us(struct cli_slots *self)
{
    int64_t cpu_us = -1;

    return self->has_cpu && rql_measure(self->client[0], RQL_MEASURE_SERVER_CPU, NULL, &cpu_us,
                                        NULL) == RQL_OK
               ? cpu_us
               : -1;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;

    return (*left > *right) - (*left < *right);
}

double cli_percentile(double *values, size_t count, unsigned percent)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[(count - 1) * percent / 100];
}

/* Names the lock of a load. A user may be restricted to the keys rql:*, so the plain lock's name,
 * which is its key, begins so. */
static void name_lock(const struct cli_slots *slots, enum cli_load load, size_t index,
                      char out[NAME_SIZE])
{
    static const char *const names[] = {"ping", "plain", "pair", "hand-over"};

    (void)snprintf(out, NAME_SIZE, "%srql-bench-%s:%s:%zu", load == CLI_LOAD_PLAIN ? "rql:" : "",
                   rql_client_identity(slots->client[0]), names[load], index);
}

static rql_lock_options patient(const rql_client *client)
{
    rql_lock_options options;

    rql_lock_options_init(client, &options);
    options.ttl_ms = CLI_SLOT_TTL_MS;
    options.timeout_ms = RQL_FOREVER;
    options.retry_count = RQL_FOREVER;
    options.auto_extend = false;
    return options;
}

/* ---- costs ---- */

/* Returns the commands sent so far, or -1 in a build without statistics. */
static int64_t count_commands(const struct cli_slots *self)
{
    int64_t count = 0;
    rql_stats stats;

    for (size_t i = 0; i < self->n_clients; i++) {
        if (rql_client_stats(self->client[i], &stats) != RQL_OK) {
            return -1;
        }
        count += stats.commands;
    }
    return count;
}

struct costs {
    int64_t commands;
    int64_t cpu_us;
};

/* Returns the costs so far. The command for the CPU time is sent outside of the counted
 * interval. */
static struct costs costs_before(struct cli_slots *self)
{
    struct costs costs = {.cpu_us = cli_slots_cpu_us(self)};

    costs.commands = count_commands(self);
    return costs;
}

static struct cli_figures figures_since(struct cli_slots *self, struct costs before,
                                        double operations, double per_second)
{
    const int64_t commands = count_commands(self);
    const int64_t cpu_us = cli_slots_cpu_us(self);
    struct cli_figures figures = {{-1, -1, -1, -1, -1}};

    if (operations > 0) {
        figures.of[CLI_PER_SECOND] = per_second;
    }
    if (operations > 0 && commands >= 0) {
        figures.of[CLI_COMMANDS] = (double)(commands - before.commands) / operations;
    }
    if (operations > 0 && cpu_us >= 0 && before.cpu_us >= 0) {
        figures.of[CLI_CPU_US] = (double)(cpu_us - before.cpu_us) / operations;
    }
    return figures;
}

/* ---- threads ---- */

struct worker {
    pthread_t thread;
    rql_client *client;
    enum cli_load load;
    const atomic_bool *is_over;
    char name[NAME_SIZE];
    int64_t operations;
    int64_t took_us;
    rql_status status; /* an error of the thread */
    rql_error error;
};

static rql_status take_pair(struct worker *self, const rql_lock_options *options)
{
    rql_lock *lock = NULL;
    rql_status status = rql_lock_acquire(self->client, self->name, options, &lock, &self->error);

    return status == RQL_OK ? rql_lock_release(lock, &self->error) : status;
}

/* Repeats the operation until the slot is over, but runs it at least once. */
static void *repeat(void *user_data)
{
    struct worker *self = user_data;
    const rql_measured measured =
        self->load == CLI_LOAD_PING ? RQL_MEASURE_PING : RQL_MEASURE_PLAIN_LOCK;
    const rql_lock_options options = patient(self->client);
    const int64_t begun_us = cli_now_us();
    int64_t once_us;

    do {
        self->status = self->load == CLI_LOAD_PAIR ? take_pair(self, &options)
                                                   : rql_measure(self->client, measured, self->name,
                                                                 &once_us, &self->error);
        self->operations += self->status == RQL_OK;
    } while (self->status >= RQL_OK && !atomic_load(self->is_over));
    self->took_us = cli_now_us() - begun_us;
    return NULL;
}

static bool start_worker(struct cli_slots *slots, struct worker *worker, size_t index)
{
    worker->client = slots->client[worker->load == CLI_LOAD_PAIR ? 0 : index];
    name_lock(slots, worker->load, index, worker->name);
    if (pthread_create(&worker->thread, NULL, repeat, worker) != 0) {
        slots->error = (rql_error){.status = RQL_E_NOMEM, .message = "no thread could be started"};
        return false;
    }
    return true;
}

static bool run_threads(struct cli_slots *self, enum cli_load load, size_t count, int64_t slot_us,
                        struct cli_figures *out)
{
    CLI_AUTO(cli_free) struct worker *workers = cli_must(calloc(count, sizeof *workers));
    const struct costs before = costs_before(self);
    atomic_bool is_over = false;
    size_t n_started = 0;
    bool is_fine = true;
    int64_t operations = 0;
    double per_second = 0;

    for (size_t i = 0; is_fine && i < count; i++) {
        workers[i].load = load;
        workers[i].is_over = &is_over;
        is_fine = start_worker(self, &workers[i], i);
        n_started += is_fine;
    }
    (void)cli_slots_pass(self, is_fine ? slot_us : 0);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < n_started; i++) {
        const struct worker *worker = &workers[i];

        (void)pthread_join(worker->thread, NULL);
        operations += worker->operations;
        per_second += (double)worker->operations * US_PER_S / (double)(worker->took_us + 1);
        if (worker->status < RQL_OK) {
            self->error = worker->error;
            is_fine = false;
        }
    }
    *out = figures_since(self, before, (double)operations, per_second);
    return is_fine;
}

/* ---- hand-overs ---- */

struct crowd;

struct seat {
    struct crowd *crowd;
    rql_loop *loop; /* belongs to a client of its own, and has its own thread */
};

/* One lock and its requesters: each releases it at once and requests it again. */
struct crowd {
    char name[NAME_SIZE];
    rql_lock_options options[CLI_SLOT_CROWD];
    struct seat seats[CLI_SLOT_CROWD];
    atomic_size_t n_asked;
    atomic_size_t n_served;
    atomic_bool is_counted; /* the queue is filled: times are recorded */
    atomic_bool is_over;
    atomic_int_fast64_t released_us;
    atomic_size_t n_times;
    double times_us[TIMES_MAX];
    atomic_flag has_failed;
    rql_error error; /* the error of the first failed request */
};

static void note_fault(struct crowd *self, const rql_error *error)
{
    if (!atomic_load(&self->is_over) && !atomic_flag_test_and_set(&self->has_failed)) {
        self->error = *error;
    }
}

static void on_granted(rql_status status, rql_lock *lock, const rql_error *error, void *user_data);

/* Requests the lock on each loop in turn, even if the holder before was on the same loop. So
 * neighbours in the queue belong to different clients, and the server hands over. */
static void ask(struct crowd *self)
{
    const size_t turn = atomic_fetch_add(&self->n_asked, 1) % CLI_SLOT_CROWD;
    rql_acquiring what = {.done = on_granted, .user_data = &self->seats[turn]};
    rql_error fault = {.status = RQL_OK};

    if (rql_lock_acquire_async(self->seats[turn].loop, self->name, &self->options[turn], &what,
                               &fault) != RQL_OK) {
        note_fault(self, &fault);
    }
}

/* Releases the lock and requests it again. The holder of the lock is alone; other threads only read
 * the counters meanwhile. */
static void on_granted(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    const struct seat *seat = user_data;
    struct crowd *self = seat->crowd;
    const int64_t now_us = cli_now_us();

    if (status < RQL_OK) {
        note_fault(self, error);
    }
    if (status != RQL_OK) {
        return;
    }
    if (atomic_load(&self->is_counted)) {
        const size_t index = atomic_fetch_add(&self->n_times, 1) % TIMES_MAX;

        self->times_us[index] = (double)(now_us - atomic_load(&self->released_us));
    }
    (void)atomic_fetch_add(&self->n_served, 1);
    atomic_store(&self->released_us, cli_now_us());
    if (rql_lock_release_async(seat->loop, lock, NULL, NULL) != RQL_OK) {
        (void)rql_lock_release(lock, NULL);
    } else if (!atomic_load(&self->is_over)) {
        ask(self);
    }
}

static bool open_crowd(struct cli_slots *slots, struct crowd *self)
{
    for (size_t i = 0; i < CLI_SLOT_CROWD; i++) {
        self->seats[i].crowd = self;
        self->options[i] = patient(slots->client[i]);
        if (rql_loop_open(slots->client[i], NULL, &self->seats[i].loop, &slots->error) != RQL_OK) {
            return false;
        }
    }
    return true;
}

/* Closes the loops. Waiters leave the queue, and locks that are granted meanwhile are released. */
static void close_crowd(struct crowd *self)
{
    atomic_store(&self->is_over, true);
    for (size_t i = 0; i < CLI_SLOT_CROWD; i++) {
        if (self->seats[i].loop) {
            (void)!rql_loop_close(self->seats[i].loop, NULL, NULL, NULL);
        }
    }
}

/* Fills the queue. Requests that one loop sends at the same time are next to each other in the
 * queue, and the lock would pass between them inside their client. So each loop sends one request
 * at a time, as far as time allows. */
static bool fill_queue(struct cli_slots *slots, struct crowd *self, size_t count)
{
    const int64_t end_us = cli_now_us() + FILLING_US;
    int64_t once_us;

    for (size_t i = 0; i < count; i++) {
        if (i % CLI_SLOT_CROWD == 0 && cli_now_us() < end_us &&
            rql_measure(slots->client[0], RQL_MEASURE_PING, NULL, &once_us, &slots->error) !=
                RQL_OK) {
            return false;
        }
        ask(self);
        /* The first requests find the loops not connected yet. */
        while (i + 1 == CLI_SLOT_CROWD && cli_now_us() < end_us &&
               atomic_load(&self->n_served) < CONNECTED && cli_slots_pass(slots, LOOK_US)) {
        }
    }
    return true;
}

static void circulate(struct cli_slots *slots, struct crowd *self, int64_t slot_us,
                      struct cli_figures *out)
{
    const struct costs before = costs_before(slots);
    const int64_t begun_us = cli_now_us();
    const size_t first = atomic_load(&self->n_served);
    double handed;

    atomic_store(&self->is_counted, true);
    (void)cli_slots_pass(slots, slot_us);
    handed = (double)(atomic_load(&self->n_served) - first);
    *out =
        figures_since(slots, before, handed, handed * US_PER_S / (double)(cli_now_us() - begun_us));
}

static bool run_crowd(struct cli_slots *self, size_t waiting, int64_t slot_us,
                      struct cli_figures *out)
{
    CLI_AUTO(cli_free) struct crowd *crowd = cli_must(calloc(1, sizeof *crowd));
    bool is_fine;
    size_t n_times;

    name_lock(self, CLI_LOAD_HAND_OVER, waiting, crowd->name);
    is_fine = open_crowd(self, crowd) && fill_queue(self, crowd, waiting + 1);
    if (is_fine) {
        circulate(self, crowd, slot_us, out);
    }
    close_crowd(crowd);
    if (crowd->error.status != RQL_OK) {
        self->error = crowd->error;
        return false;
    }
    n_times = atomic_load(&crowd->n_times);
    n_times = n_times < TIMES_MAX ? n_times : TIMES_MAX;
    if (is_fine && n_times > 0) {
        out->of[CLI_P50_US] = cli_percentile(crowd->times_us, n_times, 50);
        out->of[CLI_P99_US] = cli_percentile(crowd->times_us, n_times, 99);
    }
    return is_fine;
}

bool cli_slot_run(struct cli_slots *self, enum cli_load load, size_t size, int64_t slot_us,
                  struct cli_figures *out)
{
    return load == CLI_LOAD_HAND_OVER ? run_crowd(self, size, slot_us, out)
                                      : run_threads(self, load, size, slot_us, out);
}
