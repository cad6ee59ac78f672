#ifndef CLI_SLOT_H
#define CLI_SLOT_H

/* A slot of a benchmark: one load on the server, for a moment. */

#include <rql/admin.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLI_SLOT_THREADS_MAX = 256,
    CLI_SLOT_CROWD = 3, /* number of clients among which a lock is handed over */
    CLI_SLOT_TTL_MS = 10000,
};

enum cli_load {
    CLI_LOAD_PING,      /* a client for each thread */
    CLI_LOAD_PLAIN,     /* a client for each thread: SET NX PX, compare and delete */
    CLI_LOAD_PAIR,      /* one client for all threads, a lock for each */
    CLI_LOAD_HAND_OVER, /* one lock, with `size` waiters while one client holds it */
};

/* The figures of a slot. All but the rate are per operation. */
enum cli_figure {
    CLI_PER_SECOND,
    CLI_COMMANDS, /* commands sent to the server */
    CLI_CPU_US,   /* CPU time that the server has spent */
    CLI_P50_US,   /* for hand-overs: from the release to the next grant */
    CLI_P99_US,
    CLI_FIGURES
};

/* The figures of one slot. A negative figure is not known. */
struct cli_figures {
    double of[CLI_FIGURES];
};

/* The state that all slots share. */
struct cli_slots {
    rql_client *client[CLI_SLOT_THREADS_MAX];
    size_t n_clients;
    bool has_cpu;     /* the server reports its CPU time */
    sigset_t signals; /* blocked; the program waits for them instead of sleeping */
    int signal;       /* the signal that came, or 0 */
    rql_error error;  /* the error of the slot that failed */
};

/* Sleeps for this time, or until a signal comes. Returns false if a signal has come. */
bool cli_slots_pass(struct cli_slots *self, int64_t us);

/* Returns the CPU time that the server has used; -1 if the server does not report it. */
int64_t cli_slots_cpu_us(struct cli_slots *self);

/* Runs a slot. `size` is the number of threads, or of waiters. Returns false if the slot failed;
 * `error` says why. A slot that a signal cuts short still has figures; a slot without any operation
 * has none. */
bool cli_slot_run(struct cli_slots *self, enum cli_load load, size_t size, int64_t slot_us,
                  struct cli_figures *out);

/* Returns a percentile of times or rates, and sorts them for that. `count` is 1 or more. */
double cli_percentile(double *values, size_t count, unsigned percent);

#endif
