#ifndef RQLB_PROTOCOL_H
#define RQLB_PROTOCOL_H

/* How the suite talks to the programs that measure: an order is a line on stdin, the answer to it
 * one JSON object on stdout. An empty one says that the program is ready. */

#include "common/fault.h"
#include "common/histogram.h"

#include <stdbool.h>
#include <stdint.h>

/* "SHAPE NUMBER SLOT_MS PAUSE_US"; what the number is depends on the shape. */
struct request {
    char shape[16];
    long number;
    long slot_ms;
    long pause_us;
};

/* Waits for the next order. False: stdin has ended, or the fault was raised. */
bool protocol_next(struct request *out, struct fault *fault);

void protocol_ready(void);

/* What a slot brought. */
struct outcome {
    int64_t done;    /* operations, all of them */
    int64_t counted; /* of them: in the time that counts */
    int64_t waited;  /* of these, turns: asked for before the holder before gave it back */
    int64_t counted_ns;
    struct histogram times;
};

void protocol_answer(const struct outcome *outcome);

/* Something that has a size and takes no time worth telling. */
void protocol_answer_bytes(double bytes);

#endif
