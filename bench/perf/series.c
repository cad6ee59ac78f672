#include "perf/series.h"

#include "common/clock.h"
#include "perf/tally.h"

#include <stdio.h>
#include <stdlib.h>

/* `ping` stands in front of each hand-off, the floor in front of each pair. */
const struct unit units[UNITS] = {
    {{"floor", JOB_FLOOR, 1}, {"pair", JOB_PAIR, 1}},
    {{"floor", JOB_FLOOR, 8}, {"pair", JOB_PAIR, 8}},
    {{"floor", JOB_FLOOR, 32}, {"pair", JOB_PAIR, 32}},
    {{"ping", JOB_PING, 1}, {"handoff", JOB_HANDOFF, 2}},
    {{"ping", JOB_PING, 1}, {"handoff", JOB_HANDOFF, 32}},
};

struct measure {
    struct crew *crew;
    redisContext *server;
    int64_t slot_ms;
    unsigned seed;
};

static double in_us(int64_t value_ns)
{
    return (double)value_ns / (double)RQLB_US;
}

static bool run_slot(struct measure *self, const struct bench_case *wanted, struct sample *out)
{
    struct outcome outcome;
    bool plain_lock = wanted->job == JOB_FLOOR;
    int64_t before = tally_commands(self->server, plain_lock);
    int64_t after;

    if (!crew_run(self->crew, wanted->job, wanted->threads, self->slot_ms, &outcome)) {
        return false;
    }
    after = tally_commands(self->server, plain_lock);
    if (before < 0 || after < 0 || outcome.operations == 0) {
        fault_raise(&self->crew->fault, "%s: no operation, or no statistics", wanted->name);
        return false;
    }
    out->of[OPS_S] = (double)outcome.operations * (double)RQLB_SECOND / (double)outcome.elapsed_ns;
    out->of[P50_US] = in_us(histogram_quantile(&outcome.times, 0.5));
    out->of[P99_US] = in_us(histogram_quantile(&outcome.times, 0.99));
    out->of[COMMANDS] = (double)(after - before) / (double)outcome.operations;
    return true;
}

static bool run_unit(struct measure *self, const struct unit *unit, struct sample *base,
                     struct sample *subject)
{
    if (rand_r(&self->seed) % 2 == 0) {
        return run_slot(self, &unit->base, base) && run_slot(self, &unit->subject, subject);
    }
    return run_slot(self, &unit->subject, subject) && run_slot(self, &unit->base, base);
}

static bool run_cycle(struct measure *self, struct series *out, size_t cycle)
{
    size_t order[UNITS] = {0};
    size_t i;
    size_t other;

    for (i = 0; i < UNITS; i++) {
        other = (size_t)rand_r(&self->seed) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (i = 0; i < UNITS; i++) {
        size_t u = order[i];

        if (!run_unit(self, &units[u], &out->base[u][cycle], &out->subject[u][cycle])) {
            return false;
        }
    }
    return true;
}

/* The first cycle warms up (scripts, connections, memory) and is measured again. */
static bool run_cycles(struct measure *self, const struct series_plan *plan, struct series *out)
{
    if (!run_cycle(self, out, 0)) {
        return false;
    }
    for (out->cycles = 0; out->cycles < plan->cycles; out->cycles++) {
        if (plan->tell) {
            (void)fprintf(stderr, "\r  cycle %zu of %zu ", out->cycles + 1, plan->cycles);
        }
        if (!run_cycle(self, out, out->cycles)) {
            return false;
        }
    }
    if (plan->tell) {
        (void)fprintf(stderr, "\r\033[K");
    }
    return true;
}

static bool run_with(struct measure *self, const struct series_plan *plan, struct series *out)
{
    bool good;

    self->server = redisConnectUnix(plan->socket_path);
    if (!self->server || self->server->err != 0) {
        fault_raise(&self->crew->fault, "cannot connect to %s", plan->socket_path);
    }
    good = !fault_text(&self->crew->fault) && run_cycles(self, plan, out);
    if (!good) {
        (void)fprintf(stderr, "rql-bench: %s\n", fault_text(&self->crew->fault));
    }
    if (self->server) {
        redisFree(self->server);
    }
    return good;
}

bool series_run(const struct series_plan *plan, struct series *out)
{
    struct measure measure = {.slot_ms = plan->slot_ms, .seed = 1};
    bool good;

    measure.crew = crew_start(plan->socket_path);
    if (!measure.crew) {
        return false;
    }
    good = run_with(&measure, plan, out);
    crew_stop(measure.crew);
    return good;
}
