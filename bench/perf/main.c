/*
 * One contender and its threads, measured when told: bench/suite runs several of these side by side
 * and lets them work in turn. By hand:
 *
 *   rql-bench CONTENDER ADDRESS THREADS [PROCESSES]
 *
 * Orders are lines on stdin, "pairs|turns|paced|many THREADS SLOT_MS PAUSE_US"; the answer to each
 * is one JSON object on stdout. An empty one says that all threads are ready. Ends with its stdin.
 */

#include "common/clock.h"
#include "common/process.h"
#include "perf/crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_ARGUMENT = 4 };

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
    static const char *const names[] = {"pairs", "turns", "paced", "many"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum shape)i;
            return true;
        }
    }
    return false;
}

static bool understand(const struct request *request, struct crew *crew, struct order *out)
{
    *out = (struct order){
        .threads = (int)request->number,
        .slot_ns = request->slot_ms * RQLB_MS,
        .pause_ns = request->pause_us * RQLB_US,
    };
    if (!read_shape(request->shape, &out->shape) || request->number > crew->threads) {
        fault_raise(&crew->fault, "not for us: %s %ld", request->shape, request->number);
        return false;
    }
    return true;
}

static void obey(struct crew *crew)
{
    struct request request;
    struct order order;
    struct outcome outcome;

    protocol_ready();
    while (protocol_next(&request, &crew->fault) && understand(&request, crew, &order) &&
           crew_run(crew, &order, &outcome)) {
        protocol_answer(&outcome);
    }
}

int main(int argc, char **argv)
{
    struct crew *crew = shared_memory(sizeof *crew);

    if (!crew) {
        perror(argv[0]);
        return 3;
    }
    if (!read_arguments(argc, argv, crew)) {
        (void)fprintf(stderr, "usage: %s CONTENDER ADDRESS THREADS [PROCESSES]\n", argv[0]);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes with a plain write() */
    if (crew_start(crew)) {
        obey(crew);
    }
    crew_stop(crew);
    if (fault_text(&crew->fault)) {
        (void)fprintf(stderr, "%s: %s\n", crew->contender->name, fault_text(&crew->fault));
        return 3;
    }
    return 0;
}
