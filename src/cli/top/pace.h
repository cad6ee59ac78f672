#ifndef TOP_PACE_H
#define TOP_PACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    TOP_PACE_LOOKS = 5,
    TOP_ROUND_TRIPS = 10, /* of a look at the locks */
};

/* What the last looks at a server have taken, and so how often it may be looked at. */
struct top_pace {
    int64_t took_ms[TOP_PACE_LOOKS];
    size_t n_looks;
    int64_t rtt_ms; /* the round trips of a look */
};

/* Notes a look, and returns the time from its beginning to the next one: every_ms, or longer to
 * spare the server. */
int64_t top_pace_note(struct top_pace *self, int64_t every_ms, int64_t took_ms);

#endif
