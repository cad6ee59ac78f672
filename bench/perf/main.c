/* The benchmark; see run.sh. */

#include "common/terminal.h"
#include "perf/report.h"
#include "perf/series.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOT_MS = 100, QUICK_CYCLES = 30, FULL_CYCLES = 200 };

struct request {
    struct series_plan plan;
    struct report report;
};

static bool read_arguments(int argc, char **argv, struct request *out)
{
    int i;

    for (i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            out->plan.cycles = QUICK_CYCLES;
        } else if (strcmp(argv[i], "--json") == 0) {
            out->report.json = true;
        } else {
            return false;
        }
    }
    out->plan.socket_path = argv[1];
    return argc > 1;
}

int main(int argc, char **argv)
{
    struct request request = {.plan = {.cycles = FULL_CYCLES, .slot_ms = SLOT_MS}};
    struct series *series;
    bool good;

    if (!read_arguments(argc, argv, &request)) {
        (void)fprintf(stderr, "usage: rql-bench SOCKET [--quick] [--json]\n");
        return 2;
    }
    request.plan.tell = isatty(STDERR_FILENO) == 1;
    request.report.colour = wants_colour();
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes with a plain write() */
    series = calloc(1, sizeof *series);
    if (!series) {
        (void)fprintf(stderr, "rql-bench: out of memory\n");
        return 3;
    }
    good = series_run(&request.plan, series);
    if (good) {
        report_print(&request.report, series);
    }
    free(series);
    return good ? 0 : 3;
}
