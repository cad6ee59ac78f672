#ifndef RQLB_WORKER_H
#define RQLB_WORKER_H

/* A process that contends: one client, shared by some threads. */

#include "demo/stage.h"

/* Runs in a child that was forked before any client existed. Returns its exit status. */
int run_process(struct stage *stage, int process, const char *url);

#endif
