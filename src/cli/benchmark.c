#include "benchmark.h"
#include "format.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The slots of all loads are interleaved, so that other activity on the server affects all loads
 * alike. A few PINGs between two slots show whether other clients suffer. */

enum {
    ROUNDS = 6, /* the number of rounds that a run aims at */
    SLOT_LEAST_US = 10000,
    SLOT_MOST_US = 200000,
    LOOK_US = 200000, /* spent on PINGs before the first slot */
    PING_PAUSE_US = 2000,
    PINGS = 8, /* between two slots, */
    PINGS_US = 50000,
    SLOWER_TIMES = 3,
    SLOWER_LEAST_US = 5000, /* a smaller increase does not matter */
    BUSY_PERCENT = 20,
    LINE_SIZE = 64,
    US_PER_MS = 1000,
    US_PER_S = 1000000,
};

/* ---- the effect on other clients ---- */

static bool ping(struct cli_benchmark *self)
{
    int64_t took_us = 0;

    if (rql_measure(self->slots.client[0], RQL_MEASURE_PING, NULL, &took_us, &self->slots.error)) {
        return false;
    }
    self->pings_us[self->n_pings++ % CLI_BENCHMARK_PINGS] = (double)took_us;
    return true;
}

/* Sends PINGs one by one with pauses, because more would be a load of their own. Returns false if
 * the server does not answer. */
static bool ping_some(struct cli_benchmark *self, size_t count, int64_t longest_us)
{
    const int64_t end_us = cli_now_us() + longest_us;

    for (size_t i = 0; i < count && cli_now_us() < end_us; i++) {
        if (!ping(self)) {
            return false;
        }
        if (!cli_slots_pass(&self->slots, PING_PAUSE_US)) {
            break;
        }
    }
    return true;
}

static double p99_of_pings(const struct cli_benchmark *self, size_t count)
{
    double sorted[CLI_BENCHMARK_PINGS];

    memcpy(sorted, self->pings_us, sizeof sorted);
    return cli_percentile(sorted, count, 99);
}

/* Measures PING and the CPU use of other clients before the first load. Returns false if the server
 * does not answer. */
static bool look_at_others(struct cli_benchmark *self)
{
    const int64_t begun_us = cli_now_us();
    int64_t before_us = -1;
    int64_t after_us;

    self->slots.has_cpu = rql_measure(self->slots.client[0], RQL_MEASURE_SERVER_CPU, NULL,
                                      &before_us, &self->no_cpu) == RQL_OK;
    if (!ping_some(self, CLI_BENCHMARK_PINGS, LOOK_US)) {
        return false;
    }
    self->first_p99_us = p99_of_pings(self, self->n_pings > 0 ? self->n_pings : 1);
    after_us = cli_slots_cpu_us(&self->slots);
    self->others_percent =
        after_us < 0 ? -1
                     : (double)(after_us - before_us) * 100 / (double)(cli_now_us() - begun_us);
    return true;
}

/* Returns whether other clients suffer. PINGs that were not sent yet count as quick, so it always
 * takes four slow ones to exceed the limit. */
static bool do_others_suffer(struct cli_benchmark *self)
{
    const double p99_us = p99_of_pings(self, CLI_BENCHMARK_PINGS);

    if (p99_us <= SLOWER_TIMES * self->first_p99_us ||
        p99_us <= self->first_p99_us + SLOWER_LEAST_US) {
        return false;
    }
    (void)snprintf(self->stopped, sizeof self->stopped,
                   "stopped: the p99 of PING rose from %.2f to %.2f ms, others suffer",
                   self->first_p99_us / US_PER_MS, p99_us / US_PER_MS);
    return true;
}

/* ---- the run ---- */

static void add_row(struct cli_benchmark *self, enum cli_load load, size_t size)
{
    self->rows[self->n_rows++] = (struct cli_benchmark_row){.load = load, .size = size};
}

