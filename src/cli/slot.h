#ifndef CLI_SLOT_H
#define CLI_SLOT_H

/* A slot of a benchmark: one load on the server, for a moment. */

#include <rql/rql.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLI_SLOT_THREADS_MAX = 256,
    CLI_SLOT_CROWD = 3, /* clients among which a lock is handed over */
    CLI_SLOT_TTL_MS = 10000,
};

enum cli_load {
    CLI_LOAD_PING,      /* a client for each thread */
    CLI_LOAD_PLAIN,     /* likewise: SET NX PX, compare and delete */
    CLI_LOAD_PAIR,      /* one client for all threads, a lock for each */
    CLI_LOAD_HAND_OVER, /* one lock, for which so many wait while one holds it */
};

/* What a slot finds out; all but the rate of one operation. */
enum cli_figure {
    CLI_PER_SECOND,
    CLI_COMMANDS, /* sent to the server */
    CLI_CPU_US,   /* that the server has spent */
    CLI_P50_US,   /* of hand-overs: from the release to the next grant */
    CLI_P99_US,
    CLI_FIGURES
};

/* Negative: not known. */
struct cli_figures {
    double of[CLI_FIGURES];
};

/* What all slots share. */
struct cli_slots {
    rql_client *client[CLI_SLOT_THREADS_MAX];
    size_t n_clients;
    bool has_cpu;     /* the server says it */
    sigset_t signals; /* blocked, and waited for in place of sleeping */
    int signal;       /* that came, or 0 */
    rql_error error;  /* of the slot that failed */
};

/* Sleeps for so long, or until a signal comes. False: one has come. */
bool cli_slots_pass(struct cli_slots *self, int64_t us);

/* The CPU time that the server has used; -1: it does not say. */
int64_t cli_slots_cpu_us(struct cli_slots *self);

/* `size`: threads, or how many wait. False: it failed, see `error`. A slot that a signal cuts short
 * has figures all the same; one in which nothing was done has none. */
bool cli_slot_run(struct cli_slots *self, enum cli_load load, size_t size, int64_t slot_us,
                  struct cli_figures *out);

/* A percentile of times or rates, which are sorted for it. `count` is 1 or more. */
double cli_percentile(double *values, size_t count, unsigned percent);

#endif
