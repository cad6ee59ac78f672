#ifndef RQLB_LABOUR_H
#define RQLB_LABOUR_H

/* One process of the crew: its client, its threads, and what they do when told. */

#include "perf/crew.h"

/* Runs in the child. process 0 has the solo seats. Returns its exit status. */
int labour(struct crew *crew, int process, const char *socket_path);

#endif
