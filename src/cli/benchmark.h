#ifndef CLI_BENCHMARK_H
#define CLI_BENCHMARK_H

/* A run of slots: which loads, how often, and what others have of the server meanwhile. */

#include "slot.h"

enum {
    CLI_BENCHMARK_COUNTS_MAX = 4, /* numbers of threads */
    CLI_BENCHMARK_LOADS = 3,      /* that have threads */
    CLI_BENCHMARK_ROWS_MAX = CLI_BENCHMARK_LOADS * CLI_BENCHMARK_COUNTS_MAX + 3,
    CLI_BENCHMARK_ROUNDS_MAX = 256,
    CLI_BENCHMARK_PINGS = 256,
    CLI_BENCHMARK_REASON_SIZE = 160,
};

/* One load, slot by slot. */
struct cli_benchmark_row {
    enum cli_load load;
    size_t size;     /* threads, or how many wait */
    int64_t took_us; /* the last slot, with all about it */
    size_t n;
    struct cli_figures got[CLI_BENCHMARK_ROUNDS_MAX];
};

struct cli_benchmark {
    int64_t begun_us;
    int64_t end_us;
    bool is_forced;
    size_t n_counts;
    size_t counts[CLI_BENCHMARK_COUNTS_MAX]; /* of threads, the largest last */

    rql_server_info server;
    struct cli_slots slots;
    size_t n_rows; /* by loads; those of hand-overs last; 0: it was refused */
    struct cli_benchmark_row rows[CLI_BENCHMARK_ROWS_MAX];
    double others_percent; /* of the server's CPU; negative: not known */
    rql_error no_cpu;      /* why that is not known; or RQL_OK */
    double first_p99_us;
    double pings_us[CLI_BENCHMARK_PINGS]; /* the last ones, as a ring */
    size_t n_pings;
    char stopped[CLI_BENCHMARK_REASON_SIZE]; /* why it ended before its time; or empty */
};

/* False: it failed, see `slots.error`. It also ends by a signal, see `slots.signal`. */
bool cli_benchmark_run(struct cli_benchmark *self, const rql_options *options);

#endif
