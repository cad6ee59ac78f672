/*
 * One contender and its threads, measured when told: bench/suite runs several of these side by side
 * and lets them work in turn. By hand:
 *
 *   rql-bench CONTENDER ADDRESS THREADS [PROCESSES]
 *
 * Orders are lines on stdin, "pairs|turns|paced THREADS SLOT_MS PAUSE_US"; the answer to each is
 * one JSON object on stdout. An empty one says that all threads are ready. Ends with its stdin.
 */

#include "common/clock.h"
#include "common/process.h"
#include "perf/crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_MS_MAX = 60000, LINE_SIZE = 128, LAST_ARGUMENT = 4 };

static const struct contender *find_contender(const char *name)
{
    size_t i;

    for (i = 0; contenders[i] && strcmp(contenders[i]->name, name) != 0; i++) {
    }
    return contenders[i];
}

static bool read_arguments(int argc, char **argv, struct crew *out)
{
    if (argc < LAST_ARGUMENT || argc > LAST_ARGUMENT + 1) {
        return false;
    }
    out->contender = find_contender(argv[1]);
    out->address = argv[2];
    out->threads = (int)strtol(argv[3], NULL, 10);
    out->processes = argc > LAST_ARGUMENT ? (int)strtol(argv[LAST_ARGUMENT], NULL, 10) : 1;
    return out->contender && out->processes >= 1 && out->processes <= PROCESSES_MAX &&
           out->threads >= out->processes && out->threads <= SEATS_MAX;
}

static bool read_shape(const char *name, enum shape *out)
{
    static const char *const names[] = {"pairs", "turns", "paced"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum shape)i;
            return true;
        }
    }
    return false;
}

static bool read_order(const char *line, const struct crew *crew, struct order *out)
{
    char shape[8];
    char *at = NULL;
    long slot_ms;

    if (sscanf(line, "%7s", shape) != 1 || !read_shape(shape, &out->shape)) {
        return false;
    }
    out->threads = (int)strtol(line + strlen(shape), &at, 10);
    slot_ms = strtol(at, &at, 10);
    out->slot_ns = slot_ms * RQLB_MS;
    out->pause_ns = strtol(at, &at, 10) * RQLB_US;
    return out->threads >= 1 && out->threads <= crew->threads && slot_ms >= 1 &&
           slot_ms <= SLOT_MS_MAX && out->pause_ns >= 0 && *at == '\n';
}

static double in_us(int64_t value_ns)
{
    return (double)value_ns / (double)RQLB_US;
}

static void print_outcome(const struct outcome *outcome)
{
    (void)printf("{\"done\":%lld,\"counted\":%lld,\"waited\":%lld,\"counted_s\":%.6f,"
                 "\"p50_us\":%.2f,\"p99_us\":%.2f}\n",
                 (long long)outcome->done, (long long)outcome->counted, (long long)outcome->waited,
                 (double)outcome->counted_ns / (double)RQLB_SECOND,
                 in_us(histogram_quantile(&outcome->times, 0.5)),
                 in_us(histogram_quantile(&outcome->times, 0.99)));
    (void)fflush(stdout);
}

static void obey(struct crew *crew, struct outcome *outcome)
{
    char line[LINE_SIZE];
    struct order order;

    (void)printf("{}\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!read_order(line, crew, &order)) {
            fault_raise(&crew->fault, "no order: %s", line);
        }
        if (fault_text(&crew->fault) || !crew_run(crew, &order, outcome)) {
            return;
        }
        print_outcome(outcome);
    }
}

int main(int argc, char **argv)
{
    struct crew *crew = shared_memory(sizeof *crew);
    struct outcome *outcome = calloc(1, sizeof *outcome);

    if (!crew || !outcome) {
        perror(argv[0]);
        return 3;
    }
    if (!read_arguments(argc, argv, crew)) {
        (void)fprintf(stderr, "usage: %s CONTENDER ADDRESS THREADS [PROCESSES]\n", argv[0]);
        free(outcome);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes with a plain write() */
    if (crew_start(crew)) {
        obey(crew, outcome);
    }
    crew_stop(crew);
    free(outcome);
    if (fault_text(&crew->fault)) {
        (void)fprintf(stderr, "%s: %s\n", crew->contender->name, fault_text(&crew->fault));
        return 3;
    }
    return 0;
}
