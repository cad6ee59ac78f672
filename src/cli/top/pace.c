#include "pace.h"

#include "cost.h"

enum { FIRST_MOST_MS = 2000 }; /* the longest pause as long as fewer looks are known */

/* The look that cost least tells most: others had to wait for a processor, or for the network, and
 * the servers' time is that of other clients, too. */
int64_t top_pace_note(struct top_pace *self, int64_t every_ms, int64_t took_ms)
{
    int64_t least_ms = INT64_MAX;
    int64_t pause_ms;

    self->took_ms[self->n_looks++ % TOP_PACE_LOOKS] = took_ms;
    for (size_t i = 0; i < TOP_PACE_LOOKS && i < self->n_looks; i++) {
        least_ms = self->took_ms[i] < least_ms ? self->took_ms[i] : least_ms;
    }
    pause_ms = TOP_SPARING * (least_ms - self->rtt_ms);
    pause_ms =
        self->n_looks < TOP_PACE_LOOKS && pause_ms > FIRST_MOST_MS ? FIRST_MOST_MS : pause_ms;
    return pause_ms > every_ms ? pause_ms : every_ms;
}
