#ifndef RQLB_REPORT_H
#define RQLB_REPORT_H

/* Medians over the cycles, as a table for people or one JSON object per line. */

#include "perf/series.h"

struct report {
    bool json;
    bool colour;
};

void report_print(const struct report *self, const struct series *series);

#endif
