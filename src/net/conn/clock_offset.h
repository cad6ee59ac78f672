#ifndef RQLI_CLOCK_OFFSET_H
#define RQLI_CLOCK_OFFSET_H

/*
 * Bounds for (local clock - server clock), from replies that carry the server's time S: the
 * difference is at least (sent - S) and at most (received - S). Pure: time is an argument.
 */

#include <stdbool.h>
#include <stdint.h>

struct rqli_clock_offset {
    int64_t lo_us[2]; /* best lower bound of these five seconds and of the five before */
    int64_t hi_us;    /* upper bound of the newest reading */
    int64_t begun_us; /* when the five seconds of lo_us[0] began; 0: no reading */
    int64_t read_us;  /* local time at which the newest reading was received */
};

enum rqli_clock_offset_news {
    RQLI_CLOCK_OFFSET_FINE,
    RQLI_CLOCK_OFFSET_STEPPED, /* the server's clock jumped: locks held before that are doubtful */
};

enum rqli_clock_offset_news rqli_clock_offset_add(struct rqli_clock_offset *self, int64_t sent_us,
                                                  int64_t server_us, int64_t received_us);

/* Sets *out_us to the earliest local time at which the server's clock can have shown server_us.
 * Returns false if the readings are ten seconds old. */
bool rqli_clock_offset_earliest(const struct rqli_clock_offset *self, int64_t server_us,
                                int64_t now_us, int64_t *out_us);

/* Returns the server's time now, at the latest; for not_after. INT64_MAX: no reading. */
int64_t rqli_clock_offset_server_latest(const struct rqli_clock_offset *self, int64_t now_us);

/* Returns the server's time now, at the earliest, by the newest reading: if the clock was not set
 * back since then, every later grant of the server has a later time. 0: no reading. */
int64_t rqli_clock_offset_server_earliest(const struct rqli_clock_offset *self, int64_t now_us);

#endif
