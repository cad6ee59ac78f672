#ifndef RQLB_SERIES_H
#define RQLB_SERIES_H

/*
 * The plan of measuring and what came out.
 *
 * Machines change their speed from second to second, so nothing is compared across time: a unit is
 * a case and the case it is compared with, one slot each, back to back in random order. A cycle
 * runs all units in random order. Ratios are taken within a unit, and of everything the median
 * over the cycles is reported.
 */

#include "perf/crew.h"

#include <stdbool.h>
#include <stddef.h>

enum { UNITS = 5, CYCLES_MAX = 1000 };

struct bench_case {
    const char *name;
    enum job job;
    int threads;
};

struct unit {
    struct bench_case base;
    struct bench_case subject;
};

extern const struct unit units[UNITS];

enum figure {
    OPS_S,
    P50_US,
    P99_US,
    COMMANDS, /* for each operation */
    FIGURES,
};

/* One slot. */
struct sample {
    double of[FIGURES];
};

struct series {
    size_t cycles;
    struct sample base[UNITS][CYCLES_MAX];
    struct sample subject[UNITS][CYCLES_MAX];
};

struct series_plan {
    const char *socket_path;
    size_t cycles;
    int64_t slot_ms;
    bool tell; /* progress on stderr */
};

/* False: the reason was written to stderr. *out is zeroed memory. */
bool series_run(const struct series_plan *plan, struct series *out);

#endif
