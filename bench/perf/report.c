#include "perf/report.h"

#include "common/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PING_UNIT = UNITS - 1, /* whose pings stand for all */
    AGAINST_WIDTH = 16,
};

/* What a case has to reach; 0: nothing. */
struct target {
    double ratio_most;
    double commands_most;
};

/* One line of the report. */
struct row {
    const struct bench_case *about;
    struct sample median;
    double ratio;
    const char *against; /* case and figure that the ratio is taken to */
    const char *against_text;
    struct target target;
};

static int by_value(const void *left, const void *right)
{
    const double *a = left;
    const double *b = right;

    return (*a > *b) - (*a < *b);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof values[0], by_value);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct sample median_sample(const struct sample *samples, size_t n)
{
    struct sample out;
    double values[CYCLES_MAX];
    int figure;
    size_t i;

    for (figure = 0; figure < FIGURES; figure++) {
        for (i = 0; i < n; i++) {
            values[i] = samples[i].of[figure];
        }
        out.of[figure] = median(values, n);
    }
    return out;
}

static double median_ratio(const struct sample *above, const struct sample *below,
                           enum figure figure, size_t n)
{
    double values[CYCLES_MAX];
    size_t i;

    for (i = 0; i < n; i++) {
        values[i] = below[i].of[figure] > 0 ? above[i].of[figure] / below[i].of[figure] : 0;
    }
    return median(values, n);
}

/* The floor and the hand-off are told in pings, by time; the pair in floors, by throughput. */
static struct row base_row(const struct series *series, size_t unit)
{
    return (struct row){
        .about = &units[unit].base,
        .median = median_sample(series->base[unit], series->cycles),
        .ratio = median_ratio(series->base[unit], series->base[PING_UNIT], P50_US, series->cycles),
        .against = "ping.p50_us",
        .against_text = "x PING p50",
    };
}

static struct row pair_row(const struct series *series, size_t unit)
{
    return (struct row){
        .about = &units[unit].subject,
        .median = median_sample(series->subject[unit], series->cycles),
        .ratio = median_ratio(series->subject[unit], series->base[unit], OPS_S, series->cycles),
        .against = "floor.ops_s",
        .against_text = "x floor ops/s",
        .target = {.commands_most = 2},
    };
}

static struct row hand_row(const struct series *series, size_t unit)
{
    bool full = units[unit].subject.threads == HAND_SEATS;

    return (struct row){
        .about = &units[unit].subject,
        .median = median_sample(series->subject[unit], series->cycles),
        .ratio = median_ratio(series->subject[unit], series->base[unit], P50_US, series->cycles),
        .against = "ping.p50_us",
        .against_text = "x PING p50",
        .target = full ? (struct target){.ratio_most = 4, .commands_most = 3} : (struct target){0},
    };
}

/* True unless the value, as it is printed, is above its target. */
static bool meets(double value, double most)
{
    return most <= 0 || round(value * 100) <= most * 100;
}

static void print_target(const struct report *self, const struct row *row)
{
    bool met = meets(row->ratio, row->target.ratio_most) &&
               meets(row->median.of[COMMANDS], row->target.commands_most);
    const char *shade = met ? "\033[32m" : "\033[31m";

    if (row->target.commands_most <= 0) {
        return;
    }
    (void)printf("%*s%s%s%s ", AGAINST_WIDTH - (int)strlen(row->against_text), "",
                 self->colour ? shade : "", met ? "pass" : "MISS", self->colour ? "\033[0m" : "");
    if (row->target.ratio_most > 0) {
        (void)printf(" at most %.0f x PING and", row->target.ratio_most);
    }
    (void)printf(" at most %.0f commands", row->target.commands_most);
}

static void print_text(const struct report *self, const struct row *row)
{
    const struct sample *sample = &row->median;

    (void)printf("  %-8s %7d %9s %9.1f %9.1f %9.2f %7.2f %s", row->about->name, row->about->threads,
                 number_of((int64_t)sample->of[OPS_S]).text, sample->of[P50_US], sample->of[P99_US],
                 sample->of[COMMANDS], row->ratio, row->against_text);
    print_target(self, row);
    (void)putchar('\n');
}

static void print_json(const struct row *row)
{
    const struct sample *sample = &row->median;

    (void)printf("{\"case\":\"%s\",\"threads\":%d,\"ops_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                 "\"ratio\":%.3f,\"against\":\"%s\",\"commands\":%.3f}\n",
                 row->about->name, row->about->threads, sample->of[OPS_S], sample->of[P50_US],
                 sample->of[P99_US], row->ratio, row->against, sample->of[COMMANDS]);
}

static void print_row(const struct report *self, struct row row)
{
    if (self->json) {
        print_json(&row);
    } else {
        print_text(self, &row);
    }
}

static void print_head(const struct series *series)
{
    (void)printf("  medians of %zu cycles; ratios are taken within a cycle\n\n"
                 "  case     threads     ops/s    p50 us    p99 us  commands   ratio\n",
                 series->cycles);
}

void report_print(const struct report *self, const struct series *series)
{
    size_t unit;

    if (!self->json) {
        print_head(series);
    }
    print_row(self, base_row(series, PING_UNIT));
    for (unit = 0; unit < UNITS; unit++) {
        if (units[unit].subject.job == JOB_PAIR) {
            print_row(self, base_row(series, unit));
            print_row(self, pair_row(series, unit));
        } else {
            print_row(self, hand_row(series, unit));
        }
    }
    if (!self->json) {
        (void)printf(
            "\n  floor    SET NX PX and compare-and-delete, blocking hiredis, a connection "
            "for each thread\n"
            "  pair     acquire and release of an own lock, one client for all threads\n"
            "  handoff  one lock in two processes: call of release to the next holder's "
            "return\n");
    }
}
