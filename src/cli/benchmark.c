#include "benchmark.h"
#include "format.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Slots of all loads are interleaved, so that what else happens on the server meets all of them
 * alike. Between two slots a few PINGs show whether others suffer. */

enum {
    ROUNDS = 6, /* that are aimed at */
    SLOT_LEAST_US = 10000,
    SLOT_MOST_US = 200000,
    LOOK_US = 200000, /* at the server, before the first slot */
    PING_PAUSE_US = 2000,
    PINGS = 8, /* between two slots, */
    PINGS_US = 50000,
    SLOWER_TIMES = 3,
    SLOWER_LEAST_US = 5000, /* less hurts nobody */
    BUSY_PERCENT = 20,
    LINE_SIZE = 64,
    US_PER_MS = 1000,
    US_PER_S = 1000000,
};

/* ---- what others have of the server ---- */

static bool ping(struct cli_benchmark *self)
{
    int64_t took_us = 0;

    if (rql_measure(self->slots.client[0], RQL_MEASURE_PING, NULL, &took_us, &self->slots.error)) {
        return false;
    }
    self->pings_us[self->n_pings++ % CLI_BENCHMARK_PINGS] = (double)took_us;
    return true;
}

/* Few at a time: a load of its own would show as one of others. False: there is no answer. */
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

/* Before the first load. False: there is no answer. */
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

/* Those that were not sent yet count as quick: at any time it takes four slow ones. */
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

        if (rql_client_new(client, options, &slots->error) != RQL_OK) {
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

/* One pair that is in no slot: it takes more commands, for the server gets the scripts with it. */
static bool warm_up(struct cli_benchmark *self)
{
    struct cli_figures figures;

    return cli_slot_run(&self->slots, CLI_LOAD_PAIR, 1, 0, &figures);
}

/* False: there is an error. It also ends by a signal, and where others suffer. */
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

/* False: there is an error. */
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
