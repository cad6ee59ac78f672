#ifndef CLI_BENCHMARK_H
#define CLI_BENCHMARK_H

/* A run of slots: which loads are measured, how often, and how other clients fare meanwhile. */

#include "slot.h"

enum {
    CLI_BENCHMARK_COUNTS_MAX = 4, /* numbers of threads to measure with */
    CLI_BENCHMARK_LOADS = 3,      /* loads that run in threads */
    CLI_BENCHMARK_ROWS_MAX = CLI_BENCHMARK_LOADS * CLI_BENCHMARK_COUNTS_MAX + 3,
    CLI_BENCHMARK_ROUNDS_MAX = 256,
    CLI_BENCHMARK_PINGS = 256,
    CLI_BENCHMARK_REASON_SIZE = 160,
};

/* The results of one load, slot by slot. */
struct cli_benchmark_row {
    enum cli_load load;
    size_t size;     /* number of threads, or of waiters */
    int64_t took_us; /* duration of the last slot, including its preparation and clean-up */
    size_t n;
    struct cli_figures got[CLI_BENCHMARK_ROUNDS_MAX];
};

struct cli_benchmark {
    int64_t begun_us;
    int64_t end_us;
    bool is_forced;
    size_t n_counts;
    size_t counts[CLI_BENCHMARK_COUNTS_MAX]; /* numbers of threads, the largest last */

    rql_server_info server;
    struct cli_slots slots;
    size_t n_rows; /* ordered by load, hand-overs last; 0: the run was refused */
    struct cli_benchmark_row rows[CLI_BENCHMARK_ROWS_MAX];
    double others_percent; /* CPU use of other clients; negative: unknown */
    rql_error no_cpu;      /* why the CPU use is unknown; or RQL_OK */
    double first_p99_us;
    double pings_us[CLI_BENCHMARK_PINGS]; /* the most recent ones, as a ring */
    size_t n_pings;
    char stopped[CLI_BENCHMARK_REASON_SIZE]; /* why the run ended early; or empty */
};

/* Runs the benchmark. Returns false if it failed; `slots.error` says why. A signal ends the run,
 * too, and is then in `slots.signal`. */
bool cli_benchmark_run(struct cli_benchmark *self, const rql_options *options);

#endif
