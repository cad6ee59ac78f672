#include "perf/protocol.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 128, SLOT_MS_MAX = 60000 };

static bool read_line(const char *line, struct request *out)
{
    char *at = NULL;

    if (sscanf(line, "%15s", out->shape) != 1) {
        return false;
    }
    out->number = strtol(line + strlen(out->shape), &at, 10);
    out->slot_ms = strtol(at, &at, 10);
    out->pause_us = strtol(at, &at, 10);
    return out->number >= 1 && out->slot_ms >= 1 && out->slot_ms <= SLOT_MS_MAX &&
           out->pause_us >= 0 && *at == '\n';
}

bool protocol_next(struct request *out, struct fault *fault)
{
    char line[LINE_SIZE];

    if (!fgets(line, sizeof line, stdin)) {
        return false;
    }
    if (!read_line(line, out)) {
        fault_raise(fault, "no order: %s", line);
        return false;
    }
    return true;
}

void protocol_ready(void)
{
    (void)printf("{}\n");
    (void)fflush(stdout);
}

static double in_us(int64_t value_ns)
{
    return (double)value_ns / (double)RQLB_US;
}

void protocol_answer(const struct outcome *outcome)
{
    (void)printf("{\"done\":%lld,\"counted\":%lld,\"waited\":%lld,\"counted_s\":%.6f,"
                 "\"p50_us\":%.2f,\"p99_us\":%.2f}\n",
                 (long long)outcome->done, (long long)outcome->counted, (long long)outcome->waited,
                 (double)outcome->counted_ns / (double)RQLB_SECOND,
                 in_us(histogram_quantile(&outcome->times, 0.5)),
                 in_us(histogram_quantile(&outcome->times, 0.99)));
    (void)fflush(stdout);
}

void protocol_answer_bytes(double bytes)
{
    (void)printf("{\"bytes\":%.1f}\n", bytes);
    (void)fflush(stdout);
}