static void plan(struct cli_benchmark *self)
{
    static const size_t waiting[] = {2, 16, 1000};

    for (int load = CLI_LOAD_PING; load <= CLI_LOAD_PAIR; load++) {
        for (size_t i = 0; i < self->n_counts; i++) {
            add_row(self, (enum cli_load)load, self->counts[i]);
        }
    }
    for (size_t i = 0; i < sizeof waiting / sizeof waiting[0]; i++) {
        add_row(self, CLI_LOAD_HAND_OVER, waiting[i]);
    }
}

static bool open_clients(struct cli_benchmark *self, const rql_options *options)
{
    const size_t most = self->counts[self->n_counts - 1];
    const size_t wanted = most > CLI_SLOT_CROWD ? most : CLI_SLOT_CROWD;
    struct cli_slots *slots = &self->slots;

    while (slots->n_clients < wanted) {
        rql_client **client = &slots->client[slots->n_clients];

        if (rql_client_new(options, client, &slots->error) != RQL_OK) {
            return false;
        }
        slots->n_clients++;
        if (rql_client_connect(*client, &slots->error) != RQL_OK) {
            return false;
        }
    }
    return true;
}

static void show_progress(const struct cli_benchmark *self)
{
    char line[LINE_SIZE];

    if (isatty(STDERR_FILENO)) {
        (void)snprintf(line, sizeof line, "bench: %d of %d s",
                       (int)((cli_now_us() - self->begun_us) / US_PER_S),
                       (int)((self->end_us - self->begun_us) / US_PER_S));
        cli_rewrite_line(line);
    }
}

/* Runs one pair outside of all slots. It takes more commands than the others, because it sends the
 * scripts to the server. */
static bool warm_up(struct cli_benchmark *self)
{
    struct cli_figures figures;

    return cli_slot_run(&self->slots, CLI_LOAD_PAIR, 1, 0, &figures);
}

/* Runs slots until the time is over, a signal comes, or other clients suffer. Returns false after
 * an error. */
static bool run_slots(struct cli_benchmark *self)
{
    const int64_t share_us = (self->end_us - cli_now_us()) / (int64_t)(self->n_rows * ROUNDS) -
                             (int64_t)PINGS * PING_PAUSE_US;
    const int64_t slot_us = share_us < SLOT_LEAST_US  ? SLOT_LEAST_US
                            : share_us > SLOT_MOST_US ? SLOT_MOST_US
                                                      : share_us;

    for (size_t slot = 0; slot < self->n_rows * CLI_BENCHMARK_ROUNDS_MAX; slot++) {
        struct cli_benchmark_row *row = &self->rows[slot % self->n_rows];
        const int64_t begun_us = cli_now_us();
        struct cli_figures figures;

        show_progress(self);
        if (!ping_some(self, PINGS, PINGS_US)) {
            return false;
        }
        if (self->slots.signal != 0 || do_others_suffer(self) ||
            begun_us + (row->took_us > slot_us ? row->took_us : slot_us) > self->end_us) {
            return true;
        }
        if (!cli_slot_run(&self->slots, row->load, row->size, slot_us, &figures)) {
            return false;
        }
        row->took_us = cli_now_us() - begun_us;
        if (figures.of[CLI_PER_SECOND] >= 0) {
            row->got[row->n++] = figures;
        }
    }
    return true;
}

/* Runs the benchmark, unless the server is busy. Returns false after an error. */
static bool measure(struct cli_benchmark *self)
{
    if (!look_at_others(self)) {
        return false;
    }
    if (self->others_percent > BUSY_PERCENT && !self->is_forced) {
        (void)snprintf(self->stopped, sizeof self->stopped,
                       "others use %.0f %% of the server's CPU, more than %d: --force measures all "
                       "the same",
                       self->others_percent, BUSY_PERCENT);
        return true;
    }
    plan(self);
    return warm_up(self) && run_slots(self);
}

bool cli_benchmark_run(struct cli_benchmark *self, const rql_options *options)
{
    bool is_fine =
        open_clients(self, options) &&
        rql_client_ping(self->slots.client[0], &self->server, &self->slots.error) == RQL_OK &&
        measure(self);

    cli_rewrite_line(NULL);
    for (size_t i = 0; i < self->slots.n_clients; i++) {
        (void)rql_client_free(self->slots.client[i]);
    }
    return is_fine;
}
