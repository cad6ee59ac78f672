#ifndef RQLB_LABOUR_H
#define RQLB_LABOUR_H

/* One process of the crew: its threads, and what they do when told. */

#include "perf/crew.h"

/* Runs in the child. Returns its exit status. */
int labour(struct crew *crew, int process);

#endif
