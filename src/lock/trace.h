#ifndef RQLI_TRACE_H
#define RQLI_TRACE_H

/* What the background thread did last, and when: for whoever asks why a lock was lost. A ring of
 * plain data, under the keeper's mutex; read by tests, and in a core file. */

#include <stdint.h>

enum rqli_trace_what {
    RQLI_TRACE_ROUSED,    /* by another; value: when it would have looked by itself */
    RQLI_TRACE_LOOKS,     /* value: when that was planned, 0: it was roused */
    RQLI_TRACE_RENEWS,    /* value: how many */
    RQLI_TRACE_RENEWED,   /* value: the status of the exchange */
    RQLI_TRACE_WITHDRAWS, /* value: how many */
    RQLI_TRACE_WITHDREW,  /* value: when that was to end at the latest */
    RQLI_TRACE_LOST,      /* value: the token */
    RQLI_TRACE_PLANNED,   /* value: when it looks again by itself */
};

enum { RQLI_TRACE_SIZE = 64 };

struct rqli_trace {
    unsigned n; /* added in all; those at the end of them are there */

    struct {
        int64_t at_us;
        int64_t value;
        enum rqli_trace_what what;
    } item[RQLI_TRACE_SIZE];
};

void rqli_trace_add(struct rqli_trace *self, enum rqli_trace_what what, int64_t value);

#endif
