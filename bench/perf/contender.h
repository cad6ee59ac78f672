#ifndef RQLB_CONTENDER_H
#define RQLB_CONTENDER_H

/*
 * What is measured: something that can take a lock and give it back, or that only answers (PING).
 *
 * Each process of the crew opens a contender once, and each of its threads enters it. Whoever
 * returns false or NULL has raised the fault.
 */

#include "common/fault.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the servers are, from the command line. */
struct site {
    const char *address; /* the contender knows how to read it */
    struct fault *fault;
};

/* The lock that a thread is after. */
struct prize {
    int64_t number; /* 0: the one that all are after */
    char name[32];
};

struct contender {
    const char *name;
    void *(*open)(const struct site *site);
    void (*close)(void *shared);
    void *(*enter)(void *shared, int seat);
    void (*leave)(void *hand);
    bool (*take)(void *hand, const struct prize *prize); /* waits as long as it takes */
    bool (*give)(void *hand, const struct prize *prize); /* NULL: there is nothing to give back */
};

/* Those that this program was built with; NULL ends the list. */
extern const struct contender *const contenders[];

#endif
